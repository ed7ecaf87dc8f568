"""Repairs of consume queues: built again from the log, cut where the log ends, sealed, set aside.

A queue is built from the log and laid over what is there (`queuemerge`); extension files are built with it,
without the filter bit maps, which are in no file. Fault catalogue Q1 to Q11; reference 3, 6.6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rocketfsck.errors import StoreError
from rocketfsck.formats.delay import DEFAULT_DELAY_LEVELS, parse_delay_levels
from rocketfsck.formats.filename import is_directory_name
from rocketfsck.repair.basis import Name, queue_arguments, queues_of
from rocketfsck.repair.build import build_queues
from rocketfsck.repair.logedit import read_log_end
from rocketfsck.repair.plan import Action, Extent, Loss
from rocketfsck.repair.repairs.answers import (
    answer,
    by_file,
    goes_on_after,
    in_the_way,
    log_file,
    notice,
    number,
    one_by_one,
    text,
    whole_file,
)
from rocketfsck.repair.repairs.committed import committed_behind, delay_follows, new_end
from rocketfsck.repair.repairs.misnamed import is_unsettled
from rocketfsck.repair.repairs.queuemerge import Merger
from rocketfsck.repair.repairs.reasons import IMPOSSIBLE, NO_TEXT
from rocketfsck.repair.scene import ActScene, PlanScene
from rocketfsck.repair.table import Repair
from rocketfsck.store.model import ConsumeQueue, Store
from rocketfsck.verify.catalog import RULES
from rocketfsck.verify.emit import TREES, queue_directory
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.logreader import LogReader
from rocketfsck.verify.task import is_aggregate
from rocketfsck.verify.unitreader import UnitReader
from rocketfsck.verify.unitruns import Kind, kinds_of

BLOCK_COUNT = 1 << 15

_NOT_BUILT = frozenset({"CL027", "ST023", "CF011"})
"""Rules that ask for a queue to be built again where that alone does not help, or need not be."""
_LOST = frozenset({"XR001", "XR002"})


def rebuild_queues(scene: PlanScene) -> Iterator[Action]:
    """The one action that builds all queues again of which findings say that they are wrong.

    It is the same whichever finding asks for it. Queues of a log that is not theirs are left alone.
    """
    found = {finding.rule for finding in scene.findings}
    if is_unsettled(scene) or found & {"ST019", "ST020"}:
        return
    repeated = {
        (finding.where.topic, finding.where.queue_id, finding.where.queue_offset)
        for finding in one_by_one(scene.findings)
        if finding.rule == "CL027"
    }
    asked = [finding for finding in scene.findings if _asks(finding, repeated)]
    if not asked:
        return
    asked = [finding for finding in asked if not impossible(finding)]
    if not asked:
        return
    names: set[Name] = set()
    every = False
    for finding in asked:
        name = queue_of(finding)
        if name is None:
            every = True
        else:
            names.add(name)
    damaged = {*names}
    why = [
        *asked,
        *(
            finding
            for finding in scene.findings
            if finding.rule == "CF011" and (every or queue_of(finding) in damaged)
        ),
    ]
    queues = [queue for queue in scene.store.queues if every or (queue.topic, queue.queue_id) in names]
    levels, losses = _told_levels(scene), [*_losses(asked), *_expired(scene, queues)]
    count = sum(number(finding.found, "record_count") for finding in asked if finding.rule in _LOST)
    yield from in_the_way(
        scene,
        {
            place
            for tree in TREES.values()
            for topic, queue_id in names
            for place in (tree, f"{tree}/{topic}", f"{tree}/{topic}/{queue_id}")
        },
    )
    yield answer(
        "rebuild-queue",
        "consumequeue",
        _note(names, every, queues),
        why,
        arguments={"queues": queue_arguments(None if every else names)}
        | ({"delay_levels": levels} if levels else {}),
        preconditions=[*_files_of(scene, queues), *_log_end(scene)],
        losses=losses,
        gains={"record": count} if count else {},
        write_size=sum(queue.mapped_files.size for queue in queues)
        or len(names) * scene.store.geometry.consumequeue_file_size,
        notices=[
            notice("consumable-again", count),
            notice("renumbered", _renumbered(asked)),
            notice("committed-beyond", committed_behind(scene, _new_ends(asked, queues))),
        ],
    )


def _asks(finding: Finding, repeated: set[tuple[str | None, int | None, int | None]]) -> bool:
    rule = RULES[finding.rule]
    if finding.rule == "ST010":
        area = finding.where.file.partition("/")[0]
        return area in ("consumequeue", "batchconsumequeue", "consumequeue_ext")
    if rule.repair != "rebuild-queue" or finding.rule in _NOT_BUILT or rule.severity is Severity.INFO:
        return False
    where = finding.where
    if finding.rule in ("XR001", "XR005", "XR006") and (where.topic, where.queue_id) in {
        (topic, queue_id) for topic, queue_id, _ in repeated
    }:
        return not _is_repeated(finding, repeated)
    return True


def impossible(finding: Finding) -> str:
    """Why no broker can make the queue that a finding misses; "" where one can."""
    name = queue_of(finding)
    if not finding.rule.startswith("XR") or name is None:
        return ""
    if not is_directory_name(name[0]):
        return IMPOSSIBLE
    try:
        name[0].encode()
    except UnicodeEncodeError:  # bytes that are no UTF-8; a queue that is there is another matter
        return NO_TEXT if finding.rule == "XR002" else ""
    return ""


def _is_repeated(finding: Finding, repeated: set[tuple[str | None, int | None, int | None]]) -> bool:
    """Whether the log itself has two records for the place that a finding is about."""
    where = finding.where
    low = where.queue_offset or 0
    high = max(
        number(finding.found, "last_queue_offset", low), low + number(finding.found, "unit_count", 1) - 1
    )
    return any(
        (where.topic, where.queue_id) == (topic, queue_id)
        and offset is not None
        and low - 1 <= offset <= high + 1
        for topic, queue_id, offset in repeated
    )


def queue_of(finding: Finding) -> Name | None:
    """The queue that a finding is about, by its place or by its file; None where neither says."""
    where = finding.where
    if where.topic is not None and where.queue_id is not None:
        return where.topic, where.queue_id
    parts = where.file.split("/")
    if len(parts) >= 3 and parts[0] in (*TREES.values(), "consumequeue_ext"):
        try:
            return parts[1], int(parts[2])
        except ValueError:
            return None
    return None


def _note(names: set[Name], every: bool, queues: Sequence[ConsumeQueue]) -> str:
    if every:
        return f"build all queues ({len(queues)} are there) again from the log"
    if len(names) == 1:
        topic, queue_id = next(iter(names))
        return f"build queue {topic}/{queue_id} again from the log"
    return f"build {len(names)} queues again from the log"


def _told_levels(scene: PlanScene) -> str:
    """`messageDelayLevel` as the units of the schedule topic tell it; "" where it is the default or given."""
    told = {
        number(finding.found, "level"): number(finding.found, "delay")
        for finding in one_by_one(scene.findings)
        if finding.rule == "XR009"
    }
    if not told or scene.store.delay_levels_source == "given":
        return ""
    levels = {**DEFAULT_DELAY_LEVELS, **told}
    if any(delay % 1000 or delay <= 0 for delay in levels.values()) or set(levels) != set(
        range(1, len(levels) + 1)
    ):
        return ""
    return " ".join(f"{levels[level] // 1000}s" for level in sorted(levels))


def _losses(findings: Iterable[Finding]) -> list[Loss]:
    """Units that point to nothing of their queue: they go, and nothing valid with them."""
    losses = []
    for finding in findings:
        if finding.rule == "XR005" and not is_aggregate(finding):
            where = finding.where
            count = number(finding.found, "unit_count")
            first = where.queue_offset
            last = number(finding.found, "last_queue_offset", (first or 0) + count - 1)
            losses.append(Loss("unit", count, where.topic, where.queue_id, first, last))
    return losses


def _renumbered(findings: Iterable[Finding]) -> int:
    """Records whose units are elsewhere in their queue than they will be."""
    return sum(
        number(finding.found, "last_queue_offset") - number(finding.found, "first_queue_offset") + 1
        for finding in findings
        if finding.rule == "XR006" and not is_aggregate(finding)
    )


def _new_ends(findings: Sequence[Finding], queues: Iterable[ConsumeQueue]) -> dict[Name, int]:
    """Where queues end once the units at their ends that belong to no record of theirs are gone."""
    ends: dict[Name, int] = {}
    for queue in queues:
        name = queue.topic, queue.queue_id
        runs = [
            (finding.where.queue_offset or 0, number(finding.found, "last_queue_offset", -1))
            for finding in findings
            if finding.rule == "XR005" and not is_aggregate(finding) and queue_of(finding) == name
        ]
        if runs and queue.kind == "file" and queue.files:
            first, last = max(runs)
            with UnitReader(queue) as reader:
                behind = reader.units(last + 1, 1) if last >= first else None
            if behind is None or int(kinds_of(behind)[0]) != Kind.UNIT:
                ends[name] = first
    return ends


def _expired(scene: PlanScene, queues: Iterable[ConsumeQueue]) -> Iterator[Loss]:
    """Units of batch queues that point below the log: a batch queue is built anew as a whole."""
    for queue in queues:
        if queue.kind == "batch" and queue.files:
            with UnitReader(queue) as reader:
                first = reader.first_index
                count = reader.find_offset(scene.store.commitlog.start_offset or 0) - first
            if count > 0:
                yield Loss("unit", count, queue.topic, queue.queue_id, first, first + count - 1)


def _files_of(scene: PlanScene, queues: Iterable[ConsumeQueue]) -> list[Extent]:
    return [
        extent
        for queue in queues
        for file in (*queue.files, *(queue.ext.files if queue.ext is not None else ()))
        for extent in whole_file(scene, file.relative)
    ]


def _log_end(scene: PlanScene) -> list[Extent]:
    """The beginning of every commit log file: that the log is still the one that was looked at."""
    found = []
    for file in scene.store.commitlog.files:
        try:
            found.append(scene.extent(file.relative, 0, min(file.size, 4096)))
        except StoreError:
            continue
    return found


def act_rebuild(scene: ActScene, action: Action) -> None:
    """Build the queues in a scratch directory, and let the tree have what differs."""
    store = scene.reopen()
    if levels := text(action.arguments, "delay_levels"):
        parse_delay_levels(levels)
        store = replace(store, delay_levels=levels, delay_levels_source="given")
    wanted = queues_of(action)
    scratch = scene.tree.scratch()
    built = build_queues(store, scratch, queues=wanted)
    kinds = {(queue.topic, queue.queue_id): queue.kind for queue in built.queues}
    present = {(queue.topic, queue.queue_id): queue.kind for queue in store.queues}
    names = {*kinds, *present} if wanted is None else wanted
    with LogReader(store.commitlog) as log:
        merger = Merger(scene.tree, store, log)
        for topic, queue_id in sorted(names):
            kind = kinds.get((topic, queue_id), present.get((topic, queue_id), "file"))
            directory = queue_directory(topic, queue_id, kind)
            if kind == "file":
                merger.merge(directory, scratch / directory)
            elif (scratch / directory).is_dir():
                _replace(scene, scratch, directory)
            ext = f"consumequeue_ext/{topic}/{queue_id}"
            if (scratch / ext).is_dir():
                _replace(scene, scratch, ext)
            elif kind == "file" and scene.tree.exists(ext) and (topic, queue_id) in kinds:
                scene.tree.set_aside(ext)


def _replace(scene: ActScene, scratch: Path, directory: str) -> None:
    scene.tree.adopt(scratch / directory, directory)


def planned_log_end(scene: PlanScene) -> int | None:
    """Where the log will end once its tail is cut; None where no finding says."""
    cuts = []
    for finding in one_by_one(scene.findings):
        file = log_file(scene.store, finding.where.file)
        if finding.rule in ("CL002", "CL021", "CL022", "CL030") and file is not None:
            if not goes_on_after(scene, file):
                cuts.append((file.start_offset or 0) + (finding.where.start or 0))
        elif finding.rule == "XR004":
            cuts.append(number(finding.found, "log_end", -1))
    return min((cut for cut in cuts if cut >= 0), default=None)


def cut_queues(scene: PlanScene, end_offset: int | None = None) -> Iterator[Action]:
    """An action for every queue whose last units point behind the log's end."""
    rules = {finding.rule for finding in scene.findings}
    end = (
        planned_log_end(scene)
        if end_offset is None
        else min(end_offset, planned_log_end(scene) or end_offset)
    )
    if end is None or is_unsettled(scene) or rules & {"ST019", "ST020"}:
        return
    told: dict[Name, list[Finding]] = {}
    for finding in one_by_one(scene.findings):
        name = queue_of(finding)
        if finding.rule in ("XR004", "XR010") and name is not None:
            told.setdefault(name, []).append(finding)
    ends: dict[Name, int] = {}
    for queue in scene.store.queues:
        tail = tail_behind(queue, end)
        if tail is None:
            continue
        first, last, kept = tail
        ends[queue.topic, queue.queue_id] = first
        why = [
            finding
            for finding in told.get((queue.topic, queue.queue_id), [])
            if (finding.where.queue_offset or 0) >= first
        ]
        directory = queue_directory(queue.topic, queue.queue_id, queue.kind)
        files = [
            file for file in queue.files if (file.start_offset or 0) + file.size > first * queue.unit_size
        ]
        yield answer(
            "cut-queue",
            directory,
            f"write zeros over the {last - first} last units of {queue.topic}/{queue.queue_id}: they point "
            "behind the end of the log",
            why,
            arguments={"end_offset": end},
            preconditions=[extent for file in files for extent in whole_file(scene, file.relative)],
            losses=[
                Loss(
                    "unit",
                    last - first,
                    queue.topic,
                    queue.queue_id,
                    first,
                    last - 1,
                    start_offset=kept,
                    valid=False,
                )
            ],
            write_size=sum(file.size for file in files),
            notices=[notice("committed-beyond", committed_behind(scene, new_end(queue, first)))],
        )
    yield from delay_follows(scene, ends)


