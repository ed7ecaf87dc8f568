"""What a check goes on from, log and queues: the result is that of the whole file, or there is none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocketfsck.common.rulenames import RuleName
from rocketfsck.reader.units import Kind, UnitReader
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.verify.log.file import check_log_file
from rocketfsck.verify.log.result import BLANK, RECORDS, ZERO, LogResult, extended, is_settled
from rocketfsck.verify.queues.file import check_queues
from rocketfsck.verify.queues.unitranges import UnitRanges
from rocketfsck.verify.queues.unitruns import RunList, Shape, UnitRun, known_runs, known_units
from rocketfsck.verify.tasks.resume import to_json
from rocketfsck.verify.tasks.task import Context, LogFacts, LogFileTask, QueueKnown, QueuesTask, RegionTotal
from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store

BEGIN = 1_700_000_000_000
OPTIONS = WriteOptions(sync=False, geometry=Geometry(65_536, 20 * 400, slot_count=97, entry_count=900))


def messages(start: int, end: int, *, delayed: bool = False) -> Iterator[OutgoingMessage]:
    """Of three topics; those of the second half have one more topic."""
    for number in range(start, end):
        properties = {"TAGS": "tag", "KEYS": f"key{number}"}
        if delayed:
            properties |= {"DELAY": "3"}
        yield OutgoingMessage(f"T{number % 3}", b"x" * 40, BEGIN + number * 1000, properties=properties)


def log_result(store: Path, known: LogResult | None = None, index: int = 0) -> LogResult:
    """What is found of a commit log file, from its beginning or behind what is known."""
    context = Context(open_store(store), "full", BEGIN + 10**9, keeps=True)
    return check_log_file(LogFileTask(context, index, known))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write_store(tmp_path / "store", messages(0, 60), OPTIONS)
    return tmp_path / "store"


Parts = tuple[LogResult, LogResult, LogResult]


def parts_of(store: Path, further: Iterator[OutgoingMessage]) -> Parts:
    """A file's result, that of a walk behind it after further messages, and that of the whole."""
    known = log_result(store)
    write_store(store, further, OPTIONS, append=True)
    seen: list[LogResult] = []

    def keep(before: Any, new: LogResult) -> LogResult | None:
        seen.append(new)
        return extended(before, new)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rocketfsck.verify.log.file.extended", keep)
        log_result(store, known)
    return known, seen[0], log_result(store)


@pytest.fixture
def parts(store: Path) -> Parts:
    return parts_of(store, messages(60, 100))


def same(one: LogResult | None, other: LogResult) -> bool:
    return one is not None and to_json(one) == to_json(other)


def test_the_parts_are_the_whole(parts: Parts) -> None:
    known, new, whole = parts
    assert same(extended(known, new), whole) and not same(known, whole) and not same(new, whole)


def test_nothing_new_is_the_same(store: Path) -> None:
    known, new, whole = parts_of(store, iter(()))
    assert same(extended(known, new), known) and same(known, whole)


def test_new_queues_and_delays(store: Path) -> None:
    """Rows of queues that the first part lacks; levels of delays in both parts and in one."""
    more = {"DELAY": "5", "TAGS": "tag", "KEYS": "k"}
    write_store(store, messages(60, 66, delayed=True), OPTIONS, append=True)
    write_store(store, [OutgoingMessage("T1", b"y", BEGIN + 65_500, properties=more)], OPTIONS, append=True)
    further = [*messages(66, 70, delayed=True), *messages(70, 74)]
    further += [OutgoingMessage("Zoo", b"y", BEGIN + 90_000 + n, queue_id=n) for n in range(3)]
    known, new, whole = parts_of(store, iter(further))
    assert len(whole.summary.units.delays) == 2 if whole.summary else False
    assert same(extended(known, new), whole)


