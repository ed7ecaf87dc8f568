"""Ends of consume queues: units that point behind the log, and old units behind a queue's last, become zeros.

Fault catalogue Q3, Q7; reference 3.4, 6.6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError
from rocketfsck.reader.units import Kind, UnitReader, kinds_of
from rocketfsck.repair.log import read_log_end
from rocketfsck.repair.plan.arguments import LogEndArgument, Name, UnitsFrom
from rocketfsck.repair.plan.model import Action, Loss
from rocketfsck.repair.plan.table import ActScene, PlanScene, Repair, Row
from rocketfsck.repair.repairs import answers
from rocketfsck.repair.repairs.groupoffsets import committed_behind, delay_follows, new_end, offsets_follow
from rocketfsck.repair.repairs.misnamed import is_unsettled, lacks_its_log
from rocketfsck.repair.repairs.queues import rebuild_queues
from rocketfsck.repair.repairs.reasons import asks_to_build, contested
from rocketfsck.store.model import ConsumeQueue, MappedFile, Store
from rocketfsck.verify.finding import Finding, queue_directory

_BLOCK_COUNT = 1 << 15


def planned_log_end(scene: PlanScene) -> int | None:
    """Where the log will end once its tail is cut; None where no finding says."""
    cuts = []
    for finding in answers.one_by_one(scene.findings):
        file = answers.log_file(scene.store, finding.where.file)
        if (
            finding.rule
            in (
                RuleName.LOG_TORN_TAIL,
                RuleName.STALE_TAIL,
                RuleName.BYTES_BEHIND_END,
                RuleName.LOG_NO_RECORDS,
            )
            and file is not None
        ):
            if not answers.goes_on_after(scene, file):
                cuts.append((file.start_offset or 0) + (finding.where.start or 0))
        elif finding.rule == RuleName.UNIT_BEYOND_LOG:
            cuts.append(answers.number(finding.found, "log_end_offset", -1))
    return min((cut for cut in cuts if cut >= 0), default=None)


def cut_queues(scene: PlanScene, end_offset: int | None = None) -> Iterator[Action]:
    """An action for every queue whose last units point behind the log's end."""
    end = (
        planned_log_end(scene)
        if end_offset is None
        else min(end_offset, planned_log_end(scene) or end_offset)
    )
    if end is None or is_unsettled(scene) or lacks_its_log(scene):
        return
    stated: dict[Name, list[Finding]] = {}
    for finding in answers.one_by_one(scene.findings):
        name = answers.queue_of(finding)
        if finding.rule in (RuleName.UNIT_BEYOND_LOG, RuleName.UNIT_OF_DAMAGED_RECORD) and name is not None:
            stated.setdefault(name, []).append(finding)
    ends: dict[Name, int] = {}
    for queue in scene.store.queues:
        tail = tail_behind(queue, end)
        if tail is None:
            continue
        first, last, kept = tail
        ends[queue.topic, queue.queue_id] = first
        why = [
            finding
            for finding in stated.get((queue.topic, queue.queue_id), [])
            if (finding.where.queue_offset or 0) >= first
        ]
        directory = queue_directory(queue.topic, queue.queue_id, queue.kind)
        files = _files_from(queue, first)
        yield answers.answer(
            "cut-queue",
            directory,
            f"write zeros over {count_of(last - first, 'unit')} at the end of "
            f"{queue.topic}/{queue.queue_id}: the log ends before",
            why,
            arguments=LogEndArgument(end),
            preconditions=[extent for file in files for extent in answers.whole_file(scene, file.relative)],
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
            write_byte_count=sum(file.data_size for file in files),  # a hole stays one
            notices=[
                answers.notice("committed-beyond", committed_behind(scene, new_end(queue, first))),
                answers.notice("evidence-removed", last - first if _is_evidence(why) else 0),
            ],
        )
    yield from delay_follows(scene, ends)
    yield from offsets_follow(scene, ends)


def _files_from(queue: ConsumeQueue, index: int) -> list[MappedFile]:
    """The files of a queue that have units from an index on."""
    return [file for file in queue.files if (file.start_offset or 0) + file.size > index * queue.unit_size]


def _is_evidence(why: Iterable[Finding]) -> bool:
    """Whether the units are the sign that the log had messages beyond its end."""
    return any(finding.rule == RuleName.UNIT_BEYOND_LOG for finding in why)


