"""What a page predicts of the store after the plan is what a really repaired copy shows, for every damage.

Half a dozen of the damages always, all of them nightly.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.cli.pages.making import _start_text, page_of
from rocketfsck.engine import LocalEngine
from rocketfsck.formats.dialect import parse_version
from rocketfsck.page.after import starts_of
from rocketfsck.page.model import FindingRows, Page, StartSaid
from rocketfsck.page.tables import DEFAULT
from rocketfsck.query.start.verdict import predict_each
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.area import worktree
from rocketfsck.repair.plan.law import all_assumptions
from rocketfsck.repair.plan.model import Plan
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.verdict import judge_store, predicted
from rocketfsck.store import Store
from rocketfsck.store.places.entries import layers
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.tasks.task import Fact
from rocketfsck.writer.damage import DAMAGES
from rocketfsck.writer.disk import fileops

from tests.cases.test_repairs import NOW, STORES, damaged, reopen, tree
from tests.conftest import NIGHTLY, RELEASED, Directory
from tests.pagesafter import page_after


@pytest.fixture(autouse=True)
def without_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fileops, "sync", lambda _path: None)


@pytest.fixture(autouse=True)
def layers_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stores are small: let their files have layers as large ones do."""
    monkeypatch.setattr(worktree, "COPIED_SIZE", 0)


def paged(store: Store) -> tuple[Page, Plan]:
    """The page of a store, and its plan."""
    facts: list[Fact] = []
    report = check_store(store, CheckOptions(now_timestamp=NOW), engine=LocalEngine(1), seen=facts.extend)
    plan = make_plan(store, report)
    found = predicted(store, report)
    verdict = judge_store(store, report, plan=plan, predictions=found)
    page = page_of(report, verdict, LocalEngine(1), store=store, facts=facts, predictions=found, plan=plan)
    return page, plan


def files(page: Page) -> dict[str, Any]:
    """The files of the map by path, with their strips."""
    table, spans = page.map.files, page.map.spans
    firsts = [*table.first_span, len(spans.start)]
    found = {}
    for row, size in enumerate(table.size):
        family = page.map.families[table.family[row]]
        if family == "missing" or table.file_count[row] == 0:
            continue
        strip = [
            (
                spans.start[at],
                page.map.kinds[spans.kind[at]],
                spans.record_count[at],
                spans.bad_byte_count[at],
            )
            for at in range(firsts[row], firsts[row + 1])
        ]
        times = table.first_timestamp[row], table.last_timestamp[row]
        found[path(page, row)] = (
            family,
            size,
            table.start_offset[row],
            times,
            table.record_count[row],
            strip,
        )
    return found


def path(page: Page, row: int) -> str:
    """The path of a file of the map."""
    table = page.map.files
    directory = page.map.directories[table.directory[row]]
    name = table.name[row] or f"{table.start_offset[row]:020d}"
    return f"{directory}/{name}" if directory else name


def rows(table: Any, *columns: str) -> set[tuple[Any, ...]]:
    """Some columns of a table, as rows."""
    return set(zip(*(getattr(table, name) for name in columns), strict=True))


def queues(page: Page) -> dict[tuple[str, int], tuple[Any, ...]]:
    """The queues that have anything, by name, with their bounds and lag."""
    table = page.queues
    names = ("min_offset", "max_offset", "log_min_offset", "log_max_offset", "message_count", "lag")
    found = {}
    for row, topic in enumerate(table.topic):
        values = tuple(getattr(table, name)[row] for name in names)
        if any(value is not None for value in values[:-1]):
            found[page.topics.topic[topic], table.queue_id[row]] = values
    return found


def indexes(page: Page) -> list[Any]:
    """What is in the index files, in order."""
    table = page.indexes
    assert table is not None
    names = ("used_slot_count", "used_entry_count", "longest_chain", "chain_counts", "lost_entry_count",
             "begin_timestamp", "end_timestamp", "begin_physical_offset", "end_physical_offset")  # fmt: skip
    return sorted(rows(table, *names))


def damage(page: Page) -> set[tuple[Any, ...]]:
    """The damaged regions by path."""
    table = page.map.damage
    return {
        (path(page, file), start, end, kind)
        for file, start, end, kind in zip(table.file, table.start, table.end, table.kind, strict=True)
    }


def positions(page: Page) -> set[tuple[Any, ...]]:
    """Where the groups are, by the names of all."""
    table = page.positions
    assert table is not None
    return {
        (
            page.groups[group],
            page.topics.topic[page.queues.topic[queue]],
            page.queues.queue_id[queue],
            at,
            lag,
        )
        for group, queue, at, lag in zip(table.group, table.queue, table.offset, table.lag, strict=True)
    }


