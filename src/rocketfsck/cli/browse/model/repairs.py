"""Repairs to choose from, the plan of those that are chosen, and what that plan costs and brings.

A repair is chosen by its name, as `plan --except` leaves one out: its actions go together, and with them
what they need. Every choice makes the plan again by `repair.plan.planning`, so that what `apply` later does
is exactly what is shown. Nothing here writes to a store.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rocketfsck.cli.output import open_output, refuse_inside
from rocketfsck.cli.show.palette import Palette
from rocketfsck.cli.show.repair import plan_lines
from rocketfsck.cli.show.text import count_of, visible
from rocketfsck.repair.plan.document import plan_text
from rocketfsck.repair.plan.kept import keep_plan
from rocketfsck.repair.plan.model import Action, Plan
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store.model import Store
from rocketfsck.verify.report import Report


@dataclass(frozen=True, slots=True)
class Choice:
    """One repair that can be chosen: its name, its actions in the full plan, whether all of them are safe."""

    name: str
    actions: tuple[Action, ...]

    @property
    def is_safe(self) -> bool:
        """Whether every action is provably safe."""
        return all(action.preen for action in self.actions)

    @property
    def title(self) -> str:
        """What it is, in a printable line."""
        targets = [visible(action.target) or "the store" for action in self.actions]
        more = f" and {len(targets) - 1} more" if len(targets) > 1 else ""
        findings = len({name for action in self.actions for name in action.why})
        safe = ", safe" if self.is_safe else ""
        return f"{self.name}: {targets[0]}{more} ({count_of(findings, 'finding')}{safe})"


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan of what is chosen. `choices` are all that could be; `left_out` the names that are not."""

    store: Store
    report: Report
    choices: tuple[Choice, ...]
    left_out: frozenset[str]
    plan: Plan

    def lines(self, columns: int) -> list[str]:
        """The plan in words, with what is lost, regained, assumed and noticed: printable lines."""
        return list(plan_lines(self.plan, Palette(False), columns, head=False))


def plan_all(store: Store, report: Report) -> Planned:
    """The plan with every repair. Raises UsageError for a report of another store or state, or a partial one;
    StoreError if the store cannot be read."""
    plan = make_plan(store, report)
    names = dict.fromkeys(action.name for action in plan.actions)
    choices = tuple(
        Choice(name, tuple(action for action in plan.actions if action.name == name)) for name in names
    )
    return Planned(store, report, choices, frozenset(), plan)


def plan_without(planned: Planned, left_out: frozenset[str]) -> Planned:
    """The plan without some repairs. Raises as `plan_all` does."""
    plan = make_plan(planned.store, planned.report, except_=sorted(left_out))
    return Planned(planned.store, planned.report, planned.choices, left_out, plan)


def save_plan(planned: Planned, path: Path | None) -> Path:
    """Write the plan to a file, or (None) where `apply STORE` finds it. Returns where it is.

    Raises UsageError for a file inside the store, StoreError if it cannot be written.
    """
    if path is None:
        return keep_plan(planned.plan)
    stores = [planned.store.root, *planned.store.commitlog.directories]
    refuse_inside(path, stores)
    with open_output(path, binary=False, forbidden=stores) as stream:
        stream.write(plan_text(planned.plan))
    return path
