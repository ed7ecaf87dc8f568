"""Rules XR: commit log against consume queues and index (reference 3.8, 9.3, 9.4).

Rules XR on DLedger's log and its index (reference 2.14).
"""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.finding import Rule, Severity

DLEDGER_RULES: tuple[Rule, ...] = (
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


ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.RECORD_WITHOUT_UNIT,
        severity=ERROR,
        template=(
            "{record_count:record} of {topic}/{queue_id} ({queue_offset..last_queue_offset:queue offset}) "
            "{record_count?has|have} no unit ({reason})"
        ),
        why="The messages are in the log, but no consumer can read them.",
        strictness="heuristic",
        level="cross",
        repair="rebuild-queue",
        reference="8, 9.3 Q8",
        fault_class="Q1",
    ),
    Rule(
        id=RuleName.QUEUE_MISSING,
        severity=ERROR,
        template="{topic}/{queue_id} has no consume queue, but {record_count:record} in the log",
        why=(
            "Brokers repair this only in part: after a clean stop most versions dispatch from where the "
            "other queues end, and number new messages from 0 again."
        ),
        strictness="heuristic",
        level="cross",
        repair="rebuild-queue",
        reference="6.5, 6.7",
        fault_class="Q7",
    ),
    Rule(
        id=RuleName.QUEUE_DELETED,
        severity=INFO,
        template=(
            "{record_count:record} of {topic}/{queue_id} {record_count?is|are} from before the topic was "
            "deleted"
        ),
        why=(
            "A broker leaves the records of a deleted topic in the log until their file expires. Before "
            "5.0.0 a broker that deletes any topic destroys the queue of half messages, too."
        ),
        strictness="heuristic",
        level="cross",
        reference="8",
        fault_class="Q8",
    ),
    Rule(
        id=RuleName.UNIT_BEYOND_LOG,
        severity=ERROR,
        template=(
            "{unit_count:unit} of {topic}/{queue_id} from queue offset {queue_offset} on "
            "{unit_count?points|point} to {first_physical_offset} or beyond; the log ends at {log_end_offset}"
        ),
        why=(
            "Consumers wait for, or read, records that do not exist. Once the log has grown past these "
            "offsets, the units point into the middle of other messages."
        ),
        strictness="strict",
        level="cross",
        repair="cut-queue",
        reference="6.6, 9.3 Q9",
        fault_class="Q2",
    ),
    Rule(
        id=RuleName.UNIT_GHOST,
        severity=ERROR,
        template=(
            "{unit_count:unit} of {topic}/{queue_id} from queue offset {queue_offset} on "
            "{unit_count?points|point} to {first_physical_offset}: {reason}"
        ),
        why=(
            "The units date from before a truncation, and a restart adopted them. These units point into "
            "newer, unrelated records."
        ),
        strictness="strict",
        level="cross",
        repair="rebuild-queue",
        reference="6.6, 9.3 Q4",
        fault_class="Q2",
    ),
    Rule(
        id=RuleName.UNIT_SHIFTED,
        severity=ERROR,
        template=(
            "units of {topic}/{queue_id} are {shift:place} away from the queueOffset of their records "
            "({first_queue_offset..last_queue_offset:queue offset})"
        ),
        why=(
            "A unit's place in the queue is the queueOffset of its record. With shifted units, consumers "
            "commit offsets that do not fit."
        ),
        strictness="heuristic",
        level="cross",
        repair="rebuild-queue",
        reference="3.4, 9.3 Q5",
        fault_class="Q3",
    ),
    Rule(
        id=RuleName.UNIT_SIZE,
        severity=ERROR,
        template=(
            "unit {queue_offset} of {topic}/{queue_id} says {size:byte}; its record at {physical_offset} has "
            "{expected.size:,}"
        ),
        why="Brokers read as many bytes as the unit says.",
        strictness="strict",
        level="cross",
        repair="rebuild-queue",
        reference="3.8, 9.3 Q4",
        fault_class="Q11",
    ),
    Rule(
        id=RuleName.UNIT_TAGS_CODE,
        severity=WARNING,
        template=(
            "unit {queue_offset} of {topic}/{queue_id} has tagsCode {tags_code}; expected "
            "{expected.tags_code}"
        ),
        why=(
            "Brokers filter by tagsCode before they read the record: subscribers by tag miss the message, or "
            "a broker delivers a delayed message at the wrong time."
        ),
        strictness="config",
        level="cross",
        repair="rebuild-queue",
        reference="3.2, 9.3 Q6",
        fault_class="Q11",
    ),
    Rule(
        id=RuleName.DELAY_LEVELS_INFERRED,
        severity=INFO,
        template=(
            "delay level {level} is {delay_ms:,} ms in the units of {topic}/{queue_id}, not "
            "{expected.delay_ms:,} "
            "ms"
        ),
        why="All units agree: the broker's messageDelayLevel is not the default.",
        strictness="config",
        level="cross",
        reference="2.11, 3.2",
    ),
    Rule(
        id=RuleName.UNIT_OF_DAMAGED_RECORD,
        severity=WARNING,
        template=(
            "{unit_count:unit} of {topic}/{queue_id} ({queue_offset..last_queue_offset:queue offset}) "
            "{unit_count?points|point} into damaged bytes of the log, from {first_physical_offset} on"
        ),
        why="These units name the messages of this queue that the damage destroyed.",
        strictness="strict",
        level="cross",
        reference="9.3 Q4",
        fault_class="C2",
    ),
    Rule(
        id=RuleName.UNIT_IN_MISSING_SEGMENT,
        severity=ERROR,
        template=(
            "{unit_count:message} of {topic}/{queue_id} {unit_count?is|are} lost with missing commitlog "
            "files: {queue_offset..last_queue_offset:queue offset}, {byte_count:byte}"
        ),
        why="The consume queue lists exactly what was in the missing files.",
        strictness="strict",
        level="cross",
        reference="9.1 L2",
        fault_class="C5",
    ),
    Rule(
        id=RuleName.UNIT_IN_MISNAMED_FILE,
        severity=ERROR,
        template=(
            "{unit_count:message} of {topic}/{queue_id} {unit_count?is|are} in commitlog files with wrong "
            "names: {queue_offset..last_queue_offset:queue offset}"
        ),
        why="The messages are sound. A broker finds them again once the files have their names.",
        strictness="strict",
        level="cross",
        repair="rename-segment",
        reference="1.2, 9.1 L2",
        fault_class="C6",
    ),
    Rule(
        id=RuleName.EXT_UNIT_CONTENT,
        severity=ERROR,
        template=(
            "extension unit of {topic}/{queue_id} {queue_offset} has {field} {value}; expected "
            "{expected.value}"
        ),
        why="A broker would read the filter data of another message.",
        strictness="strict",
        level="cross",
        repair="rebuild-queue",
        reference="3.6, 9.3 Q7",
        fault_class="Q9",
    ),
    Rule(
        id=RuleName.MULTI_DISPATCH_LISTS,
        severity=WARNING,
        template="record at {physical_offset} lists {queue_count:further queue} and {offset_count:offset}",
        why=(
            "The lists have different lengths, or an offset is not a number: brokers do not write the "
            "further units."
        ),
        strictness="dialect",
        level="cross",
        reference="2.13",
        fault_class="Q3",
    ),
    Rule(
        id=RuleName.BATCH_UNIT_CONTENT,
        severity=ERROR,
        template=(
            "batch unit {unit_number} of {topic}/{queue_id} has {field} {value}; its record at "
            "{physical_offset} says {expected.value}"
        ),
        why="Consumers look up a batch by its base and count.",
        strictness="strict",
        level="cross",
        repair="rebuild-queue",
        reference="3.7, 9.3 Q11",
        fault_class="Q11",
    ),
    Rule(
        id=RuleName.UNIT_OF_FILLER,
        severity=INFO,
        template=(
            "{unit_count:unit} of {topic}/{queue_id} ({queue_offset..last_queue_offset:queue offset}) "
            "{unit_count?points|point} to filler records, from {first_physical_offset} on"
        ),
        why=(
            "A repair put filler records in place of lost records and kept their places in the queue, so "
            "queue offsets have not moved. A consumer without a tag filter receives the filler instead."
        ),
        strictness="strict",
        level="cross",
        reference="2.15, 9.3 Q4",
    ),
    Rule(
        id=RuleName.RECORD_UNINDEXED,
        severity=WARNING,
        template=(
            "{record_count:record} ({physical_offset..last_physical_offset:physical offset}) "
            "{record_count?has|have} "
            "keys, but no index entry"
        ),
        why=(
            "Queries by key and by message id miss these records. After an unclean stop a broker deletes its "
            "newest index file at the next start and fills it again only from where its recovery starts."
        ),
        strictness="heuristic",
        level="cross",
        repair="rebuild-index",
        reference="4.8, 9.4 I14",
        fault_class="I1",
    ),
    Rule(
        id=RuleName.KEY_UNINDEXED,
        severity=WARNING,
        template="the index lacks {missing_count:,} of {key_count:key} of the record at {physical_offset}",
        why="Queries by the missing keys do not find the record.",
        strictness="heuristic",
        level="cross",
        repair="rebuild-index",
        reference="4.5, 9.4 I14",
        fault_class="I1",
    ),
    Rule(
        id=RuleName.ENTRY_BEYOND_LOG,
        severity=WARNING,
        template=(
            "{entry_count:index entry} from {entry} on {entry_count?points|point} to "
            "{first_physical_offset} or "
            "beyond; the log ends at {log_end_offset}"
        ),
        why=(
            "A truncation does not touch indexes and left these entries. Queries find nothing or, once the "
            "log has grown, other messages."
        ),
        strictness="heuristic",
        level="cross",
        repair="rebuild-index",
        reference="4.8, 9.4 I12",
        fault_class="I2",
    ),
    Rule(
        id=RuleName.ENTRY_DANGLING,
        severity=ERROR,
        template=(
            "{entry_count:index entry} from {entry} on {entry_count?points|point} to "
            "{first_physical_offset}, where "
            "no record starts"
        ),
        why="A broker returns the bytes there without checking them.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.7, 9.4 I12",
        fault_class="I12",
    ),
    Rule(
        id=RuleName.ENTRY_KEY,
        severity=ERROR,
        template=(
            "index entry {entry} has the hash {hash}, which is not that of the next key of the record at "
            "{physical_offset}"
        ),
        why=(
            "Each key of a record has one entry, in the order of the keys. This entry has the hash of no key "
            "of its record, or repeats one key in place of another. A query by one key then returns a "
            "message without that key, or a message twice, and a query by another key misses the record."
        ),
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.3, 9.4 I13",
        fault_class="I12",
    ),
    Rule(
        id=RuleName.ENTRY_DUPLICATE,
        severity=INFO,
        template=(
            "{entry_count:index entry} from {entry} on {entry_count?repeats|repeat} those of the records "
            "from {first_physical_offset} on"
        ),
        why="A restart indexes the last record again.",
        strictness="heuristic",
        level="cross",
        reference="4.5",
        fault_class="I8",
    ),
    Rule(
        id=RuleName.ENTRY_TIME,
        severity=WARNING,
        template=(
            "index entry {entry} has timeDiff {value}; its record at {physical_offset} gives {expected.value}"
        ),
        why="Queries with a time window miss the record.",
        strictness="heuristic",
        level="cross",
        repair="rebuild-index",
        reference="4.4, 9.4 I9",
        fault_class="I7",
    ),
    Rule(
        id=RuleName.INDEX_AHEAD_OF_LOG,
        severity=ERROR,
        template="the newest index file ends at {end_offset}, beyond the log's end at {log_end_offset}",
        why=(
            "A broker does not index records below the end of the newest index file: new messages are "
            "silently left out."
        ),
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.5, 4.8",
        fault_class="I2",
    ),
    Rule(
        id=RuleName.ENTRIES_EXPIRED,
        severity=INFO,
        template="{entry_count:entry} {entry_count?points|point} below the log's start",
        why="This state is normal: a broker deletes an index file only when its last entry has expired.",
        strictness="strict",
        level="cross",
        reference="4.8",
        fault_class="Q5",
    ),
    Rule(
        id=RuleName.ENTRY_OF_DAMAGED_RECORD,
        severity=WARNING,
        template=(
            "{entry_count:index entry} from {entry} on {entry_count?points|point} into damaged bytes of the "
            "log, from {first_physical_offset} on"
        ),
        why="These entries belong to messages destroyed by the damage.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="9.4 I12",
        fault_class="C2",
    ),
    Rule(
        id=RuleName.ENTRY_IN_MISSING_SEGMENT,
        severity=WARNING,
        template=(
            "{entry_count:index entry} from {entry} on {entry_count?points|point} into missing commitlog "
            "files"
        ),
        why="These entries belong to messages lost with the missing files.",
        strictness="strict",
        level="cross",
        reference="9.1 L2",
        fault_class="C5",
    ),
    Rule(
        id=RuleName.INDEX_ABSENT,
        severity=INFO,
        template="the store has no index file, but {record_count:record} with keys",
        why=(
            "A store without an index is normal with messageIndexEnable=false; give broker.conf with "
            "--broker-conf to find out. Otherwise queries by key find nothing: `rocketfsck plan STORE --only "
            "rebuild-index` rebuilds the index."
        ),
        strictness="config",
        level="cross",
        repair="rebuild-index",
        reference="4.5",
        fault_class="I1",
    ),
    Rule(
        id=RuleName.UNKNOWN_ENTRIES,
        severity=INFO,
        template=(
            "{entry_count:index entry} of {record_count:record} {entry_count?matches|match} no key of the "
            "records, but {entry_count?is|are} regular: probably a feature of a broker that this version "
            "does not know"
        ),
        why=(
            "Each of these entries points to the start of a live record, has that record's timeDiff, and "
            "accompanies the entries of all keys of the record, in the same number for each record. Damage "
            "does not look like that. Queries that this version does not know may need these entries, so no "
            "repair changes the index unless you force it by name."
        ),
        strictness="heuristic",
        level="cross",
        reference="4.5",
        unknown=True,
    ),
    Rule(
        id=RuleName.LIGHT_UNITS_SHIFTED,
        severity=INFO,
        template=(
            "{unit_count:unit} of {topic}/{queue_id} {unit_count?is|are} up to {largest_shift:place} before "
            "the queueOffset: the broker numbered {record_count:record} without writing a unit"
        ),
        why=(
            "From 5.0.0 on a broker gives a record a number in each light queue of its list, but writes no "
            "unit if the list ends with another kind of queue. Consumers use the places, not the numbers, so "
            "the queue is as consumers know it and must stay so."
        ),
        strictness="dialect",
        level="cross",
        reference="2.13, 3.4",
    ),
    Rule(
        id=RuleName.LIGHT_LISTS_UNUSED,
        severity=INFO,
        template=(
            "{record_count:record} {record_count?lists|list} further queues that the broker wrote no units "
            "for, the first at {physical_offset}"
        ),
        why=(
            "From 5.0.0 on a broker gives offsets to light queues only. If the last name of a list is not a "
            "light queue, the broker rejects the list and writes no unit for any name."
        ),
        strictness="dialect",
        level="cross",
        reference="2.13",
    ),
    Rule(
        id=RuleName.INDEX_GONE,
        severity=WARNING,
        template="the index is gone, but {record_count:record} {record_count?has|have} keys: {evidence}",
        why=(
            "A broker wrote an index for these records. Without its files, queries by key and by message id "
            "find nothing, and a broker does not index records again that it has already dispatched."
        ),
        strictness="heuristic",
        level="cross",
        repair="rebuild-index",
        reference="4.5, 4.8",
        fault_class="I1",
    ),
    Rule(
        id=RuleName.TAGS_OF_OLDER_BROKER,
        severity=INFO,
        template=(
            "{record_count:record} ({first_physical_offset..last_physical_offset:physical offset}) "
            "{record_count?has|have} "
            "tags without an index entry: a broker older than 5.4.0 wrote the entries of the keys"
        ),
        why=(
            "Brokers from 5.4.0 on add an index entry for the tags of a record to those of its keys. Queries "
            "by tag miss the records that an older broker indexed. `rocketfsck plan STORE --only "
            "rebuild-index` builds an index with these entries."
        ),
        strictness="heuristic",
        level="cross",
        reference="4.5",
    ),
    Rule(
        id=RuleName.TAGS_UNINDEXED,
        severity=WARNING,
        template=(
            "{record_count:record} ({physical_offset..last_physical_offset:physical offset}) "
            "{record_count?has|have} "
            "index entries for the keys, but none for the tags"
        ),
        why="The records around this range have an entry for their tags. Queries by tag miss these records.",
        strictness="heuristic",
        level="cross",
        repair="rebuild-index",
        reference="4.5, 9.4 I14",
        fault_class="I1",
    ),
    Rule(
        id=RuleName.QUEUES_OLDER,
        severity=INFO,
        template=(
            "the consume queues end {behind_duration} before the log: they are an older copy, without the "
            "units of {record_count:record} in {queue_count:queue}"
        ),
        why=(
            "All queues are complete up to one place of the log and have nothing after it. A start after an "
            "orderly stop does not look for units that are missing."
        ),
        strictness="heuristic",
        level="cross",
        reference="6.6",
        fault_class="O2",
    ),
    Rule(
        id=RuleName.LOG_OLDER,
        severity=INFO,
        template=(
            "the commit log ends {behind_duration} before the last message that the broker flushed: it is an "
            "older copy, or the disk lost writes"
        ),
        why=(
            "Queues lead beyond the end of the log, and the checkpoint or the index has a later time than "
            "its last record. A broker that starts writes new messages at offsets that others had."
        ),
        strictness="heuristic",
        level="cross",
        reference="6.4, 6.6",
        fault_class="O2",
    ),
    Rule(
        id=RuleName.LOG_FILE_OLDER,
        severity=INFO,
        template=(
            "the records of {file} end at {end_timestamp}, zeros follow, and {next_file} begins at "
            "{next_timestamp}: the file is an older copy, or the disk lost writes"
        ),
        why=(
            "A broker begins a file when the one before it is full. A copy that was made while a file was "
            "filled has its records up to then, and zeros."
        ),
        strictness="heuristic",
        level="cross",
        reference="2.2",
        fault_class="O2",
    ),
    Rule(
        id=RuleName.LOG_FILE_FOREIGN,
        severity=INFO,
        template=(
            "{file} is another store's: {met_count:,} of its {record_count:record} {met_count?has|have} a "
            "unit, and the units in their places lead into this file at other offsets"
        ),
        why=(
            "The queues know the records of the other files, but other records in this one. The file that "
            "they know was replaced; its messages are not in this store any more."
        ),
        strictness="heuristic",
        level="cross",
        reference="2.1, 8",
        fault_class="O3",
    ),
    Rule(
        id=RuleName.INDEX_FOREIGN,
        severity=INFO,
        template=(
            "the index is another store's: {met_count:,} of {record_count:record} with keys in the log "
            "{met_count?has|have} an entry there"
        ),
        why="The queues fit the log. The entries of the index lead to other bytes, so another log had them.",
        strictness="heuristic",
        level="cross",
        reference="4.5",
        fault_class="O3",
    ),
    Rule(
        id=RuleName.QUEUES_FOREIGN,
        severity=INFO,
        template=(
            "the consume queues are another store's: {met_count:,} of {record_count:record} in the log "
            "{met_count?has|have} a unit there"
        ),
        why="The queues have units in the places of these records that lead to other bytes.",
        strictness="heuristic",
        level="cross",
        reference="6.6",
        fault_class="O3",
    ),
    Rule(
        id=RuleName.LOG_FOREIGN,
        severity=INFO,
        template=(
            "the commit log is another store's: {met_count:,} of its {record_count:record} "
            "{met_count?has|have} a unit, and the index does not know the log either"
        ),
        why=(
            "Queues and index agree that this log is not theirs. The messages that they know are not in this "
            "store."
        ),
        strictness="heuristic",
        level="cross",
        reference="6.6",
        fault_class="O3",
    ),
)
