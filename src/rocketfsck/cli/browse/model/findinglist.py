"""The findings as they are listed: a line for each rule, and below a rule that is unfolded its findings.

E   CL004 record-body-crc (1): body of the record at 458817 does not match its CRC (…)
i ▾ CL011 properties-differ (2,040)
i     commitlog/00000000000000000000 at byte 615: the properties of 32 records …
i     … and 2,039 more that the report does not list
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from rocketfsck.cli.browse.model.files import MARKS
from rocketfsck.cli.browse.model.findings import Findings, Placed, RuleGroup
from rocketfsck.cli.browse.model.tree import FOLDED, UNFOLDED
from rocketfsck.verify.rules.catalog import RULES


@dataclass(frozen=True, slots=True)
class FindingEntry:
    """One line: a rule (`folds`, or with its single finding), a finding, or how many are not listed."""

    group: RuleGroup
    title: str
    item: Placed | None = None
    folds: bool = False

    @property
    def explained(self) -> str:
        """What it means, in printable paragraphs."""
        rule = RULES[self.group.rule]
        repair = f" Repair: {rule.repair}." if rule.repair else ""
        meaning = f"{rule.slug}: {rule.why}{repair}"
        return meaning if self.item is None else f"{self.item.where}\n{self.item.title}\n{meaning}"


def finding_entries(findings: Findings, unfolded: Collection[str]) -> list[FindingEntry]:
    """The lines, with the findings of the rules that are `unfolded`."""
    return [entry for group in findings.groups for entry in _entries(group, unfolded)]


def _entries(group: RuleGroup, unfolded: Collection[str]) -> Iterator[FindingEntry]:
    mark = MARKS[group.severity]
    if group.is_single:
        yield FindingEntry(group, f"{mark}   {group.title}", group.items[0])
        return
    is_open = group.rule in unfolded
    yield FindingEntry(group, f"{mark} {UNFOLDED if is_open else FOLDED} {group.title}", folds=True)
    if not is_open:
        return
    for item in group.items:
        yield FindingEntry(group, f"{mark}     {item.where}: {item.text}", item)
    if group.left_count:
        more = f"… and {group.left_count:,} more that the report does not list"
        yield FindingEntry(group, f"{mark}     {more}")
