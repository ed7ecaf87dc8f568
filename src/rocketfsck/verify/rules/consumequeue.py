"""Rules CQ: consume queue, batch queue and extension units (reference 3, 9.3)."""

from __future__ import annotations

from rocketfsck.rulenames import RuleName
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.rule import Rule

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.UNIT_HOLE,
        severity=ERROR,
        template=(
            "{unit_count} units from queue offset {queue_offset} on are empty although later units are not"
        ),
        why=(
            "A broker takes the first invalid unit for the end of the queue and deletes or overwrites what "
            "follows."
        ),
        strictness="strict",
        level="cross",
        repair="rebuild-queue",
        reference="3.5, 9.3 Q1",
        fault_class="Q3",
    ),
    Rule(
        id=RuleName.UNIT_ORDER,
        severity=ERROR,
        template=(
            "unit {queue_offset} points to {physical_offset}, not behind the unit before it "
            "({previous_offset})"
        ),
        why=(
            "Dispatch follows the log, so offsets rise in every queue. The search for the minimum and by "
            "time relies on it. Two crashes in a row leave old units behind new ones."
        ),
        strictness="strict",
        level="cross",
        repair="rebuild-queue",
        reference="3.8, 9.3 Q2",
        fault_class="Q2",
    ),
    Rule(
        id=RuleName.PRE_BLANK_MISPLACED,
        severity=INFO,
        template=(
            "{unit_count} pre-blank units (0, 2147483647, 0) from queue offset {queue_offset} on, not at the "
            "start"
        ),
        why=(
            "Brokers write them only as a run from the start of a queue's first file. A rebuilding puts them "
            "in the places of records that the log does not have any more; where it has them, XR001 says so."
        ),
        strictness="strict",
        level="cross",
        repair="rebuild-queue",
        reference="3.3",
        fault_class="Q3",
    ),
    Rule(
        id=RuleName.UNIT_STALE,
        severity=WARNING,
        template="{unit_count} units from queue offset {queue_offset} on lie behind the end of the queue",
        why=(
            "Left by a truncation, which moves the end and leaves the bytes. Restart adopts them if the gap "
            "closes. Pre-blank units belong to the start of a queue only: a broker counts those that "
            "directly follow its last unit as units."
        ),
        strictness="heuristic",
        level="cross",
        repair="zero-stale-units",
        reference="6.6",
        fault_class="Q2",
    ),
    Rule(
        id=RuleName.UNIT_INVALID,
        severity=ERROR,
        template=(
            "unit {queue_offset} holds values that no broker writes (offset {physical_offset}, size {size})"
        ),
        why=(
            "A negative offset, or a size of zero or below beside other values. The queue ends here for a "
            "broker."
        ),
        strictness="strict",
        level="cross",
        repair="rebuild-queue",
        reference="3.5",
        fault_class="Q11",
    ),
    Rule(
        id=RuleName.UNIT_PARTIAL,
        severity=WARNING,
        template="{byte_count} bytes at the end of the file are no whole unit and not zero",
        why="The file was cut within a unit; some versions fail at start on it.",
        strictness="strict",
        level="cross",
        repair="rebuild-queue",
        reference="9.3 Q1",
        fault_class="Q6",
    ),
    Rule(
        id=RuleName.QUEUE_LAST_FILE_EMPTY,
        severity=WARNING,
        template="the last file is all zero although the queue has earlier files",
        why=(
            "A crash between the making and the filling of a file, or a truncation. 5.4 development versions "
            "fail at start on it; truncation keeps one phantom unit of zeros."
        ),
        strictness="heuristic",
        level="cross",
        repair="remove-empty-file",
        reference="3.5",
        fault_class="Q6",
    ),
    Rule(
        id=RuleName.QUEUE_EXPIRED,
        severity=INFO,
        template="all {unit_count} units point below the log's start",
        why=(
            "Every message of the queue has expired. 4.x and 5.x may remove such a queue; its numbering then "
            "starts again at 0."
        ),
        strictness="heuristic",
        level="cross",
        reference="9.3 Q10",
        fault_class="Q5",
    ),
    Rule(
        id=RuleName.UNITS_EXPIRED,
        severity=INFO,
        template="{unit_count} units before queue offset {min_live_offset} point below the log's start",
        why="Normal: a consume queue file goes only when its last unit has expired.",
        strictness="strict",
        level="cross",
        reference="3.5",
        fault_class="Q5",
    ),
    Rule(
        id=RuleName.QUEUE_PRE_BLANK_ONLY,
        severity=INFO,
        template="the queue holds nothing but {unit_count} pre-blank units",
        why=(
            "It was created for a message with a queue offset above 0 whose unit is not there. Its "
            "maxPhysicOffset reads as 2147483647: 4.5.1 to 4.9.8 then take the queue for ahead of the log."
        ),
        strictness="heuristic",
        level="cross",
        reference="3.3",
    ),
    Rule(
        id=RuleName.EXT_ADDRESS_DANGLING,
        severity=ERROR,
        template="unit {queue_offset} names the extension unit at {ext_offset}, where none starts",
        why="Filter data of the message is lost or another message's is read.",
        strictness="strict",
        level="cross",
        repair="rebuild-queue",
        reference="3.6",
        fault_class="Q9",
    ),
    Rule(
        id=RuleName.EXT_UNIT_MALFORMED,
        severity=ERROR,
        template="extension units from byte {start} on cannot be walked ({reason})",
        why="Recovery of the extension file ends here; what follows is lost to the broker.",
        strictness="strict",
        level="cross",
        repair="rebuild-queue",
        reference="3.6",
        fault_class="Q9",
    ),
    Rule(
        id=RuleName.EXT_UNIT_ORPHAN,
        severity=INFO,
        template="{unit_count} extension units are not named by any unit",
        why="Units of expired or truncated messages, or of a dispatch that was repeated.",
        strictness="heuristic",
        level="cross",
        reference="3.6",
        fault_class="Q9",
    ),
    Rule(
        id=RuleName.BATCH_UNIT_BASE,
        severity=ERROR,
        template="batch unit {unit_index} has base {queue_offset}, expected {expected.queue_offset}",
        why="Lookups search by base; bases and sizes must follow each other.",
        strictness="strict",
        level="cross",
        repair="rebuild-queue",
        reference="3.7",
        fault_class="Q11",
    ),
    Rule(
        id=RuleName.BATCH_UNIT_RESERVED,
        severity=WARNING,
        template="batch unit {unit_index} has compactedOffset {compacted_offset} and reserved {reserved}",
        why="Brokers write -1 and 0.",
        strictness="dialect",
        level="cross",
        repair="rebuild-queue",
        reference="3.7",
        fault_class="Q11",
    ),
)
