"""Queues that nothing belongs to, and files in which nothing is: they are set aside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rocketfsck.common.rulenames import RuleName
from rocketfsck.reader.units import UnitReader
from rocketfsck.repair.plan.arguments import Arguments
from rocketfsck.repair.plan.model import Action, Loss
from rocketfsck.repair.plan.table import ActScene, PlanScene, Repair, Row
from rocketfsck.repair.repairs.answers import (
    answer,
    by_file,
    files_of_queues,
    number,
    one_by_one,
    queue_of,
    whole_file,
)
from rocketfsck.repair.repairs.misnamed import is_unsettled
from rocketfsck.store.model import ConsumeQueue
from rocketfsck.verify.finding import TREES, Finding

_BLOCK_COUNT = 1 << 15


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
                "move the queue aside: its topic is unknown and all of its messages are gone",
                [finding],
                preconditions=files_of_queues(scene, queues),
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


def plan_wrong_trees(scene: PlanScene, findings: Iterable[Finding]) -> Iterator[Action]:
    """Queues of zeros in the tree of the other kind: the topic has its messages in the one it is in."""
    for finding in one_by_one(findings):
        topic = finding.where.topic
        if finding.rule != RuleName.QUEUE_KIND_TWICE or topic is None:
            continue
        for kind in ("batch", "file"):
            queues = [item for item in scene.store.queues if item.topic == topic and item.kind == kind]
            if queues and all(_is_empty(queue) for queue in queues):
                directory = f"{TREES[kind]}/{topic}"
                yield answer(
                    "remove-ghost-queue",
                    directory,
                    "move the queues aside: they are empty, and the topic has queues of the other kind",
                    [finding],
                    preconditions=files_of_queues(scene, queues),
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
    for name, found in by_file(one_by_one(findings)).items():
        if name == "index":
            yield from _empty_indexes(scene, found)
        else:
            yield answer(
                "remove-empty-file",
                name,
                "move the file aside: it is empty",
                found,
                preconditions=whole_file(scene, name),
            )


def _empty_indexes(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    empty = {finding.where.file for finding in scene.findings if finding.rule == RuleName.INDEX_EMPTY}
    for file in scene.store.indexes:
        if file.relative in empty:
            yield answer(
                "remove-empty-file",
                file.relative,
                "move the file aside: it holds no entry",
                findings,
                preconditions=whole_file(scene, file.relative),
            )


def act_set_aside(scene: ActScene, action: Action, _arguments: Arguments) -> None:
    """Move the file or directory out of the tree."""
    if scene.tree.exists(action.target):
        scene.tree.set_aside(action.target)


ROWS: tuple[Row, ...] = (
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
