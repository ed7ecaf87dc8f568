"""What becomes of the messages of a store: now, after a start of each version, after a repair.

    account of the check  ->  now
    predicted start       ->  after that start
    check of a tried plan ->  after the plan, else what its actions say

Every state has the same messages: what is not in the log any more is lost. Design, section 7; ADR 0024.

The messages that a check found lost, one row a range: which, when stored, and who had not read them.

check --> MessageAccount.lost --> rows, with what neighbours and committed offsets say

Reference 1.6.2, 3.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from rocketfsck.common.rows import Text, columns_of
from rocketfsck.errors import FormatError, StoreError
from rocketfsck.query.offsets import group_positions
from rocketfsck.query.start.verdict import StartVerdict
from rocketfsck.query.view import QueueView, StoreView
from rocketfsck.repair.plan.model import Action
from rocketfsck.scan.views.messages import Message
from rocketfsck.store.model import Store
from rocketfsck.verify.account.model import Fates, LostRun, MessageAccount

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


FILLERS = "fillers-delivered"
"""The notice that counts messages with filler records in their place."""


@dataclass(frozen=True, slots=True)
class AfterStart:
    """The messages after the start of a `version`, and of those in `alike`."""

    version: str
    alike: tuple[str, ...]
    messages: Fates


@dataclass(frozen=True, slots=True)
class Outlook:
    """The messages of a store in three states.

    `after_starts` has a row for each class of versions whose start was predicted with its messages.
    `after_plan` is None where there is no plan. `is_tried`: a check of the tried plan found it; otherwise the
    actions of the plan say it.
    """

    now: Fates
    after_starts: tuple[AfterStart, ...] = ()
    after_plan: Fates | None = None
    is_tried: bool = False


def fates_after(now: Fates, found: Fates) -> Fates:
    """The messages that a store has `now`, in the store that it becomes, by what a check of that `found`.

    A message that is found no more, not even as lost, is lost all the same: a repair may remove the evidence.
    """
    known = found.in_log_count + found.replaced_count + found.removed_count
    gone = max(now.total_count - known, 0)
    perhaps = min(now.perhaps_lost_count, gone)
    return replace(found, lost_count=gone - perhaps, perhaps_lost_count=perhaps)


def after_start(now: Fates, start: StartVerdict) -> Fates | None:
    """The messages after a start; None where it is refused, or nobody counted them."""
    if not start.covered or not start.loads or start.reached_count is None:
        return None
    cut = min((start.cut_count or 0) + start.astray_count, now.in_log_count)
    left = now.in_log_count - cut
    # a start fills no hole inside a queue: it brings back what it appends a unit for
    got = min(start.reached_count, left, now.got_count + start.added_count)
    damaged = min(now.damaged_count, got)
    return replace(
        now,
        served_count=got - damaged,
        damaged_count=damaged,
        unreached_count=left - got,
        lost_count=now.lost_count + cut,
    )


def planned_fates(now: Fates, actions: Iterable[Action]) -> Fates:
    """The messages after a plan that was not tried, by what its actions say."""
    listed = list(actions)
    gained = sum(action.gains.get("record", 0) for action in listed)
    taken = sum(
        loss.count for action in listed for loss in action.losses if loss.what == "record" and loss.valid
    )
    fillers = sum(notice.count for action in listed for notice in action.notices if notice.kind == FILLERS)
    again = min(gained, now.unreached_count)
    mended = min(gained - again, now.damaged_count)
    found = replace(
        now,
        served_count=max(now.served_count + gained - taken, 0),
        unreached_count=now.unreached_count - again,
        damaged_count=now.damaged_count - mended,
        replaced_count=now.replaced_count + min(fillers, now.lost_count + now.perhaps_lost_count),
    )
    return fates_after(now, found)
