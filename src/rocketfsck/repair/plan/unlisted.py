"""All findings of damage that is repaired place by place, however many of them a report lists.

A report lists the first findings of a rule in a file and counts the others. A plan needs each of them where
its actions name places in the commit log: the file is checked once more, for these rules alone.

    findings listed + "a further 234"  ->  all findings, up to `PLACE_LIMIT` of a rule in a file

What is beyond that limit stays a count, which the plan leaves unanswered. Records with a wrong CRC are not
listed: a file may have hundreds of thousands, which their repair finds by a scan of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.progress import phase
from rocketfsck.repair.plan.scene import PlanScene
from rocketfsck.repair.repairs import ALL
from rocketfsck.store.model import Store
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.tasks.task import Context, LogFileTask, is_aggregate

PLACE_LIMIT = 20_000
"""Findings of a rule in a file that are looked at one by one."""
_BY_A_SCAN = frozenset({RuleName.RECORD_BODY_CRC})


def full_scene(store: Store, report: Report) -> PlanScene:
    """The scene of a plan for a store that was checked, with all findings that its repairs ask for."""
    return PlanScene(store, report, all_findings(store, report))


def all_findings(store: Store, report: Report) -> tuple[Finding, ...]:
    """The findings of a report, and those that it only counts in place of their number, file by file.

    `store` is the one that was checked, unchanged. What cannot be read again stays a count.
    """
    repaired = {rule for row in ALL for rule in row.answers}
    repaired |= {rule.id for rule in RULES.values() if rule.repair is not None}
    asked: dict[str, set[str]] = {}
    for finding in report.findings:
        name = finding.where.file
        if is_aggregate(finding) and finding.rule in repaired - _BY_A_SCAN:
            asked.setdefault(name, set()).add(finding.rule)
    found: dict[tuple[str, str], list[Finding]] = {}
    for number, file in enumerate(store.commitlog.files):
        rules = asked.get(file.relative)
        if rules:
            for finding in _checked_again(store, report, number, rules):
                found.setdefault((finding.rule, finding.where.file), []).append(finding)
    listed = count_by_place(report.findings)
    whole = {key: rows for key, rows in found.items() if count_by_place(rows) == {key: listed.get(key)}}
    if not whole:
        return report.findings
    seen: set[tuple[str, str]] = set()
    result: list[Finding] = []
    for finding in report.findings:
        key = finding.rule, finding.where.file
        if key not in whole:
            result.append(finding)
        elif key not in seen:
            seen.add(key)
            result += whole[key]
    return tuple(result)


def count_by_place(findings: Iterable[Finding]) -> dict[tuple[str, str], int]:
    """How many findings of each rule each file has, with each of those that one stands for."""
    totals: dict[tuple[str, str], int] = {}
    for finding in findings:
        key = finding.rule, finding.where.file
        totals[key] = totals.get(key, 0) + finding.count
    return totals


@phase("looking at all damage of a file")
def _checked_again(store: Store, report: Report, number: int, rules: set[str]) -> Iterable[Finding]:
    """What a check of one commit log file finds of these rules."""
    from rocketfsck.verify.log.file import check_log_file

    context = Context(
        store,
        report.level,
        report.started_timestamp,
        PLACE_LIMIT,
        data_size=store.commitlog.files[number].allocated_size,
        total_limit=len(rules) * PLACE_LIMIT,
        only=frozenset(rules),
    )
    try:
        return check_log_file(LogFileTask(context, number)).findings
    except StoreError:
        return ()
