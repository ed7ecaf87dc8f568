"""Why a finding stays as it is: where no repair answers its rule, or not always.

Which findings ask for a queue to be built again, and what keeps a queue from that.

impossible   no broker has a queue of such a name
occupied     what is not a file has the name of one of its files
linked       a symbolic link is in its place, above or below it, or leads there
contested    the log contradicts itself, or lacks what the queue still knows
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rocketfsck.common.documents import printable
from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats import consumequeue, dialect, smallfiles
from rocketfsck.repair.area.manifests import dead_link_above, outside_directories, pin_on, pins_of
from rocketfsck.repair.plan.arguments import Name
from rocketfsck.repair.plan.table import PlanScene
from rocketfsck.repair.repairs.answers import number, one_by_one, queue_of
from rocketfsck.store.elsewhere import QUEUE_DATABASES
from rocketfsck.store.model import Store, StrayReason
from rocketfsck.verify.finding import TREES, Finding, Severity, queue_directory
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.timers import ANEW_OUTCOME

_OWN = "the producer sent the record like this, or its former content is unknown; brokers read on after it"
_COPY = "only another copy of the store can show that: rocketfsck compare"

IMPOSSIBLE = "no directory can have the topic's name, so no broker can create a queue for it"
NEGATIVE = "no queue has a negative queueId: the record is damaged, and its real queue lacks it"
CONTESTED = "the log alone does not define this queue: the log lacks messages, or has two for one place"
_TIERED = "no repair changes tiered storage: "
_TIERED_METADATA = (
    _TIERED
    + "restore the metadata and the segments from one copy before a broker starts: a start writes the "
    "metadata again, and creates empty files in place of missing segments"
)
_TIERED_RECORD = _TIERED + "the commit log may still have the message; " + _COPY
_TIERED_INDEX = (
    _TIERED + "queries by key and by offset work without it for messages that the commit log still has"
)
HIDDEN = "a BLANK hides records that the queue may need: make a new plan after this one is applied"
OF_DLEDGER = (
    "the commit log belongs to DLedger: no repair changes that log or the files that its recovery reads; "
    "replace the store by a copy of the whole store of a healthy node of the group"
)
OPEN_ENTRIES = (
    "the last entries of DLedger's log are not yet agreed on by the group, and {repair} would show "
    "these entries: start the node in its group, stop it and make a new plan; --only {repair} forces the "
    "repair"
)
NO_LOG = (
    "the log has no sound record, and queues and index are the best evidence of what it held: salvage the "
    "log, or copy it back, before {repair}; --only {repair} forces the repair"
)
NO_FILE = "a directory, link or device has the name of a file of the queue: move it away and make a new plan"
LINKED = (
    "the place is a symbolic link, or a link leads to it: a repair changes neither links nor their targets"
)
DEAD_LINK = "a symbolic link without a target is in its place: mount the target, or remove the link"
NO_TEXT = "the topic is not valid UTF-8, so a broker creates a queue of another name for it"

UNDERIVED = (
    "no other file has what the database {database} held: copy its whole directory back from a backup or a "
    "replica"
)
_DATABASE = (
    "the log does not show what the database must hold, or rocksdict, which makes databases, is not "
    "installed; to build the queues outside the store, run "
    "rocketfsck rebuild consumequeue --into DIRECTORY"
)

IN_THE_WAY = "the directory {database} cannot be made while a file has its name: move the file away first"
BY_A_START = "the next start makes the file again"
READS_DIFFER = "two reads of the same bytes differ (ST048), so {repair} cannot know what the store holds"
NEWER_VERSION = (
    f"{{repair}} would write for a version newer than {dialect.NEWEST_NAME}, the newest that is known; "
    "--only {repair} forces the repair"
)
REASONS: Mapping[str, str] = {
    RuleName.TOPICS_FOREIGN: "no repair merges topics: put the topics.json of this broker back",
    RuleName.CONSUMER_OFFSETS_GONE: (
        "no file of this store has the offsets: take them from a replica or a backup with "
        "rocketfsck fix --offsets FILE"
    ),
    RuleName.READS_DIFFER: (
        "nobody knows the bytes while reads of them differ: copy the store and check the copy"
    ),
    RuleName.SEGMENT_LENGTH: "the bytes after the expected length are not zero: they may be data",
    RuleName.LOG_BEGINNING_GONE: ("the messages are lost with their files, unless these are found; " + _COPY),
    RuleName.SEGMENT_GAP: (
        "the gap is not a whole number of files, or is too large: copy the missing files back"
    ),
    RuleName.SEGMENT_OVERLAP: (
        "two segments hold the same offsets, and the files do not show which one is right; "
    )
    + _COPY,
    RuleName.SEGMENT_TWICE: "both files hold data; " + _COPY,
    RuleName.SEGMENT_ALIGNMENT: (
        "segments of another size were mixed in: set mappedFileSizeCommitLog to the size at which they "
        "were written"
    ),
    RuleName.COMMITLOG_MISSING: "the commit log is somewhere else: mount it before any broker starts",
    RuleName.QUEUES_OF_ANOTHER_LOG: (
        "queues and commit log come from two stores: find the log that belongs to these queues"
    ),
    RuleName.NOT_A_STORE: "the directory holds nothing to repair",
    RuleName.REPAIR_INTERRUPTED: "an earlier repair has to be finished (fix) or taken back (undo) first",
    RuleName.QUEUE_KIND_TWICE: (
        "both kinds of queues hold units, and only the topic's setting says which kind consumers use"
    ),
    RuleName.QUEUE_KIND_ATTRIBUTE: "the topic has queues of both kinds",
    RuleName.LOG_FILE_APPENDED: "another file has the name of what is appended: move that file away first",
    RuleName.LOG_FILE_COPIED: (
        "the log continues after the copy, and needs a file in its place: salvage writes a store with "
        "filler there"
    ),
    RuleName.LINK_DANGLING: "the target of the link is missing: mount it, or remove the link",
    RuleName.LOG_BOUNDARY_LOST: "too few bytes to hold a filler record: salvage writes a store without them",
    RuleName.RECORD_MALFORMED: "too few bytes to hold a filler record: salvage writes a store without them",
    RuleName.RECORD_BODY_CRC: (
        "no single flipped bit explains the mismatch, so either the body or the CRC is wrong; "
    )
    + _COPY,
    RuleName.RECORD_PROPERTY_CRC: "the changed byte of the record is unknown; " + _COPY,
    RuleName.RECORD_PHYSICAL_OFFSET: (
        "no unit confirms the place of the record: salvage judges the record by its content"
    ),
    RuleName.RECORD_SYS_FLAG: _OWN,
    RuleName.RECORD_HOST_PORT: _OWN,
    RuleName.RECORD_NEGATIVE_FIELD: _OWN,
    RuleName.RECORD_TOPIC: _OWN,
    RuleName.RECORD_PROPERTIES_NUL: "the body is sound; no other file has the lost properties",
    RuleName.RECORD_DELAY_LEVEL: _OWN,
    RuleName.RECORD_INNER_BATCH: _OWN,
    RuleName.RECORD_END_OF_FILE: _OWN,
    RuleName.RECORD_COMPRESSED_BODY: _OWN,
    RuleName.BLANK_TOO_EARLY: (
        "no unit leads to the bytes that the BLANK hides: they may predate a truncation of the log; "
    )
    + _COPY,
    RuleName.PREPARED_RECORD_MISSING: "the log does not show whether the half message expired or is lost",
    RuleName.QUEUE_OFFSET_REPEATED: (
        "the log has two messages for one place in the queue, and the queue can hold only one of them"
    ),
    RuleName.QUEUE_OFFSET_GAP: "the log lacks the messages in between; " + _COPY,
    RuleName.LOG_NO_RECORDS: "the whole log has no sound record: salvage looks at every byte",
    RuleName.RECORD_TOO_NEW: "run a broker of 5.1.0 or later on this store",
    RuleName.RECORD_INNER_BATCH_FLAG: _OWN,
    RuleName.RECORD_PREPARED_OFFSET: _OWN,
    RuleName.RECORD_COMMIT_FLAG: _OWN,
    RuleName.RECORD_RECONSUME_TIMES: _OWN,
    RuleName.RECORD_BORN_TIMESTAMP: _OWN,
    RuleName.RECORD_STORE_TIMESTAMP: _OWN,
    RuleName.TIMER_FILE_MISSING: "no other file has its contents: copy it back before any broker starts",
    RuleName.TIMER_LOG_GAP: "no other file has the units of a timer log; " + _COPY,
    RuleName.TIERED_METADATA: _TIERED_METADATA,
    RuleName.TIERED_SEGMENT_MISSING: _TIERED_METADATA,
    RuleName.TIERED_SEGMENT_UNLISTED: _TIERED_METADATA,
    RuleName.TIERED_SEGMENT_SHORT: _TIERED_METADATA,
    RuleName.TIERED_SEGMENT_LONG: _TIERED + "the next start corrects the size of a queue's last segment",
    RuleName.TIERED_SEGMENT_GAP: _TIERED_METADATA,
    RuleName.TIERED_SEGMENT_TIME: _TIERED + "the times are corrected by the broker with the next message",
    RuleName.TIERED_RECORD: _TIERED_RECORD,
    RuleName.TIERED_BODY_CRC: _TIERED_RECORD,
    RuleName.TIERED_UNIT: _TIERED_RECORD,
    RuleName.TIERED_RECORD_WITHOUT_UNIT: _TIERED + "a broker that still has the messages writes them again",
    RuleName.TIERED_NOT_AS_LOCAL: _TIERED + "which of the two is right is not in the files; " + _COPY,
    RuleName.TIERED_CODA: _TIERED + "nobody reads the time",
    RuleName.TIERED_INDEX_HEADER: _TIERED_INDEX,
    RuleName.TIERED_INDEX_SLOT: _TIERED_INDEX,
    RuleName.TIERED_INDEX_ITEM: _TIERED_INDEX,
    RuleName.TIERED_KEY_UNINDEXED: _TIERED_INDEX,
    RuleName.CONFIG_LOST: (
        "neither the file nor a .bak has usable content: write the file again, or copy it from another broker"
    ),
    RuleName.CONFIG_BACKUP_NEWER: "the .bak does not have the shape that the broker loads",
    RuleName.CONFIG_SHAPE: (
        "no .bak has the right shape: write the file again, or copy it from another broker"
    ),
    RuleName.CONSUMER_OFFSET_OF_LOST_UNITS: (
        "the units that the group consumed are gone: the group waits until the queue has grown past its "
        "offset"
    ),
    RuleName.CONSUMER_OFFSET_NEGATIVE: (
        "the group's real offset is unknown: reset the offset when the broker runs"
    ),
    RuleName.ABORT_PRESENT: (
        "an abnormal recovery would reach damage that remains in the log, or the store holds something that "
        "this version does not know: leave the recovery to the broker"
    ),
    RuleName.INDEX_FILE_DOOMED: "there is no checkpoint that could record the end of the index file",
    RuleName.RECORD_WITHOUT_UNIT: "the log has two messages for this place in the queue",
    RuleName.UNIT_BEYOND_LOG: ("the queues belong to another log, or some later units point into the log"),
    RuleName.UNIT_GHOST: "the log has two messages for this place in the queue",
    RuleName.UNIT_SHIFTED: "the log has two messages for this place in the queue",
    RuleName.UNIT_OF_DAMAGED_RECORD: "the messages were destroyed with the damaged bytes; " + _COPY,
    RuleName.UNIT_IN_MISSING_SEGMENT: "the messages are lost with their file; " + _COPY,
    RuleName.MULTI_DISPATCH_LISTS: "the record itself has these lists: brokers write no further units for it",
    RuleName.ENTRY_IN_MISSING_SEGMENT: (
        "the messages are lost with their file; a rebuild of the index removes the entries"
    ),
    **dict.fromkeys(
        (
            RuleName.DATABASE_FILE_MISSING,
            RuleName.DATABASE_FILE_DAMAGED,
            RuleName.DATABASE_UNREADABLE,
            RuleName.DATABASE_ROW_ODD,
            RuleName.ROW_DIFFERS,
            RuleName.RECORD_WITHOUT_ROW,
            RuleName.QUEUE_BOUND,
            RuleName.DISPATCH_MARK,
            RuleName.ROW_TIME,
        ),
        _DATABASE,
    ),
    RuleName.ROW_WITHOUT_RECORD: "the messages were destroyed with the log; " + _COPY,
    RuleName.MESSAGE_ROW: (
        "the log does not show which messages the broker delivered or asked about: no repair makes or "
        "removes such a row"
    ),
    RuleName.POP_ROW: "only the database has the record: the broker removes it when its time has come",
}
"""By rule id. Rules without a reason here get the planner's reason."""