def findings(page: Page) -> Counter[tuple[Any, ...]]:
    """The findings that are listed, by what they say and where."""
    rows = page.findings.rows
    places = ("start", "end", "physical_offset", "queue_offset", "slot", "entry")
    names = (*places, "count", "message", "fingerprint")
    columns = [getattr(rows, name) for name in names]
    return Counter(
        (page.findings.rules[rule].rule, "" if file < 0 else path(page, file), *values)
        for rule, file, *values in zip(rows.rule, rows.file, *columns, strict=True)
    )


def new(page: Page) -> Counter[tuple[Any, ...]]:
    """The findings that the page says the repair brings about."""
    assert page.plan is not None
    assert page.plan.tried is not None
    after = page_after(page)
    count, found = page.plan.tried.findings.new_count, after.findings
    first = found.kept_count - len(page.plan.tried.findings.rows.rule)
    rows = FindingRows(
        **{item.name: getattr(found.rows, item.name)[first : first + count] for item in fields(found.rows)}
    )
    return findings(replace(after, findings=replace(found, rows=rows)))


def counted(page: Page) -> dict[str, Any]:
    """How many findings there are, by rule, file and queue, and gaps by queue."""
    found, table = page.findings, page.queues
    by_file = zip(found.by_file.rule, found.by_file.file, found.by_file.count, strict=True)
    return {
        "rules": {(rule.rule, rule.severity, rule.count) for rule in found.rules if rule.count},
        "files": {
            (found.rules[rule].rule, "" if file < 0 else path(page, file), count)
            for rule, file, count in by_file
        },
        "queues": {
            (page.topics.topic[topic], queue, gaps, count)
            for topic, queue, gaps, count in zip(
                table.topic, table.queue_id, table.gap_count, table.finding_count, strict=True
            )
            if gaps or count
        },
        "kept": (found.count, found.listed_count, found.kept_count),
        "crowds": sum(found.crowds.count),
    }


def real_starts(store: Store, page: Page) -> list[StartSaid]:
    """The starts on a store of the versions that a page names, grouped as there."""
    assert page.verdict is not None
    classes = [tuple(map(parse_version, start.alike)) for start in page.verdict.starts]
    return list(starts_of(predict_each(store, classes), _start_text, DEFAULT))


ALWAYS = (
    "torn-tail", "boundary-lost", "missing-segment", "segment-renamed", "ghost-queue", "queue-shift",
    "missing-topic", "chain-cycle", "index-lost", "checkpoint-zeroed", "abort-present", "config-missing",
    "first-segment-missing", "swapped-pages",
)  # fmt: skip
"""Damages that every part of a store takes part in: the log, queues, index, config, small files."""


@pytest.mark.parametrize("name", DAMAGES if NIGHTLY else ALWAYS[::2])
def test_the_page_says_what_a_repaired_copy_is(name: str, any_dir: Directory, tmp_path: Path) -> None:
    (harmed,) = damaged(name, any_dir, tmp_path, RELEASED.get(DAMAGES[name].needs, STORES), 1)
    root, paths = harmed.root, harmed.paths
    before = tree(root)
    page, plan = paged(reopen(root, paths))
    assert tree(root) == before
    assert not layers
    assert page.plan is not None
    if not plan.actions:
        assert page.plan.tried is None
        assert page.plan.untried == ""
        return
    assert page.plan.untried == ""
    after, tried = page_after(page), page.plan.tried
    assert tried is not None
    assumed = [item.name for item in all_assumptions(plan.actions) if item.how == "assumed"]
    assert apply_plan(plan, assume=assumed).published
    store = reopen(root, paths)
    truth, _ = paged(store)
    found = files(after)
    assert found == files(truth)
    assert queues(after) == queues(truth)
    assert rows(after.topics, "topic", "message_count", "byte_count") >= rows(
        truth.topics, "topic", "message_count", "byte_count"
    )
    assert indexes(after) == indexes(truth)
    assert damage(after) == damage(truth)
    there = {(topic, queue) for topic, queue in queues(truth)}
    assert {one for one in positions(after) if one[1:3] in there} == positions(truth)
    assert after.timeline is not None and truth.timeline is not None
    assert after.timeline.buckets == truth.timeline.buckets
    assert len(after.timeline.lost.start) == len(truth.timeline.lost.start)
    assert tried.findings.unchecked == ""
    assert findings(after) == findings(truth)
    assert counted(after) == counted(truth)
    assert truth.plan is not None
    for name in ("error_count", "warning_count"):
        assert getattr(page.plan.after, name) == getattr(truth.plan.before, name)
    known = set(page.findings.rows.fingerprint)
    assert new(page) == Counter(
        {item: count for item, count in findings(truth).items() if item[-1] not in known}
    )
    assert list(after.starts) == real_starts(store, page)
