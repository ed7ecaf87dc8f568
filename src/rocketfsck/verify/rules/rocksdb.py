"""Rules RK: RocksDB databases, their files, their rows against the log (reference 3.9, 11.3 to 11.7)."""

from __future__ import annotations

from rocketfsck.rulenames import RuleName
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.rule import Rule

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.DATABASE_FILE_MISSING,
        severity=ERROR,
        template="{name} of the database {database} is missing: {detail}",
        why=(
            "The database names every file that it consists of. Without one of them RocksDB does not open "
            "it, and the broker does not start; without its last log it opens, and what was put last is "
            "gone."
        ),
        strictness="strict",
        level="quick",
        reference="11.4",
    ),
    Rule(
        id=RuleName.DATABASE_FILE_DAMAGED,
        severity=ERROR,
        template="{name} of the database {database} is damaged: {reason}",
        why="RocksDB does not open the database, or drops what is behind the damage without a word.",
        strictness="strict",
        level="quick",
        reference="11.4",
    ),
    Rule(
        id=RuleName.DATABASE_LOG_CUT,
        severity=WARNING,
        template="{name} of the database {database} ends in the midst of a record: {reason}",
        why=(
            "A broker that was killed may leave its last log so. What was being put is lost; the next "
            "start goes on without it, and puts what the commit log still has."
        ),
        strictness="heuristic",
        level="quick",
        reference="11.4",
    ),
    Rule(
        id=RuleName.DATABASE_UNREADABLE,
        severity=ERROR,
        template="RocksDB does not read the database {database}: {reason}",
        why="A broker reads it with the same code, and does not start, or stops answering from it.",
        strictness="strict",
        level="cross",
        reference="11.4",
    ),
    Rule(
        id=RuleName.DATABASE_ROW_ODD,
        severity=ERROR,
        template=(
            "{row_count} rows of the family {family} in {database} are none that a broker puts there; the "
            "first has the key {key}: {reason}"
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
            "Consumers are given another message than that of this queue offset, or none, or filter it "
            "wrongly."
        ),
        strictness="strict",
        level="cross",
        reference="3.9",
    ),
    Rule(
        id=RuleName.RECORD_WITHOUT_ROW,
        severity=ERROR,
        template=(
            "{database}: {record_count} records of {topic}/{queue_id} from {physical_offset} on have no unit"
        ),
        why="The messages are in the log, were dispatched once, and no consumer can get at them.",
        strictness="heuristic",
        level="cross",
        reference="3.9",
    ),
    Rule(
        id=RuleName.ROW_WITHOUT_RECORD,
        severity=ERROR,
        template=(
            "{database}: {unit_count} units of {topic}/{queue_id} from queue offset {queue_offset} on "
            "lead to no record of theirs ({problem})"
        ),
        why="Consumers wait for what is not in the log, or are given something else.",
        strictness="strict",
        level="cross",
        reference="3.9",
    ),
    Rule(
        id=RuleName.QUEUE_BOUND,
        severity=ERROR,
        template="{database}: the {bound} queue offset of {topic}/{queue_id} is {value}: {reason}",
        why=(
            "A broker takes the ends of a queue from these two rows and not from the units: messages "
            "outside of them are not given to consumers, and new ones are numbered from the greatest on."
        ),
        strictness="heuristic",
        level="cross",
        reference="3.9",
    ),
    Rule(
        id=RuleName.DISPATCH_MARK,
        severity=ERROR,
        template="{database}: the mark up to which records have units is {value}: {reason}",
        why="The next start dispatches from there: what is before the mark and has no unit never gets one.",
        strictness="heuristic",
        level="cross",
        reference="3.9",
    ),
    Rule(
        id=RuleName.ROW_TIME,
        severity=WARNING,
        template=(
            "{database}: the unit {queue_offset} of {topic}/{queue_id} has the time {value}, its record "
            "{expected.value}"
        ),
        why="A search by time answers by the times of the units.",
        strictness="strict",
        level="cross",
        reference="3.9",
    ),
    Rule(
        id=RuleName.INDEX_ROW_DANGLING,
        severity=ERROR,
        template=(
            "{database}: {row_count} index rows from {physical_offset} on are for no key of a record there"
        ),
        why="A query by this key is given another message, or nothing.",
        strictness="strict",
        level="cross",
        reference="11.3",
    ),
    Rule(
        id=RuleName.INDEX_ROW_MISSING,
        severity=ERROR,
        template="{database}: {row_count} keys of the record at {physical_offset} have no index row",
        why="Where the database answers queries, those by these keys miss the message.",
        strictness="heuristic",
        level="cross",
        reference="11.3",
    ),
    Rule(
        id=RuleName.MESSAGE_ROW,
        severity=ERROR,
        template=(
            "{database}: the {family} row of {unique_key} does not fit the log at {physical_offset}: {reason}"
        ),
        why=(
            "The delayed message is not delivered, or the transaction not asked about: the broker does "
            "not find it."
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
        why="The message is given again at another time, or to another group, or never.",
        strictness="strict",
        level="cross",
        reference="11.7",
    ),
    Rule(
        id=RuleName.DATABASE_CONFIG,
        severity=WARNING,
        template="{database} does not fit the queues: {problem} ({topic}/{queue_id})",
        why=(
            "The rule of that name says why, for configs that are kept as JSON. No repair changes a database."
        ),
        strictness="heuristic",
        level="cross",
        reference="11.5",
    ),
    Rule(
        id=RuleName.DATABASE_CONFIG_NOTE,
        severity=INFO,
        template="{database}: {problem} ({topic}/{queue_id})",
        why="The rule of that name says why, for configs that are kept as JSON.",
        strictness="heuristic",
        level="cross",
        reference="11.5",
    ),
)
