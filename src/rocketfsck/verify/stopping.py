"""When a check stops early: after so many findings, always after the same ones.

    tasks in store order -> findings of each, in its order -> what the driver judges, in its order

The findings are counted in this order, whichever task ends first, so that the first N are the same for any
engine and any number of jobs. What counts is what a report would show as wrong: a finding above info, of a
rule that was asked for, which the baseline does not know. "A further 900" of a rule in a file counts as one.

What a user wants done about the findings of single rules: how they are reported, what preening leaves out.

A policy is about reporting and about consent without a question. The verdict on a store, and what a repair
must know to be carried out (ADR 0010), do not look at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.finding import Finding, Severity, SeverityName
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.tasks.task import Collector, Results

if TYPE_CHECKING:
    from rocketfsck.verify.report import Report


@dataclass(frozen=True, slots=True)
class RulePolicy:
    """What is wanted for one rule; None for its own severity, and for all of its findings."""

    severity: SeverityName | None = None
    preen: bool = True
    max_count: int | None = None
    ignore: bool = False


Policy = Mapping[str, RulePolicy]
"""By rule id."""


def ignored_rules(policy: Policy) -> tuple[str, ...]:
    """Ids of the rules that a check leaves out."""
    return tuple(rule for rule, wanted in policy.items() if wanted.ignore)


def unpreened_rules(policy: Policy) -> frozenset[str]:
    """Ids of the rules whose repair needs a question, provably safe or not."""
    return frozenset(rule for rule, wanted in policy.items() if not wanted.preen)


def report_by(report: Report, policy: Policy) -> Report:
    """The report with the severities that the policy wants, and no more findings of a rule than it wants.

    All findings are counted. `withheld` says how many are not in `findings`: no plan is made from such a
    report.
    """
    severities = {rule: item.severity for rule, item in policy.items() if item.severity is not None}
    kept: list[Finding] = []
    seen: dict[str, int] = {}
    for finding in report.findings:
        wanted = policy.get(finding.rule)
        seen[finding.rule] = seen.get(finding.rule, 0) + 1
        if wanted is None or wanted.max_count is None or seen[finding.rule] <= wanted.max_count:
            kept.append(finding)
    found = {rule: name for rule, name in severities.items() if rule in report.counts}
    return replace(report, findings=tuple(kept), severities=found, withheld=len(report.findings) - len(kept))


@dataclass(frozen=True, slots=True)
class WantedFindings:
    """Which findings a check is asked for, and after how many it stops (None: never)."""

    selected: frozenset[str]
    accepted: frozenset[str] = frozenset()
    stop_after: int | None = None

    def asks_for(self, finding: Finding) -> bool:
        """Whether a finding belongs to a rule asked for; where two reads differ, to one that either broke."""
        if finding.rule == RuleName.READS_DIFFER:
            rules = str(finding.found.get("rules", "")).split()
            return not self.selected.isdisjoint([finding.rule, *rules])
        return finding.rule in self.selected

    def counts(self, finding: Finding) -> bool:
        """Whether a finding is one of those after which the check stops."""
        if not self.asks_for(finding) or RULES[finding.rule].severity <= Severity.INFO:
            return False
        return not self.accepted or finding.fingerprint not in self.accepted


class StopPoint:
    """Finds the task with the last finding wanted, while tasks end in any order."""

    def __init__(self, wanted: WantedFindings) -> None:
        self._wanted = wanted
        self._next = 0
        self._count = 0

    def reached(self, results: Results, passed: Sequence[bool]) -> int | None:
        """The number of that task; None as long as it is not known.

        `passed` says of each task whether it has its result, or will never have one: a task that may still
        end keeps every later one from being counted.
        """
        if self._wanted.stop_after is None:
            return None
        while self._next < len(results) and passed[self._next]:
            result = results[self._next]
            if result is not None:
                self._count += sum(map(self._wanted.counts, result.findings))
            if self._count >= self._wanted.stop_after:
                return self._next
            self._next += 1
        return None


class Sift:
    """Takes all findings of a check, in order; keeps those asked for, until there are enough."""

    def __init__(self, wanted: WantedFindings, detail_limit: int) -> None:
        self.kept = Collector(detail_limit)
        self.suppressed = 0
        self._wanted = wanted
        self._left = wanted.stop_after

    def is_full(self) -> bool:
        """Whether the last finding wanted is there."""
        return self._left == 0

    def take(self, findings: Iterable[Finding]) -> None:
        """Keep what was asked for; count, but leave out, what the baseline knows."""
        wanted = self._wanted
        for finding in findings:
            if self.is_full():
                return
            if not wanted.asks_for(finding):
                continue
            if wanted.accepted and finding.fingerprint in wanted.accepted:
                self.suppressed += finding.count
                continue
            self.kept.add(finding)
            if self._left is not None and wanted.counts(finding):
                self._left -= 1
