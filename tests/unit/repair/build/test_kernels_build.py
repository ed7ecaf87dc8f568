"""The compiled placing of units and entries gives what the plain one gives, whatever the rows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketfsck.scan import build_plain, buildrows, kernels_build, kernels_buildrows
from rocketfsck.scan.live import LiveScan
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.reading import FileReader
from rocketfsck.writer import write_store

from tests.property.writer_strategies import stores

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
NUMBERS = np.array([0, 1, 2, build_plain.LEFT_OUT, 3, build_plain.REFUSED_NAME], np.int64)
BATCH_QUEUE, QUEUE_COUNT = 2, 4


def _place(module: Any, listed: Any, how: Any) -> list[Any]:
    rows = np.array(listed, np.int64).reshape(-1, buildrows.ROW_SIZE)
    rows[:, buildrows.OFFSET] = np.maximum(np.cumsum(rows[:, buildrows.OFFSET]), 0)
    state = np.tile(np.array(build_plain.NEW_STATE, np.int64), (QUEUE_COUNT, 1))
    state[BATCH_QUEUE, build_plain.IS_BATCH] = 1
    pending = tuple(np.full((len(rows), build_plain.PENDING_SIZE), 77, np.int64) for _ in range(3))
    counts = np.zeros(3, np.int64)
    gaps = np.zeros((len(rows), build_plain.GAP_SIZE), np.int64)
    settings_array = np.array(how, np.int64)
    gap_count = module.place_units(rows, NUMBERS, state, settings_array, pending, counts, gaps)
    kept = [units[:count].tolist() for units, count in zip(pending, counts.tolist(), strict=True)]
    packed = []
    for kind, (units, count) in enumerate(zip(pending, counts.tolist(), strict=True)):
        out = np.zeros(count * build_plain.UNIT_SIZES[kind], np.uint8)
        runs = np.zeros((count, build_plain.RUN_SIZE), np.int64)
        run_count = module.pack_units(units, count, QUEUE_COUNT, kind, how[2], out, runs)
        packed.append((out.tobytes(), runs[:run_count].tolist()))
    return [kept, gaps[:gap_count].tolist(), state.tolist(), packed]


@given(_ROWS, _HOW)
@settings(max_examples=400)
def test_units_are_placed_and_packed_alike(rows: Any, how: Any) -> None:
    assert _place(build_plain, rows, how) == _place(kernels_build, rows, how)


@pytest.mark.parametrize("module", [build_plain, kernels_build])
def test_what_the_dispatcher_does_with_odd_offsets(module: Any) -> None:
    """Queue offsets 5, 6, 6, 0, 9, 10, one that no lost records explain, and the next."""
    indexes = (5, 6, 6, 0, 9, 10, 1 << 40, 12)
    rows = [(0, index, 0, 1, 1000, 100, 0, 7, 1) for index in indexes]
    how = (True, True, 4, 0, 0)
    kept, gaps, state, packed = _place(module, rows, how)
    # 6 is there already; 0 is always appended (7); 9 leaves a hole at 8; the last but one is appended (11)
    assert [unit[build_plain.P_PLACE] for unit in kept[0]] == [5, 6, 7, 9, 10, 11, 12]
    assert gaps == [[0, 4, 5, 7, build_plain.PRE_BLANK], [0, 8, 9, 7, build_plain.HOLE]]
    assert state[0][build_plain.DUPLICATES] == 1
    assert state[0][build_plain.MISPLACED] == 2
    assert state[0][build_plain.TAIL] == 13
    # a run ends before a hole and with its file
    assert [run[1:4] for run in packed[0][1]] == [[5, 0, 3], [9, 3, 6], [12, 6, 7]]
    # before 4.2.0 nothing is skipped
    kept = _place(module, rows, (False, *how[1:]))[0]
    assert [unit[build_plain.P_PLACE] for unit in kept[0]][:3] == [5, 6, 7]


@given(stores(events=False), st.integers(0, 1 << 40))
@settings(max_examples=40)
def test_rows_are_collected_alike(made: Any, base_offset: int) -> None:
    options, events = made
    with tempfile.TemporaryDirectory() as folder:
        written = write_store(Path(folder) / "store", events, options)
        files = sorted((written.path / "commitlog").glob("*"))
        for path in files:
            with FileReader(path) as reader:
                scan = ScanOptions(False, options.dialect.property_parser)
                for batch in LiveScan().batches(reader, 0, scan, QueueTable()):
                    levels = {1: 1000, 2: 7, 4: 99}
                    plain = buildrows.unit_rows(batch, base_offset, levels)
                    compiled = kernels_buildrows.unit_rows(batch, base_offset, levels)
                    assert plain.tolist() == compiled.tolist()


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
        hashes = np.array([key for key, _ in keys], np.int32)
        times = np.array([time for _, time in keys], np.int64)
        rows = np.arange(len(keys), dtype=np.int32)
        offsets = 100 * rows.astype(np.int64)
        empty = module.put_entries(hashes, rows, offsets, times, number, begin, slots, out)
        results.append((empty, slots.tolist(), out.tobytes()))
    assert results[0] == results[1]
