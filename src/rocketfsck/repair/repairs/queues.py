"""Consume queues built again from the log.

A queue is built from the log and laid over what is there (`queuemerge`); extension files are built with it,
without the filter bit maps, which are in no other file: the plan counts them. One action builds all queues
that are wrong, whichever finding asks for it. Fault catalogue Q1 to Q11; reference 3, 6.6.

Queues that nothing belongs to, and files in which nothing is: they are set aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError
from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.formats.timer import DEFAULT_DELAY_LEVELS, parse_delay_levels
from rocketfsck.reader.records import LogReader
from rocketfsck.reader.units import Kind, UnitReader, count_bit_maps, kinds_of
from rocketfsck.repair.build.queues import build_queues
from rocketfsck.repair.plan.arguments import Arguments, Name, QueuesToBuild
from rocketfsck.repair.plan.basis import queues_of
from rocketfsck.repair.plan.model import Action, Extent, Loss
from rocketfsck.repair.plan.table import ActScene, PlanScene, Repair, Row
from rocketfsck.repair.repairs import answers, misnamed, reasons
from rocketfsck.repair.repairs.groupoffsets import committed_behind, is_beyond_records, offsets_follow
from rocketfsck.repair.repairs.queuemerge import Merger
from rocketfsck.store.model import ConsumeQueue, ExtQueue, Store
from rocketfsck.verify.finding import TREES, Finding, queue_directory
from rocketfsck.verify.tasks.task import is_aggregate
from rocketfsck.verify.watched import unknown_areas

_BLOCK_COUNT = 1 << 15


def plan_ghosts(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Queues of no topic whose messages are all gone."""
    if misnamed.is_unsettled(scene):
        return
    for finding in answers.one_by_one(findings):
        name = answers.queue_of(finding)
        queues = [item for item in scene.store.queues if (item.topic, item.queue_id) == name]
        if queues:
            queue = queues[0]
            yield answers.answer(
                "remove-ghost-queue",
                finding.where.file,
                "move the queue aside: its topic is unknown and all of its messages are gone",
                [finding],
                preconditions=answers.files_of_queues(scene, queues),
                losses=[
                    Loss(
                        "unit",
                        answers.number(finding.found, "unit_count"),
                        queue.topic,
                        queue.queue_id,
                        kept_in="set aside",
                    )
                ],
            )


def plan_wrong_trees(scene: PlanScene, findings: Iterable[Finding]) -> Iterator[Action]:
    """Queues of zeros in the tree of the other kind: the topic has its messages in the one it is in."""
    for finding in answers.one_by_one(findings):
        topic = finding.where.topic
        if finding.rule != RuleName.QUEUE_KIND_TWICE or topic is None:
            continue
        for kind in ("batch", "file"):
            queues = [item for item in scene.store.queues if item.topic == topic and item.kind == kind]
            if queues and all(_is_empty(queue) for queue in queues):
                directory = f"{TREES[kind]}/{topic}"
                yield answers.answer(
                    "remove-ghost-queue",
                    directory,
                    "move the queues aside: they are empty, and the topic has queues of the other kind",
                    [finding],
                    preconditions=answers.files_of_queues(scene, queues),
                )
                break


def _is_empty(queue: ConsumeQueue) -> bool:
    with UnitReader(queue) as reader:
        for low, high in reader.with_data(reader.first_index, reader.end_index):
            for index in range(low, high, _BLOCK_COUNT):
                if reader.units(index, min(_BLOCK_COUNT, high - index)).view("u1").any():
                    return False
    return True


