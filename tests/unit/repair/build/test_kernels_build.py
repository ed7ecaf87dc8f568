"""The compiled placing of units and entries gives what the plain one gives, whatever the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketfsck.scan import build_plain, kernels_build

_OFFSETS = st.sampled_from((0, 1, 2, 3, 4, 5, 7, 40, -1, 1 << 40, (1 << 63) - 1, -(1 << 63)))
_ROWS = st.lists(
    st.tuples(
        st.integers(-2, 3),  # queue
        _OFFSETS,
        _OFFSETS,
        st.sampled_from((1, 3, 32767, -5)),
        st.integers(-50, 2000),  # distance to the record before
        st.sampled_from((91, 120, 1000)),
        st.booleans(),
    ),
    max_size=40,
)


def _place(module: Any, rows: Any, flags: tuple[bool, bool, bool]) -> list[Any]:
    count = len(rows)
    columns = [np.array([row[at] for row in rows], np.int64) for at in range(7)]
    queue, index, base, number, step, size, own = columns
    offset = np.maximum(np.cumsum(step), 0)
    state = np.tile(np.array(build_plain.NEW_STATE, np.int64), (4, 1))
    state[3, build_plain.IS_BATCH] = 1
    place, ext_place = np.full(count, 99, np.int64), np.full(count, 99, np.int64)
    gaps = np.zeros((count, 4), np.int64)
    skips, reach, ext = flags
    gap_count = module.place_units(
        queue,
        index,
        base,
        number,
        offset,
        size,
        own,
        state,
        skips_below=skips,
        reach_is_end=reach,
        with_ext=ext,
        place=place,
        ext_place=ext_place,
        gaps=gaps,
    )
    return [place.tolist(), ext_place.tolist(), gaps[:gap_count].tolist(), state.tolist()]


@given(_ROWS, st.tuples(st.booleans(), st.booleans(), st.booleans()))
@settings(max_examples=300)
def test_units_are_placed_alike(rows: Any, flags: tuple[bool, bool, bool]) -> None:
    assert _place(build_plain, rows, flags) == _place(kernels_build, rows, flags)


_TIMES = st.sampled_from((0, 1, 999, 1000, 5_000_000, (1 << 63) - 1, -(1 << 63), -5))


@given(
    st.lists(st.tuples(st.sampled_from((0, 1, 7, 8, 15, (1 << 31) - 1)), _TIMES), max_size=600),
    st.sampled_from((1, 2, 7, 64)),
    st.integers(1, 5),
    _TIMES,
    st.lists(st.integers(-3, 700), max_size=3),
)
@settings(max_examples=100)
def test_entries_are_put_alike(
    keys: list[tuple[int, int]], slot_count: int, number: int, begin: int, stale: list[int]
) -> None:
    results = []
    for module in (build_plain, kernels_build):
        slots = np.zeros(slot_count, np.int32)
        slots[: len(stale)] = stale[:slot_count]
        out = np.zeros(20 * len(keys), np.uint8)
        hashes = np.array([key for key, _ in keys], np.int64)
        times = np.array([time for _, time in keys], np.int64)
        rows = np.arange(len(keys), dtype=np.int64)
        empty = module.put_entries(hashes, rows, 100 * rows, times, number, begin, slots, out)
        results.append((empty, slots.tolist(), out.tobytes()))
    assert results[0] == results[1]


@pytest.mark.parametrize("module", [build_plain, kernels_build])
def test_what_the_dispatcher_does_with_odd_offsets(module: Any) -> None:
    """Queue offsets 5, 6, 6, 0, 9, 10, and one that no lost records explain."""
    indexes = (5, 6, 6, 0, 9, 10, 1 << 40, 12)
    rows = [(0, index, 0, 1, 1000, 100, True) for index in indexes]
    place, _, gaps, state = _place(module, rows, (True, True, False))
    # 6 is there already; 0 is always appended (7); 9 leaves a hole at 8; the last but one is appended (11)
    assert place == [5, 6, -1, 7, 9, 10, 11, 12]
    assert gaps == [[0, 8, 9, 4]]
    assert state[0][build_plain.DUPLICATES] == 1
    assert state[0][build_plain.MISPLACED] == 2
    assert state[0][build_plain.TAIL] == 13
    # before 4.2.0 nothing is skipped
    assert _place(module, rows, (False, True, False))[0][:3] == [5, 6, 7]
