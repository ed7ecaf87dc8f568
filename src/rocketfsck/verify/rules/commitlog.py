"""Rules CL: records and regions of the commit log (reference 2, 9.2)."""

from __future__ import annotations

from rocketfsck.rulenames import RuleName
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.rule import Rule

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.LOG_BOUNDARY_LOST,
        severity=ERROR,
        template=(
            "record boundary lost at {physical_offset}: {byte_count} bytes are no records ({reason}), then "
            "{next_record_count} sound records follow from {next_offset} on"
        ),
        why=(
            "A broker that reaches these bytes stops reading the file there. A master skips the rest of the "
            "file and dispatches nothing of it; recovery cuts the log here and deletes the later files, "
            "although the records behind the damage are sound."
        ),
        strictness="strict",
        level="cross",
        repair="salvage-log",
        reference="2.15, 6.2",
        fault_class="C2",
    ),
    Rule(
        id=RuleName.LOG_TORN_TAIL,
        severity=ERROR,
        template=(
            "the log ends in a record that was not written to its end: {byte_count} bytes from "
            "{physical_offset} on ({reason})"
        ),
        why=(
            "The last record reached the disk in part. Everything before it is sound: recovery cuts the log "
            "exactly here, and what consume queues and indexes hold of this record then points behind the "
            "end."
        ),
        strictness="strict",
        level="cross",
        repair="cut-log",
        reference="2.15, 6.2",
        fault_class="C1",
    ),
    Rule(
        id=RuleName.RECORD_MALFORMED,
        severity=ERROR,
        template=(
            "record at {physical_offset} has a sound totalSize and does not add up inside ({reason}, "
            "{byte_count} bytes)"
        ),
        why=(
            "Its lengths contradict its totalSize. A broker takes it for half a message: the dispatcher "
            "skips it, recovery cuts the log here."
        ),
        strictness="strict",
        level="cross",
        repair="salvage-log",
        reference="2.1, 2.15",
        fault_class="C10",
    ),
    Rule(
        id=RuleName.RECORD_BODY_CRC,
        severity=ERROR,
        template=(
            "body of the record at {physical_offset} does not have the CRC that the record states (stored "
            "{crc}, computed {expected.crc})"
        ),
        why=(
            "The body, or the CRC field, changed after it was written. The frame is sound and so are the "
            "records behind it; recovery cuts the log at the first such record in the files that it scans."
        ),
        strictness="strict",
        level="full",
        repair="flip-bit",
        reference="2.6",
        fault_class="C4",
    ),
    Rule(
        id=RuleName.RECORD_PROPERTY_CRC,
        severity=ERROR,
        template="record at {physical_offset} does not have the CRC that its property __CRC32# states",
        why="Header, topic or properties changed after the record was written (the body has its own CRC).",
        strictness="config",
        level="full",
        reference="2.7",
        fault_class="C4",
    ),
    Rule(
        id=RuleName.RECORD_PHYSICAL_OFFSET,
        severity=ERROR,
        template="record at {physical_offset} says that it stands at {stated_offset}",
        why=(
            "Brokers do not compare the field with the place, but dispatch by the field: queues and index "
            "would get the wrong offset. The file was renamed or mixed in from elsewhere, or the field is "
            "damaged."
        ),
        strictness="strict",
        level="cross",
        repair="rename-segment",
        reference="2.1",
        fault_class="C3",
    ),
    Rule(
        id=RuleName.RECORD_SYS_FLAG,
        severity=WARNING,
        template="record at {physical_offset} has a sysFlag that no known version writes ({sys_flag})",
        why="Unknown bits, or a compression type without compression: damage, or a newer broker.",
        strictness="dialect",
        level="cross",
        reference="2.3",
        fault_class="C10",
    ),
    Rule(
        id=RuleName.RECORD_HOST_PORT,
        severity=WARNING,
        template="record at {physical_offset} has a host whose port is outside 0 to 65535",
        why="The host, or the sysFlag bit that gives its length, is damaged.",
        strictness="heuristic",
        level="cross",
        reference="2.4",
        fault_class="C10",
    ),
    Rule(
        id=RuleName.RECORD_NEGATIVE_FIELD,
        severity=ERROR,
        template="record at {physical_offset} has a negative {field} ({value})",
        why=(
            "No broker writes it. Readers take negative lengths as 0; a negative queueOffset cannot be "
            "dispatched."
        ),
        strictness="strict",
        level="cross",
        reference="2.1",
        fault_class="C10",
    ),
    Rule(
        id=RuleName.RECORD_TOPIC,
        severity=WARNING,
        template="record at {physical_offset} has a topic that brokers do not accept ({reason})",
        why=(
            "Dispatch makes a directory of this name: '/' nests directories, control characters mislead "
            "terminals."
        ),
        strictness="heuristic",
        level="cross",
        reference="2.1",
        fault_class="C10",
    ),
    Rule(
        id=RuleName.RECORD_PROPERTIES_SHAPE,
        severity=INFO,
        template=(
            "properties of {record_count} records read differently in broker versions, first at "
            "{physical_offset}"
        ),
        why=(
            "0x01 or 0x02 within a name or value, or an empty side: 4.9.0 and older, and newer brokers, see "
            "other pairs. Legal, since clients choose the text, but keys and tags may differ after an "
            "upgrade."
        ),
        strictness="dialect",
        level="cross",
        reference="2.5",
    ),
    Rule(
        id=RuleName.RECORD_PROPERTIES_NUL,
        severity=WARNING,
        template="properties of the record at {physical_offset} hold NUL bytes",
        why=(
            "Neither CRC nor lengths cover the properties: the tail of the record was probably never written."
        ),
        strictness="heuristic",
        level="cross",
        reference="2.5",
        fault_class="C1",
    ),
    Rule(
        id=RuleName.RECORD_DELAY_LEVEL,
        severity=ERROR,
        template="record at {physical_offset} in SCHEDULE_TOPIC_XXXX has a DELAY that is not a number",
        why="Every broker takes the record for invalid: recovery cuts the log here.",
        strictness="strict",
        level="cross",
        reference="2.11, 2.15",
        fault_class="C10",
    ),
    Rule(
        id=RuleName.RECORD_INNER_BATCH,
        severity=ERROR,
        template="inner batch at {physical_offset} does not agree with itself ({reason})",
        why=(
            "INNER_NUM and INNER_BASE say which queue offsets the batch holds; consumers unwrap the body by "
            "them."
        ),
        strictness="dialect",
        level="cross",
        reference="2.12",
        fault_class="C10",
    ),
    Rule(
        id=RuleName.RECORD_END_OF_FILE,
        severity=ERROR,
        template="record at {physical_offset} ends within the last 8 bytes of its file",
        why="A broker keeps 8 bytes for the BLANK header, always.",
        strictness="strict",
        level="cross",
        reference="2.8",
        fault_class="C10",
    ),
    Rule(
        id=RuleName.RECORD_COMPRESSED_BODY,
        severity=WARNING,
        template="body of the record at {physical_offset} does not decompress as {codec} ({reason})",
        why=(
            "sysFlag says that the body is compressed; a consumer will fail on it. The CRC, if sound, says "
            "that the producer sent it so."
        ),
        strictness="config",
        level="full",
        reference="2.3",
        fault_class="C10",
    ),
    Rule(
        id=RuleName.RECORD_BODY_NOT_DECOMPRESSED,
        severity=INFO,
        template="bodies compressed with {codec} were not decompressed: {reason}",
        why="Their CRCs were checked. Install the extra `codecs` to have them decompressed too.",
        strictness="config",
        level="full",
        reference="2.3",
    ),
    Rule(
        id=RuleName.BLANK_SIZE,
        severity=WARNING,
        template=(
            "BLANK at {physical_offset} says {total_size} bytes; {expected.total_size} are left in the file"
        ),
        why=(
            "A broker writes the bytes left. Readers do not look at it, since 5.3.2 only at whether it is "
            "too large."
        ),
        strictness="strict",
        level="cross",
        repair="write-blank",
        reference="2.8",
        fault_class="C10",
    ),
    Rule(
        id=RuleName.BLANK_MISSING,
        severity=ERROR,
        template="the file ends at {physical_offset} without a BLANK although the log goes on in {next_file}",
        why=(
            "A broker leaves a file only by a BLANK: recovery takes this for the end of the log and deletes "
            "every later file; the dispatcher never gets past it."
        ),
        strictness="strict",
        level="cross",
        repair="write-blank",
        reference="2.8, 6.2",
        fault_class="C2",
    ),
    Rule(
        id=RuleName.BLANK_TOO_EARLY,
        severity=WARNING,
        template=(
            "BLANK at {physical_offset} hides {byte_count} bytes that begin like records of this very place"
        ),
        why="A broker believes a BLANK anywhere and skips the rest of the file.",
        strictness="heuristic",
        level="cross",
        repair="salvage-log",
        reference="2.8, 6.2",
        fault_class="C2",
    ),
    Rule(
        id=RuleName.STALE_TAIL,
        severity=WARNING,
        template=(
            "behind the log's end at {physical_offset}, {record_count} sound records of before a truncation "
            "are left"
        ),
        why=(
            "Truncation moves the end and leaves the bytes. These records are not live; if a later record "
            "ends exactly where one of them starts, the next restart adopts it and those behind it."
        ),
        strictness="heuristic",
        level="cross",
        repair="zero-stale-tail",
        reference="6.6",
        fault_class="C3",
    ),
    Rule(
        id=RuleName.BYTES_BEHIND_END,
        severity=WARNING,
        template="behind the log's end at {physical_offset}, {byte_count} bytes are neither zero nor records",
        why="Left over from a truncation, or what is left of records that were destroyed.",
        strictness="heuristic",
        level="cross",
        repair="zero-stale-tail",
        reference="6.6",
        fault_class="C3",
    ),
    Rule(
        id=RuleName.STORE_TIMESTAMP_BACK,
        severity=INFO,
        template="storeTimestamp goes back by up to {largest_step} ms at {physical_offset}",
        why=(
            "A clock step or a change of master. Searches by time and the choice of the file where recovery "
            "starts are not exact around here."
        ),
        strictness="heuristic",
        level="cross",
        reference="9.2 M11",
        fault_class="C11",
    ),
    Rule(
        id=RuleName.BORN_AFTER_STORE,
        severity=INFO,
        template="bornTimestamp of the record at {physical_offset} is {ahead} ms after its storeTimestamp",
        why="The producer's clock is ahead of the broker's.",
        strictness="heuristic",
        level="cross",
        reference="9.2 M11",
        fault_class="C11",
    ),
    Rule(
        id=RuleName.STORE_HOST_CHANGE,
        severity=INFO,
        template="storeHost changes at {physical_offset} from {previous_host} to {host}",
        why=(
            "Several addresses of one broker, a move or a change of master; or data of two brokers in one "
            "log."
        ),
        strictness="heuristic",
        level="cross",
        reference="9.2 M19",
        fault_class="O1",
    ),
    Rule(
        id=RuleName.PREPARED_RECORD_MISSING,
        severity=WARNING,
        template=(
            "committed message at {physical_offset} names {prepared_offset} as its half message: {reason}"
        ),
        why=(
            "preparedTransactionOffset of a commit is where the half message stands, unless that has expired."
        ),
        strictness="heuristic",
        level="cross",
        reference="2.10",
        fault_class="C10",
    ),
    Rule(
        id=RuleName.QUEUE_OFFSET_REPEATED,
        severity=WARNING,
        template=(
            "record at {physical_offset} repeats a queueOffset: {queue_offset}, expected "
            "{expected.queue_offset}"
        ),
        why=(
            "Two records of one queue carry one queueOffset, but a consume queue has one place for it. A "
            "broker that starts with a short consume queue gives out the numbers again; so does one whose "
            "topic was deleted."
        ),
        strictness="heuristic",
        level="cross",
        repair="rebuild-queue",
        reference="2.13, 6.7",
        fault_class="Q4",
    ),
    Rule(
        id=RuleName.QUEUE_OFFSET_GAP,
        severity=WARNING,
        template="queueOffset jumps to {queue_offset} at {physical_offset}, expected {expected.queue_offset}",
        why=(
            "Records of this queue are gone from the log between the two, or numbers were given out for "
            "messages that were refused."
        ),
        strictness="heuristic",
        level="cross",
        reference="2.13",
        fault_class="Q3",
    ),
    Rule(
        id=RuleName.QUEUES_NOT_FOLLOWED,
        severity=INFO,
        template=(
            "{record_count} records name more queues than are followed; their queue offsets and units were "
            "not checked"
        ),
        why="The log names over a million queues: hostile or damaged topics.",
        strictness="config",
        level="cross",
        reference="2.13",
    ),
    Rule(
        id=RuleName.LOG_NO_RECORDS,
        severity=ERROR,
        template="{byte_count} bytes from {physical_offset} on, and no sound record in the file ({reason})",
        why=(
            "The file is no commit log file, or its beginning was destroyed and nothing in it knows its own "
            "place."
        ),
        strictness="strict",
        level="cross",
        repair="salvage-log",
        reference="2.1",
        fault_class="C2",
    ),
    Rule(
        id=RuleName.RECORD_TOO_NEW,
        severity=ERROR,
        template=(
            "{record_count} records have the V2 magic, first at {physical_offset}: a broker before 5.1.0 "
            "takes it for damage"
        ),
        why=(
            "Older brokers know one magic. One that starts on this store cuts the log at the first such "
            "record that its recovery meets. Start the store with 5.1.0 or later, or let those records "
            "expire first."
        ),
        strictness="dialect",
        level="cross",
        reference="2.2, 9.2 M1",
    ),
    Rule(
        id=RuleName.RECORD_WITHOUT_TARGET,
        severity=WARNING,
        template="waiting message of {topic} at {physical_offset} lacks {missing}: it can never be delivered",
        why=(
            "A delayed message and a half message keep in REAL_TOPIC and REAL_QID where they belong. Without "
            "them a broker fails on the message when its time has come, over and over, and may not get past "
            "it."
        ),
        strictness="heuristic",
        level="cross",
        reference="2.10, 2.11, 9.2 M17",
        fault_class="C10",
    ),
    Rule(
        id=RuleName.RECORD_PROPERTY_CRC_PLACE,
        severity=INFO,
        template=(
            "the property __CRC32# of the record at {physical_offset} is not its last: no broker put it there"
        ),
        why=(
            "A broker appends it behind all others. One that a client set, or that was moved, says nothing "
            "of the bytes; a broker that is told to verify it takes the record for damage."
        ),
        strictness="heuristic",
        level="full",
        reference="2.7, 9.2 M14",
    ),
    Rule(
        id=RuleName.RECORD_INNER_BATCH_FLAG,
        severity=WARNING,
        template=(
            "record at {physical_offset} has the sysFlag of an inner batch ({sys_flag}) and no INNER_NUM"
        ),
        why=(
            "A broker sets the bits 0x40 and 0x80 together with INNER_NUM and INNER_BASE. Consumers of a "
            "record with these bits try to unwrap its body as a batch."
        ),
        strictness="heuristic",
        level="cross",
        reference="2.3, 2.12",
        fault_class="C10",
    ),
    Rule(
        id=RuleName.RECORD_PREPARED_OFFSET,
        severity=WARNING,
        template=(
            "record at {physical_offset} belongs to no transaction, but its preparedTransactionOffset is "
            "{prepared_offset}"
        ),
        why="Brokers write 0, except in the messages that end a transaction.",
        strictness="heuristic",
        level="cross",
        reference="2.1, 2.10",
        fault_class="C10",
    ),
    Rule(
        id=RuleName.RECORD_COMMIT_FLAG,
        severity=WARNING,
        template=(
            "record at {physical_offset} is marked as a committed message (sysFlag {sys_flag}), but has no "
            "property of a transaction"
        ),
        why=(
            "Producers of transactions set TRAN_MSG and PGROUP, and the committed message keeps them. "
            "Without both, the bit 0x8 is probably damage."
        ),
        strictness="heuristic",
        level="cross",
        reference="2.3, 2.10",
        fault_class="C10",
    ),
    Rule(
        id=RuleName.RECORD_RECONSUME_TIMES,
        severity=WARNING,
        template="record at {physical_offset} has an impossible reconsumeTimes ({reconsume_times})",
        why=(
            "The field counts deliveries of the message. A broker that retries the message compares the "
            "count with the group's limit: a large count moves the message to the dead letter queue, a "
            "negative one keeps it going round."
        ),
        strictness="heuristic",
        level="cross",
        reference="2.1",
        fault_class="C10",
    ),
    Rule(
        id=RuleName.RECORD_BORN_TIMESTAMP,
        severity=WARNING,
        template="record at {physical_offset} has no bornTimestamp ({born_timestamp})",
        why=(
            "Every client sets the time in milliseconds since 1970. Consumers that measure latency, and "
            "transaction checks that measure age, go wrong on this message."
        ),
        strictness="heuristic",
        level="cross",
        reference="2.1",
        fault_class="C10",
    ),
)
