"""What a user wants done about the findings of single rules: how they are reported, what preening leaves out.

A policy is about reporting and about consent without a question. The verdict on a store, and what a repair
must know to be carried out (ADR 0010), do not look at it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rocketfsck.verify.finding import Finding, SeverityName
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
