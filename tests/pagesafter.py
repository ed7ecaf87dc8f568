"""A page as it would be after the plan, put together from what the page says changes."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from rocketfsck.page.model import After, Cells, FindingRows, Findings, FindingsAfter, Page


def page_after(page: Page) -> Page:
    """The page with its plan carried out. The page must have a plan that was tried."""
    after = page.plan.tried if page.plan else None
    assert after is not None
    files = _patched(page.map.files, [cells for cells in after.cells if cells.table == "map.files"])
    firsts, spans = _strips(page, after, len(files.size))
    found = replace(
        page.map,
        directories=(*page.map.directories, *after.directories),
        files=replace(files, first_span=tuple(firsts)),
        spans=spans,
        damage=after.damage,
        damage_counts=after.damage_counts,
    )
    return replace(
        page,
        starts=after.starts,
        map=found,
        topics=_patched(page.topics, [cells for cells in after.cells if cells.table == "topics"]),
        queues=_patched(page.queues, [cells for cells in after.cells if cells.table == "queues"]),
        timeline=after.timeline or page.timeline,
        groups=page.groups if after.groups is None else after.groups,
        positions=after.positions or page.positions,
        position_counts=after.position_counts or page.position_counts,
        indexes=after.indexes or page.indexes,
        findings=_findings(page.findings, after.findings),
    )


def _findings(before: Findings, after: FindingsAfter) -> Findings:
    """The findings that are left, and those that came after them."""
    gone = {row for start, end in after.gone for row in range(start, end)}
    rows: dict[str, tuple[Any, ...]] = {}
    for item in fields(before.rows):
        old, new = getattr(before.rows, item.name), getattr(after.rows, item.name)
        rows[item.name] = (*(value for row, value in enumerate(old) if row not in gone), *new)
    return Findings(
        count=sum(after.counts),
        listed_count=len(rows["rule"]) + sum(after.crowds.count),
        kept_count=len(rows["rule"]),
        rules=tuple(
            replace(rule, count=count, kept_count=rows["rule"].count(row))
            for row, (rule, count) in enumerate(zip((*before.rules, *after.rules), after.counts, strict=True))
        ),
        by_file=after.by_file,
        crowds=after.crowds,
        rows=FindingRows(**rows),
    )


def _patched(table: Any, changes: list[Cells]) -> Any:
    columns = {item.name: list(getattr(table, item.name)) for item in fields(table)}
    length = max([len(next(iter(columns.values()))), *(end for one in changes for _, end in one.runs)])
    for column in columns.values():
        column += [None] * (length - len(column))
    for one in changes:
        rows = [row for start, end in one.runs for row in range(start, end)]
        for row, value in zip(rows, one.values, strict=True):
            columns[one.column][row] = value
    return type(table)(**{name: tuple(column) for name, column in columns.items()})


def _strips(page: Page, after: After, count: int) -> tuple[list[int], Any]:
    """Where the spans of each file begin, and the spans."""
    old, new = page.map.spans, after.spans
    before = [*page.map.files.first_span, len(old.start)]
    then = [*after.strip_first_spans, len(new.start)]
    changed = {file: (new, then[at], then[at + 1]) for at, file in enumerate(after.strip_files)}
    columns: dict[str, list[int]] = {item.name: [] for item in fields(old)}
    firsts = []
    for file in range(count):
        firsts.append(len(columns["start"]))
        kept = (old, before[file], before[file + 1]) if file + 1 < len(before) else (old, 0, 0)
        table, first, last = changed.get(file, kept)
        for name, column in columns.items():
            column += getattr(table, name)[first:last]
    return firsts, type(old)(**{name: tuple(column) for name, column in columns.items()})
