"""Rules XR on DLedger's log and its index (reference 2.14)."""

from __future__ import annotations

from rocketfsck.rulenames import RuleName
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.DLEDGER_INDEX_ENTRY,
        severity=Severity.ERROR,
        template="DLedger's index says that entry {index} stands at {pos}: {reason}",
        why=(
            "A broker finds every entry through this index. One that differs stops its recovery, or gives "
            "other entries to followers."
        ),
        strictness="strict",
        level="cross",
        reference="2.14",
        fault_class="H4",
    ),
    Rule(
        id=RuleName.DLEDGER_ENTRY_PLACE,
        severity=Severity.ERROR,
        template=(
            "the {what} of DLedger's entry {index} says that it stands at {stated}, not at {expected.place}"
        ),
        why=(
            "An entry is where its pos says, and its record 48 bytes behind. Otherwise the file was renamed, "
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
            "{entry_count} DLedger entries from {index} on, at {physical_offset}, are {side} of its index"
        ),
        why=(
            "Data and index are written one after the other. The recovery writes the index anew from the "
            "data of the last files; what is missing further back stays out of reach."
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
            "DLedger's entry {index}, at {physical_offset}, is of term {term}, and one before it of {before}"
        ),
        why=(
            "Terms only grow. The recovery of DLedger ends in front of such an entry and cuts the log there, "
            "where the entry is in one of the last three files."
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
            "No released version of DLedger writes anything but 0 there, or reads it: the bytes changed "
            "after they were written."
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
            "These files say how far the group agreed, and in which term the node votes. Where checkpoint is "
            "ahead of the log, the log lost its end; a committedIndex that is no number stops the start. "
            "Without checkpoint nothing is agreed on until the node has a leader; without currterm it votes "
            "in term 0 again. The .bak files are of the write before, and read by nobody."
        ),
        strictness="strict",
        level="cross",
        reference="2.14",
        fault_class="H4",
    ),
)
