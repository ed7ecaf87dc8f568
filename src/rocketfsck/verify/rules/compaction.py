"""Rules KV on the logs of compaction topics: files, records, units, keys, positions (reference 1.9)."""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.COMPACTION_FILE_ALONE,
        severity=Severity.ERROR,
        template="{file} has no {missing} of the same name",
        why=(
            "A log file of a compaction topic and its unit file come and go together. A broker compares "
            "their names when it loads, and does not start if one is missing."
        ),
        strictness="strict",
        level="quick",
        reference="1.9",
    ),
    Rule(
        id=RuleName.COMPACTION_FILE_LENGTH,
        severity=Severity.ERROR,
        template="{file} has {size:byte}, not {expected.size:,} like the others",
        why="All files of one kind have one length. A broker does not start with a file of another length.",
        strictness="strict",
        level="quick",
        reference="1.9",
    ),
    Rule(
        id=RuleName.COMPACTION_RECORD,
        severity=Severity.ERROR,
        template="{file}, bytes {start} to {end}, is not a sound record of this queue: {reason}",
        why=(
            "Consumers of a compaction topic get their messages only from this log. A compaction stops at "
            "bytes that are not a record, and drops what follows."
        ),
        strictness="strict",
        level="cross",
        reference="1.9",
    ),
    Rule(
        id=RuleName.COMPACTION_BODY_CRC,
        severity=Severity.ERROR,
        template="the body of message {queue_offset} does not match the CRC {crc} of its record",
        why="The body has changed since it was stored. The commit log may still have the original.",
        strictness="strict",
        level="full",
        reference="1.9",
    ),
    Rule(
        id=RuleName.COMPACTION_UNIT,
        severity=Severity.ERROR,
        template="the unit of message {queue_offset} points to {offset}: {reason}",
        why="A broker finds the messages of a compaction topic only through these units.",
        strictness="strict",
        level="cross",
        reference="1.9",
    ),
    Rule(
        id=RuleName.COMPACTION_RECORD_WITHOUT_UNIT,
        severity=Severity.WARNING,
        template="message {queue_offset} of the compaction log has no unit",
        why=(
            "A broker writes log and units one after the other. A crash may leave records without a unit at "
            "the end, and a start drops those. Consumers never get a record without a unit elsewhere in the "
            "log."
        ),
        strictness="heuristic",
        level="cross",
        reference="1.9",
    ),
    Rule(
        id=RuleName.COMPACTION_ORDER,
        severity=Severity.ERROR,
        template="the unit of message {queue_offset} follows that of message {previous}",
        why=(
            "A broker finds units by binary search. If the queue offsets do not rise, it finds the wrong "
            "message."
        ),
        strictness="strict",
        level="cross",
        reference="1.9",
    ),
    Rule(
        id=RuleName.COMPACTION_KEY_TWICE,
        severity=Severity.WARNING,
        template=(
            "the key {key} has messages {queue_offset} and {later_queue_offset}, although the queue is "
            "compacted up to "
            "{compacted_queue_offset}"
        ),
        why=(
            "Of several messages with one key a compaction keeps the last. A second message means that a "
            "file is older than the position in position-checkpoint."
        ),
        strictness="strict",
        level="cross",
        reference="1.9",
    ),
    Rule(
        id=RuleName.COMPACTION_POSITION,
        severity=Severity.WARNING,
        template="position-checkpoint says {offset} for {queue}: {reason}",
        why=(
            "A compaction begins after this position. Earlier messages stay as they are, even if newer ones "
            "have the same key. Without a position the broker compacts everything again."
        ),
        strictness="strict",
        level="quick",
        reference="1.9",
    ),
    Rule(
        id=RuleName.COMPACTION_LEFTOVER,
        severity=Severity.INFO,
        template="{file} remains from a compaction or replication that did not finish",
        why=(
            "A broker does not load this file. The log and its units also have its contents, or were about "
            "to receive them."
        ),
        strictness="strict",
        level="quick",
        reference="1.9",
    ),
    Rule(
        id=RuleName.COMPACTION_MISSING,
        severity=Severity.WARNING,
        template=(
            "{topic} is a compaction topic, and compaction/ has nothing of queue {queue_id}: a broker does "
            "not serve {unit_count:message}"
        ),
        why=(
            "Consumers of a compaction topic get their messages only from its compacted log, which a start "
            "does not build again. Copy compaction/ back from a backup or a replica. A broker with "
            "enableCompaction=false serves the consume queue instead."
        ),
        strictness="config",
        level="cross",
        reference="1.9",
    ),
)
