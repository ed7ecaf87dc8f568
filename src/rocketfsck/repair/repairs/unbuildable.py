"""Which findings ask for a queue to be built again, and what keeps a queue from that.

impossible   no broker has a queue of such a name
occupied     what is not a file has the name of one of its files
linked       a symbolic link is in its place, above or below it, or leads there
contested    the log contradicts itself, or lacks what the queue still knows
"""

from __future__ import annotations

from collections.abc import Collection

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.consumequeue import UNIT_SIZE
from rocketfsck.formats.filename import filename_to_offset, is_directory_name, offset_to_filename
from rocketfsck.repair.area.links import dead_link_above, pin_on, pins_of
from rocketfsck.repair.area.manifests import outside_directories
from rocketfsck.repair.plan.arguments import Name
from rocketfsck.repair.plan.scene import PlanScene
from rocketfsck.repair.repairs.answers import number, one_by_one, queue_of
from rocketfsck.repair.repairs.reasons import DEAD_LINK, IMPOSSIBLE, LINKED, NEGATIVE, NO_FILE, NO_TEXT
from rocketfsck.store.model import Store, StrayReason
from rocketfsck.verify.emit import TREES, queue_directory
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.rules.catalog import RULES

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
    if not is_directory_name(name[0]):
        return IMPOSSIBLE
    if name[1] < 0:
        return NEGATIVE
    try:
        name[0].encode()
    except UnicodeEncodeError:  # bytes that are not UTF-8; a queue that is there is another matter
        return NO_TEXT if finding.rule == RuleName.QUEUE_MISSING else ""
    return ""


def blocked_directories(store: Store, moved: Collection[str]) -> frozenset[str]:
    """The directories of plain queues that cannot be merged with what is there: a FIFO, a socket, a device, a
    directory or a link without a target has the name of one of their files. No repair reads these; `moved`
    are the names of those that a repair sets aside."""
    size = store.geometry.consumequeue_file_size
    found = set()
    for stray in store.strays:
        above, _, last = stray.relative.rpartition("/")
        start = filename_to_offset(last)
        if (
            stray.reason in _NO_FILES
            and stray.relative not in moved
            and start is not None
            and not (start % UNIT_SIZE or start % size)  # others are set aside
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
    """The names that no repair of this store changes because of links (`repair.area.links.pins_of`)."""
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
    dead = any(dead_link_above(str(scene.store.root), f"{place}/{offset_to_filename(0)}") for place in places)
    return DEAD_LINK if dead else ""


def stays_wrong(scene: PlanScene) -> bool:
    """Whether a finding asks for a queue that is there to be built again, and it cannot be."""
    unclear, blocked = scene.once(contested), scene.once(blocked_now)
    return any(
        asks_to_build(finding)
        and (queue_of(finding) in unclear or occupied(blocked, finding) != "" or linked(scene, finding) != "")
        for finding in scene.findings
    )