EXTENSIONS = "consumequeue_ext"
_NOT_BUILT = frozenset(
    {RuleName.QUEUE_OFFSET_REPEATED, RuleName.QUEUE_KIND_TWICE, RuleName.CONSUMER_OFFSET_OF_LOST_UNITS}
)
"""Rules that ask for a queue to be built again where that alone does not help, or need not be."""
_NO_FILES = frozenset(
    {StrayReason.SPECIAL, StrayReason.DIRECTORY, StrayReason.DANGLING, StrayReason.UNREADABLE}
)
_OF_LOST = frozenset(
    {RuleName.UNIT_OF_DAMAGED_RECORD, RuleName.UNIT_IN_MISSING_SEGMENT, RuleName.UNIT_OF_FILLER}
)


def asks_to_build(finding: Finding) -> bool:
    """Whether a finding asks for its queue to be built again."""
    rule = RULES[finding.rule]
    if finding.rule == RuleName.SEGMENT_GAP:
        area = finding.where.file.partition("/")[0]
        return area in ("consumequeue", "batchconsumequeue", "consumequeue_ext")
    return (
        rule.repair == "rebuild-queue"
        and finding.rule not in _NOT_BUILT
        and rule.severity is not Severity.INFO
    )


def contested(scene: PlanScene) -> set[Name]:
    """Queues that cannot be built from the log, be they there or not: it contradicts itself, or lacks what
    the queue still knows:

    - The log has two records for one place. A broker that builds such a queue skips one of the two, or shifts
      all after it, by the order of the log alone.
    - A record's own queueOffset is out of line with the records around it, and its unit is in line; or the
      log lacks the very message whose unit seems to belong to no record: damage of the record, not of the
      queue.
    - A batch queue has units of lost messages. Such a queue is built as a whole, and their places would go.
    """
    queues = scene.store.queues
    named = [(queue_of(finding), finding) for finding in one_by_one(scene.findings)]
    jumps = {
        (name, finding.where.queue_offset)
        for name, finding in named
        if finding.rule == RuleName.QUEUE_OFFSET_GAP
    }
    unclear: set[Name | None] = set()
    batch = {(queue.topic, queue.queue_id) for queue in queues if queue.kind == "batch"}
    for name, finding in named:
        first = number(finding.found, "first_queue_offset")
        behind = number(finding.found, "last_queue_offset", -1) + 1
        if (
            finding.rule in (RuleName.QUEUE_OFFSET_REPEATED, RuleName.QUEUE_BEGINS_AGAIN)
            or (finding.rule == RuleName.UNIT_SHIFTED and (first < 0 or (name, first) in jumps))
            or (finding.rule == RuleName.UNIT_GHOST and (name, behind) in jumps)
            or (finding.rule in _OF_LOST and name in batch)
        ):
            unclear.add(name)
    return {name for name in unclear if name is not None}


