"""Units and entries, whatever the rows: placed alike in both forms, and packed as the declared formats say.

That they are the ones that a broker would write is for `tests/property/test_rebuild.py` (the writer's stores)
and `tests/cases/test_rebuild.py` (brokers' stores).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketfsck.formats.consumequeue import BATCH_UNIT, UNIT, ExtUnit, encode_ext_unit
from rocketfsck.formats.indexfile import ENTRY, slot_of, time_diff
from rocketfsck.scan import units
from rocketfsck.scan.units import put_entries

_OFFSETS = st.sampled_from((0, 1, 2, 3, 4, 5, 7, 40, -1, 1 << 40, (1 << 63) - 1, -(1 << 63)))
_ROWS = st.lists(
    st.tuples(
        st.integers(-1, 4),  # row of the table: two queues, one of batches, one left out, one refused
        _OFFSETS,
        _OFFSETS,
        st.sampled_from((1, 3, 32767, -5)),
        st.integers(-50, 2000),  # distance to the record before
        st.sampled_from((91, 120, 1000)),
        _OFFSETS,
        st.sampled_from((1_700_000_000_000, 5, -1)),
        st.integers(0, 7),
    ),
    max_size=40,
)
_HOW = st.tuples(st.booleans(), st.booleans(), st.integers(1, 6), st.sampled_from((0, 1, 3)), st.just(4096))
NUMBERS = np.array([0, 1, 2, units.LEFT_OUT, 3, units.REFUSED_NAME], np.int64)
BATCH_QUEUE, QUEUE_COUNT = 2, 4
PENDING = ("queue", "place", "offset", "size", "tagsCode", "storeTime", "msgBaseOffset", "batchSize")


def _place(listed: Any, how: Any, *, compiled: bool) -> tuple[Any, ...]:
    rows = np.array(listed, np.int64).reshape(-1, units.ROW_SIZE)
    rows[:, units.OFFSET] = np.maximum(np.cumsum(rows[:, units.OFFSET]), 0)
    state = np.tile(np.array(units.NEW_STATE, np.int64), (QUEUE_COUNT, 1))
    state[BATCH_QUEUE, units.IS_BATCH] = 1
    room = np.full((3, len(rows), units.PENDING_SIZE), 77, np.int64)
    pending = room[0], room[1], room[2]
    counts = np.zeros(3, np.int64)
    gaps = np.zeros((len(rows), units.GAP_SIZE), np.int64)
    settings_array = np.array(how, np.int64)
    gap_count = units.place_units(
        rows, NUMBERS, state, settings_array, pending, counts, gaps, compiled=compiled
    )
    kept = [some[:count] for some, count in zip(pending, counts.tolist(), strict=True)]
    return [some.tolist() for some in kept], gaps[:gap_count].tolist(), state.tolist(), kept


def _built(kind: int, unit: list[int]) -> bytes:
    """A pending unit's bytes, by the declared format."""
    values = dict(zip(PENDING, unit, strict=True))
    if kind == units.EXT:
        return encode_ext_unit(ExtUnit(values["tagsCode"], values["storeTime"], b""))
    if kind == units.PLAIN:
        return UNIT.build({name: values[name] for name in ("offset", "size", "tagsCode")})
    values["batchSize"] = (values["batchSize"] + (1 << 15)) % (1 << 16) - (1 << 15)
    return BATCH_UNIT.build({**values, "compactedOffset": -1, "reserved": 0})


