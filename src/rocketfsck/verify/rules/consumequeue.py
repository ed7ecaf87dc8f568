"""Rules CQ: consume queue, batch queue and extension units (reference 3, 9.3)."""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.finding import Rule, Severity

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.UNIT_HOLE,
        severity=ERROR,
        template=(
            "{unit_count:unit} from queue offset {queue_offset} on {unit_count?is|are} empty although later "
            "units are not"
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
            "unit {queue_offset} points to {physical_offset}, which is not after the unit before it "
            "({previous_physical_offset})"
        ),
        why=(
            "Dispatch follows the log, so offsets rise in every queue. The searches for the minimum offset "
            "and by time rely on this order. Two crashes in a row leave old units after new ones."
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
            "{unit_count:pre-blank unit} (0, 2147483647, 0) from queue offset {queue_offset} on, not at the "
            "start of the queue"
        ),
        why=(
            "Brokers write pre-blank units only as a run from the start of a queue's first file. A rebuild "
            "puts them in the places of records that the log no longer has; if the log does have the "
            "records, the check reports XR001."
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
        template=(
            "{unit_count:unit} from queue offset {queue_offset} on {unit_count?lies|lie} after the end of "
            "the queue"
        ),
        why=(
            "A truncation moves the end and leaves the bytes. A restart adopts these units if the gap "
            "closes. Pre-blank units belong only at the start of a queue: a broker counts pre-blank units "
            "that directly follow its last unit as units."
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
            "The offset is negative, or the size is zero or below while other fields are set. For a broker "
            "the queue ends here."
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
        template="the last {byte_count:byte} of the file {byte_count?is|are} not a whole unit and not zero",
        why="The file was cut inside a unit. Some versions fail to start on such a file.",
        strictness="strict",
        level="cross",
        repair="rebuild-queue",
        reference="9.3 Q1",
        fault_class="Q6",
    ),
    Rule(
        id=RuleName.QUEUE_LAST_FILE_EMPTY,
        severity=WARNING,
        template="the last file is all zeros although the queue has earlier files",
        why=(
            "A broker crashed between creating and filling the file, or truncated the queue. Development "
            "versions of 5.4 fail to start on it; a truncation keeps one phantom unit of zeros."
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
        template="all units of the queue ({unit_count:,}) point below the log's start",
        why=(
            "Every message of the queue has expired. Brokers 4.x and 5.x may remove such a queue; its "
            "numbering then starts again at 0."
        ),
        strictness="heuristic",
        level="cross",
        reference="9.3 Q10",
        fault_class="Q5",
    ),
    Rule(
        id=RuleName.UNITS_EXPIRED,
        severity=INFO,
        template=(
            "{unit_count:unit} before queue offset {min_live_offset} {unit_count?points|point} below the "
            "log's start"
        ),
        why=(
            "This state is normal: a broker deletes a consume queue file only when its last unit has expired."
        ),
        strictness="strict",
        level="cross",
        reference="3.5",
        fault_class="Q5",
    ),
    Rule(
        id=RuleName.QUEUE_PRE_BLANK_ONLY,
        severity=INFO,
        template="the queue holds only {unit_count:pre-blank unit}",
        why=(
            "A broker created the queue for a message with a queue offset above 0 whose unit is missing. The "
            "queue's maxPhysicOffset reads as 2147483647, so 4.5.1 to 4.9.8 take the queue to be ahead of "
            "the log."
        ),
        strictness="heuristic",
        level="cross",
        reference="3.3",
    ),
    Rule(
        id=RuleName.EXT_ADDRESS_DANGLING,
        severity=ERROR,
        template=(
            "unit {queue_offset} names the extension unit at {ext_offset}, but no extension unit starts there"
        ),
        why="The broker loses the filter data of the message, or reads that of another message.",
        strictness="strict",
        level="cross",
        repair="rebuild-queue",
        reference="3.6",
        fault_class="Q9",
    ),
    Rule(
        id=RuleName.EXT_UNIT_MALFORMED,
        severity=ERROR,
        template="extension units from byte {start} on cannot be read ({reason})",
        why="A recovery of the extension file ends here; the broker loses what follows.",
        strictness="strict",
        level="cross",
        repair="rebuild-queue",
        reference="3.6",
        fault_class="Q9",
    ),
    Rule(
        id=RuleName.EXT_UNIT_ORPHAN,
        severity=INFO,
        template="no unit names {unit_count:extension unit}",
        why="The extension units belong to expired or truncated messages, or to a repeated dispatch.",
        strictness="heuristic",
        level="cross",
        reference="3.6",
        fault_class="Q9",
    ),
    Rule(
        id=RuleName.BATCH_UNIT_BASE,
        severity=ERROR,
        template="batch unit {unit_number} has base {queue_offset}; expected {expected.queue_offset}",
        why="Lookups search by base, so bases and sizes must follow each other.",
        strictness="strict",
        level="cross",
        repair="rebuild-queue",
        reference="3.7",
        fault_class="Q11",
    ),
    Rule(
        id=RuleName.BATCH_UNIT_RESERVED,
        severity=WARNING,
        template="batch unit {unit_number} has compactedOffset {compacted_offset} and reserved {reserved}",
        why="Brokers write -1 and 0 here.",
        strictness="dialect",
        level="cross",
        repair="rebuild-queue",
        reference="3.7",
        fault_class="Q11",
    ),
)