def impossible(finding: Finding) -> str:
    """Why no broker can make the queue that a finding misses; "" where one can."""
    name = queue_of(finding)
    if not finding.rule.startswith("XR") or name is None:
        return ""
    if not smallfiles.is_directory_name(name[0]):
        return IMPOSSIBLE
    if name[1] < 0:
        return NEGATIVE
    try:
        name[0].encode()
    except UnicodeEncodeError:  # bytes that are not UTF-8; a queue that is there is another matter
        return NO_TEXT if finding.rule == RuleName.QUEUE_MISSING else ""
    return ""


def in_the_way(store: Store, finding: Finding) -> str:
    """Why the database that a finding names cannot be built: a file has the name of its directory; "" where
    none has."""
    database = finding.found.get("database")
    is_file = any(stray.relative == database and stray.reason is StrayReason.FILE for stray in store.strays)
    return IN_THE_WAY.replace("{database}", str(database)) if is_file else ""


def made_by_a_start(finding: Finding) -> str:
    """Why a file that a finding misses need not be copied back; "" where it must be."""
    return BY_A_START if finding.found.get("outcome") == ANEW_OUTCOME else ""


def underived(finding: Finding) -> str:
    """Why the database that a finding names cannot be made again; "" where it can, or none is named."""
    database = finding.found.get("database")
    if not finding.rule.startswith("RK") or not isinstance(database, str):
        return ""
    kept = database in QUEUE_DATABASES or database == "rocksdbstore"
    shown = printable(database).replace("{", "{{").replace("}", "}}")
    return "" if kept else UNDERIVED.replace("{database}", shown)


