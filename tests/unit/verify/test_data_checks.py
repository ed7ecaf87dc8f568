"""The pieces behind the rules on data files: joins over parts of a store, readers, maps, limits."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rocketfsck.formats.dialect import dialect_for
from rocketfsck.reader.index import IndexReader
from rocketfsck.reader.records import LogReader
from rocketfsck.reader.units import StreamReader, UnitReader
from rocketfsck.scan.log.live import QueueTracker, find_seam, is_older_life
from rocketfsck.scan.spans import find_span, group_bounds, merge_spans, subtract_spans, true_spans
from rocketfsck.store import open_store
from rocketfsck.store.model import ConsumeQueue, MappedFile, MappedFileQueue
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.finding import Finding, Where, unit_place
from rocketfsck.verify.index import entryjoin
from rocketfsck.verify.index.crossindex import merge_index_files
from rocketfsck.verify.index.file import check_index_file
from rocketfsck.verify.log.file import check_log_file
from rocketfsck.verify.log.result import Ground, LogMap, merge_log_files
from rocketfsck.verify.queues import unitcompare
from rocketfsck.verify.queues.crossqueues import merge_queues
from rocketfsck.verify.queues.file import check_queues
from rocketfsck.verify.queues.unitcompare import DispatchRows, UnitComparer, check_ext
from rocketfsck.verify.queues.unitranges import MatchedUnits, UnitRanges
from rocketfsck.verify.tasks.resume import from_json, to_json
from rocketfsck.verify.tasks.task import (
    Collector,
    Context,
    IndexFileTask,
    LogFileTask,
    QueuesTask,
    TaskResult,
    add_rows,
)

from tests.conftest import Directory
from tests.unit.verify.damage import NOW, Damage

Copy = Callable[[str], Damage]

MADE_LATER = "IX028"
"""The note on stores whose brokers were told that it is another year."""


@pytest.fixture
def copy(store_copy: Directory) -> Copy:
    return lambda name: Damage(store_copy(name))


def longs(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def context_of(root: Path) -> Context:
    return Context(open_store(root), "full", NOW)


Results = tuple[list[TaskResult | None], list[TaskResult | None], list[TaskResult | None]]


def results_of(context: Context) -> Results:
    """What every task of a store gives: log files, queues (one task), index files."""
    store = context.store
    logs: list[TaskResult | None] = [
        check_log_file(LogFileTask(context, number)) for number in range(len(store.commitlog.files))
    ]
    queues: list[TaskResult | None] = [check_queues(QueuesTask(context, 0, len(store.queues)))]
    indexes: list[TaskResult | None] = [
        check_index_file(IndexFileTask(context, number)) for number in range(len(store.indexes))
    ]
    return logs, queues, indexes


def merged(context: Context, results: Results) -> set[str]:
    logs, queues, indexes = results
    found = [
        *merge_log_files(context, logs),
        *merge_queues(context, queues, logs),
        *merge_index_files(context, indexes, logs),
    ]
    return {finding.rule for finding in found}


@pytest.mark.parametrize("name", ["4.4.0-multiseg", "4.9.8-ghosttail", "5.0.0-innerbatch", "4.9.8-delay"])
def test_results_survive_being_written_down(name: str, store_dir: Directory) -> None:
    context = context_of(store_dir(name))
    results = results_of(context)
    again = tuple(
        [
            None if result is None else from_json(type(result), json.loads(json.dumps(to_json(result))))
            for result in part
        ]
        for part in results
    )
    assert merged(context, again) == merged(context, results)  # type: ignore[arg-type]


@pytest.mark.parametrize("left_out", [0, 2, 6])
def test_a_log_file_that_was_not_checked_gives_no_false_findings(left_out: int, store_dir: Directory) -> None:
    context = context_of(store_dir("4.4.0-multiseg"))
    logs, queues, indexes = results_of(context)
    logs[left_out] = None
    assert merged(context, (logs, queues, indexes)) == {MADE_LATER}
    indexes[3] = None
    queues[0] = None
    assert merged(context, (logs, queues, indexes)) == {MADE_LATER}


def test_nothing_checked_gives_nothing(store_dir: Directory) -> None:
    context = context_of(store_dir("4.9.8-ghosttail"))
    store = context.store
    nothing: Results = ([None] * len(store.commitlog.files), [None], [None] * len(store.indexes))
    assert merged(context, nothing) == set()


def test_a_store_without_a_log(copy: Copy) -> None:
    store = copy("4.4.0-multiseg")
    for file in store.files("commitlog"):
        (store.root / file).unlink()
    result = store.check()
    assert not {rule for rule in result.rules if rule[:2] in ("CQ", "IX", "XR")}


def test_a_log_of_zeros(copy: Copy) -> None:
    store = copy("5.1.3-collisions")
    file = store.files("commitlog")[0]
    store.write(file, 0, bytes(131072))
    result = store.check()
    assert {"XR004", "XR022", "XR027"} == result.rules
    assert {f.found["log_end_offset"] for f in result.of("XR004")} == {0}


def test_both_property_parsers(copy: Copy) -> None:
    for version in ("4.4.0", "4.9.8"):
        assert dialect_for(version).property_parser == ("split" if version == "4.4.0" else "scan")
    store = copy("4.4.0-legacybatch-propedge")
    assert store.check(version="4.4.0").rules == set()


def test_compiled_and_plain_say_the_same(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    store = copy("4.9.8-ghosttail")
    plain = [finding.fingerprint for finding in store.check().findings]
    monkeypatch.setenv("ROCKETFSCK_KERNELS", "compiled")
    assert [finding.fingerprint for finding in store.check().findings] == plain


def test_a_subset_of_the_tasks(copy: Copy) -> None:
    from rocketfsck.verify.options import Subset

    store = copy("4.9.8-multiseg")
    report = check_store(open_store(store.root), CheckOptions(subset=Subset.parse("1/3"), now_timestamp=NOW))
    assert {f.rule for f in report.findings if f.rule[:2] in ("XR", "CQ", "IX")} <= {MADE_LATER}


# spans


def test_spans() -> None:
    starts, ends = true_spans(np.array([True, True, False, True]))
    assert (starts.tolist(), ends.tolist()) == ([0, 3], [2, 4])
    assert group_bounds(longs()).tolist() == [0]
    assert group_bounds(longs(5, 5, 6)).tolist() == [0, 2, 3]
    starts, ends = merge_spans(longs(5, 0, 3), longs(9, 2, 6))
    assert (starts.tolist(), ends.tolist()) == ([0, 3], [2, 9])
    assert merge_spans(longs(), longs())[0].tolist() == []
    assert subtract_spans(0, 10, starts, ends) == [(2, 3), (9, 10)]
    assert subtract_spans(4, 8, starts, ends) == []
    assert find_span(longs(1, 2, 8, -4), starts, ends).tolist() == [0, -1, 1, -1]
    assert find_span(longs(1), longs(), longs()).tolist() == [-1]


# queue offsets and seams


def test_seam_needs_time_and_numbers() -> None:
    tracker = QueueTracker()
    queue, one = longs(0, 0, 0, 0), longs(1, 1, 1, 1)
    rows = longs(0, 1, 2, 3)
    repeats = tracker.look(rows, queue, longs(5, 6, 5, 6), one, 1)
    assert find_seam(repeats, longs(10, 20, 15, 16), None) == 2
    assert find_seam(repeats, longs(10, 20, 21, 22), None) is None  # numbers given again later
    continues = tracker.look(rows, queue, longs(5, 6, 7, 8), one, 1)
    assert find_seam(continues, longs(10, 20, 15, 16), None) is None  # a clock step
    assert find_seam(repeats, longs(10, 20, 15, 16), 30) == 0
    assert find_seam(repeats, longs(10, 1 << 62, 21, 22), None) is None  # a time that no clock shows
    assert find_seam(repeats, longs(1 << 62, 20, 21, 22), None) is None
    assert find_seam(repeats, longs(10, 1 << 62, 9, 22), None) == 2
    assert find_seam(tracker.look(longs(), longs(), longs(), longs(), 1), longs(), None) is None
    assert is_older_life(longs(3, 4), 5)
    assert not is_older_life(longs(3, 6), 5)
    assert not is_older_life(longs(3), None)


def test_tracker_goes_on_over_batches() -> None:
    tracker = QueueTracker()
    found = tracker.look(longs(0, 1, 2), longs(0, 1, 0), longs(5, 0, 6), longs(1, 4, 1), 2)
    tracker.take(found, longs(100, 200, 300))
    assert tracker.following[:2].tolist() == [7, 4]
    assert tracker.first_physical[:2].tolist() == [100, 200]
    found = tracker.look(longs(0, 1), longs(0, 1), longs(9, 3), longs(1, 1), 2)
    assert (found.skipping.tolist(), found.repeated.tolist()) == ([True, False], [False, True])
    tracker.take(found, longs())
    assert tracker.following[:2].tolist() == [7, 4]
    assert tracker.count[:2].tolist() == [2, 1]


# readers


def mapped(root: Path, parts: dict[int, bytes]) -> MappedFileQueue:
    files = []
    for start, data in parts.items():
        path = root / f"{start:020d}"
        path.write_bytes(data)
        files.append(MappedFile(str(path), path.name, len(data), 0, 0, start))
    return MappedFileQueue((str(root),), 100, tuple(files))


def test_stream_reader_gives_zeros_where_no_file_is(tmp_path: Path) -> None:
    queue = mapped(tmp_path, {40: b"a" * 40, 120: b"b" * 20})
    with StreamReader(queue) as reader:
        assert (reader.start, reader.end) == (40, 140)
        assert bytes(reader.read(30, 120)) == bytes(10) + b"a" * 40 + bytes(40) + b"b" * 20 + bytes(10)
        assert bytes(reader.read(1000, 5)) == bytes(5)
    many = mapped(tmp_path, {100 * n: bytes([n]) for n in range(12)})
    with StreamReader(many) as reader:
        assert reader.read(0, 1200).count(0) == 1189  # more files than are held open
    empty = MappedFileQueue((), 100, ())
    with StreamReader(empty) as reader:
        assert (reader.start, reader.end, bytes(reader.read(0, 3))) == (0, 0, bytes(3))


def test_unit_reader_finds_offsets(tmp_path: Path) -> None:
    units = b"".join(struct.pack(">qiq", 100 * n, 10, 0) for n in range(1, 6)) + bytes(40)
    queue = ConsumeQueue("T", 0, "file", mapped(tmp_path, {20: units}))
    with UnitReader(queue) as reader:
        assert (reader.first_index, reader.end_index) == (1, 8)
        assert [reader.find_offset(offset) for offset in (0, 100, 101, 500, 501)] == [1, 1, 2, 5, 6]
        assert list(reader.with_data(0, 3)) == [(1, 3)]
        assert list(reader.with_data(8, 30)) == []
    assert unit_place(queue, 0).file == "consumequeue/T/0"
    assert unit_place(queue, 2).start == 20


def test_log_reader(store_dir: Directory, tmp_path: Path) -> None:
    store = open_store(store_dir("5.1.3-basic"))
    damage = Damage(store_dir("5.1.3-basic"))
    with LogReader(store.commitlog) as log:
        for pos, record in damage.records("commitlog/00000000000000000000"):
            head = log.head(pos)
            assert head is not None
            assert (head.topic, head.queue_id, head.queue_offset) == (
                record.topic,
                record.queue_id,
                record.queue_offset,
            )
            assert (head.store_timestamp, head.total_size) == (record.store_timestamp, record.total_size)
        assert log.head(1) is None
        assert log.head(-5) is None
        assert log.head(1 << 50) is None
    many = mapped(tmp_path, {100 * n: bytes(100) for n in range(9)})
    with LogReader(many) as log:
        assert [log.file_at(100 * n + 3) for n in range(9)] == list(range(9))
        assert all(log.head(100 * n) is None for n in range(9))  # more files than are held open
    (tmp_path / f"{300:020d}").unlink()
    with LogReader(many) as log:
        assert log.head(300) is None  # what cannot be read is said by its own task


def test_index_reader_distrusts_disorder(copy: Copy) -> None:
    store = copy("5.3.3-multiseg")
    opened = open_store(store.root)
    with IndexReader(opened.indexes[1], opened.geometry) as reader:
        offsets = reader.entries(1, 599)["phyOffset"].astype(np.int64)
        for offset in (0, int(offsets[100]), int(offsets[-1]) + 1):
            assert reader.find_offset(offset, 599) == int(np.searchsorted(offsets, offset)) + 1
    store.write(store.files("index")[1], 40 + 800 + 20 * 150 + 4, struct.pack(">q", 1 << 40))
    with IndexReader(open_store(store.root).indexes[1], opened.geometry) as reader:
        assert reader.find_offset(int(offsets[0]), 599) is None


# maps


def test_log_map(store_dir: Directory) -> None:
    context = context_of(store_dir("4.9.8-ghosttail"))
    logs, _, _ = results_of(context)
    grounds = LogMap(context.store, logs)
    assert grounds.log_end == 77760
    stated = grounds.grounds(longs(-1, 0, 77759, 77760, 79000, 1 << 40))
    assert stated.tolist() == [
        Ground.EXPIRED,
        Ground.LIVE,
        Ground.LIVE,
        Ground.BEYOND,
        Ground.BEYOND,
        Ground.BEYOND,
    ]
    partly = LogMap(context.store, [logs[0], None])
    assert partly.log_end is None
    assert partly.grounds(longs(0, 70000, 1 << 40)).tolist() == [Ground.LIVE, Ground.UNKNOWN, Ground.BEYOND]


def test_log_map_without_files(copy: Copy) -> None:
    store = copy("4.4.0-trans")
    (store.root / store.files("commitlog")[0]).unlink()
    grounds = LogMap(open_store(store.root), [])
    assert grounds.log_end is None
    assert grounds.grounds(longs(5)).tolist() == [Ground.UNKNOWN]


# limits


def test_rows_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketfsck.verify.tasks.task.ROW_LIMIT", 0)
    collector = Collector(7)
    add_rows(collector, "CQ002", "f", np.arange(25), lambda row: Where("f", row), {}, {})
    assert collector.counts == {"CQ002": 25}
    assert len(collector.findings) == 8


def test_unindexed_runs_beyond_the_limit(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entryjoin, "MAX_UNINDEXED", 1)
    monkeypatch.setattr(entryjoin, "MAX_LOOSE", 0)
    store = copy("4.9.8-multiseg")
    (store.root / store.files("index")[1]).unlink()
    context = context_of(store.root)
    first = check_log_file(LogFileTask(context, 0))
    assert first.summary is not None
    assert len(first.summary.entries.unindexed) <= 1
    file = store.files("commitlog")[0]
    for pos, record in store.records(file)[::4][:5]:
        store.write(file, pos, b"\xee" * record.total_size)
    again = check_log_file(LogFileTask(context, 0))
    assert again.summary is not None
    assert again.summary.entries.not_kept_count > 0


# extension files in pieces


def ext_unit(tags_code: int, bitmap: bytes = b"") -> bytes:
    return struct.pack(">hqqh", 20 + len(bitmap), tags_code, 1000, len(bitmap)) + bitmap


def ext_queue(root: Path, addresses: list[int], ext: dict[int, bytes]) -> ConsumeQueue:
    (root / "q").mkdir()
    (root / "e").mkdir()
    units = b"".join(
        struct.pack(">qiq", 100 * n, 10, address - (1 << 63)) for n, address in enumerate(addresses)
    )
    return ConsumeQueue("T", 0, "file", mapped(root / "q", {0: units}), mapped(root / "e", ext))


def found_in(queue: ConsumeQueue, log_start: int = 0) -> list[tuple[str, int | None]]:
    collector = Collector()
    check_ext(queue, 1000, log_start, collector)
    return [(finding.rule, finding.where.queue_offset) for finding in collector.findings]


def test_ext_units_of_expired_units_may_be_gone(tmp_path: Path) -> None:
    queue = ext_queue(tmp_path, [20, 80, 100], {100: ext_unit(3) + bytes(80)})
    assert found_in(queue, log_start=200) == []
    assert found_in(queue, log_start=100) == [("CQ011", 1)]


def test_ext_units_over_two_files(tmp_path: Path) -> None:
    one = ext_unit(1) + ext_unit(2, b"xyz") + b"\xff\xff"
    queue = ext_queue(tmp_path, [0, 20, 100], {0: one.ljust(100, b"\0"), 100: ext_unit(3) + bytes(80)})
    assert found_in(queue) == []


def test_ext_orphans_between_addresses(tmp_path: Path) -> None:
    data = (ext_unit(1) + ext_unit(2) + ext_unit(3)).ljust(100, b"\0")
    assert found_in(ext_queue(tmp_path, [0, 40], {0: data})) == [("CQ013", None)]


def test_ext_address_inside_a_unit_that_looks_like_one(tmp_path: Path) -> None:
    inner = ext_unit(9)
    data = (ext_unit(1) + ext_unit(2, b"ab" + inner) + ext_unit(3)).ljust(200, b"\0")
    queue = ext_queue(tmp_path, [0, 42, 62], {0: data})
    assert found_in(queue)[0] == ("CQ011", 1)


def test_ext_gap_that_leads_nowhere(tmp_path: Path) -> None:
    data = (ext_unit(1) + b"\x00\x03" + bytes(18) + ext_unit(3)).ljust(100, b"\0")
    assert ("CQ011", 1) in found_in(ext_queue(tmp_path, [0, 40], {0: data}))


def test_ext_files_that_no_unit_names(tmp_path: Path) -> None:
    data = ext_unit(1) + b"\xff\xff" + bytes(78)
    queue = ext_queue(tmp_path, [], {0: data, 100: ext_unit(2) + bytes(80)})
    assert found_in(queue) == [("CQ013", None)]


def test_ext_walk_limit_in_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unitcompare, "WALK_LIMIT", 1)
    data = (ext_unit(1) * 6).ljust(200, b"\0")
    assert found_in(ext_queue(tmp_path, [0, 100], {0: data})) == [("CQ013", None)]


def test_delays_of_units_with_ext_addresses_stand_in_the_ext_units(tmp_path: Path) -> None:
    queue = ext_queue(tmp_path, [0, 20], {0: (ext_unit(6000) + ext_unit(6500)).ljust(100, b"\0")})
    collector = Collector()
    comparer = UnitComparer(collector)
    rows = DispatchRows(
        index=longs(0, 1),
        count=longs(1, 1),
        offset=longs(0, 100),
        size=longs(10, 10),
        time=longs(1000, 1000),
        tags=longs(0, 0),
        level=longs(2, 3),
    )
    with UnitReader(queue) as reader:
        comparer.take(queue, 7, rows, reader.units(0, 2), rows.index)
    assert comparer.delays == {(2, 5000): [1, 7, 0, 0], (3, 5500): [1, 7, 1, 100]}
    assert not collector.counts
    comparer.take(queue, 7, rows, np.zeros(2, reader.dtype), rows.index)
    stated: list[Finding] = list(collector.findings)
    assert [finding.rule for finding in stated] == ["XR007", "XR007"]


def test_matched_ranges_go_on_from_file_to_file() -> None:
    def ranges(*rows: tuple[int, int, int]) -> UnitRanges:
        none = np.zeros((0, 7), np.int64)
        return UnitRanges(
            np.array([4, 2], np.int32),
            (),
            np.array(rows, np.int64).reshape(-1, 3),
            none,
            none[:, :6],
            none[:, :6],
        )

    matched = MatchedUnits(5)
    matched.add(ranges((0, 0, 10), (1, 5, 7)))
    matched.add(ranges())
    matched.add(ranges((0, 10, 20), (0, 30, 40), (1, 9, 11)))
    matched.add(ranges((0, 40, 50)))
    assert [part.tolist() for part in matched.spans(4)] == [[0, 30], [20, 50]]
    assert [part.tolist() for part in matched.spans(2)] == [[5, 9], [7, 11]]
    assert [part.tolist() for part in matched.spans(0)] == [[], []]
