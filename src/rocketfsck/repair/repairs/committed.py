"""What consumers have committed, against where their queues will end.

An offset behind a queue's end makes a broker answer that it has moved: the consumer begins again elsewhere,
and the messages that get these offsets next may not reach it. Reference 1.6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.formats.configviews import OFFSET_VIEWS
from rocketfsck.formats.delay import SCHEDULE_TOPIC, delay_queue_id
from rocketfsck.reader.units import UnitReader
from rocketfsck.repair.plan.arguments import DelayLevels, Name
from rocketfsck.repair.plan.model import Action
from rocketfsck.repair.plan.scene import PlanScene
from rocketfsck.repair.repairs.answers import answer, notice, whole_file
from rocketfsck.store.model import ConsumeQueue, Store
from rocketfsck.verify.store.configfiles import load_configs

_SEPARATOR = "@"


def committed_behind(scene: PlanScene, ends: Mapping[Name, int]) -> int:
    """How many committed offsets lie behind the ends that these queues will have (queue offsets)."""
    if not ends:
        return 0
    return sum(offset > ends[name] for name, offset in _committed(scene.store) if name in ends)


def _committed(store: Store) -> Iterator[tuple[Name, int]]:
    """Every offset that a group has committed, with its queue."""
    views = load_configs(store).views
    for file in OFFSET_VIEWS:
        for key, offsets in views.get(file, {}).items():
            topic = key.partition(_SEPARATOR)[0]
            for queue_id, offset in offsets.items():
                yield (topic, queue_id), offset


def delay_follows(scene: PlanScene, ends: Mapping[Name, int]) -> Iterator[Action]:
    """The offsets of delay levels whose queues will end before them: a broker brings them back by itself."""
    if any(finding.rule == RuleName.DELAY_OFFSET_RANGE for finding in scene.findings):
        return  # the file is written again for these
    configs = load_configs(scene.store)
    levels = [
        level
        for level, offset in configs.views.get("delayOffset.json", {}).items()
        if offset > ends.get((SCHEDULE_TOPIC, delay_queue_id(level)), offset)
    ]
    if levels:
        name = configs.files["delayOffset.json"]
        yield answer(
            "set-delay-offset",
            name,
            f"move the offsets of {count_of(len(levels), 'delay level')} back into their queues, which end "
            "earlier",
            [],
            arguments=DelayLevels(tuple(sorted(levels))),
            preconditions=whole_file(scene, name),
            notices=[notice("delay-moved", len(levels))],
        )


def new_end(queue: ConsumeQueue, index: int) -> dict[Name, int]:
    """The queue offset at which a queue ends once its units from an index on are gone. Raises StoreError."""
    end = index
    if queue.kind == "batch":
        with UnitReader(queue) as reader:
            end = int(reader.units(index, 1)["msgBaseOffset"][0])
    return {(queue.topic, queue.queue_id): end}
