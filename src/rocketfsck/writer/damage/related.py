"""Rules that damage of one kind may break besides those that it must: consequences, by what was lost.

A store that lost a record has units and entries that point to it, a queue whose numbers jump, perhaps a
checkpoint that names it. These sets say what of a report is explained by the damage.
"""

from __future__ import annotations


def rules(text: str) -> frozenset[str]:
    """Rule ids parted by blanks."""
    return frozenset(text.split())


REFERENCES = rules("XR010 XR029")
"""Units and entries that point into damaged bytes."""

RECORD_LOST = REFERENCES | rules("CL026 CL028 CP011 CP014 CP024")
"""A record in the middle of the log is no record any more."""

TAIL_LOST = RECORD_LOST | rules("XR004 XR022 XR027 CF011 CF030 CP015 CP023")
"""The log ends earlier than it did."""

RECORD_CHANGED = rules("CL005")
"""Any byte of a record's header: covered by the property CRC, where there is one."""

KEYS_CHANGED = rules("XR020 XR021 XR024 XR025")
"""A record has other keys than its entries."""

MOVED = rules("CL027 CL028 XR001 XR002 XR003 XR005 XR006 XR010 CQ008 CF023")
"""A record says that it is of another queue or has another place in it."""

UNITS_LOST = rules("XR001 CF010 CF011 CF030 CF041")
"""Units are gone."""

QUEUE_LOST = rules("XR002 CF010 CF011 CF030 CF041 ST020 ST026")
"""A whole queue is gone."""

SEGMENT_LOST = rules("XR011 XR030 ST010 CL026 CL028 CP011 CP014 CP024 XR005 XR023 CF023 XR002")
"""A commit log file is gone, or not where it was."""

ENTRIES_LOST = rules("XR020 XR021 IX021 CP013")
"""Index entries are gone."""

CHAINS = rules("IX005 IX006 IX007 IX008 IX009 IX010 IX011 IX012 IX013")
"""A link or a slot of an index file was changed."""

ANY_LOG = (
    TAIL_LOST
    | RECORD_CHANGED
    | KEYS_CHANGED
    | MOVED
    | rules(
        "CL001 CL002 CL003 CL004 CL006 CL007 CL008 CL009 CL010 CL012 CL013 CL014 CL015 CL016 CL018 CL019 "
        "CL020 CL021 CL022 CL030 CL032 XR007 XR008 XR012 XR013 XR014 XR023 XR026 IX004 "
        "ST016 ST017 CP010 CP012 CP017"
    )
)
"""Bytes of the commit log were changed, whichever."""

ANY_QUEUE = (
    UNITS_LOST
    | QUEUE_LOST
    | rules(
        "CQ001 CQ002 CQ003 CQ004 CQ005 CQ006 CQ007 CQ011 CQ012 CQ014 CQ015 XR004 XR005 XR006 XR007 XR008 "
        "XR010 XR011 XR012 XR014 CF023"
    )
)
"""Bytes of a consume queue were changed, whichever."""

ANY_INDEX = (
    CHAINS
    | ENTRIES_LOST
    | rules("IX001 IX002 IX003 IX004 IX014 IX015 IX016 IX017 IX018 IX020 IX022 IX024")
    | rules("XR022 XR023 XR024 XR025 XR026 XR027 XR029 XR030 CP003")
)
"""Bytes of an index file were changed, whichever."""
