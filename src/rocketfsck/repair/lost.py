"""The messages that a check found lost, one row a range: which, when stored, and who had not read them.

check --> MessageAccount.lost --> rows, with what neighbours and committed offsets say

Reference 1.6.2, 3.8.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from rocketfsck.common.rows import Text, columns_of
from rocketfsck.errors import FormatError, StoreError
from rocketfsck.query.offsets import group_positions
from rocketfsck.query.queues import QueueView
from rocketfsck.query.view import StoreView
from rocketfsck.scan.views.messages import Message
from rocketfsck.store.model import Store
from rocketfsck.verify.account.model import LostRun, MessageAccount

LOST_KIND = "rocketfsck.check.lost"


@dataclass(frozen=True, slots=True)
class LostMessages:
    """`message_count` lost messages of one queue, from one queue offset to another (half-open).

    Topic, queue and queue offsets are None where only the place in the log is known. The messages were stored
    after the one with the storeTimestamp `after_timestamp` (ms) and before that with `before_timestamp`; None
    where there is no such neighbour. `groups` have committed offsets in the queue and had not consumed all of
    them.
    """

    topic: str | None
    queue_id: int | None
    start_queue_offset: int | None
    end_queue_offset: int | None
    message_count: int
    sure: Text
    why: Text
    first_physical_offset: int | None
    last_physical_offset: int | None
    after_timestamp: int | None
    before_timestamp: int | None
    groups: tuple[str, ...] = ()

    def as_row(self) -> dict[str, Any]:
        """The values of `LOST_COLUMNS`."""
        return {**asdict(self), "groups": list(self.groups)}


LOST_COLUMNS = columns_of(LostMessages)
"""The columns of lost messages, wherever they are listed."""


def lost_messages(store: Store, account: MessageAccount) -> Iterator[LostMessages]:
    """Every range of the account, in its order. Raises StoreError if the log or a queue cannot be read."""
    with StoreView(store) as view:
        committed = _committed(view)
        for run in account.lost:
            yield _row(view, run, committed)


Committed = dict[tuple[str, int], list[tuple[str, int]]]
"""The groups of a queue, each with its offset."""


def _row(view: StoreView, run: LostRun, committed: Committed) -> LostMessages:
    why = (run.message_count, run.sure, run.why, run.first_physical_offset, run.last_physical_offset)
    if not run.topic:
        return LostMessages(None, None, None, None, *why, None, None)
    queue = view.queue(run.topic, run.queue_id)
    times: tuple[int | None, int | None] = (None, None)
    if queue is not None:
        times = (_time_at(queue, run.start_queue_offset - 1), _time_at(queue, run.end_queue_offset))
    groups = committed.get((run.topic, run.queue_id), ())
    return LostMessages(
        run.topic,
        run.queue_id,
        run.start_queue_offset,
        run.end_queue_offset,
        *why,
        *times,
        tuple(sorted(group for group, offset in groups if offset < run.end_queue_offset)),
    )


def _time_at(queue: QueueView, offset: int) -> int | None:
    """The storeTimestamp of the message at a queue offset; None where there is none."""
    with suppress(StoreError):
        unit = queue.unit(offset)
        found = None if unit is None or not queue.leads(unit) else queue.log.record_at(unit.physical_offset)
        return found.store_timestamp if isinstance(found, Message) else None
    return None


def _committed(view: StoreView) -> Committed:
    """The groups of each queue with their offsets; none where the configs cannot be read."""
    found: Committed = {}
    with suppress(FormatError, StoreError):
        for group, topic, queue_id, offset in group_positions(view):
            found.setdefault((topic, queue_id), []).append((group, offset))
    return found
