"""Findings of a page: some exactly, all of them counted by rule, by file and by place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace

from rocketfsck.page import model
from rocketfsck.page.files import FileTable
from rocketfsck.page.tables import Limits, columns, runs_of, shown
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import FAULT_CLASSES, RULES, describe
from rocketfsck.verify.tasks.task import is_aggregate

WindowOf = Callable[[Finding, int], model.ByteWindow | None]
"""The window around a finding, which is in the file of that row; None where there is none."""


def chosen(findings: Sequence[Finding], limits: Limits) -> list[int]:
    """The numbers of the findings that are kept: of every rule and file some first, then the worst."""
    if len(findings) <= limits.finding_count:
        return list(range(len(findings)))
    rules = Counter(finding.rule for finding in findings)
    share = max(limits.finding_count // len(rules), 1)
    of_rule: Counter[str] = Counter()
    of_file: Counter[tuple[str, str]] = Counter()
    kept, rest = [], []
    for number, finding in enumerate(findings):
        place = (finding.rule, finding.where.file)
        if of_rule[finding.rule] < share and of_file[place] < limits.file_finding_count:
            of_rule[finding.rule] += 1
            of_file[place] += 1
            kept.append(number)
        else:
            rest.append(number)
    room = limits.finding_count - len(kept)
    return sorted(kept[: limits.finding_count] + rest[: max(room, 0)])


def findings_of(
    report: Report,
    table: FileTable,
    queues: Mapping[tuple[str, int], int],
    answers: Mapping[str, tuple[int, ...]],
    times: Callable[[Finding], int | None],
    window_of: WindowOf,
    limits: Limits,
) -> tuple[model.Findings, tuple[model.ByteWindow, ...]]:
    """The findings of a report, and windows around the first of each rule.

    `answers` has the actions that answer a finding by its fingerprint, `times` says when its record was
    stored, and `queues` in which row its queue is.
    """
    findings = report.findings
    files = [table.place(finding.where.file) for finding in findings]
    kept = chosen(findings, limits)
    rules = _rules(report, Counter(findings[number].rule for number in kept))
    rule_rows = {rule.rule: number for number, rule in enumerate(rules)}
    windows: list[model.ByteWindow] = []
    shares = Counter(findings[number].rule for number in kept)
    share = max(limits.window_count // max(len(shares), 1), 1)
    used: Counter[str] = Counter()
    rows = []
    for number in kept:
        finding, where, window = findings[number], findings[number].where, -1
        if where.start is not None and used[finding.rule] < share and len(windows) < limits.window_count:
            found = window_of(finding, files[number])
            if found is not None:
                window = len(windows)
                windows.append(found)
                used[finding.rule] += 1
        place = (rule_rows[finding.rule], files[number])
        rows.append(_row(finding, place, queues, window, answers, times(finding), limits))
    held = set(kept)
    left = [number for number in range(len(findings)) if number not in held]
    return (
        model.Findings(
            sum(report.counts.values()),
            len(findings),
            len(rows),
            rules,
            _by_file(findings, files, rule_rows, limits),
            _crowds(report, left, files, table, limits),
            columns(model.FindingRows, rows),
        ),
        tuple(windows),
    )


def _row(
    finding: Finding,
    place: tuple[int, int],
    queues: Mapping[tuple[str, int], int],
    window: int,
    answers: Mapping[str, tuple[int, ...]],
    timestamp: int | None,
    limits: Limits,
) -> tuple[object, ...]:
    """A row of `FindingRows`; `place` are the rows of the rule and of the file."""
    where, fingerprint = finding.where, finding.fingerprint
    return (
        *place,
        where.start,
        where.end,
        where.physical_offset,
        -1 if where.topic is None else queues.get((where.topic, where.queue_id or 0), -1),
        where.queue_offset,
        where.slot,
        where.entry,
        finding.count,
        shown(describe(finding), limits.text_size),
        fingerprint,
        window,
        answers.get(fingerprint, ()),
        timestamp,
    )


def later_findings(
    before: model.Findings,
    report: Report,
    then: Report,
    unchecked: str,
    table: FileTable,
    queues: Mapping[tuple[str, int], int],
    limits: Limits,
) -> model.FindingsAfter:
    """The findings of the report `then` on a later state of a store, whose files are in `table`, as
    differences from those `before`, which belong to `report`.

    Findings are the same if their fingerprints and counts are: those of `before` keep their rows.
    """
    findings = then.findings
    files = [table.place(finding.where.file) for finding in findings]
    waiting: dict[tuple[str, int], list[int]] = {}
    for number in reversed(range(len(findings))):
        waiting.setdefault((findings[number].fingerprint, findings[number].count), []).append(number)
    gone, there = [], set()
    for row, key in enumerate(zip(before.rows.fingerprint, before.rows.count, strict=True)):
        if same := waiting.get(key):
            there.add(same.pop())
        else:
            gone.append(row)
    known = {finding.fingerprint for finding in report.findings}
    unlisted = {(finding.rule, finding.where.file) for finding in report.findings if is_aggregate(finding)}

    def is_new(number: int) -> bool:
        finding = findings[number]
        return finding.fingerprint not in known and (finding.rule, finding.where.file) not in unlisted

    others = [number for number in range(len(findings)) if number not in there]
    others.sort(key=is_new, reverse=True)  # and in their order otherwise
    listed = [others[at] for at in chosen([findings[number] for number in others], limits)]
    rules = {rule.rule: rule for rule in _rules(then, Counter(findings[number].rule for number in listed))}
    names = list(dict.fromkeys([*(rule.rule for rule in before.rules), *rules]))
    rule_rows = {name: row for row, name in enumerate(names)}
    there.update(listed)
    rows = [
        _row(
            findings[number], (rule_rows[findings[number].rule], files[number]), queues, -1, {}, None, limits
        )
        for number in listed
    ]
    return model.FindingsAfter(
        shown(unchecked, limits.text_size),
        tuple(rules[name] for name in names[len(before.rules) :]),
        tuple(then.counts.get(name, 0) for name in names),
        tuple(runs_of(gone)),
        columns(model.FindingRows, rows),
        sum(map(is_new, listed)),
        _by_file(findings, files, rule_rows, limits),
        _crowds(then, [row for row in range(len(findings)) if row not in there], files, table, limits),
    )


def left_report(report: Report, answered: Container[str]) -> Report:
    """The report without the findings that are `answered` (fingerprints)."""
    left = tuple(finding for finding in report.findings if finding.fingerprint not in answered)
    counts = Counter(report.counts)
    for finding in report.findings:
        counts[finding.rule] -= finding.count if finding.fingerprint in answered else 0
    return replace(report, findings=left, counts={rule: count for rule, count in counts.items() if count})


def _rules(report: Report, kept: Counter[str]) -> tuple[model.RuleSaid, ...]:
    """The rules that have findings, worst first."""
    found = []
    for name, count in report.counts.items():
        if count:
            rule = RULES[name]
            known = FAULT_CLASSES.get(rule.fault_class or "")
            found.append(
                model.RuleSaid(
                    rule.id,
                    rule.slug,
                    report.severity_of(name).word,
                    count,
                    kept[name],
                    rule.why,
                    "" if known is None else known.advice,
                    rule.reference,
                    rule.fault_class,
                    rule.repair,
                )
            )
    return tuple(sorted(found, key=lambda rule: (-Severity[rule.severity.upper()], -rule.count, rule.rule)))


def _by_file(
    findings: Sequence[Finding], files: Sequence[int], rules: Mapping[str, int], limits: Limits
) -> model.RuleFiles:
    counts: Counter[tuple[int, int]] = Counter()
    for finding, file in zip(findings, files, strict=True):
        counts[rules[finding.rule], file] += finding.count
    rows = [(rule, file, count) for (rule, file), count in counts.most_common(limits.by_file_count)]
    return columns(model.RuleFiles, sorted(rows))


def _crowds(
    report: Report, left: Sequence[int], files: Sequence[int], table: FileTable, limits: Limits
) -> model.Crowds:
    """What is not kept, in cells of its file: as many cells a file as there is room for."""
    crowded = {files[number] for number in left}
    cells = min(max(limits.crowd_count // max(len(crowded), 1), 1), limits.file_crowd_count)
    counts: dict[tuple[int, int], tuple[int, Severity]] = {}
    for number in left:
        finding, file = report.findings[number], files[number]
        size = table.rows[file].size if file >= 0 else 0
        cell = min(max((finding.where.start or 0) * cells // size, 0), cells - 1) if size else 0
        count, severity = counts.get((file, cell), (0, Severity.INFO))
        counts[file, cell] = count + finding.count, max(severity, report.severity_of(finding.rule))
    order = sorted(counts, key=lambda place: (-counts[place][0], place))
    rest = [counts[place] for place in order[limits.crowd_count :]]
    rows = []
    if rest:
        worst = max(severity for _, severity in rest)
        rows.append((-1, 0, 0, worst.word, sum(count for count, _ in rest)))
    for file, cell in sorted(order[: limits.crowd_count]):
        count, severity = counts[file, cell]
        size = table.rows[file].size if file >= 0 else 0
        rows.append((file, -(-cell * size // cells), -(-(cell + 1) * size // cells), severity.word, count))
    return columns(model.Crowds, rows)
