"""A check's report as text: the verdict, then what is wrong, worst first, with what it means and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import add

from rocketfsck.cli.show import text as say
from rocketfsck.cli.show.verdict import labelled, verdict_lines
from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import duration
from rocketfsck.repair.plan.law import notice_text
from rocketfsck.repair.plan.model import Notice
from rocketfsck.repair.state import FILLERS
from rocketfsck.repair.verdict import Verdict
from rocketfsck.verify.finding import Finding, Severity, Where
from rocketfsck.verify.report import NotChecked, Report
from rocketfsck.verify.rules.catalog import RULES, describe
from rocketfsck.verify.tasks.task import Checked

FIRST_PLACES = {Severity.ERROR: 3, Severity.WARNING: 2, Severity.INFO: 1}
SHOWN_PLACES = {Severity.ERROR: 10, Severity.WARNING: 5, Severity.INFO: 1}
"""Findings of one rule that are shown, without and with -v."""
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


def report_lines(
    report: Report, verdict: Verdict, palette: say.Palette, columns: int, detail: Detail
) -> Iterator[str]:
    """The verdict, then diagnoses, worst first, each with its findings."""
    yield from verdict_lines(verdict, report.store, palette, columns, exact=detail.verbose)
    yield from amounts_lines(report, columns)
    yield from _limits(report, palette, columns, detail.verbose)
    yield from _diagnoses(report, palette, columns, detail)
    yield from _others(report, palette, columns, detail)
    if detail.verbose:
        yield ""
        yield from _identity(report, palette, columns)
        yield from _checked(report, palette)
        yield from _regions(report, palette)


@dataclass(frozen=True, slots=True)
class Detail:
    """How much is shown. `verbose` adds notes, the reasons of rules, identity, geometry and regions;
    `all_places` shows every finding kept, else the first few of each rule."""

    all_places: bool = False
    verbose: bool = False

    def place_count(self, severity: Severity) -> int:
        """Findings of one rule that are shown."""
        if self.all_places:
            return 1 << 62
        return (SHOWN_PLACES if self.verbose else FIRST_PLACES)[severity]


def amounts_lines(report: Report, columns: int, *, is_timed: bool = True) -> Iterator[str]:
    """What was gone through, and how many notes there are; `is_timed`: also how long it took."""
    total = sum(report.checked.values(), Checked())
    yield from labelled("Checked", [", ".join(filter(None, _amounts(total)))], columns)
    counts = report.severity_counts
    words = [say.count_of(counts[severity], noun) for severity, noun in NOUNS.items() if counts[severity]]
    if report.suppressed:
        words.append(f"{say.count_of(report.suppressed, 'finding')} of the baseline not shown")
    if report.withheld:
        words.append(f"{say.count_of(report.withheld, 'finding')} above max_count not shown")
    yield from labelled("Since", _since(report), columns)
    how = f"level {report.level}" + (f", {duration(report.seconds)}" if is_timed else "")
    yield from labelled("Found", [f"{', '.join(words) or 'nothing'}; {how}"], columns)
    if filler_count := sum(map(_filler_units, report.findings)):
        yield from labelled("Note", [f"{notice_text(Notice(FILLERS, filler_count))} (XR015)"], columns)


def _since(report: Report) -> Iterator[str]:
    """What a check that continues from an earlier one did not read again."""
    since = report.since
    if since is None:
        return
    if since.previous_timestamp is None:
        why = f": {say.visible(since.reason)}" if since.reason else ", the first check with this state file"
        yield f"everything was read{why}"
        return
    files = f"{say.count_of(since.kept_file_count, 'commit log file')} not read again"
    read = say.byte_size(report.coverage.read_byte_count)
    taken = say.byte_size(report.coverage.taken_over_byte_count)
    oldest = f"the part that was read longest ago was read {say.timestamp(since.oldest_read_timestamp)}"
    yield f"{say.timestamp(since.previous_timestamp)}: {read} read, {taken} taken over ({files}); {oldest}"


def _filler_units(finding: Finding) -> int:
    """Units that lead to filler records, by a finding that says so."""
    count = finding.found.get("unit_count")
    return count if finding.rule == RuleName.UNIT_OF_FILLER and isinstance(count, int) else 0


def _limits(report: Report, palette: say.Palette, columns: int, verbose: bool) -> Iterator[str]:
    """What the report does not cover: what could not be read always, what was left out on purpose counted."""
    failed = [item for item in report.not_checked if item.operational]
    left = [item for item in report.not_checked if not item.operational]
    if not report.coverage.complete:
        text = f"Not everything was checked: {report.coverage.statement}."
        yield from (palette.warning(line) for line in say.wrapped(text, columns))
    named = _not_checked(report.not_checked if verbose else failed, palette, columns)
    yield from say.section(palette.bold("Not checked"), named)
    if left and not verbose:
        them = "it" if len(left) == 1 else "them"
        yield f"  {say.count_of(len(left), 'part')} not checked; -v names {them}"


def _identity(report: Report, palette: say.Palette, columns: int) -> Iterator[str]:
    store = report.store
    yield palette.bold("Store")
    known = store.start_offset is not None
    offsets = (
        f"physical offsets {store.start_offset} to {store.end_offset}" if known else "no commit log files"
    )
    yield f"  {say.count_of(store.file_count, 'file')}, {say.byte_size(store.byte_count)}, {offsets}"
    how = _stated(store.known_from) if store.dialect_given else _because(store.known_from)
    span = f"{store.versions[0]} to {store.versions[-1]}" if len(store.versions) > 1 else store.dialect
    yield from say.wrapped(f"written by: RocketMQ {span}, read as {store.dialect} ({how})", columns, "  ")
    sizes = (
        f"{say.visible(name)} {value} ({report.store.geometry_sources.get(name, 'default')})"
        for name, value in store.geometry.items()
    )
    yield from say.wrapped(f"geometry: {', '.join(sizes)}", columns, "  ")
    state = {True: "IN USE", False: "not in use", None: "perhaps in use"}[store.live]
    live = f"broker: {state} ({say.sentence(store.live_known_from)})"
    yield from (palette.warning(line) if store.live else line for line in say.wrapped(live, columns, "  "))


def _stated(known_from: Sequence[tuple[str, str]]) -> str:
    """What is known of a version that the user gave, and what in the store speaks against it."""
    first, *others = known_from or [("", "given by the user")]
    against = "; ".join(what for what, why in others if "conflicts with" in why)
    return say.sentence(f"{first[1]}{f'; against it: {against}' if against else ''}")


def _because(known_from: Sequence[tuple[str, str]]) -> str:
    if not known_from:
        return "the store has no sign of the version; give --broker-version if you know the version"
    signs = "; ".join(what for what, _ in known_from)
    return say.sentence(f"{signs}; `rocketfsck info` explains each")


def _checked(report: Report, palette: say.Palette) -> Iterator[str]:
    yield from ("", palette.bold("Checked"))
    rows = [
        [_FAMILY_TITLES.get(family, family), *_amounts(checked)] for family, checked in report.checked.items()
    ]
    yield from (f"  {line}" for line in say.aligned(rows))


def _not_checked(items: Sequence[NotChecked], palette: say.Palette, columns: int) -> Iterator[str]:
    """What was left out and why; of many for one reason the first few."""
    groups: dict[tuple[str, bool], list[NotChecked]] = {}
    for item in items:
        groups.setdefault((item.reason, item.operational), []).append(item)
    for (reason, operational), group in groups.items():
        shown = group if len(group) <= SHOWN_LEFT_OUT + 1 else group[:SHOWN_LEFT_OUT]
        names = [say.visible(item.what) or "everywhere" for item in shown]
        if len(shown) < len(group):
            names.append(f"… {len(group) - len(shown):,} more")
        for name in names:
            for part in say.wrapped(f"{name}: {say.sentence(reason)}", columns, "  "):
                yield palette.error(part) if operational else part


def _amounts(checked: Checked) -> Iterator[str]:
    yield say.count_of(checked.file_count, "file")
    yield say.byte_size(checked.byte_count)
    things = {"record": checked.record_count, "unit": checked.unit_count, "entry": checked.entry_count}
    yield ", ".join(say.count_of(number, noun) for noun, number in things.items() if number)


def _regions(report: Report, palette: say.Palette) -> Iterator[str]:
    totals: dict[str, list[int]] = {}
    for region in chain.from_iterable(report.regions.values()):
        counts = (region.region_count, region.byte_count, region.record_count)
        totals[region.kind] = list(map(add, totals.get(region.kind, (0, 0, 0)), counts))
    rows = []
    for kind, (number, size, records) in totals.items():
        held = say.count_of(records, "record") if records else ""
        rows.append((kind, say.count_of(number, "region"), f"{size} bytes", held))
    lines = (f"  {line}" for line in say.aligned(rows, right=(2,)))
    yield from say.section(palette.bold("Bytes of the commit log"), lines)


def _diagnoses(report: Report, palette: say.Palette, columns: int, detail: Detail) -> Iterator[str]:
    """Each diagnosis with what it was made from; a rule's findings are shown once."""
    shown: set[str] = set()
    for diagnosis in report.diagnoses:
        yield ""
        name = paint(palette, Severity[diagnosis.severity.upper()], diagnosis.fault_class)
        yield f"{name} {palette.bold(say.sentence(diagnosis.title))}"
        yield from say.wrapped(say.sentence(diagnosis.text), columns, "  ")
        for rule in diagnosis.rules:
            if rule not in shown:
                yield from _rule_lines(report, rule, palette, columns, detail)
        shown.update(diagnosis.rules)
        if diagnosis.next_command:
            yield f"  look closer: {palette.good(say.sentence(diagnosis.next_command))}"