def blocked_directories(store: Store, moved: Collection[str]) -> frozenset[str]:
    """The directories of plain queues that cannot be merged with what is there: a FIFO, a socket, a device, a
    directory or a link without a target has the name of one of their files. No repair reads these; `moved`
    are the names of those that a repair sets aside."""
    size = store.geometry.consumequeue_file_size
    found = set()
    for stray in store.strays:
        above, _, last = stray.relative.rpartition("/")
        start = smallfiles.filename_to_offset(last)
        if (
            stray.reason in _NO_FILES
            and stray.relative not in moved
            and start is not None
            and not (start % consumequeue.UNIT_SIZE or start % size)  # others are set aside
            and above.startswith(f"{TREES['file']}/")
        ):
            found.add(above)
    return frozenset(found)


def blocked_now(scene: PlanScene) -> frozenset[str]:
    """`blocked_directories`, less what is set aside because brokers would take it for a file of a queue."""
    findings = one_by_one(scene.findings)
    moved = {finding.where.file for finding in findings if finding.rule == RuleName.FOREIGN_FILE}
    return blocked_directories(scene.store, moved)


def occupied(blocked: Collection[str], finding: Finding) -> str:
    """Why the queue of a finding cannot be merged with what is there; "" where it can. A finding that names
    no queue is about all of them."""
    name = queue_of(finding)
    here = bool(blocked) if name is None else queue_directory(*name, "file") in blocked
    return NO_FILE if here else ""


