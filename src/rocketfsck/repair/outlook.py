"""What becomes of the messages of a store: now, after a start of each version, after a repair.

    account of the check  ->  now
    predicted start       ->  after that start
    check of a tried plan ->  after the plan, else what its actions say

Every state has the same messages: what is not in the log any more is lost. Design, section 7; ADR 0024.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rocketfsck.query.start.verdict import StartVerdict
from rocketfsck.repair.plan.model import Action
from rocketfsck.verify.account.model import Fates

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
    got = min(start.reached_count, left)
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