def _others(report: Report, palette: say.Palette, columns: int, detail: Detail) -> Iterator[str]:
    """Findings that belong to no diagnosis; notes only where they are wanted."""
    stated = {rule for diagnosis in report.diagnoses for rule in diagnosis.rules}
    wanted = Severity.INFO if detail.verbose or detail.all_places else Severity.WARNING
    rules = {finding.rule for finding in report.findings if finding.rule not in stated}
    chosen = [rule for rule in sorted(rules) if report.severity_of(rule) >= wanted]
    chosen.sort(key=report.severity_of, reverse=True)
    for severity, group in groupby(chosen, key=report.severity_of):
        yield ""
        yield paint(palette, severity, _TITLES[severity])
        for rule in group:
            yield from _rule_lines(report, rule, palette, columns, detail)


_TITLES = {Severity.ERROR: "Other errors", Severity.WARNING: "Other warnings", Severity.INFO: "Notes"}


def paint(palette: say.Palette, severity: Severity, text: str) -> str:
    """`text` in the colour of a severity."""
    paints = {Severity.ERROR: palette.error, Severity.WARNING: palette.warning, Severity.INFO: palette.info}
    return paints[severity](text)


def _rule_lines(
    report: Report, name: str, palette: say.Palette, columns: int, detail: Detail
) -> Iterator[str]:
    rule = RULES[name]
    places = [finding for finding in report.findings if finding.rule == name]
    count = report.counts.get(rule.id, sum(finding.count for finding in places))
    severity = report.severity_of(name)
    by_policy = f"; {severity.word} by your config" if name in report.severities else ""
    yield f"  {paint(palette, severity, rule.id)} {palette.bold(rule.slug)} ({count:,}{by_policy})"
    if detail.verbose:
        yield from (palette.dim(line) for line in say.wrapped(rule.why, columns, "    "))
    shown = places[: detail.place_count(severity)]
    for finding in shown:
        yield from _place(finding, columns)
    left = sum(finding.count for finding in places[len(shown) :])
    if left:
        yield f"    … {say.count_of(left, 'more place')}; --all shows them"


def _place(finding: Finding, columns: int) -> Iterator[str]:
    yield f"    {where_text(finding.where)}"
    yield from say.wrapped(describe(finding), columns, "      ")


def where_text(where: Where) -> str:
    """The exact place, as one printable line."""
    parts = [say.visible(where.file) or "the store"]
    if where.start is not None:
        end = where.end
        parts.append(f"byte {where.start}" if end is None else f"bytes {where.start} to {end}")
    if where.physical_offset is not None:
        parts.append(f"physical offset {where.physical_offset}")
    if where.topic is not None:
        queue = "" if where.queue_id is None else f" queue {where.queue_id}"
        parts.append(f"topic {say.shorten(say.visible(where.topic), NAME_SHOWN)}{queue}")
    further = {"queue offset": where.queue_offset, "slot": where.slot, "entry": where.entry}
    parts += [f"{name} {value}" for name, value in further.items() if value is not None]
    return ", ".join(parts)


NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
