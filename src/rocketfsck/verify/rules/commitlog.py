"""Rules CL: records and regions of the commit log (reference 2, 9.2)."""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.finding import Rule, Severity

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.LOG_BOUNDARY_LOST,
        severity=ERROR,
        template=(
            "record boundary lost at {physical_offset}: {byte_count:byte} {byte_count?is|are} not part of a "
            "record ({reason}); then {next_record_count:sound record} {next_record_count?follows|follow} "
            "from {next_physical_offset} on"
        ),
        why=(
            "A broker that reaches these bytes stops reading the file there. A master skips the rest of the "
            "file and dispatches nothing from it. A recovery cuts the log here and deletes the later files, "
            "although the records after the damage are sound."
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
            "the last record of the file is incomplete: {byte_count:byte} from {physical_offset} on "
            "({reason})"
        ),
        why=(
            "Only a part of the last record reached the disk. Everything before it is sound. A recovery that "
            "reads this place cuts the log exactly here, with the files after it; entries of consume queues "
            "and index for what is cut then point beyond the end."
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
            "record at {physical_offset} has a sound totalSize, but its inner lengths do not add up "
            "({reason}, {byte_count:byte})"
        ),
        why=(
            "The lengths inside the record contradict its totalSize. A broker takes the record for half a "
            "message: the dispatcher skips it, and a recovery cuts the log here."
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
            "body of the record at {physical_offset} does not match its CRC (stored {crc}, computed "
            "{expected.crc})"
        ),
        why=(
            "The body or the CRC field changed after the record was written. The frame and the records after "
            "it are sound. A recovery cuts the log at the first such record in the files that it scans."
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
        template="record at {physical_offset} does not match the CRC in its property __CRC32#",
        why="Header, topic or properties changed after the record was written (the body has its own CRC).",
        strictness="config",
        level="full",
        reference="2.7",
        fault_class="C4",
    ),
    Rule(
        id=RuleName.RECORD_PHYSICAL_OFFSET,
        severity=ERROR,
        template="record at {physical_offset} names {stated_physical_offset} as its own offset",
        why=(
            "Brokers do not compare this field with the place of the record, but dispatch by it: queues and "
            "index get the wrong offset. The file was renamed or mixed in from elsewhere, or the field is "
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
        why=(
            "The flag has unknown bits, or a compression type without compression. The record is damaged, or "
            "a newer broker wrote it."
        ),
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
            "No broker writes a negative value here. Readers take a negative length as 0; a negative "
            "queueOffset cannot be dispatched; a negative storeTimestamp misleads searches by time, and the "
            "choice of the file where a recovery starts."
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
            "Dispatch creates a directory with this name: '/' nests directories, control characters mislead "
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
            "the properties of {record_count:record} read differently across broker versions, first at "
            "{physical_offset}"
        ),
        why=(
            "A name or value contains 0x01 or 0x02, or one side is empty: brokers up to 4.9.0 and newer ones "
            "see other pairs. Clients may choose such text, but keys and tags may differ after an upgrade."
        ),
        strictness="dialect",
        level="cross",
        reference="2.5",
    ),
    Rule(
        id=RuleName.RECORD_PROPERTIES_NUL,
        severity=WARNING,
        template="properties of the record at {physical_offset} end with NUL bytes, or have many of them",
        why=(
            "Neither the CRC nor the lengths cover the properties. The tail of the record was probably never "
            "written."
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
        why="Every broker rejects the record as invalid: a recovery cuts the log here.",
        strictness="strict",
        level="cross",
        reference="2.11, 2.15",
        fault_class="C10",
    ),
    Rule(
        id=RuleName.RECORD_INNER_BATCH,
        severity=ERROR,
        template="inner batch at {physical_offset} contradicts itself ({reason})",
        why=(
            "INNER_NUM and INNER_BASE say which queue offsets the batch holds. Consumers unwrap the body by "
            "these values."
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
        why="A broker always keeps 8 bytes at the end of a file for the BLANK header.",
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
            "The sysFlag says that the body is compressed, so a consumer fails on it. If the CRC is sound, "
            "the producer sent the body like this."
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
        why=(
            "The CRCs of these bodies were checked. Install the extra `codecs` to decompress the bodies as "
            "well."
        ),
        strictness="config",
        level="full",
        reference="2.3",
    ),
    Rule(
        id=RuleName.BLANK_SIZE,
        severity=WARNING,
        template=(
            "BLANK at {physical_offset} gives its size as {size:byte}; {expected.size:,} "
            "{expected.size?is|are} left in the file"
        ),
        why=(
            "A broker writes the number of bytes left. Readers ignore the number; from 5.3.2 on they check "
            "only that it is not too large."
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
        template=(
            "the file ends at {physical_offset} without a BLANK although the log continues in {next_file}"
        ),
        why=(
            "A broker leaves a file only at a BLANK. A recovery takes this place for the end of the log and "
            "deletes every later file; the dispatcher never gets past it."
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
            "BLANK at {physical_offset} hides {byte_count:byte} that begin like records of this very place"
        ),
        why="A broker accepts a BLANK anywhere and skips the rest of the file.",
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
            "{record_count:sound record} from before a truncation {record_count?remains|remain} after the "
            "log's end at {physical_offset}"
        ),
        why=(
            "A truncation moves the end and leaves the bytes. These records are not live. If a later record "
            "ends exactly where one of them starts, the next restart adopts that record and those after it."
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
        template=(
            "{byte_count:byte} after the log's end at {physical_offset} {byte_count?is|are} neither zero nor "
            "part of a record"
        ),
        why="A truncation left these bytes, or they are the remains of destroyed records.",
        strictness="heuristic",
        level="cross",
        repair="zero-stale-tail",
        reference="6.6",
        fault_class="C3",
    ),
    Rule(
        id=RuleName.STORE_TIMESTAMP_BACK,
        severity=INFO,
        template="storeTimestamp goes back by up to {largest_step_ms:,} ms at {physical_offset}",
        why=(
            "The clock was changed, or the master changed. Searches by time, and the choice of the file "
            "where a recovery starts, are not exact around this place."
        ),
        strictness="heuristic",
        level="cross",
        reference="9.2 M11",
        fault_class="C11",
    ),
    Rule(
        id=RuleName.BORN_AFTER_STORE,
        severity=INFO,
        template=(
            "bornTimestamp of the record at {physical_offset} is {ahead_ms:,} ms after its storeTimestamp"
        ),
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
            "One broker may have several addresses, may have moved, or the master may have changed. "
            "Otherwise the log mixes the data of two brokers."
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
            "committed message at {physical_offset} names {prepared_transaction_offset} as its half "
            "message: {reason}"
        ),
        why=(
            "A committed message keeps the place of its half message in preparedTransactionOffset. The half "
            "message is there unless it has expired."
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
            "record at {physical_offset} repeats queueOffset {queue_offset}; expected {expected.queue_offset}"
        ),
        why=(
            "Two records of one queue have the same queueOffset, but a consume queue has one place for it. A "
            "broker assigns numbers again if it starts with a consume queue that is too short, or after its "
            "topic was deleted."
        ),
        strictness="heuristic",
        level="cross",
        repair="rebuild-queue",
        reference="2.13, 6.7",
        fault_class="Q4",
    ),
    Rule(
        id=RuleName.QUEUE_BEGINS_AGAIN,
        severity=INFO,
        template=(
            "the queue begins again at {physical_offset} with queueOffset 0; expected {expected.queue_offset}"
        ),
        why=(
            "The topic was deleted and created again, or a broker started without the consume queue. The "
            "records before belong to the former queue. If they should still have units, another finding "
            "says so."
        ),
        strictness="heuristic",
        level="cross",
        reference="2.13, 8",
    ),
    Rule(
        id=RuleName.RECORD_MAGIC_UNKNOWN,
        severity=INFO,
        template=(
            "{record_count:record} from {physical_offset} on {record_count?has|have} the magic code {magic}: "
            "no broker up to {newest_version} writes it"
        ),
        why=(
            "The bytes are framed like records, one behind the other, all with this magic code: a newer "
            "broker wrote them. Nothing in them was checked, and no repair writes there unless you force it "
            "by name. A broker that does not know the magic code takes them for damage, and cuts the log "
            "there."
        ),
        strictness="heuristic",
        level="cross",
        reference="2.1",
        unknown=True,
    ),
    Rule(
        id=RuleName.QUEUE_OFFSET_GAP,
        severity=WARNING,
        template="queueOffset jumps to {queue_offset} at {physical_offset}; expected {expected.queue_offset}",
        why=(
            "Records of this queue are missing from the log between the two, or the broker assigned numbers "
            "to messages that it then refused."
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
            "{record_count:record} {record_count?belongs|belong} to queues beyond the limit of this check; "
            "their queue offsets and units were not checked"
        ),
        why="The log names over a million queues: topics are hostile or damaged.",
        strictness="config",
        level="cross",
        reference="2.13",
    ),
    Rule(
        id=RuleName.LOG_NO_RECORDS,
        severity=ERROR,
        template="no sound record in the file: {byte_count:byte} from {physical_offset} on ({reason})",
        why=(
            "The file is not a commit log file, or its beginning was destroyed and no record in it confirms "
            "its own place."
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
            "{record_count:record} {record_count?has|have} the V2 magic, first at {physical_offset}: brokers "
            "before 5.1.0 treat {record_count?it|them} as damage"
        ),
        why=(
            "Older brokers know one magic. If one starts on this store, it cuts the log at the first such "
            "record that its recovery reaches. Start the store with 5.1.0 or later, or let those records "
            "expire first."
        ),
        strictness="dialect",
        level="cross",
        reference="2.2, 9.2 M1",
    ),
    Rule(
        id=RuleName.RECORD_WITHOUT_TARGET,
        severity=WARNING,
        template="waiting message of {topic} at {physical_offset} lacks {missing}: no broker can deliver it",
        why=(
            "A delayed message and a half message keep their destination in REAL_TOPIC and REAL_QID. Without "
            "these properties a broker fails on the message when it is due, over and over, and may not get "
            "past it."
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
            "the property __CRC32# of the record at {physical_offset} is not its last one: no broker writes "
            "it there"
        ),
        why=(
            "A broker appends this property after all others. A value that a client set, or that was moved, "
            "says nothing about the bytes. A broker configured to verify the property treats the record as "
            "damaged."
        ),
        strictness="heuristic",
        level="full",
        reference="2.7, 9.2 M14",
    ),
    Rule(
        id=RuleName.RECORD_INNER_BATCH_FLAG,
        severity=WARNING,
        template=(
            "record at {physical_offset} has the sysFlag of an inner batch ({sys_flag}), but no INNER_NUM"
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
            "record at {physical_offset} is not part of a transaction, but its preparedTransactionOffset is "
            "{prepared_transaction_offset}"
        ),
        why="Brokers write 0 here, except in the messages that end a transaction.",
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
            "transaction property"
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
            "negative one makes the broker retry it endlessly."
        ),
        strictness="heuristic",
        level="cross",
        reference="2.1",
        fault_class="C10",
    ),
    Rule(
        id=RuleName.RECORD_BORN_TIMESTAMP,
        severity=WARNING,
        template="record at {physical_offset} has no valid bornTimestamp ({born_timestamp})",
        why=(
            "Every client sets the time in milliseconds since 1970. Consumers that measure latency, and "
            "transaction checks that measure age, go wrong on this message."
        ),
        strictness="heuristic",
        level="cross",
        reference="2.1",
        fault_class="C10",
    ),
    Rule(
        id=RuleName.RECORD_STORE_TIMESTAMP,
        severity=WARNING,
        template="record at {physical_offset} has a storeTimestamp that no clock shows ({store_timestamp})",
        why=(
            "The time is later than the year 2262, where the clocks of operating systems end. A start that "
            "dispatches the record again copies the time to the checkpoint, and searches by time go wrong on "
            "it."
        ),
        strictness="strict",
        level="cross",
        reference="2.1",
        fault_class="C10",
    ),
)
