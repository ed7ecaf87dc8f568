"""Rules TS on tiered storage: segments and metadata, queues, index files (reference 1.10)."""

from __future__ import annotations

from rocketfsck.rulenames import RuleName
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.TIERED_METADATA,
        severity=Severity.ERROR,
        template="{file}: {reason}",
        why=(
            "A broker knows of tiered storage only by this file. Of what it does not say, the broker "
            "reads nothing, and writes over it."
        ),
        strictness="strict",
        level="quick",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_SEGMENT_MISSING,
        severity=Severity.ERROR,
        template="{file} is missing: the metadata has {size} bytes from {offset} on",
        why=(
            "A broker makes an empty file in its place when it starts. The messages are gone, unless the "
            "commit log still has them."
        ),
        strictness="strict",
        level="quick",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_SEGMENT_UNLISTED,
        severity=Severity.WARNING,
        template="the metadata does not have {file}, {size} bytes",
        why="A broker does not read it, and writes over it when its queue comes to this offset.",
        strictness="strict",
        level="quick",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_SEGMENT_SHORT,
        severity=Severity.ERROR,
        template="{file} has {size} bytes, the metadata has {expected.size}",
        why=(
            "A start takes the length of a queue's last segment as its end, so that what is behind it is "
            "lost. In other segments reads fail."
        ),
        strictness="strict",
        level="quick",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_SEGMENT_LONG,
        severity=Severity.WARNING,
        template="{file} has {size} bytes, the metadata has {expected.size}",
        why=(
            "A crash between the two leaves this in a queue's last segment, and the next start corrects "
            "the metadata. Elsewhere nobody reads what is behind the end."
        ),
        strictness="strict",
        level="quick",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_SEGMENT_GAP,
        severity=Severity.ERROR,
        template="the segment {file} begins at {offset}; the one before it ends at {expected.offset}",
        why=(
            "The segments of a queue are one stream. A place between two of them cannot be read, one in "
            "both is read from the later."
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
            "By these times a broker finds the segment for a time, and deletes segments that expired. A "
            "crash in front of the metadata's last write leaves an end that is too early."
        ),
        strictness="heuristic",
        level="cross",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_RECORD,
        severity=Severity.ERROR,
        template="no sound record of this queue is at {file}, bytes {start} to {end}: {reason}",
        why="Consumers get the messages that the commit log no longer has from this segment alone.",
        strictness="strict",
        level="cross",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_BODY_CRC,
        severity=Severity.ERROR,
        template="the body of message {queue_offset} does not have the CRC {crc} of its record",
        why="The body has changed since it was stored. The commit log may still have the original.",
        strictness="strict",
        level="full",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_UNIT,
        severity=Severity.ERROR,
        template="the unit of message {queue_offset} points to {offset}: {reason}",
        why="A broker finds the messages of tiered storage through these units alone.",
        strictness="strict",
        level="cross",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_RECORD_WITHOUT_UNIT,
        severity=Severity.WARNING,
        template="message {queue_offset} of the segment has no unit",
        why=(
            "The log is written first, its units behind it. A crash between the two leaves records "
            "without a unit at the end; the broker then writes them again."
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
            "A message is copied as it is. One of the two has changed, or the commit log was rolled back "
            "and written anew."
        ),
        strictness="strict",
        level="cross",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_CODA,
        severity=Severity.WARNING,
        template=(
            "the end of {file} has {timestamp} as its last storeTimestamp; its messages say "
            "{expected.timestamp}"
        ),
        why="Brokers up to 5.2.0 write it when a segment is full. Nobody reads the time in it.",
        strictness="strict",
        level="cross",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_INDEX_HEADER,
        severity=Severity.ERROR,
        template="the header of {file}: {reason}",
        why=(
            "A broker takes times and numbers of an index file from here, and from the metadata once it "
            "is a segment."
        ),
        strictness="strict",
        level="quick",
        reference="1.10",
    ),
    Rule(
        id=RuleName.TIERED_INDEX_SLOT,
        severity=Severity.ERROR,
        template=("slot {slot} of {file} has {position}, length {length}; it should be {expected.position}"),
        why=(
            "A broker reads the items of a key where its slot says. With a wrong place the key is not found."
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
        template="{key_count} keys of messages from here on are in no index file",
        why=(
            "Queries by key do not find these messages once the commit log no longer has them. A crash "
            "loses keys that were not written yet."
        ),
        strictness="heuristic",
        level="cross",
        reference="1.10",
    ),
)
