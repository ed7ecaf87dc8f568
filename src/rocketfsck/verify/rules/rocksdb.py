"""Rules RK: RocksDB databases, their files, their rows against the log (reference 3.9, 11.3 to 11.7)."""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.finding import Rule, Severity

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.DATABASE_FILE_MISSING,
        severity=ERROR,
        template="{name} of the database {database} is missing: {detail}",
        why=(
            "The database names every file that it consists of. If one is missing, RocksDB does not open the "
            "database and the broker does not start. If only its last log is missing, RocksDB opens the "
            "database without the last writes."
        ),
        strictness="strict",
        level="quick",
        repair="rebuild-queue-database",
        reference="11.4",
    ),
    Rule(
        id=RuleName.DATABASE_FILE_DAMAGED,
        severity=ERROR,
        template="{name} of the database {database} is damaged: {reason}",
        why="RocksDB does not open the database, or silently drops what follows the damage.",
        strictness="strict",
        level="quick",
        repair="rebuild-queue-database",
        reference="11.4",
    ),
    Rule(
        id=RuleName.DATABASE_LOG_CUT,
        severity=WARNING,
        template="{name} of the database {database} ends in the middle of a record: {reason}",
        why=(
            "A killed broker may leave its last log like this. The last write is lost. The next start "
            "continues without it, and writes again what the commit log still has."
        ),
        strictness="heuristic",
        level="quick",
        reference="11.4",
    ),
    Rule(
        id=RuleName.DATABASE_UNREADABLE,
        severity=ERROR,
        template="RocksDB cannot read the database {database}: {reason}",
        why="A broker reads the database with the same code, and does not start, or stops answering from it.",
        strictness="strict",
        level="cross",
        repair="rebuild-queue-database",
        reference="11.4",
    ),
    Rule(
        id=RuleName.DATABASE_ROW_ODD,
        severity=ERROR,
        template=(
            "{row_count:row} of the family {family} in {database} {row_count?does|do} not look like a "
            "broker's; the first has the key {key}: {reason}"
        ),
        why="A broker skips such a row, or fails on it when it loads the database.",
        strictness="strict",
        level="cross",
        reference="3.9",
    ),
    Rule(
        id=RuleName.ROW_DIFFERS,
        severity=ERROR,
        template=(
            "{database}: the unit {queue_offset} of {topic}/{queue_id} differs from its record ({problem})"
        ),
        why=(
            "Consumers get a different message for this queue offset, or none, or filter the message wrongly."
        ),
        strictness="strict",
        level="cross",
        repair="rebuild-queue-database",
        reference="3.9",
    ),
    Rule(
        id=RuleName.RECORD_WITHOUT_ROW,
        severity=ERROR,
        template=(
            "{database}: {record_count:record} of {topic}/{queue_id} from {physical_offset} on "
            "{record_count?has|have} no unit"
        ),
        why="The messages are in the log and were dispatched once, but no consumer can read them.",
        strictness="heuristic",
        level="cross",
        repair="rebuild-queue-database",
        reference="3.9",
    ),
    Rule(
        id=RuleName.ROWS_NOT_FLUSHED,
        severity=WARNING,
        template=(
            "{database}: {queue_count:queue} {queue_count?lacks|lack} the units of records from "
            "{physical_offset} on: the broker was killed before it flushed them"
        ),
        why=(
            "A broker keeps new units in memory and flushes them now and then. The next start dispatches "
            "these records again, but only from the commit log file in which its recovery begins. Older "
            "records get no unit, and the broker gives out their queue offsets again. `simulate` shows how "
            "far a start reaches."
        ),
        strictness="heuristic",
        level="cross",
        repair="rebuild-queue-database",
        reference="3.9",
    ),
    Rule(
        id=RuleName.ROW_WITHOUT_RECORD,
        severity=ERROR,
        template=(
            "{database}: {unit_count:unit} of {topic}/{queue_id} from queue offset {queue_offset} on "
            "{unit_count?leads|lead} to no matching record ({problem})"
        ),
        why="Consumers wait for messages that are not in the log, or get other messages.",
        strictness="strict",
        level="cross",
        repair="rebuild-queue-database",
        reference="3.9",
    ),
    Rule(
        id=RuleName.QUEUE_BOUND,
        severity=ERROR,
        template="{database}: the {bound} queue offset of {topic}/{queue_id} is {value}: {reason}",
        why=(
            "A broker takes the ends of a queue from these two rows, not from the units. Consumers do not "
            "get messages outside these ends, and the broker numbers new messages from the greatest on."
        ),
        strictness="heuristic",
        level="cross",
        repair="rebuild-queue-database",
        reference="3.9",
    ),
    Rule(
        id=RuleName.DISPATCH_MARK,
        severity=ERROR,
        template="{database}: the mark up to which records have units is {value}: {reason}",
        why=(
            "The next start dispatches from this mark: a record before the mark without a unit never gets "
            "one."
        ),
        strictness="heuristic",
        level="cross",
        repair="rebuild-queue-database",
        reference="3.9",
    ),
    Rule(
        id=RuleName.ROW_TIME,
        severity=WARNING,
        template=(
            "{database}: the unit {queue_offset} of {topic}/{queue_id} has the time {value}, its record "
            "{expected.value}"
        ),
        why="A search by time uses the times of the units.",
        strictness="strict",
        level="cross",
        repair="rebuild-queue-database",
        reference="3.9",
    ),
    Rule(
        id=RuleName.INDEX_ROW_DANGLING,
        severity=ERROR,
        template=(
            "{database}: {row_count:index row} from {physical_offset} on {row_count?matches|match} no key of "
            "a record there"
        ),
        why="A query by this key gets a different message, or nothing.",
        strictness="strict",
        level="cross",
        repair="rebuild-queue-database",
        reference="11.3",
    ),
    Rule(
        id=RuleName.INDEX_ROW_MISSING,
        severity=ERROR,
        template=(
            "{database}: {row_count:key} of the record at {physical_offset} {row_count?has|have} no index row"
        ),
        why="If the database answers queries, those by these keys miss the message.",
        strictness="heuristic",
        level="cross",
        repair="rebuild-queue-database",
        reference="11.3",
    ),
    Rule(
        id=RuleName.MESSAGE_ROW,
        severity=ERROR,
        template=(
            "{database}: the {family} row of {unique_key} does not fit the log at {physical_offset}: {reason}"
        ),
        why=(
            "The broker does not find the message: it does not deliver the delayed message, or does not "
            "check the transaction."
        ),
        strictness="strict",
        level="cross",
        reference="11.3",
    ),
    Rule(
        id=RuleName.POP_ROW,
        severity=ERROR,
        template=(
            "{database}: key and value of the POP record of {group} for {topic}/{queue_id} differ: {reason}"
        ),
        why="The broker delivers the message at another time, to another group, or never.",
        strictness="strict",
        level="cross",
        reference="11.7",
    ),
    Rule(
        id=RuleName.DATABASE_CONFIG,
        severity=WARNING,
        template="{database} does not fit the queues: {problem} ({topic}/{queue_id})",
        why=(
            "The rule of that name explains the problem, for configs kept as JSON. No repair changes a "
            "database."
        ),
        strictness="heuristic",
        level="cross",
        reference="11.5",
    ),
    Rule(
        id=RuleName.DATABASE_CONFIG_NOTE,
        severity=INFO,
        template="{database}: {problem} ({topic}/{queue_id})",
        why="The rule of that name explains the problem, for configs kept as JSON.",
        strictness="heuristic",
        level="cross",
        reference="11.5",
    ),
    Rule(
        id=RuleName.TOPICS_NOT_WRITTEN,
        severity=INFO,
        template=(
            "{database} does not list {topic_count:topic} with messages from after its last change ({topics})"
        ),
        why=(
            "A broker with configManagerVersion=v2 never writes the topics and groups that it makes itself, "
            "when the first message or consumer comes, and each start forgets them. This state is normal. "
            "The messages are there, and consumers get an error until a producer sends to the topic, or "
            "somebody creates it, with the same number of queues. A deleted topic has no message from after "
            "the last change of the table."
        ),
        strictness="heuristic",
        level="cross",
        reference="11.5",
    ),
)
