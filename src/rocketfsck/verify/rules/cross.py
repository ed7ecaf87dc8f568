"""Rules XR: commit log against consume queues and index (reference 3.8, 9.3, 9.4)."""

from __future__ import annotations

from rocketfsck.rulenames import RuleName
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.rule import Rule

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.RECORD_WITHOUT_UNIT,
        severity=ERROR,
        template=(
            "{record_count} records of {topic}/{queue_id} from queue offset {queue_offset} to "
            "{last_queue_offset} have no unit ({reason})"
        ),
        why="The messages are in the log and no consumer can get at them.",
        strictness="heuristic",
        level="cross",
        repair="rebuild-queue",
        reference="8, 9.3 Q8",
        fault_class="Q1",
    ),
    Rule(
        id=RuleName.QUEUE_MISSING,
        severity=ERROR,
        template="{topic}/{queue_id} has no consume queue, and {record_count} records in the log",
        why=(
            "Brokers make up for it only in part: after a clean stop most versions dispatch from where the "
            "other queues end, and new messages are numbered from 0 again."
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
        template="{topic}/{queue_id} has {record_count} records in the log, no consume queue and no topic",
        why="The topic was deleted; its records stay until their file expires.",
        strictness="heuristic",
        level="cross",
        reference="8",
        fault_class="Q8",
    ),
    Rule(
        id=RuleName.UNIT_BEYOND_LOG,
        severity=ERROR,
        template=(
            "{unit_count} units of {topic}/{queue_id} from queue offset {queue_offset} on point to "
            "{first_offset} and behind it; the log ends at {log_end}"
        ),
        why=(
            "Consumers would wait for, or read, what is not there. When the log has grown past these offsets "
            "the units point into the middle of other messages."
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
            "{unit_count} units of {topic}/{queue_id} from queue offset {queue_offset} on point to "
            "{first_offset}: {reason}"
        ),
        why=(
            "Units of before a truncation that a restart took up again: they point into newer, unrelated "
            "records."
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
            "units of {topic}/{queue_id}: records {first_queue_offset} to {last_queue_offset} have theirs "
            "{shift} places away"
        ),
        why=(
            "A unit's place in the queue is the queueOffset of its record; consumers commit offsets that do "
            "not fit."
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
            "unit {queue_offset} of {topic}/{queue_id} says {size} bytes; its record at {physical_offset} "
            "has {expected.size}"
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
            "unit {queue_offset} of {topic}/{queue_id} has tagsCode {tags_code}, expected "
            "{expected.tags_code}"
        ),
        why=(
            "Brokers filter by it before they read the record: subscribers by tag miss the message, or a "
            "delayed message is delivered at another time."
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
            "delay level {level} is {delay} ms in the units of {topic}/{queue_id}, not {expected.delay} ms"
        ),
        why="All units agree on it: the broker has another messageDelayLevel than the default.",
        strictness="config",
        level="cross",
        reference="2.11, 3.2",
    ),
    Rule(
        id=RuleName.UNIT_OF_DAMAGED_RECORD,
        severity=WARNING,
        template=(
            "{unit_count} units of {topic}/{queue_id} from queue offset {queue_offset} to "
            "{last_queue_offset} point into damaged bytes of the log, from {first_offset} on"
        ),
        why="These are the messages that the damage has cost this queue.",
        strictness="strict",
        level="cross",
        reference="9.3 Q4",
        fault_class="C2",
    ),
    Rule(
        id=RuleName.UNIT_IN_MISSING_SEGMENT,
        severity=ERROR,
        template=(
            "{unit_count} messages of {topic}/{queue_id} are lost with the commitlog files that are missing: "
            "queue offsets {queue_offset} to {last_queue_offset}, {byte_count} bytes"
        ),
        why="The consume queue lists exactly what was in the missing files.",
        strictness="strict",
        level="cross",
        reference="9.1 L2",
        fault_class="C5",
    ),
    Rule(
        id=RuleName.EXT_UNIT_CONTENT,
        severity=ERROR,
        template=(
            "extension unit of {topic}/{queue_id} {queue_offset} has {field} {value}, expected "
            "{expected.value}"
        ),
        why="Filter data of another message would be read.",
        strictness="strict",
        level="cross",
        repair="rebuild-queue",
        reference="3.6, 9.3 Q7",
        fault_class="Q9",
    ),
    Rule(
        id=RuleName.MULTI_DISPATCH_LISTS,
        severity=WARNING,
        template="record at {physical_offset} lists {queue_count} further queues and {offset_count} offsets",
        why="Lists of different lengths, or offsets that are no numbers: the further units are not written.",
        strictness="dialect",
        level="cross",
        reference="2.13",
        fault_class="Q3",
    ),
    Rule(
        id=RuleName.BATCH_UNIT_CONTENT,
        severity=ERROR,
        template=(
            "batch unit {unit_index} of {topic}/{queue_id} has {field} {value}; its record at "
            "{physical_offset} says {expected.value}"
        ),
        why="Consumers look a batch up by its base and count.",
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
            "{unit_count} units of {topic}/{queue_id} from queue offset {queue_offset} to "
            "{last_queue_offset} point to filler records, from {first_offset} on"
        ),
        why=(
            "A repair put filler in the place of records that were lost, and left their places in the queue: "
            "queue offsets have not moved. A consumer without a filter by tags is given the filler instead."
        ),
        strictness="strict",
        level="cross",
        reference="2.15, 9.3 Q4",
    ),
    Rule(
        id=RuleName.RECORD_UNINDEXED,
        severity=WARNING,
        template=(
            "{record_count} records from {physical_offset} to {last_offset} have keys and no index entry"
        ),
        why=(
            "Queries by key and by message id miss them. A broker that was killed deletes its newest index "
            "file at the next start and fills it again only from where recovery starts."
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
        template=(
            "the record at {physical_offset} has {missing_count} of {key_count} keys that are in no index"
        ),
        why="Queries by these keys miss the record.",
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
            "{entry_count} index entries from {entry} on point to {first_offset} and behind it; the log ends "
            "at {log_end}"
        ),
        why=(
            "Left over from a truncation, which does not touch indexes. Queries find nothing, or, when the "
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
            "{entry_count} index entries from {entry} on point to {first_offset}, where no record starts"
        ),
        why="A broker returns the bytes there without a look.",
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
            "index entry {entry} has the hash {hash}, not that of the key whose turn it is at "
            "{physical_offset}"
        ),
        why=(
            "Each key of a record has one entry, in the order of the keys. This one has the hash of no key "
            "of its record, or repeats one of them in the place of another: one key gives a message that "
            "does not have it, or gives one twice, and another key of the record is not found."
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
            "{entry_count} index entries from {entry} on repeat those of the records from {first_offset} on"
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
            "index entry {entry} has timeDiff {value}, expected {expected.value} by its record at "
            "{physical_offset}"
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
        template="the newest index file ends at {end_offset}, behind the log's end at {log_end}",
        why="Building skips every record below that offset: new messages are not indexed, without a word.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="4.5, 4.8",
        fault_class="I2",
    ),
    Rule(
        id=RuleName.ENTRIES_EXPIRED,
        severity=INFO,
        template="{entry_count} entries point below the log's start",
        why="Normal: an index file goes only when its last entry has expired.",
        strictness="strict",
        level="cross",
        reference="4.8",
        fault_class="Q5",
    ),
    Rule(
        id=RuleName.ENTRY_OF_DAMAGED_RECORD,
        severity=WARNING,
        template=(
            "{entry_count} index entries from {entry} on point into damaged bytes of the log, from "
            "{first_offset} on"
        ),
        why="They are of messages that the damage has cost.",
        strictness="strict",
        level="cross",
        repair="rebuild-index",
        reference="9.4 I12",
        fault_class="C2",
    ),
    Rule(
        id=RuleName.ENTRY_IN_MISSING_SEGMENT,
        severity=WARNING,
        template="{entry_count} index entries from {entry} on point into commitlog files that are missing",
        why="They are of messages that are lost with those files.",
        strictness="strict",
        level="cross",
        reference="9.1 L2",
        fault_class="C5",
    ),
    Rule(
        id=RuleName.INDEX_ABSENT,
        severity=INFO,
        template="the store has no index file, and {record_count} records with keys",
        why=(
            "Normal with messageIndexEnable=false; a broker.conf (--broker-conf) says whether it is. "
            "Otherwise queries by key find nothing: `rocketfsck plan STORE --only rebuild-index` builds the "
            "index again."
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
            "{entry_count} index entries of {record_count} records are for none of the records' keys, but "
            "regular: probably a feature of a broker that this version does not know"
        ),
        why=(
            "Each of these entries points to the start of a live record, has that record's timeDiff, and "
            "comes beside the entries of all keys of the record, in the same number for each record. Damage "
            "does not do that. Queries that this version does not know may need these entries, so no repair "
            "changes the index unless it is forced by name."
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
            "{unit_count} units of {topic}/{queue_id} are up to {most} places before their queueOffset: the "
            "broker gave numbers to {record_count} records that it wrote no unit for"
        ),
        why=(
            "From 5.0.0 on a broker gives a record a number in each light queue of its list, but writes no "
            "unit if the list ends with another name. Consumers use the places, not the numbers, so the "
            "queue is as they know it and must stay so."
        ),
        strictness="dialect",
        level="cross",
        reference="2.13, 3.4",
    ),
    Rule(
        id=RuleName.LIGHT_LISTS_UNUSED,
        severity=INFO,
        template=(
            "{record_count} records list further queues that the broker wrote no units for, first the one at "
            "{physical_offset}"
        ),
        why=(
            "From 5.0.0 on a broker gives offsets to light queues only. If the last name of a list is "
            "another one, it takes the lists for broken and writes no unit for any name."
        ),
        strictness="dialect",
        level="cross",
        reference="2.13",
    ),
    Rule(
        id=RuleName.INDEX_GONE,
        severity=WARNING,
        template="the index is gone, and {record_count} records have keys: {evidence}",
        why=(
            "A broker wrote an index for these records. Without its files, queries by key and by message id "
            "find nothing, and a broker does not index again what it has dispatched."
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
            "{record_count} records from {first_offset} to {last_offset} have tags without an index entry: a "
            "broker older than 5.4.0 wrote the entries of their keys"
        ),
        why=(
            "Brokers from 5.4.0 on put an index entry for the tags of a record, beside those of its keys. "
            "Queries by tag miss the records that an older broker indexed. `rocketfsck plan STORE --only "
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
            "{record_count} records from {physical_offset} to {last_offset} have index entries for their "
            "keys, but none for their tags"
        ),
        why="The records around them have one. Queries by tag miss these records.",
        strictness="heuristic",
        level="cross",
        repair="rebuild-index",
        reference="4.5, 9.4 I14",
        fault_class="I1",
    ),
)
