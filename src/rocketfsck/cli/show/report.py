"""A check's report as text: what was looked at, what is wrong and where, what it means, what to run next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from rocketfsck.cli.show.palette import Palette
from rocketfsck.cli.show.table import aligned, wrapped
from rocketfsck.cli.show.text import byte_size, count_of, duration, shorten, visible
from rocketfsck.rulenames import RuleName
from rocketfsck.verify.finding import Finding, Severity, Where
from rocketfsck.verify.report import NotChecked, Report
from rocketfsck.verify.rules.catalog import RULES, describe
from rocketfsck.verify.rules.rule import Rule
from rocketfsck.verify.tasks.task import Checked

SHOWN_PLACES = {Severity.ERROR: 10, Severity.WARNING: 5, Severity.INFO: 1}
NAME_SHOWN = 60
SHOWN_LEFT_OUT = 5
"""Things that were left out for one reason and are named; the report as JSON names all."""
_FAMILY_TITLES = {
    "commitlog": "commit log",
    "consumequeue": "consume queues",
    "index": "index",
    "checkpoint": "checkpoint",
    "config": "config",
}


def report_lines(report: Report, palette: Palette, *, columns: int, all_places: bool) -> Iterator[str]:
    """The whole report. `all_places` shows every finding kept, else the first few of each rule."""
    yield from _head(report, palette, columns)
    yield from _checked(report, palette, columns)
    yield from _regions(report, palette)
    yield from _findings(report, palette, columns, all_places)
    yield from _diagnoses(report, palette, columns)
    yield from _summary(report, palette)


def _head(report: Report, palette: Palette, columns: int) -> Iterator[str]:
    store = report.store
    yield palette.bold(f"Store {visible(store.root)}")
    range_text = (
        "no commit log files"
        if store.start_offset is None
        else f"physical offsets {store.start_offset} to {store.end_offset}"
    )
    yield f"  {count_of(store.file_count, 'file')}, {byte_size(store.byte_count)}, {range_text}"
    how = _told(store.known_from) if store.dialect_given else _because(store.known_from)
    span = f"{store.versions[0]} to {store.versions[-1]}" if len(store.versions) > 1 else store.dialect
    yield from wrapped(f"written by: RocketMQ {span}, read as {store.dialect} ({how})", columns, "  ")
    sizes = (
        f"{visible(name)} {value} ({report.store.geometry_sources.get(name, 'default')})"
        for name, value in store.geometry.items()
    )
    yield from wrapped(f"geometry: {', '.join(sizes)}", columns, "  ")
    state = {True: "IN USE", False: "not in use", None: "unknown whether in use"}[store.live]
    live = f"broker: {state} ({visible(store.live_known_from, keep_backslash=True)})"
    yield from (palette.warning(line) if store.live else line for line in wrapped(live, columns, "  "))


def _told(known_from: Sequence[tuple[str, str]]) -> str:
    """What is known of a version that the user gave, and what in the store speaks against it."""
    first, *others = known_from or [("", "given by the user")]
    against = "; ".join(what for what, why in others if "conflicts with" in why)
    return visible(f"{first[1]}{f'; against it: {against}' if against else ''}", keep_backslash=True)


def _because(known_from: Sequence[tuple[str, str]]) -> str:
    if not known_from:
        return "nothing in the bytes tells; give --broker-version if you know it"
    signs = "; ".join(what for what, _ in known_from)
    return visible(f"{signs}; `rocketfsck info` says what each tells", keep_backslash=True)


def _checked(report: Report, palette: Palette, columns: int) -> Iterator[str]:
    yield ""
    yield palette.bold(f"Checked (level {report.level}, {duration(report.seconds)})")
    rows = [
        [_FAMILY_TITLES.get(family, family), *_amounts(checked)] for family, checked in report.checked.items()
    ]
    yield from (f"  {line}" for line in aligned(rows))
    if not report.coverage.complete:
        yield from (
            palette.warning(line) for line in wrapped(f"Not all: {report.coverage.statement}.", columns, "  ")
        )
    if report.not_checked:
        yield palette.bold("Not checked")
        yield from _not_checked(report.not_checked, palette, columns)


def _not_checked(items: Sequence[NotChecked], palette: Palette, columns: int) -> Iterator[str]:
    """What was left out and why; of many for one reason the first few."""
    groups: dict[tuple[str, bool], list[NotChecked]] = {}
    for item in items:
        groups.setdefault((item.reason, item.operational), []).append(item)
    for (reason, operational), group in groups.items():
        shown = group if len(group) <= SHOWN_LEFT_OUT + 1 else group[:SHOWN_LEFT_OUT]
        names = [visible(item.what) or "everywhere" for item in shown]
        if len(shown) < len(group):
            names.append(f"… {len(group) - len(shown):,} more")
        for name in names:
            for part in wrapped(f"{name}: {visible(reason, keep_backslash=True)}", columns, "  "):
                yield palette.error(part) if operational else part


def _amounts(checked: Checked) -> Iterator[str]:
    yield count_of(checked.file_count, "file")
    yield byte_size(checked.byte_count)
    things = (
        (checked.record_count, "record", None),
        (checked.unit_count, "unit", None),
        (checked.entry_count, "entry", "entries"),
    )
    yield ", ".join(count_of(number, noun, plural) for number, noun, plural in things if number)


def _regions(report: Report, palette: Palette) -> Iterator[str]:
    if not report.regions:
        return
    totals: dict[str, list[int]] = {}
    for regions in report.regions.values():
        for region in regions:
            row = totals.setdefault(region.kind, [0, 0, 0])
            row[0] += region.region_count
            row[1] += region.byte_count
            row[2] += region.record_count
    yield ""
    yield palette.bold("What the bytes of the commit log are")
    rows = [
        [
            kind,
            count_of(number, "region"),
            f"{size} bytes",
            count_of(records, "record") if records else "",
        ]
        for kind, (number, size, records) in totals.items()
    ]
    yield from (f"  {line}" for line in aligned(rows, right=(2,)))


def _findings(report: Report, palette: Palette, columns: int, all_places: bool) -> Iterator[str]:
    def order(finding: Finding) -> tuple[int, str]:
        return -RULES[finding.rule].severity, finding.rule

    found = sorted(report.findings, key=order)
    for severity, group in groupby(found, key=lambda finding: RULES[finding.rule].severity):
        yield ""
        yield paint(palette, severity, _TITLES[severity])
        for rule_id, places in groupby(group, key=lambda finding: finding.rule):
            yield from _rule_lines(RULES[rule_id], list(places), report.counts, palette, columns, all_places)
    if report.suppressed:
        yield ""
        yield f"{count_of(report.suppressed, 'finding')} of the baseline not shown."


_TITLES = {Severity.ERROR: "Errors", Severity.WARNING: "Warnings", Severity.INFO: "Notes"}


def paint(palette: Palette, severity: Severity, text: str) -> str:
    """`text` in the colour of a severity."""
    paints = {Severity.ERROR: palette.error, Severity.WARNING: palette.warning, Severity.INFO: palette.info}
    return paints[severity](text)


def _rule_lines(
    rule: Rule,
    places: Sequence[Finding],
    counts: Mapping[str, int],
    palette: Palette,
    columns: int,
    all_places: bool,
) -> Iterator[str]:
    count = counts.get(rule.id, sum(finding.count for finding in places))
    yield f"  {paint(palette, rule.severity, rule.id)} {palette.bold(rule.slug)} ({count:,})"
    yield from (palette.dim(line) for line in wrapped(rule.why, columns, "    "))
    shown = places if all_places else places[: SHOWN_PLACES[rule.severity]]
    for finding in shown:
        yield from _place(finding, columns)
    left = sum(finding.count for finding in places[len(shown) :])
    if left:
        yield f"    … {count_of(left, 'more place')}; --all shows them"


def _place(finding: Finding, columns: int) -> Iterator[str]:
    yield f"    {where_text(finding.where)}"
    yield from wrapped(describe(finding), columns, "      ")


def where_text(where: Where) -> str:
    """The exact place, as one printable line."""
    parts = [visible(where.file) or "the store"]
    if where.start is not None:
        end = where.end
        parts.append(f"byte {where.start}" if end is None else f"bytes {where.start} to {end}")
    if where.physical_offset is not None:
        parts.append(f"physical offset {where.physical_offset}")
    if where.topic is not None:
        queue = "" if where.queue_id is None else f" queue {where.queue_id}"
        parts.append(f"topic {shorten(visible(where.topic), NAME_SHOWN)}{queue}")
    if where.queue_offset is not None:
        parts.append(f"queue offset {where.queue_offset}")
    if where.slot is not None:
        parts.append(f"slot {where.slot}")
    if where.entry is not None:
        parts.append(f"entry {where.entry}")
    return ", ".join(parts)


def _diagnoses(report: Report, palette: Palette, columns: int) -> Iterator[str]:
    if not report.diagnoses:
        return
    yield ""
    yield palette.bold("What this means")
    for diagnosis in report.diagnoses:
        name = paint(palette, Severity[diagnosis.severity.upper()], diagnosis.fault_class)
        yield f"  {name} {palette.bold(visible(diagnosis.title, keep_backslash=True))}"
        yield from wrapped(visible(diagnosis.text, keep_backslash=True), columns, "    ")
        if diagnosis.files:
            yield from wrapped(f"in {', '.join(map(visible, diagnosis.files))}", columns, "    ")
        if diagnosis.next_command:
            yield f"    next: {palette.good(visible(diagnosis.next_command, keep_backslash=True))}"


def _summary(report: Report, palette: Palette) -> Iterator[str]:
    counts = report.severity_counts
    yield ""
    words = ", ".join(
        paint(palette, severity, count_of(counts[severity], noun))
        for severity, noun in _NOUNS.items()
        if counts[severity]
    )
    if counts[Severity.ERROR] or counts[Severity.WARNING]:
        yield f"{palette.bold('Result:')} {words}."
    else:
        partly = "" if report.coverage.complete and not report.not_checked else " in what was checked"
        good = palette.good(f"nothing is wrong{partly}")
        yield f"{palette.bold('Result:')} {good}{f' ({words})' if words else ''}."
    filler_count = sum(_filler_units(finding) for finding in report.findings)
    if filler_count:
        text = f"Consumers without a tag filter (`*`) are given {count_of(filler_count, 'filler record')}"
        yield palette.warning(f"{text} in place of lost messages (XR015).")
    for command in report.next_commands:
        yield f"Next: {palette.good(visible(command, keep_backslash=True))}"


def _filler_units(finding: Finding) -> int:
    """Units that lead to filler records, by a finding that says so."""
    count = finding.found.get("unit_count")
    return count if finding.rule == RuleName.UNIT_OF_FILLER and isinstance(count, int) else 0


_NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
