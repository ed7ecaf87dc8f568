"""A check takes steps for every queue and for every commit log file, but none for each pair of them."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocketfsck.cli.app import run
from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.dtypes import UNIT_DTYPE
from rocketfsck.query.start.simulate import simulate_starts
from rocketfsck.reader.units import OffsetSearch, UnitReader
from rocketfsck.store import Store, open_store
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.queues.unitjoin import UnitJoin
from rocketfsck.verify.queues.unitranges import MatchedUnits, UnitRooms

QUEUES = 40
MESSAGES = 1200
Opened = Callable[[], int]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Store]:
    """Makes a store of 40 queues with commit log files of so many bytes."""
    root = tmp_path_factory.mktemp("stores")

    def make(size: int) -> Store:
        into = root / str(size)
        if not into.exists():
            mix = f"plain,topics=4,queues={QUEUES // 4},zipf=0,body=64"
            how = ["--messages", str(MESSAGES), "--commitlog-file-size", str(size), "--no-sync"]
            assert run(["write", "--into", str(into), "--synth", mix, *how, "--manifest", "none"]) == 0
        return open_store(into)

    return make


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Says how many files of consume queues have been opened since the last time."""
    count = 0
    begin = os.open

    def counting(path: Any, flags: int, *how: Any, **more: Any) -> int:
        nonlocal count
        count += "/consumequeue/" in str(path)
        return begin(path, flags, *how, **more)

    def since() -> int:
        nonlocal count
        found, count = count, 0
        return found

    monkeypatch.setattr(os, "open", counting)
    return since


def _steps(
    store: Store, opened: Opened, monkeypatch: pytest.MonkeyPatch, *, jobs: int = 2
) -> tuple[int, int]:
    """Files of queues that a check opens, and queues that it goes through by themselves."""
    alone = 0
    go = UnitJoin._queue

    def counting(join: UnitJoin, row: int, rows: Any) -> None:
        nonlocal alone
        alone += 1
        go(join, row, rows)

    opened()
    with monkeypatch.context() as patched:
        patched.setattr(UnitJoin, "_queue", counting)
        report = check_store(store, CheckOptions(level="full", jobs=jobs))
    assert report.exit_code == 0
    assert report.checked["consumequeue"].unit_count == MESSAGES
    return opened(), alone


@pytest.mark.parametrize("kernels", ["plain", "compiled"])
def test_a_check_opens_a_queue_as_often_with_many_log_files(
    made: Callable[[int], Store], opened: Opened, monkeypatch: pytest.MonkeyPatch, kernels: str
) -> None:
    monkeypatch.setenv("ROCKETFSCK_KERNELS", kernels)
    few, many = made(1 << 18), made(1 << 14)
    assert (len(few.queues), len(many.queues)) == (QUEUES, QUEUES)
    assert len(many.commitlog.files) >= 10 * len(few.commitlog.files) == 20
    assert _steps(few, opened, monkeypatch) == (2 * QUEUES, 0)  # for the records, and for the queue itself
    assert _steps(many, opened, monkeypatch) == (2 * QUEUES, 0)


def test_a_queue_is_read_again_when_its_room_is_used_up(
    made: Callable[[int], Store], opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketfsck.verify.queues.unitranges.ROOM_COUNT", 8 * QUEUES)
    opens, alone = _steps(made(1 << 14), opened, monkeypatch, jobs=1)
    fills = MESSAGES // 7 + QUEUES  # 7 new units each, and one for the last units
    assert 2 * QUEUES < opens <= QUEUES + fills
    assert alone == 0


def test_versions_share_what_a_predicted_start_reads(made: Callable[[int], Store], opened: Opened) -> None:
    store = made(1 << 18)
    simulate_starts(store, ["4.9.8", "5.1.4", "5.3.3"])
    assert opened() == QUEUES


def test_a_unit_that_was_read_ahead_too_early_is_read_again(
    made: Callable[[int], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a queue that a broker still writes, a room may hold zeros where by now units are."""
    fill = UnitRooms._fill

    def early(rooms: UnitRooms, number: int, index: int) -> None:
        fill(rooms, number, index)
        rooms._units[number * rooms.room : (number + 1) * rooms.room] = np.zeros(1, UNIT_DTYPE)

    monkeypatch.setattr(UnitRooms, "_fill", early)
    report = check_store(made(1 << 18), CheckOptions(level="full"))
    assert report.exit_code == 0 and not {rule for rule in report.counts if rule.startswith("XR")}


def test_a_unit_that_differs_is_found(made: Callable[[int], Store]) -> None:
    store = made(1 << 14)
    queue = store.queues[7]
    path = Path(queue.files[0].location)
    data = path.read_bytes()
    damaged = bytearray(data)
    damaged[20 * 9 + 11] ^= 1
    try:
        path.write_bytes(damaged)
        report = check_store(open_store(store.root), CheckOptions(level="full"))
    finally:
        path.write_bytes(data)
    (found,) = [finding for finding in report.findings if finding.rule == RuleName.UNIT_SIZE]
    where = found.where
    assert (where.topic, where.queue_id, where.queue_offset) == (queue.topic, queue.queue_id, 9)


def test_few_open_files_will_do(made: Callable[[int], Store]) -> None:
    store = made(1 << 14)
    limit = QUEUES  # fewer than queues and log files, let alone both
    code = f"import sys; from rocketfsck.cli.app import run; sys.exit(run(['check', {str(store.root)!r}]))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
    )
    assert done.returncode == 0, done.stderr


def test_a_search_for_an_offset_reads_the_last_places_at_once(
    made: Callable[[int], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = made(1 << 18).queues[0]
    reads = 0
    units = UnitReader.units

    def counting(reader: UnitReader, index: int, count: int) -> Any:
        nonlocal reads
        reads += 1
        return units(reader, index, count)

    monkeypatch.setattr(UnitReader, "units", counting)
    with UnitReader(queue) as reader:
        assert reader.end_index == 300_000
        offsets = reader.units(0, 20)["offset"].tolist()
        reads = 0
        assert [reader.find_offset(offset) for offset in offsets] == list(range(20))
        assert reader.find_offset(offsets[3] + 1) == 4
        assert reads <= 21 * 11  # one by one it would be 18 or 19 each time
        end = reader.find_offset(1 << 62)
        reads, search = 0, OffsetSearch(reader)
        assert [search.find(offset) for offset in (*offsets, 1 << 62, *offsets[:5])] == [
            *range(20), end, *range(5)
        ]  # fmt: skip
        assert reads <= 3 * 11  # what was read for one serves the next


def test_units_of_queues_that_met_all_their_records_are_not_put_together(
    made: Callable[[int], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    spans = MatchedUnits.spans

    def counting(matched: MatchedUnits, number: int) -> Any:
        asked.append(number)
        return spans(matched, number)

    monkeypatch.setattr(MatchedUnits, "spans", counting)
    store = made(1 << 14)
    assert check_store(store, CheckOptions(level="full")).exit_code == 0
    assert asked == []
    store.commitlog.files[3].path.rename(store.root / "aside")
    try:
        report = check_store(open_store(store.root), CheckOptions(level="full"))
    finally:
        (store.root / "aside").rename(store.commitlog.files[3].path)
    assert asked
    assert report.counts[RuleName.UNIT_IN_MISSING_SEGMENT]