def tail_behind(queue: ConsumeQueue, end_offset: int) -> tuple[int, int, int] | None:
    """Indexes `start:end` of the units at a queue's end that point to `end_offset` or beyond it, and the
    first one's offset; None where there are none, or not all units from there on do. Raises StoreError."""
    if not queue.files:
        return None
    with UnitReader(queue) as reader:
        first = reader.find_offset(end_offset)
        last, lowest = first, -1
        for index in range(first, reader.end_index, _BLOCK_COUNT):
            units = reader.units(index, min(_BLOCK_COUNT, reader.end_index - index))
            rows = kinds_of(units) == Kind.UNIT
            if not rows.any():
                break
            if int(units["offset"][rows].min()) < end_offset:
                return None
            lowest = int(units["offset"][rows][0]) if lowest < 0 else lowest
            last = index + int(rows.nonzero()[0][-1]) + 1
    return (first, last, lowest) if last > first else None


def plan_cut(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Cut what points behind the log; what does so in the middle of a queue is built again."""
    del findings
    yield from cut_queues(scene)


def act_cut_queue(scene: ActScene, action: Action, arguments: LogEndArgument) -> None:
    """Zeros over the units; files that are left without any set aside."""
    store = scene.reopen()
    queue = _queue_at(store, action.target)
    end = arguments.end_offset
    known = read_log_end(store)
    if known is not None and known.end_offset > end:
        raise StoreError(f"the log continues after {end}", path=action.target)
    tail = tail_behind(queue, end)
    if tail is None:
        return
    pos = tail[0] * queue.unit_size
    for file in reversed(queue.files):
        start = file.start_offset or 0
        # A last file of zeros is a message to a broker. Only a first file that says where the queue continues
        # has to stay.
        if start >= pos and (file is not queue.files[0] or start == 0):
            scene.tree.set_aside(file.relative)
        elif start + file.size > pos:
            scene.tree.zero(file.relative, max(pos - start, 0), file.size)


def _queue_at(store: Store, directory: str) -> ConsumeQueue:
    for queue in store.queues:
        if queue_directory(queue.topic, queue.queue_id, queue.kind) == directory:
            return queue
    raise StoreError("is no longer a queue", path=directory)


def plan_zero_units(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Old units after the end of a queue become zeros."""
    rebuilt = {answers.queue_of(finding) for finding in scene.findings if asks_to_build(finding)}
    rebuilt -= scene.once(contested)
    for finding in answers.one_by_one(findings):
        name = answers.queue_of(finding)
        queue = next((item for item in scene.store.queues if (item.topic, item.queue_id) == name), None)
        if queue is None or name in rebuilt:
            continue
        directory = queue_directory(queue.topic, queue.queue_id, queue.kind)
        same = [other for other in answers.one_by_one(findings) if answers.queue_of(other) == name]
        first = min(other.where.queue_offset or 0 for other in same)
        files = _files_from(queue, first)
        yield answers.answer(
            "zero-stale-units",
            directory,
            f"write zeros over old units after the end of {queue.topic}/{queue.queue_id}",
            same,
            arguments=UnitsFrom(first),
            preconditions=[extent for file in files for extent in answers.whole_file(scene, file.relative)],
            losses=[
                Loss(
                    "unit",
                    sum(answers.number(other.found, "unit_count", 1) for other in same),
                    queue.topic,
                    queue.queue_id,
                    valid=False,
                )
            ],
            write_byte_count=sum(file.data_size for file in files),  # a hole stays one
            notices=[answers.notice("committed-beyond", committed_behind(scene, new_end(queue, first)))],
        )
    if any(answers.queue_of(finding) in rebuilt for finding in answers.one_by_one(findings)):
        for action in rebuild_queues(scene):
            own = [
                finding.fingerprint
                for finding in answers.one_by_one(findings)
                if answers.queue_of(finding) in rebuilt
            ]
            yield replace(action, why=(*action.why, *own), rules=(*action.rules, RuleName.UNIT_STALE))


def act_zero_units(scene: ActScene, action: Action, arguments: UnitsFrom) -> None:
    """Zeros from a queue offset to the end of the queue's files."""
    queue = _queue_at(scene.reopen(), action.target)
    pos = arguments.queue_offset * queue.unit_size
    for file in queue.files:
        start = file.start_offset or 0
        if start + file.size > pos:
            scene.tree.zero(file.relative, max(pos - start, 0), file.size)


ROWS: tuple[Row, ...] = (
    Repair(
        "cut-queue",
        310,
        "cut units that point beyond the log",
        plan_cut,
        act_cut_queue,
        LogEndArgument,
        answers=(RuleName.UNIT_OF_DAMAGED_RECORD,),
        # where the log ends after them: a start that takes up what they leave out has no units for it
        needs=("zero-stale-tail", "cut-log"),
        moot_after=("move-stray",),
    ),
    Repair(
        "zero-stale-units",
        320,
        "write zeros over old units after the end of a queue",
        plan_zero_units,
        act_zero_units,
        UnitsFrom,
        moot_after=("move-stray",),
    ),
)
