"""Rules XR on DLedger's log and its index (reference 2.14)."""

from __future__ import annotations

from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        "XR032",
        "dledger-index-entry",
        Severity.ERROR,
        "DLedger's index says that entry {index} stands at {pos}: {reason}",
        "A broker finds every entry through this index. One that differs stops its recovery, or gives other "
        "entries to followers.",
        "strict",
        "cross",
        None,
        "2.14",
        "H4",
    ),
    Rule(
        "XR033",
        "dledger-entry-place",
        Severity.ERROR,
        "the {what} of DLedger's entry {index} says that it stands at {stated}, not at {expected.place}",
        "An entry is where its pos says, and its record 48 bytes behind. Otherwise the file was renamed, "
        "copied or mixed in: DLedger stops with DISK_ERROR when it recovers.",
        "strict",
        "cross",
        None,
        "2.14",
        "H4",
    ),
    Rule(
        "XR034",
        "dledger-range",
        Severity.WARNING,
        "{entry_count} DLedger entries from {index} on, at {physical_offset}, are {side} of its index",
        "Data and index are written one after the other. The recovery writes the index anew from the data "
        "of the last files; what is missing further back stays out of reach.",
        "heuristic",
        "cross",
        None,
        "2.14",
        "H4",
    ),
)
