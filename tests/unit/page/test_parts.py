"""The parts of a page: strips, buckets of time, choices of findings, windows; all bounded and exact."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.cli.pages.making import Windows
from rocketfsck.common.rulenames import RuleName
from rocketfsck.engine import LocalEngine
from rocketfsck.page.files import FileTable, file_table
from rocketfsck.page.findings import chosen, findings_of, later_findings
from rocketfsck.page.model import Findings, FindingsAfter
from rocketfsck.page.survey import KINDS, LogSurvey, LogTask, Span, Strip, TimeBuckets, survey_log
from rocketfsck.page.surveying import QueueFindings, survey_store, timeline_of
from rocketfsck.page.tables import DEFAULT, Limits, all_shown, shown
from rocketfsck.scan.options import log_item
from rocketfsck.store import open_store
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.verify.report import NotChecked, Report
from rocketfsck.verify.run import check_store
from rocketfsck.verify.tasks.task import aggregate

from tests.conftest import Directory
from tests.pagesamples import large_store


def report_of(*findings: Finding) -> Report:
    """A report that lists these, and counts as many."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "abort").touch()
        empty = check_store(open_store(Path(folder)))
    counts: Counter[str] = Counter()
    for finding in findings:
        counts[finding.rule] += finding.count
    return replace(empty, findings=findings, counts=counts)


def torn(file: str, start: int, count: int = 1) -> Finding:
    return Finding(RuleName.LOG_TORN_TAIL, Where(file, start, start + 4), {"pos": start}, count=count)


def later(before: Report, then: Report, limits: Limits = DEFAULT) -> tuple[Findings, FindingsAfter]:
    """The findings of a page, and those after."""
    found, _ = findings_of(before, FileTable(), {}, {}, lambda _one: None, lambda _one, _file: None, limits)
    return found, later_findings(found, before, then, "", FileTable(), {}, limits)


def test_findings_are_the_same_by_place_facts_and_count() -> None:
    """What has only another count is no new finding, and two that are alike stay two."""
    one, other, run = torn("a", 0), torn("b", 0), torn("c", 0, count=3)
    found, after = later(report_of(one, other, one, run), report_of(one, replace(run, count=2), torn("d", 8)))
    assert found.rows.count == (1, 1, 1, 3)
    assert after.gone == ((1, 4),)
    assert (after.rows.count, after.new_count) == ((1, 2), 1)
    assert after.rows.start == (8, 0)
    assert after.counts == (4,)
    assert after.rules == ()


def test_a_rule_that_only_the_plan_brings_follows_the_others() -> None:
    gap = Finding(RuleName.UNIT_HOLE, Where("q", 20, 40), {"unit_count": 1, "queue_offset": 1})
    _, after = later(report_of(torn("a", 0)), report_of(gap, gap))
    assert [rule.rule for rule in after.rules] == [RuleName.UNIT_HOLE]
    assert after.rules[0].kept_count == 2
    assert after.counts == (0, 2)
    assert after.rows.rule == (1, 1)
    assert after.by_file.rule == (1,)
    assert after.by_file.count == (2,)


def test_what_the_check_only_counted_is_not_new() -> None:
    """Of a rule and file of which some were not listed nobody knows which were there."""
    many = aggregate(RuleName.LOG_TORN_TAIL, "a", 7)
    _, after = later(report_of(torn("a", 0), many), report_of(torn("a", 4), torn("b", 4)))
    assert (len(after.rows.rule), after.new_count) == (2, 1)
    assert after.rows.file == (1, 0)


def test_new_findings_come_first_where_not_all_are_listed() -> None:
    limits = Limits(finding_count=3)
    old = [torn("a", number) for number in range(9)]
    found, after = later(report_of(*old), report_of(*old[4:], torn("a", 90), torn("a", 91)), limits)
    assert found.kept_count == 3
    assert after.gone == ((0, 3),)
    assert after.new_count == 2
    assert after.rows.start[:2] == (90, 91)
    assert len(after.rows.rule) + sum(after.crowds.count) == 7


@given(
    st.lists(st.tuples(st.sampled_from(KINDS[:8]), st.integers(1, 5000), st.integers(0, 9)), min_size=1),
    st.integers(1, 20),
)
def test_a_strip_tiles_its_file_and_counts_exactly(regions: list[tuple[str, int, int]], limit: int) -> None:
    strip, start, spans = Strip(sum(size for _, size, _ in regions), limit), 0, []
    for kind, size, count in regions:
        spans.append(Span.of(start, start + size, kind, count))  # type: ignore[arg-type]
        strip.add(spans[-1])
        start += size
    found = strip.spans()
    assert found[0].start == 0
    assert found[-1].end == start
    assert all(one.end == other.start for one, other in pairwise(found))
    for name in ("record_count", "region_count", "bad_byte_count"):
        assert sum(getattr(span, name) for span in found) == sum(getattr(span, name) for span in spans)
    if len(regions) <= limit:
        assert list(found) == spans
    assert len(found) <= 3 * limit + 2


