"""Rules XR on DLedger's log and its index (reference 2.14)."""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.DLEDGER_INDEX_ENTRY,
        severity=Severity.ERROR,
        template="DLedger's index places entry {index} at {pos}: {reason}",
        why=(
            "A broker finds every entry through this index. A wrong index entry stops the recovery, or gives "
            "followers the wrong entries."
        ),
        strictness="strict",
        level="cross",
        reference="2.14",
        fault_class="H4",
    ),
    Rule(
        id=RuleName.DLEDGER_ENTRY_PLACE,
        severity=Severity.ERROR,
        template="the {what} of DLedger's entry {index} gives its place as {stated_pos}, not {expected.pos}",
        why=(
            "An entry is where its pos says, and its record 48 bytes later. Otherwise the file was renamed, "
            "copied or mixed in: DLedger stops with DISK_ERROR when it recovers."
        ),
        strictness="strict",
        level="cross",
        reference="2.14",
        fault_class="H4",
    ),
    Rule(
        id=RuleName.DLEDGER_RANGE,
        severity=Severity.WARNING,
        template=(
            "{entry_count:DLedger entry} from {index} on, at {physical_offset}, {entry_count?is|are} {side} "
            "of its index"
        ),
        why=(
            "DLedger writes data and index one after the other. The recovery writes the index again from the "
            "data of the last files; entries missing further back stay out of reach."
        ),
        strictness="heuristic",
        level="cross",
        reference="2.14",
        fault_class="H4",
    ),
    Rule(
        id=RuleName.DLEDGER_TERM,
        severity=Severity.ERROR,
        template=(
            "DLedger's entry {index}, at {physical_offset}, has term {term}, and an earlier entry has "
            "{before}"
        ),
        why=(
            "Terms only grow. If the entry is in one of the last three files, DLedger's recovery ends before "
            "it and cuts the log there."
        ),
        strictness="strict",
        level="cross",
        reference="2.14",
        fault_class="H4",
    ),
    Rule(
        id=RuleName.DLEDGER_UNUSED_FIELD,
        severity=Severity.WARNING,
        template="{field} of DLedger's entry {index}, at {physical_offset}, is {value}",
        why=(
            "Every released version of DLedger writes 0 there, and none reads it. The bytes changed after "
            "they were written."
        ),
        strictness="heuristic",
        level="cross",
        reference="2.14",
        fault_class="H4",
    ),
    Rule(
        id=RuleName.DLEDGER_STATE,
        severity=Severity.WARNING,
        template="{name} of DLedger's {reason}",
        why=(
            "These files say how far the group agreed, and in which term the node votes. If checkpoint is "
            "ahead of the log, the log lost its end. A committedIndex that is not a number stops the start. "
            "Without checkpoint the node has no agreed entries until it has a leader; without currterm the "
            "node votes in term 0 again. The .bak files hold the previous write; no broker reads them."
        ),
        strictness="strict",
        level="cross",
        reference="2.14",
        fault_class="H4",
    ),
)