@given(_ROWS, _HOW)
@settings(max_examples=400)
def test_units_are_placed_alike_and_packed_as_declared(rows: Any, how: Any) -> None:
    *plain, _ = _place(rows, how, compiled=False)
    *compiled, pending = _place(rows, how, compiled=True)
    assert plain == compiled
    for kind, some in enumerate(pending):
        packed, runs = units.pack_units(some, kind, how[2])
        ordered = sorted(some.tolist(), key=lambda unit: int(unit[units.P_QUEUE]))  # stable
        assert packed.tobytes() == b"".join(_built(kind, unit) for unit in ordered)
        covered = []
        for queue, place, first, behind, time in runs.tolist():
            assert first < behind
            assert place // how[2] == (place + behind - first - 1) // how[2]  # in one file
            assert ordered[behind - 1][units.P_TIME] == time
            covered += [(queue, place + step) for step in range(behind - first)]
        assert covered == [(unit[units.P_QUEUE], unit[units.P_PLACE]) for unit in ordered]
        assert len(runs) <= len({(queue, place // how[2]) for queue, place in covered}) + sum(
            two != (one[0], one[1] + 1) for one, two in pairwise(covered)
        )


@pytest.mark.parametrize("compiled", [False, True])
def test_what_the_dispatcher_does_with_odd_offsets(compiled: bool) -> None:
    """Queue offsets 5, 6, 6, 0, 9, 10, one that no lost records explain, and the next."""
    indexes = (5, 6, 6, 0, 9, 10, 1 << 40, 12)
    rows = [(0, index, 0, 1, 1000, 100, 0, 7, 1) for index in indexes]
    how = (True, True, 4, 0, 0)
    kept, gaps, state, pending = _place(rows, how, compiled=compiled)
    # 6 is there already; 0 is always appended (7); 9 leaves a hole at 8; the last but one is appended (11)
    assert [unit[units.P_PLACE] for unit in kept[0]] == [5, 6, 7, 9, 10, 11, 12]
    assert gaps == [[0, 4, 5, 7, units.PRE_BLANK], [0, 8, 9, 7, units.HOLE]]
    assert state[0][units.DUPLICATES] == 1
    assert state[0][units.MISPLACED] == 2
    assert state[0][units.TAIL] == 13
    # a run ends before a hole and with its file
    runs = units.pack_units(pending[0], units.PLAIN, 4)[1]
    assert runs[:, 1:4].tolist() == [[5, 0, 3], [9, 3, 6], [12, 6, 7]]
    # before 4.2.0 nothing is skipped
    kept = _place(rows, (False, *how[1:]), compiled=compiled)[0]
    assert [unit[units.P_PLACE] for unit in kept[0]][:3] == [5, 6, 7]


_TIMES = st.sampled_from((0, 1, 999, 1000, 5_000_000, (1 << 63) - 1, -(1 << 63), -5))


@given(
    st.lists(st.tuples(st.sampled_from((0, 1, 7, 8, 15, (1 << 31) - 1)), _TIMES), max_size=600),
    st.sampled_from((1, 2, 7, 64)),
    st.integers(1, 5),
    _TIMES,
    st.lists(st.integers(-3, 700), max_size=3),
)
@settings(max_examples=100)
def test_entries_are_put_alike_and_as_declared(
    keys: list[tuple[int, int]], slot_count: int, number: int, begin: int, stale: list[int]
) -> None:
    results = []
    for compiled in (False, True):
        slots = np.zeros(slot_count, np.int32)
        slots[: len(stale)] = stale[:slot_count]
        hashes = np.array([key for key, _ in keys], np.int32)
        times = np.array([time for _, time in keys], np.int64)
        rows = np.arange(len(keys), dtype=np.int32)
        offsets = 100 * rows.astype(np.int64)
        entries, empty = put_entries(hashes, rows, offsets, times, number, begin, slots, compiled=compiled)
        results.append((empty, slots.tolist(), entries.tobytes()))
    assert results[0] == results[1] == _put(keys, slot_count, number, begin, stale)


def _put(
    keys: list[tuple[int, int]], slot_count: int, number: int, begin: int, stale: list[int]
) -> tuple[int, list[int], bytes]:
    """The same, entry by entry and by the declared format (reference 4.4)."""
    slots, empty, data = [*stale, *[0] * slot_count][:slot_count], 0, b""
    for row, (key_hash, time) in enumerate(keys):
        slot = slot_of(key_hash, slot_count)
        previous = slots[slot] if 0 < slots[slot] <= number + row else 0
        empty += previous == 0
        slots[slot] = number + row
        diff = time_diff(time, begin)
        data += ENTRY.build(
            {"keyHash": key_hash, "phyOffset": 100 * row, "timeDiff": diff, "prevIndex": previous}
        )
    return empty, slots, data