def test_a_strip_of_very_many_regions_stays_small() -> None:
    strip = Strip(3_000_000, 50)
    for start in range(0, 3_000_000, 3):
        strip.add(Span.of(start, start + 3, "records" if start % 2 else "damaged", 1))
    found = strip.spans()
    assert len(found) <= 152
    assert {span.kind for span in found} == {"mixed"}
    assert sum(span.bad_byte_count for span in found) == 1_500_000


def test_a_large_region_keeps_its_kind_between_small_ones() -> None:
    strip = Strip(1000, 4)
    for start, end, kind in ((0, 2, "records"), (2, 4, "damaged"), (4, 6, "records"), (6, 900, "zero")):
        strip.add(Span.of(start, end, kind))  # type: ignore[arg-type]
    strip.add(Span.of(900, 1000, "torn"))
    strip.add(Span.of(1000, 1001, "zero"))
    assert [(span.start, span.kind) for span in strip.spans()][:3] == [
        (0, "mixed"),
        (6, "zero"),
        (900, "torn"),
    ]


@given(
    st.lists(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1), min_size=1, max_size=5),
    st.integers(4, 50),
)
def test_buckets_count_every_message(batches: list[list[int]], limit: int) -> None:
    parts = []
    for times in batches:
        part = TimeBuckets(limit)
        part.add(np.array(times, np.int64), np.full(len(times), 7, np.int64))
        assert len(list(part.rows())) <= limit
        parts.append(part)
    total = TimeBuckets(limit)
    for part in parts:
        total.take(part)
    rows = list(total.rows())
    assert len(rows) <= limit
    count = sum(map(len, batches))
    assert (sum(row[1] for row in rows), sum(row[2] for row in rows)) == (count, 7 * count)
    low, high = rows[0][0], rows[-1][0] + total.step_ms
    assert all(low <= time < high for times in batches for time in times)


def test_a_wrong_clock_costs_no_precision() -> None:
    buckets = TimeBuckets(100)
    times = 1_700_000_000_000 + np.arange(5000, dtype=np.int64) * 10
    buckets.add(np.append(times, [0, 1 << 61]), np.ones(len(times) + 2, np.int64))
    assert buckets.step_ms == 1000
    assert buckets.extent() == (1_700_000_000_000, 1_700_000_050_000)
    assert TimeBuckets(3).extent() is None


def test_findings_of_every_rule_and_file_are_kept() -> None:
    many = [Finding(RuleName.RECORD_BODY_CRC, Where("a", number)) for number in range(500)]
    few = [Finding(RuleName.RECORD_BODY_CRC, Where("b", number)) for number in range(5)]
    rare = [Finding(RuleName.UNIT_HOLE, Where("c", 3))]
    findings = [*many, *few, *rare]
    limits = replace(DEFAULT, finding_count=40, file_finding_count=10)
    kept = chosen(findings, limits)
    assert len(kept) == 40
    assert kept == sorted(kept)
    assert {*range(500, 506)} <= {*kept}
    assert chosen(findings, DEFAULT) == [*range(506)]


def test_files_of_a_queue_are_one_strip_where_there_are_too_many() -> None:
    store = large_store(2, 50)
    rows = {(queue.topic, queue.queue_id): row for row, queue in enumerate(store.queues)}
    whole = file_table(store, rows, DEFAULT)
    assert len(whole.rows) >= 102
    limits = replace(DEFAULT, file_count=80)
    table = file_table(store, rows, limits)
    queues = [row for row in table.rows if row.family == "consumequeue"]
    assert [row.file_count for row in queues] == [2] * 50
    assert sum(row.size for row in queues) == sum(file.size for q in store.queues for file in q.files)
    assert table.place(store.queues[7].files[1].relative) == table.known(store.queues[7].files[0].relative)
    few = file_table(store, rows, replace(DEFAULT, file_count=20))
    assert len(few.rows) == 20


def test_a_path_that_the_store_does_not_have_gets_a_row() -> None:
    table = FileTable()
    assert table.place("") == -1
    number = table.place("commitlog/00000000000000000512")
    assert table.rows[number].family == "missing"
    assert table.place("commitlog/00000000000000000512") == number
    assert table.known("elsewhere") == -1


def test_a_file_that_cannot_be_read_is_named(store_dir: Directory, tmp_path: Path) -> None:
    root = Path(shutil.copytree(store_dir("5.3.3-multiseg"), tmp_path / "store"))
    store = open_store(root)
    (root / "commitlog" / "00000000000000131072").unlink()
    sorted((root / "index").iterdir())[0].unlink()
    survey = survey_store(store, LocalEngine(1))
    assert [item.what for item in survey.left_out] == [
        "commitlog/00000000000000131072",
        store.indexes[0].relative,
    ]
    assert [log is not None and log.record_count for log in survey.logs].count(0) == 1


def test_a_config_that_is_no_json_leaves_the_groups_out(store_dir: Directory, tmp_path: Path) -> None:
    root = Path(shutil.copytree(store_dir("5.3.3-multiseg"), tmp_path / "store"))
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable":7}', "utf-8")
    survey = survey_store(open_store(root), LocalEngine(1))
    assert [item.what for item in survey.left_out] == ["positions"]


