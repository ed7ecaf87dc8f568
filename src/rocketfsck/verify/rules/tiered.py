"""Rules TS on tiered storage: segments and metadata, queues, index files (reference 1.10)."""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.TIERED_METADATA,
        severity=Severity.ERROR,
        template="{file}: {reason}",
        why=(
            "A broker knows tiered storage only through this file. The broker does not read what the file "
            "does not list, and overwrites it."
        ),
        strictness="strict",
        level="quick",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_SEGMENT_MISSING,
        severity=Severity.ERROR,
        template="{file} is missing: the metadata lists {size:byte} from {offset} on",
        why=(
            "A broker creates an empty file in its place when it starts. The messages are gone, unless the "
            "commit log still has them."
        ),
        strictness="strict",
        level="quick",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_SEGMENT_UNLISTED,
        severity=Severity.WARNING,
        template="the metadata does not list {file} ({size:byte})",
        why="A broker does not read this file, and overwrites it when its queue reaches this offset.",
        strictness="strict",
        level="quick",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_SEGMENT_SHORT,
        severity=Severity.ERROR,
        template="{file} has {size:byte}, the metadata says {expected.size:,}",
        why=(
            "A start takes the length of a queue's last segment as its end, and loses what the metadata "
            "lists after it. In other segments reads fail."
        ),
        strictness="strict",
        level="quick",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_SEGMENT_LONG,
        severity=Severity.WARNING,
        template="{file} has {size:byte}, the metadata says {expected.size:,}",
        why=(
            "A crash between the two writes leaves a queue's last segment like this, and the next start "
            "corrects the metadata. In other segments no broker reads what follows the end."
        ),
        strictness="strict",
        level="quick",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_SEGMENT_GAP,
        severity=Severity.ERROR,
        template="the segment {file} begins at {offset}; the previous one ends at {expected.offset}",
        why=(
            "The segments of a queue are one stream. Brokers cannot read a gap between two segments; where "
            "two segments overlap, they read the later one."
        ),
        strictness="strict",
        level="quick",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_SEGMENT_TIME,
        severity=Severity.WARNING,
        template="the metadata has {field} {value} for {file}; its messages say {expected.value}",
        why=(
            "By these times a broker finds the segment for a time, and deletes expired segments. A crash "
            "before the last write of the metadata leaves an end time that is too early."
        ),
        strictness="heuristic",
        level="cross",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_RECORD,
        severity=Severity.ERROR,
        template="{file}, bytes {start} to {end}, is not a sound record of this queue: {reason}",
        why="Consumers get messages that the commit log no longer has only from this segment.",
        strictness="strict",
        level="cross",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_BODY_CRC,
        severity=Severity.ERROR,
        template="the body of message {queue_offset} does not match the CRC {crc} of its record",
        why="The body has changed since it was stored. The commit log may still have the original.",
        strictness="strict",
        level="full",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_UNIT,
        severity=Severity.ERROR,
        template="the unit of message {queue_offset} points to {offset}: {reason}",
        why="A broker finds the messages of tiered storage only through these units.",
        strictness="strict",
        level="cross",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_RECORD_WITHOUT_UNIT,
        severity=Severity.WARNING,
        template="message {queue_offset} of the segment has no unit",
        why=(
            "A broker writes the log first, then its units. A crash between the two leaves records without a "
            "unit at the end; the broker then writes them again."
        ),
        strictness="heuristic",
        level="cross",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_NOT_AS_LOCAL,
        severity=Severity.ERROR,
        template=(
            "message {queue_offset} has {field} {value}; the commit log has {expected.value} at "
            "{expected.offset}"
        ),
        why=(
            "A broker copies a message unchanged. One of the two has changed, or the commit log was rolled "
            "back and written again."
        ),
        strictness="strict",
        level="cross",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_CODA,
        severity=Severity.WARNING,
        template=(
            "the end of {file} gives {timestamp} as its last storeTimestamp; its messages say "
            "{expected.timestamp}"
        ),
        why="Brokers up to 5.2.0 write this end when a segment is full. No broker reads the time in it.",
        strictness="strict",
        level="cross",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_INDEX_HEADER,
        severity=Severity.ERROR,
        template="the header of {file}: {reason}",
        why=(
            "A broker takes times and counts of an index file from its header, and from the metadata once "
            "the file is a segment."
        ),
        strictness="strict",
        level="quick",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_INDEX_SLOT,
        severity=Severity.ERROR,
        template="slot {slot} of {file} has {items_pos}, length {items_size}; expected {expected.items_pos}",
        why=(
            "A broker reads the items of a key where its slot says. With a wrong place a query does not find "
            "the key."
        ),
        strictness="strict",
        level="cross",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_INDEX_ITEM,
        severity=Severity.ERROR,
        template="item {entry} of {file}: {reason}",
        why="A query by this key does not find its message in tiered storage, or finds another.",
        strictness="strict",
        level="cross",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_KEY_UNINDEXED,
        severity=Severity.WARNING,
        template="{key_count:key} of messages from here on {key_count?is|are} in no index file",
        why=(
            "Queries by key do not find these messages once the commit log no longer has them. A crash loses "
            "keys that were not yet written."
        ),
        strictness="heuristic",
        level="cross",
        reference="1.10",
    ),
)