def tail_behind(queue: ConsumeQueue, end_offset: int) -> tuple[int, int, int] | None:
    """Indexes `start:end` of the units at a queue's end that point to `end_offset` or behind it, and the
    first one's offset; None where there are none, or not all units from there on do. Raises StoreError."""
    if not queue.files:
        return None
    with UnitReader(queue) as reader:
        first = reader.find_offset(end_offset)
        last, lowest = first, -1
        for index in range(first, reader.end_index, BLOCK_COUNT):
            units = reader.units(index, min(BLOCK_COUNT, reader.end_index - index))
            rows = kinds_of(units) == Kind.UNIT
            if not rows.any():
                break
            if int(units["offset"][rows].min()) < end_offset:
                return None
            lowest = int(units["offset"][rows][0]) if lowest < 0 else lowest
            last = index + int(rows.nonzero()[0][-1]) + 1
    return (first, last, lowest) if last > first else None


def plan_rebuild(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Whatever the findings are, all queues that are wrong in one action."""
    yield from rebuild_queues(scene)
    yield from _wrong_trees(scene, findings)


def _wrong_trees(scene: PlanScene, findings: Iterable[Finding]) -> Iterator[Action]:
    """Queues of zeros in the tree of the other kind: the topic has its messages in the one it is in."""
    for finding in one_by_one(findings):
        topic = finding.where.topic
        if finding.rule != "ST023" or topic is None:
            continue
        for kind in ("batch", "file"):
            queues = [item for item in scene.store.queues if item.topic == topic and item.kind == kind]
            if queues and all(_is_empty(queue) for queue in queues):
                directory = f"{TREES[kind]}/{topic}"
                yield answer(
                    "remove-ghost-queue",
                    directory,
                    "set the queues aside: they are empty, and the topic has queues of the other kind",
                    [finding],
                    preconditions=_files_of(scene, queues),
                )
                break


def _is_empty(queue: ConsumeQueue) -> bool:
    with UnitReader(queue) as reader:
        for low, high in reader.with_data(reader.first_index, reader.end_index):
            for index in range(low, high, BLOCK_COUNT):
                if reader.units(index, min(BLOCK_COUNT, high - index)).view("u1").any():
                    return False
    return True


def plan_cut(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Cut what points behind the log; what does so in the middle of a queue is built again."""
    del findings
    yield from cut_queues(scene)


def act_cut_queue(scene: ActScene, action: Action) -> None:
    """Zeros over the units; files that are left without any set aside."""
    store = scene.reopen()
    queue = _queue_at(store, action.target)
    end = number(action.arguments, "end_offset")
    known = read_log_end(store)
    if known is not None and known.end_offset > end:
        raise StoreError(f"the log goes on behind {end}", path=action.target)
    tail = tail_behind(queue, end)
    if tail is None:
        return
    pos = tail[0] * queue.unit_size
    for file in reversed(queue.files):
        start = file.start_offset or 0
        # A last file of zeros is a message to a broker. Only a first file that says where the queue goes on
        # has to stay.
        if start >= pos and (file is not queue.files[0] or start == 0):
            scene.tree.set_aside(file.relative)
        elif start + file.size > pos:
            scene.tree.zero(file.relative, max(pos - start, 0), file.size)


def _queue_at(store: Store, directory: str) -> ConsumeQueue:
    for queue in store.queues:
        if queue_directory(queue.topic, queue.queue_id, queue.kind) == directory:
            return queue
    raise StoreError("is no queue any more", path=directory)


def plan_zero_units(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Old units behind the end of a queue become zeros."""
    rebuilt = {queue_of(finding) for finding in scene.findings if _asks(finding, set())}
    for finding in one_by_one(findings):
        name = queue_of(finding)
        queue = next((item for item in scene.store.queues if (item.topic, item.queue_id) == name), None)
        if queue is None or name in rebuilt:
            continue
        directory = queue_directory(queue.topic, queue.queue_id, queue.kind)
        same = [other for other in one_by_one(findings) if queue_of(other) == name]
        first = min(other.where.queue_offset or 0 for other in same)
        files = [
            file for file in queue.files if (file.start_offset or 0) + file.size > first * queue.unit_size
        ]
        yield answer(
            "zero-stale-units",
            directory,
            f"write zeros over old units behind the end of {queue.topic}/{queue.queue_id}",
            same,
            arguments={"queue_offset": first},
            preconditions=[extent for file in files for extent in whole_file(scene, file.relative)],
            losses=[
                Loss(
                    "unit",
                    sum(number(other.found, "unit_count", 1) for other in same),
                    queue.topic,
                    queue.queue_id,
                    valid=False,
                )
            ],
            write_size=sum(file.size for file in files),
            notices=[notice("committed-beyond", committed_behind(scene, new_end(queue, first)))],
        )
    if any(queue_of(finding) in rebuilt for finding in one_by_one(findings)):
        for action in rebuild_queues(scene):
            own = [finding.fingerprint for finding in one_by_one(findings) if queue_of(finding) in rebuilt]
            yield replace(action, why=(*action.why, *own), rules=(*action.rules, "CQ004"))


def act_zero_units(scene: ActScene, action: Action) -> None:
    """Zeros from a queue offset to the end of the queue's files."""
    queue = _queue_at(scene.reopen(), action.target)
    pos = number(action.arguments, "queue_offset") * queue.unit_size
    for file in queue.files:
        start = file.start_offset or 0
        if start + file.size > pos:
            scene.tree.zero(file.relative, max(pos - start, 0), file.size)


def plan_empty_files(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Last files of queues, and index files, in which nothing is."""
    for name, found in by_file(one_by_one(findings)).items():
        if name == "index":
            yield from _empty_indexes(scene, found)
        else:
            yield answer(
                "remove-empty-file",
                name,
                "set the file aside: nothing is in it",
                found,
                preconditions=whole_file(scene, name),
            )


def _empty_indexes(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    empty = {finding.where.file for finding in scene.findings if finding.rule == "IX019"}
    for file in scene.store.indexes:
        if file.relative in empty:
            yield answer(
                "remove-empty-file",
                file.relative,
                "set the file aside: it holds no entry",
                findings,
                preconditions=whole_file(scene, file.relative),
            )


def plan_ghosts(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Queues of no topic whose messages are all gone."""
    if is_unsettled(scene):
        return
    for finding in one_by_one(findings):
        name = queue_of(finding)
        queues = [item for item in scene.store.queues if (item.topic, item.queue_id) == name]
        if queues:
            queue = queues[0]
            yield answer(
                "remove-ghost-queue",
                finding.where.file,
                "set the queue aside: its topic is unknown and none of its messages is left",
                [finding],
                preconditions=_files_of(scene, queues),
                losses=[
                    Loss(
                        "unit",
                        number(finding.found, "unit_count"),
                        queue.topic,
                        queue.queue_id,
                        kept_in="set aside",
                    )
                ],
            )


def act_set_aside(scene: ActScene, action: Action) -> None:
    """Move the file or directory out of the tree."""
    if scene.tree.exists(action.target):
        scene.tree.set_aside(action.target)


ROWS: tuple[Repair, ...] = (
    Repair(
        "remove-ghost-queue",
        300,
        "set aside a queue that nothing belongs to",
        plan_ghosts,
        act_set_aside,
        answers=("ST023",),
    ),
    Repair(
        "cut-queue",
        310,
        "cut units that point behind the log",
        plan_cut,
        act_cut_queue,
        answers=("XR010",),
    ),
    Repair(
        "zero-stale-units", 320, "write zeros over old units behind a queue", plan_zero_units, act_zero_units
    ),
    Repair(
        "rebuild-queue",
        330,
        "build queues again from the log",
        plan_rebuild,
        act_rebuild,
        areas=("consumequeue", "batchconsumequeue", "consumequeue_ext", "commitlog"),
        writes_by=(
            "consumequeue_file_size",
            "batch_file_size",
            "ext_file_size",
            "delay_levels",
            "queue_kinds",
        ),
        traits=("skips_units_below_current", "max_physic_offset_is_end"),
        answers=("CQ004", "ST010", "ST026"),
    ),
    Repair("remove-empty-file", 325, "set aside files that nothing is in", plan_empty_files, act_set_aside),
)