def test_damage_is_bounded_and_counted(store_dir: Directory, tmp_path: Path) -> None:
    root = Path(shutil.copytree(store_dir("5.3.3-multiseg"), tmp_path / "store"))
    log = root / "commitlog" / "00000000000000000000"
    data = bytearray(log.read_bytes())
    heads = [at for at in range(len(data) - 8) if data[at + 4 : at + 8] == b"\xda\xa3\x20\xa7"]
    for at in heads[2:-4:4]:
        data[at : at + 8] = b"\x55" * 8
    log.write_bytes(data)
    store = open_store(root)
    limits = replace(DEFAULT, damage_count=5)
    survey = survey_log(LogTask(log_item(store, store.commitlog.files[0]), 0, 20, limits))
    assert survey.bad_count == len(heads[2:-4:4])
    assert len(survey.bad) == 5
    assert all(one.before is not None and one.behind is not None for one in survey.bad[:4])
    assert survey.record_count == len(heads) - survey.bad_count
    assert len(survey.spans) < 62


WINDOWS = {
    "commitlog/00000000000000000000": (100, {"before", "size", "magic_code", "body_crc", "after"}),
    "consumequeue/Seg0/0/00000000000000000000": (40, {"physical_offset", "size", "tags_code"}),
    "checkpoint": (0, {"physic_msg_timestamp", "logics_msg_timestamp", "index_msg_timestamp"}),
    "index/20261120220516659": (
        0,
        {"begin_timestamp", "end_timestamp", "hash_slot_count", "index_count", "newest_index"},
    ),
    "abort.bak": (0, set()),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_name_their_fields(name: str, store_dir: Directory) -> None:
    store = open_store(store_dir("5.3.3-multiseg"))
    start, expected = WINDOWS[name]
    if name.startswith("commitlog"):
        data = (store.root / name).read_bytes()
        start = data.index(b"\xda\xa3\x20\xa7", 100) - 4
    window = Windows(store, DEFAULT).of(Finding(RuleName.UNIT_HOLE, Where(name, start, start + 60)), 3)
    if window is None:
        assert (store.root / name).stat().st_size == 0
        return
    assert window.file == 3
    assert len(window.data) == 2 * (window.end - window.start)
    assert expected <= {field.name for field in window.fields}
    assert window.end - window.start <= DEFAULT.window_size
    assert all(field.start < window.end and field.end > window.start for field in window.fields)


@pytest.mark.parametrize(
    "where",
    [
        Where("commitlog/00000000000000000000"),
        Where("gone", 5, 9),
        Where("commitlog/00000000000000000000", 1 << 60, (1 << 60) + 5),
        Where("index/20261120220516659", 1 << 60),
    ],
)
def test_no_window_where_there_is_nothing_to_show(where: Where, store_dir: Directory) -> None:
    windows = Windows(open_store(store_dir("5.3.3-multiseg")), DEFAULT)
    assert windows.of(Finding(RuleName.UNIT_HOLE, where), 0) is None


def test_index_entries_have_names(store_dir: Directory) -> None:
    store = open_store(store_dir("5.3.3-multiseg"))
    name = store.indexes[0].relative
    window = Windows(store, DEFAULT).of(Finding(RuleName.UNIT_HOLE, Where(name, 40 + 4 * 200 + 20)), 0)
    assert window is not None
    assert {"key_hash", "physical_offset", "time_diff", "previous_entry"} & {f.name for f in window.fields}
    assert "newest_index" in {field.name for field in window.fields}


def test_texts_are_printable_and_short() -> None:
    assert shown("a\u202eb\x1b\udcff", 100) == "a\\u202eb\\x1b\\udcff"
    assert shown("x" * 20, 10) == "x" * 9 + "…"
    value = all_shown((NotChecked("a\n", "b\x00"), {"\r": ("\t",)}))
    assert value == (NotChecked("a\\n", "b\\x00"), {"\\r": ("\\t",)})


def test_limits_are_positive() -> None:
    assert all(getattr(DEFAULT, name) > 0 for name in Limits.__slots__)


def test_gaps_within_files_and_between_them_are_events() -> None:
    hour, start = 3_600_000, 1_700_000_000_000
    store = large_store(2, 1)
    table = file_table(store, {}, DEFAULT)
    first = LogSurvey(0, gaps=[(2 * hour, start + 3 * hour, 500)])
    first.first_timestamp, first.last_timestamp = start, start + 4 * hour
    second = LogSurvey(1)
    second.first_timestamp, second.last_timestamp = start + 30 * hour, start + 31 * hour
    timeline = timeline_of(store, (first, second), (0, 1), (), table, QueueFindings((), {}, {}), DEFAULT)
    rows = zip(timeline.events.timestamp, timeline.events.kind, timeline.events.physical_offset, strict=True)
    assert [(at - start, offset) for at, kind, offset in rows if kind == "gap"] == [
        (hour, None),
        (3 * hour, 500),
        (4 * hour, None),
        (30 * hour, store.commitlog.files[1].start_offset),
    ]
    assert "no message for 1 d 2 h from here on" in timeline.events.message
