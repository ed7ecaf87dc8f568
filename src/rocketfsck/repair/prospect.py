"""A plan in short, for the verdict: what it would do about the findings, and what it leaves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from rocketfsck.errors import RocketfsckError
from rocketfsck.repair.apply.holding import held_plan
from rocketfsck.repair.plan.law import assumed_names, total_notices
from rocketfsck.repair.plan.model import Action, Notice, Plan
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store.model import Store
from rocketfsck.store.places.urls import is_remote
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES


@dataclass(frozen=True, slots=True)
class Prospect:
    """What a repair would do about the findings.

    `action_count` actions, `safe_count` of them provably safe, correct `answered_count` findings above info
    and leave `unanswered_count`; `reason` says why for the worst of these. A finding that stands for several
    counts as so many. `is_tried`: that was found by trying the plan; otherwise what is left has no action of
    its own, and may be gone all the same. `refused_action_count` actions were left out after the trial.
    `lost_record_count` records and `lost_entry_count` index entries are not there afterwards. `notices` are
    what the broker and its consumers will notice, `assumed` values that need the user's word.
    """

    action_count: int
    safe_count: int
    answered_count: int
    unanswered_count: int
    lost_record_count: int
    lost_entry_count: int
    gains: Mapping[str, int] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()
    assumed: tuple[str, ...] = ()
    reason: str = ""
    is_tried: bool = False
    refused_action_count: int = 0


def plan_or_obstacle(store: Store, report: Report) -> tuple[Plan | None, str]:
    """The plan of the repair, tried where that is cheap; else why there is none, "" where nothing is to be
    repaired."""
    if (report.worst or Severity.INFO) is Severity.INFO:
        return None, ""
    if is_remote(store.root):
        return None, "a repair needs the store on this machine"
    try:
        return held_plan(make_plan(store, report), store, report), ""
    except RocketfsckError as error:
        return None, str(error)


def total_gains(actions: Iterable[Action]) -> dict[str, int]:
    """What all actions bring back, by what it is."""
    totals: dict[str, int] = {}
    for action in actions:
        for what, count in action.gains.items():
            totals[what] = totals.get(what, 0) + count
    return totals


def prospect_of(plan: Plan, usual: Collection[str] = ()) -> Prospect:
    """A plan in short. The values named `usual` need nobody's word (`basis.usual_sizes`)."""
    losses = [loss for action in plan.actions for loss in action.losses]
    worst = max(plan.unanswered, key=lambda item: RULES[item.rule].severity, default=None)
    return Prospect(
        len(plan.actions),
        sum(action.preen for action in plan.actions),
        plan.answered_count,
        plan.unanswered_count,
        sum(loss.count for loss in losses if loss.what == "record"),
        sum(loss.count for loss in losses if loss.what == "entry"),
        total_gains(plan.actions),
        total_notices(plan.actions),
        tuple(name for name in assumed_names(plan.actions) if name not in usual),
        "" if worst is None else worst.reason,
        plan.is_tried,
        len(plan.refused_actions),
    )
