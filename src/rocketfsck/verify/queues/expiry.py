"""Units whose records the commit log has no more. Reference 3.3, 3.5."""

from __future__ import annotations

from rocketfsck.rulenames import RuleName
from rocketfsck.store.model import ConsumeQueue
from rocketfsck.verify.emit import queue_place
from rocketfsck.verify.queues.unitruns import Shape
from rocketfsck.verify.tasks.task import Collector


def judge_expiry(
    queue: ConsumeQueue, shape: Shape, live_index: int | None, log_start: int | None, collector: Collector
) -> None:
    """Say which units of a queue are expired: those in front of `live_index`, all where that is None.

    `log_start` is the physical offset at which the log begins, None where it has no files.
    """
    where = queue_place(queue.topic, queue.queue_id, queue.kind)
    if shape.pre_blank_count and not shape.unit_count:
        collector.find(RuleName.QUEUE_PRE_BLANK_ONLY, where, {"unit_count": shape.pre_blank_count})
    if log_start is None or not shape.unit_count:
        return
    if live_index is None:
        collector.find(RuleName.QUEUE_EXPIRED, where, {"unit_count": shape.unit_count})
    elif live_index > shape.start + shape.pre_blank_count:
        count = live_index - shape.start - shape.pre_blank_count
        collector.find(RuleName.UNITS_EXPIRED, where, {"unit_count": count, "min_live_offset": live_index})