def pins_now(scene: PlanScene) -> dict[str, str]:
    """The names that no repair of this store changes because of links (`repair.area.manifests.pins_of`)."""
    root, locations = str(scene.store.root), scene.store.commitlog.locations
    return pins_of(root, [str(path) for path in outside_directories(root, locations) if path.is_dir()])


def linked(scene: PlanScene, finding: Finding) -> str:
    """Why the queue of a finding is left alone for a link; "" where it is not, or where no queue is named."""
    name = queue_of(finding)
    if name is None:
        return ""
    places = [f"{tree}/{name[0]}/{name[1]}" for tree in (*TREES.values(), EXTENSIONS)]
    if any(pin_on(place, scene.once(pins_now)) for place in places):
        return LINKED
    dead = any(
        dead_link_above(str(scene.store.root), f"{place}/{smallfiles.offset_to_filename(0)}")
        for place in places
    )
    return DEAD_LINK if dead else ""


def stays_wrong(scene: PlanScene) -> bool:
    """Whether a finding asks for a queue that is there to be built again, and it cannot be."""
    unclear, blocked = scene.once(contested), scene.once(blocked_now)
    return any(
        asks_to_build(finding)
        and (queue_of(finding) in unclear or occupied(blocked, finding) != "" or linked(scene, finding) != "")
        for finding in scene.findings
    )