def lack(store: Path) -> None:
    """Take back the last ten units of a queue, as if none were put yet."""
    file = store / "consumequeue" / "T0" / "0" / f"{0:020}"
    data = file.read_bytes()
    with file.open("r+b") as stream:
        stream.seek(len(data.rstrip(b"\0")) // 20 * 20 - 9 * 20)
        stream.write(bytes(10 * 20))


def test_new_records_whose_units_are_not_there(store: Path) -> None:
    """The parts are the whole, and say which units are missing; so does the next check, until they come."""
    state, options = store.parent / "state", CheckOptions(now_timestamp=BEGIN + 10**9)
    since = replace(options, since=state)
    check_store(open_store(store), since)
    end = log_end(state)
    known, _, _ = parts_of(store, messages(60, 100))
    file = store / "consumequeue" / "T0" / "0" / f"{0:020}"
    whole_data = file.read_bytes()
    lack(store)
    found = log_result(store, known)
    assert same(found, log_result(store)) and found.summary is not None
    assert len(found.summary.units.missed) == 1 and not is_settled(found.summary)
    for _ in range(2):
        report = check_store(open_store(store), since)
        assert said(report) == said(check_store(open_store(store), options))
        assert {finding.rule for finding in report.findings} >= {RuleName.RECORD_WITHOUT_UNIT}
    with file.open("r+b") as stream:
        stream.write(whole_data)
    report = check_store(open_store(store), since)
    assert said(report) == said(check_store(open_store(store), options)) and report.exit_code == 0
    assert log_end(state) > end


def said(report: Report) -> dict[str, Any]:
    coverage = replace(report.coverage, taken_over_byte_count=0)
    return replace(report, seconds=0.0, since=None, coverage=coverage).to_json()


def log_end(state: Path) -> int:
    """How far the state knows the commit log."""
    (log,) = json.loads(state.read_bytes())["logs"]
    return int(log["proof"]["end"])


def test_a_file_that_became_full(store: Path) -> None:
    """The end of the file is a blank behind the new records."""
    known, new, whole = parts_of(store, messages(60, 600))
    assert whole.facts[0].ends_with_blank
    assert same(extended(known, new), whole)
    assert extended(whole, new) is None  # nothing comes behind a blank


def with_summary(result: LogResult, **changes: Any) -> LogResult:
    assert result.summary is not None
    return replace(result, summary=replace(result.summary, **changes))


def with_facts(result: LogResult, **changes: Any) -> LogResult:
    return replace(result, facts=(replace(result.facts[0], **changes),))


def with_units(result: LogResult, **changes: Any) -> LogResult:
    assert result.summary is not None
    return with_summary(result, units=replace(result.summary.units, **changes))


def with_entries(result: LogResult, **changes: Any) -> LogResult:
    assert result.summary is not None
    return with_summary(result, entries=replace(result.summary.entries, **changes))


def with_strange(result: LogResult, **changes: Any) -> LogResult:
    assert result.summary is not None
    return with_entries(result, strange=replace(result.summary.entries.strange, **changes))


def with_regions(result: LogResult, *totals: RegionTotal) -> LogResult:
    kinds = {total.kind: total for total in (*result.facts[0].regions, *totals)}
    return with_facts(result, regions=tuple(kinds.values()))


def rows(width: int) -> Any:
    return np.zeros((1, width), np.int64)


UNSETTLED: dict[str, Callable[[LogResult], LogResult]] = {
    "a record without a unit": lambda result: with_units(result, missed=rows(7)),
    "units away from their places": lambda result: with_units(result, shifted=rows(6)),
    "more units than are kept": lambda result: with_units(result, not_kept_count=1),
    "a record without an entry": lambda result: with_entries(result, unindexed=rows(4)),
    "an entry without a record": lambda result: with_entries(result, loose=rows(6)),
    "more entries than are kept": lambda result: with_entries(result, not_kept_count=1),
    "an entry of another key": lambda result: with_strange(result, rows=rows(4)),
    "further entries of other keys": lambda result: with_strange(result, further_count=1),
    "entries that nobody saw": lambda result: with_strange(result, unseen_count=1),
    "odd entries": lambda result: with_strange(result, odd_count=1),
    "light queues that were skipped": lambda result: with_summary(result, skipped={"light": 1}),
    "filler": lambda result: with_summary(result, fence_offset=8),
}
LACKING = ("a record without a unit", "a record without an entry")
ODD: dict[str, Callable[[LogResult], LogResult]] = {
    "a finding": lambda result: replace(result, findings=(Finding(RuleName.RECORD_BODY_CRC, Where()),)),
    "damage": lambda result: with_facts(result, damaged=True),
    "another region": lambda result: with_regions(result, RegionTotal("garbage", 1, 9, 0)),
    "records in two regions": lambda result: with_regions(result, RegionTotal(RECORDS, 2, 9, 3)),
}
BEFORE: dict[str, Callable[[LogResult], LogResult]] = {
    "no record": lambda result: with_facts(result, record_count=0),
    "a blank": lambda result: with_regions(result, RegionTotal(BLANK, 1, 9, 0)),
    "zeros in two regions": lambda result: with_regions(result, RegionTotal(ZERO, 2, 9, 0)),
    "a later time": lambda result: with_facts(result, max_store_timestamp=BEGIN + 10**8),
    "no time": lambda result: with_facts(result, max_store_timestamp=None),
}


@pytest.mark.parametrize("reason", UNSETTLED)
def test_what_is_not_settled_is_read_again(reason: str, parts: Parts) -> None:
    known, new, _ = parts
    change = UNSETTLED[reason]
    changed = change(known)
    assert known.summary is not None and changed.summary is not None
    assert is_settled(known.summary) and not is_settled(changed.summary)
    assert extended(changed, new) is None
    if reason not in LACKING:
        assert extended(known, change(new)) is None


@pytest.mark.parametrize("reason", LACKING)
def test_new_records_may_lack_units_and_entries(reason: str, parts: Parts) -> None:
    """A broker puts them later: the result says so, and is none to go on from."""
    known, new, _ = parts
    found = extended(known, UNSETTLED[reason](new))
    assert found is not None and found.summary is not None and not is_settled(found.summary)


@pytest.mark.parametrize("reason", ODD)
def test_what_is_odd_in_either_part_is_read_again(reason: str, parts: Parts) -> None:
    known, new, _ = parts
    assert extended(ODD[reason](known), new) is None
    assert extended(known, ODD[reason](new)) is None


@pytest.mark.parametrize("reason", BEFORE)
def test_what_nothing_can_follow(reason: str, parts: Parts) -> None:
    known, new, _ = parts
    assert extended(BEFORE[reason](known), new) is None


def test_queue_offsets_that_do_not_follow(parts: Parts) -> None:
    """A queue that skips a number over the seam, and one that repeats one."""
    known, new, _ = parts
    assert new.summary is not None
    for step in (-1, 1):
        first = new.summary.queues.first.copy()
        first[0] += step
        assert extended(known, with_summary(new, queues=replace(new.summary.queues, first=first))) is None


def test_a_first_part_without_zeros_behind_it(parts: Parts) -> None:
    """As of a file that was longer at each check."""
    known, new, whole = parts
    regions = tuple(total for total in known.facts[0].regions if total.kind != ZERO)
    assert same(extended(with_facts(known, regions=regions), new), whole)


def test_queues_that_have_no_files(parts: Parts) -> None:
    """Rows of queues that only have a name stay apart, and those of one name become one."""
    known, new, _ = parts
    assert known.summary is not None and new.summary is not None

    def nameless(result: LogResult, *names: tuple[str, int]) -> LogResult:
        summary = result.summary
        assert summary is not None
        units, span = summary.units, summary.queues
        added = np.full(len(names), -1, np.int32)
        units = replace(
            units,
            numbers=np.concatenate([units.numbers, added]),
            unknown_names=(*units.unknown_names, *names),
        )
        columns = {
            name: np.concatenate([getattr(span, name), np.full(len(names), -1, np.int64)])
            for name in ("first", "following", "physical")
        }
        return with_summary(replace(result), units=units, queues=replace(span, **columns))

    found = extended(nameless(known, ("A", 0), ("B", 1)), nameless(new, ("B", 1), ("C", 2)))
    assert found is not None and found.summary is not None
    units: UnitRanges = found.summary.units
    assert units.unknown_names == (("A", 0), ("B", 1), ("C", 2))
    assert len(units.numbers) == len(found.summary.queues.first)


@pytest.mark.parametrize(("met", "count"), [(1, 2), (0, 3)])
def test_runs_of_records_with_tags(met: int, count: int, parts: Parts) -> None:
    """A run goes on over the seam where both sides have their entries, or both lack them."""
    known, new, _ = parts
    old = with_entries(known, tags=np.array([[0, 10, 20, 2], [1, 30, 40, 2]], np.int64))
    own = with_entries(new, tags=np.array([[met, 50, 60, 3], [1 - met, 70, 80, 1]], np.int64))
    found = extended(old, own)
    assert found is not None and found.summary is not None
    tags = found.summary.entries.tags.tolist()
    assert len(tags) == count + 1 and sum(row[3] for row in tags) == 8
    assert tags[1] == ([1, 30, 60, 5] if met else [1, 30, 40, 2])
    assert extended(with_entries(known, tags=np.zeros((0, 4), np.int64)), own) is not None


def test_keys_that_only_new_records_have(parts: Parts) -> None:
    known, new, whole = parts
    found = extended(with_entries(known, first_keyed=-1, last_keyed=-1, keyed_count=0), new)
    assert found is not None and found.summary is not None and new.summary is not None
    assert found.summary.entries.first_keyed == new.summary.entries.first_keyed
    assert whole.summary is not None and whole.summary.entries.first_keyed == 0


def queue_result(store: Path, known: QueueKnown | None = None) -> Any:
    context = Context(open_store(store), "full", BEGIN + 10**9, keeps=True)
    return check_queues(QueuesTask(context, 0, 1, (known,) if known else ()))


def test_a_queue_that_grew(store: Path) -> None:
    (known,) = queue_result(store).known
    assert known == QueueKnown(0, 0, 20, known.first_offset, known.last_offset, known.last_end)
    write_store(store, messages(60, 100), OPTIONS, append=True)
    whole = queue_result(store)
    assert queue_result(store, known) == whole
    assert whole.known[0].end == 34


def shape(start: int = 0, pre_blanks: int = 0, flaws: tuple[Any, ...] = ()) -> Shape:
    return Shape(start, 20, pre_blanks, 0, -1, flaws, ())


def unit_run(start: int, end: int) -> UnitRun:
    return UnitRun(Kind.UNIT, start, end, 100 * start, 100 * (end - 1), 100 * end)


def test_what_is_known_of_a_queue(store: Path) -> None:
    queue = open_store(store).queues[0]
    blanks, units = UnitRun(Kind.PRE_BLANK, 5, 8, 0, 0, 20), unit_run(8, 20)
    assert known_units(queue, shape(8), [units]) == QueueKnown(8, 0, 20, 800, 1900, 2000)
    assert known_units(queue, shape(5, 3), [blanks, units]) == QueueKnown(5, 3, 20, 800, 1900, 2000)
    assert known_units(queue, shape(7), [units]) is None  # something else is in front
    assert known_units(queue, shape(8), []) is None
    assert known_units(queue, shape(8), [units, unit_run(30, 40)]) is None
    assert known_units(queue, replace(shape(8), flaws=("flaw",)), [units]) is None  # type: ignore[arg-type]
    assert known_units(replace(queue, kind="batch"), shape(8), [units]) is None


def cut(store: Path, count: int) -> None:
    """Let the first files of the queue expire, of `count` units each."""
    queue = store / "consumequeue" / "T0" / "0"
    data = (queue / f"{0:020}").read_bytes()
    shutil.rmtree(queue)
    queue.mkdir()
    for start in range(count * 20, 60 * 20, count * 20):
        (queue / f"{start:020}").write_bytes(data[start : start + count * 20])


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (QueueKnown(0, 0, 15, 0, 77, 88), [(Kind.UNIT, 10, 15)]),  # files in front have expired
        (QueueKnown(10, 2, 15, 0, 77, 88), [(Kind.PRE_BLANK, 10, 12), (Kind.UNIT, 12, 15)]),
        (QueueKnown(10, 0, 15, 0, 77, 88), [(Kind.UNIT, 10, 15)]),
        (QueueKnown(0, 2, 15, 0, 77, 88), []),  # no pre-blank is left, and none may be there
        (QueueKnown(0, 0, 10, 0, 77, 88), []),  # all that is known has expired
        (QueueKnown(12, 0, 15, 0, 77, 88), []),  # files in front have come
    ],
)
def test_what_is_known_goes_in_front(
    known: QueueKnown, expected: list[tuple[Kind, int, int]], store: Path
) -> None:
    cut(store, 10)
    runs = RunList()
    with UnitReader(open_store(store).queues[0]) as reader:
        first_offset = int(reader.units(10, 1)["offset"][0])
        assert known_runs(known, reader, runs) == (known.end if expected else 0)
    assert [(run.kind, run.start, run.end) for run in runs.runs] == expected
    if expected:
        assert (runs.runs[-1].last_offset, runs.runs[-1].last_end) == (77, 88)
        assert runs.runs[-1].first_offset == (first_offset if known.start < 10 else 0)


def test_facts_say_which_part_they_are_of(parts: Parts) -> None:
    known, new, whole = parts
    facts = [part.facts[0] for part in parts]
    assert all(isinstance(fact, LogFacts) for fact in facts)
    assert facts[0].record_count + facts[1].record_count == facts[2].record_count
    assert new.facts[0].record_count == 40 and not known.findings and not whole.findings
