"""The document of a page: what it says of stores, that it is bounded, and that texts in it are harmless."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

import rocketfsck
from rocketfsck.cli.schema.table import document_schema
from rocketfsck.common.documents import json_text, to_document
from rocketfsck.common.rulenames import RuleName
from rocketfsck.page.fleet import StoreRows
from rocketfsck.page.model import Page
from rocketfsck.page.survey import NUMBER_OF
from rocketfsck.page.tables import DEFAULT, SpanKind
from rocketfsck.pipeline.fleet.model import STORE_COLUMNS
from rocketfsck.store import open_store

from tests.conftest import NIGHTLY, REAL_NAMES, RESTART_NAMES, STORE_NAMES, Directory
from tests.pagesamples import SAMPLES, checked_page, damaged_copy, large_page, sample_fleet


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(document_schema(name))


def shortened(value: Any) -> Any:
    """A document with both ends of its long lists: what is between was made by the same code."""
    if isinstance(value, dict):
        return {name: shortened(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shortened(inner) for inner in (value if len(value) <= 60 else value[:40] + value[-20:])]
    return value


def wrong(name: str, document: Any) -> str | None:
    """What is wrong with a document, if anything is."""
    found = best_match(validator(name).iter_errors(shortened(document)))
    return None if found is None else f"{found.json_path}: {found.message[:300]}"


def tables(value: Any) -> list[Any]:
    """All tables of columns in a page."""
    if not is_dataclass(value) or isinstance(value, type):
        return [table for item in value for table in tables(item)] if isinstance(value, tuple) else []
    found = [table for item in fields(value) for table in tables(getattr(value, item.name))]
    name = type(value).__name__
    is_table = name in {
        "Files", "Spans", "Totals", "Damage", "FindingRows", "RuleFiles", "Crowds", "Buckets", "Events",
        "LostTimes", "Topics", "Queues", "Groups", "Indexes",
    }  # fmt: skip
    return [*found, value] if is_table else found


def strips(page: Page) -> list[list[tuple[int, int, SpanKind]]]:
    """(start, end, kind) of the spans of each file."""
    files, spans = page.map.files, page.map.spans
    firsts = [*files.first_span, len(spans.start)]
    found = []
    for row, size in enumerate(files.size):
        numbers = range(firsts[row], firsts[row + 1])
        ends = [spans.start[number] for number in list(numbers)[1:]] + [size]
        found.append(
            [
                (spans.start[number], end, page.map.kinds[spans.kind[number]])
                for number, end in zip(numbers, ends, strict=False)
            ]
        )
    return found


def is_whole(page: Page) -> None:
    """Columns are of equal length, rows lead to rows, and spans tile their files."""
    for table in tables(page):
        assert len({len(getattr(table, item.name)) for item in fields(table)}) == 1, type(table)
    for strip, size in zip(strips(page), page.map.files.size, strict=True):
        if strip:
            assert strip[0][0] == 0
            assert all(start < end for start, end, _ in strip)
            assert strip[-1][1] == size
    count = len(page.map.files.size)
    rows = page.findings.rows
    assert all(-1 <= file < count for file in rows.file)
    assert all(-1 <= window < len(page.windows) for window in rows.window)
    assert page.findings.kept_count == len(rows.rule)
    assert wrong("page", to_document(page)) is None


def logs_are_as_counted(page: Page) -> None:
    """The strips of the commit log have as many bytes and records of each kind as the report counts."""
    found: dict[tuple[int, str], tuple[int, int]] = {}
    files, spans = page.map.files, page.map.spans
    for file, strip in enumerate(strips(page)):
        if page.map.families[files.family[file]] == "commitlog":
            for row, (start, end, kind) in enumerate(strip, files.first_span[file]):
                size, count = found.get((file, kind), (0, 0))
                found[file, kind] = (size + end - start, count + spans.record_count[row])
    said = page.map.totals
    rows = zip(said.file, said.kind, said.byte_count, said.record_count, strict=True)
    assert found == {(file, page.map.kinds[kind]): (size, count) for file, kind, size, count in rows}


@pytest.mark.parametrize("name", [*STORE_NAMES, *REAL_NAMES][:: 1 if NIGHTLY else 4])
def test_a_page_of_every_store(name: str, any_dir: Directory) -> None:
    root = any_dir(name)
    page = checked_page(root)
    is_whole(page)
    logs_are_as_counted(page)
    store = open_store(root)
    listed = {file.relative for file in (*store.commitlog.files, *store.all_files())}
    families = [page.map.families[family] for family in page.map.files.family]
    assert len(families) - families.count("missing") == len(listed)
    assert sum(page.map.files.size) == sum(
        {file.relative: file.size for file in (*store.commitlog.files, *store.all_files())}.values()
    )


def test_damaged_strips_are_what_the_report_counts(store_dir: Directory, tmp_path: Path) -> None:
    page = checked_page(damaged_copy(store_dir("5.3.3-multiseg"), tmp_path / "store"))
    logs_are_as_counted(page)
    assert page.map.damage.file == (1,)
    assert page.map.damage.kind == (NUMBER_OF["damaged"],)


@pytest.mark.parametrize("name", RESTART_NAMES[:: 1 if NIGHTLY else 3])
def test_strips_of_damaged_stores_are_what_the_report_counts(name: str, restart_dir: Directory) -> None:
    page = checked_page(restart_dir(name))
    is_whole(page)
    logs_are_as_counted(page)


def test_damage_is_on_the_map_with_its_bytes_its_time_and_its_repair(
    store_dir: Directory, tmp_path: Path
) -> None:
    page = checked_page(damaged_copy(store_dir("5.3.3-multiseg"), tmp_path / "store"))
    rows = page.findings.rows
    rules = [page.findings.rules[rule].rule for rule in rows.rule]
    row = rules.index(RuleName.LOG_BOUNDARY_LOST)
    assert (rows.start[row], rows.end[row]) == (page.map.damage.start[0], page.map.damage.end[0])
    window = page.windows[rows.window[row]]
    assert window.start <= page.map.damage.start[0] < window.end
    names = [field.name for field in window.fields]
    assert names[:3] == ["before", "size", "magic_code"]
    assert page.plan is not None
    actions = [page.plan.actions[number].action for number in rows.actions[row]]
    assert actions == ["salvage-log"]
    assert page.timeline is not None
    assert page.timeline.lost.start == (page.map.damage.start[0],)
    assert page.timeline.lost.first_timestamp[0] < page.timeline.lost.last_timestamp[0]
    assert page.plan.after.error_count == 0


def test_the_timeline_has_every_message(store_dir: Directory) -> None:
    page = checked_page(store_dir("5.3.3-multiseg"))
    assert page.timeline is not None
    assert sum(page.timeline.buckets.message_count) == 1400
    assert sum(page.timeline.buckets.byte_count) == sum(page.topics.byte_count)
    assert sum(count or 0 for count in page.queues.message_count) == 1400
    assert page.queues.max_offset == page.queues.log_max_offset


@pytest.mark.parametrize("name", ["5.3.3-multiseg", "4.9.8-basic"])
def test_messages_by_topic_and_time_are_those_of_the_log(store_dir: Directory, name: str) -> None:
    """Counted one by one: the largest topics have rows, all others are together."""
    page = checked_page(store_dir(name))
    assert page.timeline is not None
    found = page.timeline.topics
    with rocketfsck.open(store_dir(name)) as store:
        messages = [(message.topic, message.store_timestamp) for message in store]
    sizes = Counter(topic for topic, _ in messages)
    largest = sorted(sizes, key=lambda topic: (-sizes[topic], topic))[: DEFAULT.topic_count]
    plain = Counter(
        (topic if topic in largest else None, at // found.step_ms * found.step_ms) for topic, at in messages
    )
    times = [(found.first_timestamp or 0) + bucket * found.step_ms for bucket in found.rows.bucket]
    rows = zip(found.rows.topic, times, found.rows.message_count, strict=True)
    names = {-1: None, **dict(enumerate(page.topics.topic))}
    assert {(names[topic], at): number for topic, at, number in rows} == plain
    assert (found.mixed_count, found.undated_count, found.unread_file_count) == (0, 0, 0)


def test_the_index_counts_all_entries_in_chains(store_dir: Directory) -> None:
    page = checked_page(store_dir("4.4.0-collisions"))
    assert page.indexes is not None
    for used, slots, counts, longest in zip(
        page.indexes.used_entry_count,
        page.indexes.used_slot_count,
        page.indexes.chain_counts,
        page.indexes.longest_chain,
        strict=True,
    ):
        assert sum(counts) == slots
        low = sum(count * (1 if at == 0 else 2 ** (at - 1) + 1) for at, count in enumerate(counts))
        assert low <= used <= sum(count * 2**at for at, count in enumerate(counts))
        assert 2 ** (len(counts) - 2) < longest <= 2 ** (len(counts) - 1)


def test_bodies_are_not_in_the_windows(store_dir: Directory, tmp_path: Path) -> None:
    page = checked_page(damaged_copy(store_dir("5.3.3-multiseg"), tmp_path / "store"))
    rows = page.findings.rows
    rules = [page.findings.rules[rule].rule for rule in rows.rule]
    window = page.windows[rows.window[rules.index(RuleName.RECORD_BODY_CRC)]]
    body = next(field for field in window.fields if field.name == "body")
    shown = window.data[2 * (body.start - window.start) : 2 * (min(body.end, window.end) - window.start)]
    assert shown
    assert set(shown) == {"."}


def test_the_page_of_the_largest_store_is_bounded() -> None:
    page = large_page()
    is_whole(page)
    assert page.findings.count == 1_000_000
    assert len(page.queues.topic) == 10_000
    size = len(json_text(to_document(page), compact=True))
    assert size < 4_650_000, size
    kept, crowds = page.findings.kept_count, sum(page.findings.crowds.count)
    assert kept + crowds == page.findings.listed_count == 50_000
    assert page.plan is not None
    assert page.plan.tried is not None
    after = page.plan.tried.findings
    assert sum(after.counts) == 1_999_998
    assert 0 < after.new_count < len(after.rows.rule) == DEFAULT.of_changes.finding_count
    left = kept - sum(end - start for start, end in after.gone)
    assert left + len(after.rows.rule) + sum(after.crowds.count) == 50_000


def test_samples_are_as_the_schema_says() -> None:
    assert wrong("page-fleet", sample_fleet()) is None
    for path in SAMPLES.glob("*.json"):
        document = json.loads(path.read_text("utf-8"))
        kind = {"rocketfsck.page": "page", "rocketfsck.page.fleet": "page-fleet"}[document["kind"]]
        assert wrong(kind, document) is None, path.name


def test_a_fleet_has_the_columns_of_the_table_of_verdicts() -> None:
    assert [item.name for item in fields(StoreRows)] == [column.name for column in STORE_COLUMNS]