def plan_empty_files(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Last files of queues, and index files, in which nothing is."""
    for name, found in answers.by_file(answers.one_by_one(findings)).items():
        if name == "index":
            yield from _empty_indexes(scene, found)
        else:
            yield answers.answer(
                "remove-empty-file",
                name,
                "move the file aside: it is empty",
                found,
                preconditions=answers.whole_file(scene, name),
            )


def _empty_indexes(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    empty = {finding.where.file for finding in scene.findings if finding.rule == RuleName.INDEX_EMPTY}
    for file in scene.store.indexes:
        if file.relative in empty:
            yield answers.answer(
                "remove-empty-file",
                file.relative,
                "move the file aside: it holds no entry",
                findings,
                preconditions=answers.whole_file(scene, file.relative),
            )


def act_set_aside(scene: ActScene, action: Action, _arguments: Arguments) -> None:
    """Move the file or directory out of the tree."""
    if scene.tree.exists(action.target):
        scene.tree.set_aside(action.target)


LEFTOVER_ROWS: tuple[Row, ...] = (
    Repair(
        "remove-ghost-queue",
        300,
        "move aside a queue without topic and messages",
        plan_ghosts,
        act_set_aside,
        Arguments,
        answers=(RuleName.QUEUE_KIND_TWICE,),
    ),
    Repair(
        "remove-empty-file",
        325,
        "move empty files aside",
        plan_empty_files,
        act_set_aside,
        Arguments,
    ),
)


_AREAS = ("consumequeue", "batchconsumequeue", "consumequeue_ext", "commitlog")
_LOST = frozenset({RuleName.RECORD_WITHOUT_UNIT, RuleName.QUEUE_MISSING})


def rebuild_queues(scene: PlanScene) -> Iterator[Action]:
    """The one action that builds all queues again of which findings say that they are wrong.

    The action is the same whichever finding asks for it. Queues of a log that is not theirs are left alone.
    """
    if misnamed.is_unsettled(scene) or misnamed.lacks_its_log(scene):
        return
    unclear, blocked = scene.once(reasons.contested), scene.once(reasons.blocked_now)
    asked = [
        finding
        for finding in scene.findings
        if reasons.asks_to_build(finding)
        and answers.queue_of(finding) not in unclear
        and not (
            reasons.impossible(finding)
            or reasons.occupied(blocked, finding)
            or reasons.linked(scene, finding)
        )
    ]
    if not asked:
        return
    found = {answers.queue_of(finding) for finding in asked}
    every = None in found
    names = {name for name in found if name is not None}
    why = [
        *asked,
        *(
            finding
            for finding in scene.findings
            if finding.rule == RuleName.CONSUMER_OFFSET_OF_LOST_UNITS
            and (every or answers.queue_of(finding) in names)
        ),
    ]
    queues = [queue for queue in scene.store.queues if every or (queue.topic, queue.queue_id) in names]
    ends = _new_ends(asked, queues)
    levels, losses = _stated_levels(scene), [*_losses(asked), *_expired(scene, queues)]
    count = sum(answers.number(finding.found, "record_count") for finding in asked if finding.rule in _LOST)
    yield from answers.in_the_way(
        scene,
        {
            place
            for tree in TREES.values()
            for topic, queue_id in names
            for place in (tree, f"{tree}/{topic}", f"{tree}/{topic}/{queue_id}")
        },
    )
    yield answers.answer(
        "rebuild-queue",
        "consumequeue",
        _note(names, every, queues),
        why,
        arguments=QueuesToBuild(None if every else tuple(sorted(names)), levels),
        preconditions=[*answers.files_of_queues(scene, queues), *log_beginnings(scene)],
        losses=losses,
        gains={"record": count} if count else {},
        write_byte_count=_size_of(scene.store, queues)
        or len(names) * scene.store.geometry.consumequeue_file_size,
        notices=[
            answers.notice("consumable-again", count),
            answers.notice("renumbered", _renumbered(asked)),
            answers.notice("committed-beyond", committed_behind(scene, ends)),
            answers.notice(
                "bit-maps-dropped",
                sum(
                    map(count_bit_maps, scene.store.ext_queues if every else _extensions(scene.store, names))
                ),
            ),
        ],
    )
    yield from offsets_follow(scene, ends, always=any(map(is_beyond_records, why)))


def _extensions(store: Store, names: set[Name]) -> Iterator[ExtQueue]:
    """The extensions of these queues."""
    return (ext for ext in store.ext_queues if (ext.topic, ext.queue_id) in names)


def _size_of(store: Store, queues: Iterable[ConsumeQueue]) -> int:
    """How many bytes the files of queues have once they are built: of one that is too long, only its own."""
    sizes = {"file": store.geometry.consumequeue_file_size, "batch": store.geometry.batch_file_size}
    return sum(min(file.size, sizes[queue.kind]) for queue in queues for file in queue.files)


def _note(names: set[Name], every: bool, queues: Sequence[ConsumeQueue]) -> str:
    if every:
        return f"rebuild all queues from the log ({len(queues):,} exist)"
    if len(names) == 1:
        topic, queue_id = next(iter(names))
        return f"rebuild queue {topic}/{queue_id} from the log"
    return f"rebuild {count_of(len(names), 'queue')} from the log"


def _stated_levels(scene: PlanScene) -> str | None:
    """`messageDelayLevel` as the units of the schedule topic tell it; None: nothing else than is known."""
    stated = {
        answers.number(finding.found, "level"): answers.number(finding.found, "delay_ms")
        for finding in answers.one_by_one(scene.findings)
        if finding.rule == RuleName.DELAY_LEVELS_INFERRED
    }
    if not stated or scene.store.delay_levels_source == "given":
        return None
    levels = {**DEFAULT_DELAY_LEVELS, **stated}
    if any(delay % 1000 or delay <= 0 for delay in levels.values()) or set(levels) != set(
        range(1, len(levels) + 1)
    ):
        return None
    return " ".join(f"{levels[level] // 1000}s" for level in sorted(levels))


def _losses(findings: Iterable[Finding]) -> list[Loss]:
    """Units that point to nothing of their queue: they go, and nothing valid with them."""
    losses = []
    for finding in findings:
        if finding.rule == RuleName.UNIT_GHOST and not is_aggregate(finding):
            where = finding.where
            count = answers.number(finding.found, "unit_count")
            first = where.queue_offset
            last = answers.number(finding.found, "last_queue_offset", (first or 0) + count - 1)
            losses.append(Loss("unit", count, where.topic, where.queue_id, first, last))
    return losses


def _renumbered(findings: Iterable[Finding]) -> int:
    """Records whose units are elsewhere in their queue than they will be."""
    return sum(
        answers.number(finding.found, "last_queue_offset")
        - answers.number(finding.found, "first_queue_offset")
        + 1
        for finding in findings
        if finding.rule == RuleName.UNIT_SHIFTED and not is_aggregate(finding)
    )


def _new_ends(findings: Sequence[Finding], queues: Iterable[ConsumeQueue]) -> dict[Name, int]:
    """Where queues end once the units at their ends that belong to no record of theirs are gone."""
    ends: dict[Name, int] = {}
    for queue in queues:
        name = queue.topic, queue.queue_id
        runs = [
            (finding.where.queue_offset or 0, answers.number(finding.found, "last_queue_offset", -1))
            for finding in findings
            if finding.rule == RuleName.UNIT_GHOST
            and not is_aggregate(finding)
            and answers.queue_of(finding) == name
        ]
        if runs and queue.kind == "file" and queue.files:
            first, last = max(runs)
            with UnitReader(queue) as reader:
                behind = reader.units(last + 1, 1) if last >= first else None
            if behind is None or int(kinds_of(behind)[0]) != Kind.UNIT:
                ends[name] = first
    return ends


def _expired(scene: PlanScene, queues: Iterable[ConsumeQueue]) -> Iterator[Loss]:
    """Units of batch queues that point below the log: a batch queue is built again as a whole."""
    for queue in queues:
        if queue.kind == "batch" and queue.files:
            with UnitReader(queue) as reader:
                first = reader.first_index
                count = reader.find_offset(scene.store.commitlog.start_offset or 0) - first
            if count > 0:
                yield Loss("unit", count, queue.topic, queue.queue_id, first, first + count - 1)


def log_beginnings(scene: PlanScene) -> list[Extent]:
    """The beginning of every commit log file: that the log is still the one that was looked at."""
    found = []
    for file in scene.store.commitlog.files:
        try:
            found.append(scene.extent(file.relative, 0, min(file.size, 4096)))
        except StoreError:
            continue
    return found


def act_rebuild(scene: ActScene, action: Action, arguments: QueuesToBuild) -> None:
    """Build the queues in a scratch directory, and let the tree have what differs."""
    store = scene.reopen()
    if levels := arguments.delay_levels:
        parse_delay_levels(levels)
        store = replace(store, delay_levels=levels, delay_levels_source="given")
    wanted = queues_of(action)
    scratch = scene.tree.scratch()
    built = build_queues(store, scratch, queues=wanted)
    kinds = {(queue.topic, queue.queue_id): queue.kind for queue in built.queues}
    present = {(queue.topic, queue.queue_id): queue.kind for queue in store.queues}
    names = {*kinds, *present} if wanted is None else wanted
    names = {name for name in names if name[1] >= 0 or name in present}
    with LogReader(store.commitlog) as log:
        merger = Merger(scene.tree, store, log)
        for topic, queue_id in sorted(names):
            kind = kinds.get((topic, queue_id), present.get((topic, queue_id), "file"))
            directory = queue_directory(topic, queue_id, kind)
            emptied = False
            if kind == "file":
                emptied = merger.merge(directory, scratch / directory) and merger.is_empty(directory)
                if emptied:  # brokers take the first unit of such a file for one, whatever is in it
                    scene.tree.set_aside(directory)
            elif (scratch / directory).is_dir():
                scene.tree.adopt(scratch / directory, directory)
            ext = f"consumequeue_ext/{topic}/{queue_id}"
            if (scratch / ext).is_dir():
                scene.tree.adopt(scratch / ext, ext)
            elif kind == "file" and scene.tree.exists(ext) and ((topic, queue_id) in kinds or emptied):
                scene.tree.set_aside(ext)


def plan_rebuild(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Whatever the findings are, all queues that are wrong in one action."""
    for action in rebuild_queues(scene):
        yield action
        if action.name == "rebuild-queue":
            yield from _places_follow(scene, action)
    yield from plan_wrong_trees(scene, findings)


def _places_follow(scene: PlanScene, action: Action) -> Iterator[Action]:
    """Records that say that they are elsewhere, and get a unit that leads to them: a broker that builds the
    queue again goes by what they say."""
    if unknown_areas(scene.findings).keys() & {*_AREAS}:
        return  # the queues are not built
    lost = [
        finding
        for finding in answers.one_by_one(scene.findings)
        if finding.rule in _LOST and finding.fingerprint in action.why
    ]
    led = [
        finding
        for finding in misnamed.single_offsets(scene.findings)
        if any(_is_among(finding, other) for other in lost)
        and not (misnamed.stands_right(scene, finding) or misnamed.belongs_elsewhere(scene, finding))
    ]
    yield from misnamed.set_offsets(scene, led, gained=False)


def _is_among(finding: Finding, lost: Finding) -> bool:
    """Whether the record of a finding is one of those that another finding says have no unit."""
    offset = finding.where.physical_offset or 0
    first = lost.where.physical_offset
    low = answers.number(lost.found, "first_physical_offset") if first is None else first
    high = answers.number(lost.found, "last_physical_offset", offset)
    return answers.queue_of(finding) == answers.queue_of(lost) and low <= offset <= high


def _places(action: Action) -> set[str]:
    """The directories of the queues that are built and those of their extensions, and a file in each."""
    directories = {*TREES.values(), reasons.EXTENSIONS}
    wanted = queues_of(action)
    if wanted is not None:
        directories = {f"{tree}/{topic}/{queue_id}" for tree in directories for topic, queue_id in wanted}
    return {*directories, *(f"{directory}/{offset_to_filename(0)}" for directory in directories)}


ROWS: tuple[Row, ...] = (
    Repair(
        "rebuild-queue",
        330,
        "rebuild queues from the log",
        plan_rebuild,
        act_rebuild,
        QueuesToBuild,
        areas=_AREAS,
        writes_by=(
            "consumequeue_file_size",
            "batch_file_size",
            "ext_file_size",
            "delay_levels",
            "queue_kinds",
        ),
        traits=("skips_units_below_current", "max_physic_offset_is_end"),
        answers=(RuleName.UNIT_STALE, RuleName.SEGMENT_GAP, RuleName.QUEUE_EXTENSION_ORPHAN),
        places=_places,
    ),
)
