"""What a rebuilding was done by and does not know, as the actions of a plan that would do the same."""

from __future__ import annotations

from rocketfsck.repair.build.run import Rebuilt
from rocketfsck.repair.plan.arguments import QueuesToBuild
from rocketfsck.repair.plan.law import assumed_by_rebuilding
from rocketfsck.repair.plan.model import Action, Assumption
from rocketfsck.repair.plan.planning import all_repairs
from rocketfsck.store.model import Store


def assumed_of(store: Store, rebuilt: Rebuilt) -> tuple[Assumption, ...]:
    """The values that neither the bytes of the store nor the user gave."""
    table = all_repairs()
    rows = []
    if rebuilt.queues is not None and rebuilt.queues.queues and rebuilt.queues.database is None:
        built = QueuesToBuild(tuple((queue.topic, queue.queue_id) for queue in rebuilt.queues.queues))
        rows.append((table["rebuild-queue"], Action("", "consumequeue", "", built)))
    if rebuilt.index is not None and rebuilt.index.files:
        rows.append((table["rebuild-index"], Action("", "index", "")))
    if rebuilt.checkpoint:
        rows.append((table["write-checkpoint"], Action("", "checkpoint", "")))
    return assumed_by_rebuilding(store, rows)
