"""Rules TM on the timer wheel, the timer log and the messages that they hold (reference 1.8).

Rules KV on the logs of compaction topics: files, records, units, keys, positions (reference 1.9).

Rules TS on tiered storage: segments and metadata, queues, index files (reference 1.10).
"""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.finding import Rule, Severity

TIERED_RULES: tuple[Rule, ...] = (
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


COMPACTION_RULES: tuple[Rule, ...] = (
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


RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.TIMER_WHEEL_LENGTH,
        severity=Severity.ERROR,
        template="{file} has {size:byte}, not {expected.size:,}: a broker does not start with it",
        why=(
            "The wheel has a fixed number of slots. A broker refuses a wheel of another length, unless the "
            "file is empty: then the broker creates a new wheel."
        ),
        strictness="strict",
        level="quick",
        repair="rebuild-timer-wheel",
        reference="1.8.1",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_SLOT_NUMBER,
        severity=Severity.WARNING,
        template=(
            "slot {slot} of the timer wheel holds slotTime {slot_time}, which belongs to slot {expected.slot}"
        ),
        why=(
            "A broker treats such a slot as empty. The broker does not deliver its messages, unless a start "
            "finds their units in the last files of the timer log."
        ),
        strictness="strict",
        level="cross",
        repair="rebuild-timer-wheel",
        reference="1.8.1",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_SLOT_POSITION,
        severity=Severity.WARNING,
        template="slot {slot} of the timer wheel has {field} {value}; the timer log gives {expected.value}",
        why=(
            "A broker delivers a slot's messages from lastPos backwards. A start corrects lastPos from the "
            "last files of the timer log, not from older ones."
        ),
        strictness="strict",
        level="cross",
        repair="rebuild-timer-wheel",
        reference="1.8.1",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_SLOT_COUNT,
        severity=Severity.WARNING,
        template=(
            "slot {slot} of the timer wheel has a count of {count:,}; the timer log has "
            "{expected.count:message} for it"
        ),
        why="Units were lost or changed. A crash leaves a count that is too low, never one that is too high.",
        strictness="strict",
        level="cross",
        repair="rebuild-timer-wheel",
        reference="1.8.1",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_SLOT_COUNT_LOW,
        severity=Severity.INFO,
        template=(
            "slot {slot} of the timer wheel has a count of {count:,}; the timer log has "
            "{expected.count:message} for it"
        ),
        why=(
            "A start after a crash corrects the slots, but not their counts. Only metrics use the counts; "
            "the broker delivers every message."
        ),
        strictness="heuristic",
        level="cross",
        reference="1.8.1",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_SLOT_MISSING,
        severity=Severity.WARNING,
        template=(
            "the timer wheel lacks {count:message} due at {deliver_timestamp}: slot {slot} holds another time"
        ),
        why=(
            "A broker delivers only messages that the wheel leads to, unless a start finds the units in the "
            "last files of the timer log."
        ),
        strictness="strict",
        level="cross",
        repair="rebuild-timer-wheel",
        reference="1.8.1",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_FILE_MISSING,
        severity=Severity.ERROR,
        template="{file} is missing: {outcome}",
        why=(
            "A broker with timers has a wheel, a timer log without gaps and config/timercheck, or has them "
            "in rocksdbstore/, and creates empty ones where one is missing. Waiting messages are then lost, "
            "or the broker delivers messages again."
        ),
        strictness="strict",
        level="quick",
        reference="1.8",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_LOG_GAP,
        severity=Severity.ERROR,
        template="{byte_count:byte} of the timer log {byte_count?is|are} {what}, although more follows",
        why=(
            "A start that reads such bytes cuts the timer log there. The broker schedules the messages after "
            "them again from the timer topic, as far as the commit log still has them."
        ),
        strictness="strict",
        level="cross",
        reference="1.8.2",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_UNIT_LINK,
        severity=Severity.WARNING,
        template=(
            "the timer unit at {unit_pos} has prevPos {prev_pos}; the unit before it in slotTime {slot_time} "
            "is at {expected.prev_pos}"
        ),
        why=(
            "A broker finds a slot's units from the newest to the oldest by prevPos. With a wrong link it "
            "does not deliver older messages of the slot, or delivers others."
        ),
        strictness="strict",
        level="cross",
        reference="1.8.2",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_UNIT_RECORD,
        severity=Severity.ERROR,
        template=(
            "the timer unit at {unit_pos}, due at {deliver_timestamp}, leads to {physical_offset}: {reason}"
        ),
        why=(
            "The broker cannot deliver the message. Brokers read the place again and again, or skip it "
            "(timerSkipUnknownError)."
        ),
        strictness="strict",
        level="cross",
        reference="1.8.2",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_MESSAGE_EXPIRED,
        severity=Severity.INFO,
        template=(
            "{unit_count:timer unit} {unit_count?leads|lead} to {unit_count?a message that|messages that} "
            "expired before {unit_count?it was|they were} due: the commit log begins at {log_start_offset}"
        ),
        why=(
            "The setting fileReservedTime is shorter than the delay. Brokers pass over these units; nobody "
            "gets the messages."
        ),
        strictness="heuristic",
        level="cross",
        reference="1.8.2",
    ),
    Rule(
        id=RuleName.TIMER_UNIT_CONTENT,
        severity=Severity.ERROR,
        template="the timer unit at {unit_pos} has {field} {value}; its message gives {expected.value}",
        why=(
            "The broker delivers the message at another time than its producer set, or does not carry out a "
            "deletion."
        ),
        strictness="strict",
        level="full",
        reference="1.8.2",
        fault_class="H5",
    ),
    Rule(
        id=RuleName.TIMER_NOT_SCHEDULED,
        severity=Severity.ERROR,
        template=(
            "the message at {physical_offset} is due at {deliver_timestamp}, but the timer log has no unit "
            "for it"
        ),
        why=(
            "The file config/timercheck says that the timer topic was read beyond this message. Without a "
            "unit the broker never delivers it."
        ),
        strictness="strict",
        level="cross",
        reference="1.8.3",
        fault_class="H5",
    ),
)
