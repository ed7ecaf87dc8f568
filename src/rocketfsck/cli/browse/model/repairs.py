"""Repairs and single actions to choose from, the plan of those that are chosen, what it costs and brings.

    [x] cut-log: commitlog/00000000000000000000 (1 finding)
    [-] rebuild-queue: consumequeue/TopicTest/0 and 1 more (4 findings, safe)
        [ ] consumequeue/TopicTest/0 (3 findings, safe)
        [!] consumequeue/TopicTest/1: rebuild-queue needs move-stray, which is left out

Every choice makes the plan again by `repair.plan.planning`, so that what `apply` later does is what is
shown; what was read for the first plan is not read again. Nothing here writes to a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rocketfsck.cli.output import open_output
from rocketfsck.cli.show.repair import plan_lines
from rocketfsck.cli.show.text import Palette, count_of, sentence, visible
from rocketfsck.commands.shared import refuse_inside
from rocketfsck.repair.plan.document import keep_plan, plan_text
from rocketfsck.repair.plan.model import Action, Plan
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.plan.table import ActionKey, PlanScene, action_key
from rocketfsck.store.places.locations import refuse_remote
from rocketfsck.verify.report import Report

IN, OUT, PART, NOT_ALONE = "[x]", "[ ]", "[-]", "[!]"
"""Marks: in the plan, left out, some of a repair's actions are in, left out with what the action needs."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One line to choose by: a repair with all its actions, or (`is_single`) one of several actions.

    `mark` says whether it is in the plan, `why` what keeps an action out that was not left out itself.
    """

    name: str
    actions: tuple[Action, ...]
    mark: str
    is_single: bool = False
    why: str = ""

    @property
    def keys(self) -> frozenset[ActionKey]:
        """The actions by what tells them apart."""
        return frozenset(map(action_key, self.actions))

    @property
    def is_safe(self) -> bool:
        """Whether every action is provably safe."""
        return all(action.preen for action in self.actions)

    @property
    def title(self) -> str:
        """What it is, in a printable line."""
        targets = [visible(action.target) or "the store" for action in self.actions]
        if self.is_single and self.why:
            return f"    {self.mark} {targets[0]}: {sentence(self.why)}"
        more = f" and {len(targets) - 1} more" if len(targets) > 1 else ""
        findings = sum(action.finding_count for action in self.actions)
        safe = ", safe" if self.is_safe else ""
        what = f"{targets[0]}{more} ({count_of(findings, 'finding')}{safe})"
        if self.is_single:
            return f"    {self.mark} {what}"
        why = f": {sentence(self.why)}" if self.why else ""
        return f"{self.mark} {self.name}: {what}{why}"


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan of what is chosen. `actions` are all that could be, `left_out` the keys of those that are not
    wanted."""

    scene: PlanScene
    actions: tuple[Action, ...]
    left_out: frozenset[ActionKey]
    plan: Plan

    @property
    def report(self) -> Report:
        return self.scene.report

    def choices(self, unfolded: Iterable[str] = ()) -> list[Choice]:
        """The lines to choose by: a repair each, below those that are unfolded their single actions."""
        return list(self._choices(self._singles(), frozenset(unfolded)))

    def about(self) -> str:
        """How many actions are in the plan, left out, and left out with them."""
        marks = [single.mark for single in self._singles()]
        said = f"The plan: {count_of(len(self.plan.actions), 'action')}"
        left, lost = marks.count(OUT), marks.count(NOT_ALONE)
        said += f"; {left:,} left out" if left else ""
        return f"{said}; {lost:,} not possible without what is left out" if lost else said

    def _choices(self, singles_of_all: list[Choice], unfolded: frozenset[str]) -> Iterator[Choice]:
        for name in dict.fromkeys(single.name for single in singles_of_all):
            singles = [single for single in singles_of_all if single.name == name]
            marks = {single.mark for single in singles}
            mark = marks.pop() if len(marks) == 1 else PART
            why = singles[0].why if len(singles) == 1 or mark == NOT_ALONE else ""
            yield Choice(name, tuple(single.actions[0] for single in singles), mark, why=why)
            if len(singles) > 1 and name in unfolded:
                yield from singles

    def _singles(self) -> list[Choice]:
        """All actions but those for which the plan has no use: another one does what they would do."""
        there = {action_key(action) for action in self.plan.actions}
        reasons = {item.fingerprint: item.reason for item in self.plan.unanswered}
        found = []
        for action in self.actions:
            key = action_key(action)
            why = next((reasons[name] for name in action.why if name in reasons), "")
            mark = OUT if key in self.left_out else IN if key in there else NOT_ALONE if why else None
            if mark is not None:
                why = why if mark == NOT_ALONE else ""
                found.append(Choice(action.name, (action,), mark, is_single=True, why=why))
        return found

    def lines(self, columns: int) -> list[str]:
        """The plan in words, with what is lost, regained, assumed and noticed: printable lines."""
        return list(plan_lines(self.plan, Palette(False), columns, head=False))


def plan_all(scene: PlanScene) -> Planned:
    """The plan with every repair. Raises UsageError for a store behind a URL, a report of another store or
    state, or a partial one; StoreError if the store cannot be read."""
    refuse_remote(scene.store.root, "a repair")
    plan = make_plan(scene.store, scene.report, scene=scene)
    return Planned(scene, plan.actions, frozenset(), plan)


def plan_without(planned: Planned, left_out: frozenset[ActionKey]) -> Planned:
    """The plan without some actions. What it has in their place can be chosen, too. Raises as `plan_all`."""
    scene = planned.scene
    plan = make_plan(scene.store, scene.report, left_out=left_out, scene=scene)
    known = {action_key(action) for action in planned.actions}
    new = [action for action in plan.actions if action_key(action) not in known]
    return replace(planned, actions=(*planned.actions, *new), left_out=left_out, plan=plan)


def toggled(planned: Planned, choice: Choice) -> frozenset[ActionKey]:
    """What is left out once a choice was taken in (if any of it is left out), or else out."""
    if planned.left_out & choice.keys:
        return planned.left_out - choice.keys
    return planned.left_out | choice.keys


def save_plan(planned: Planned, path: Path | None) -> Path:
    """Write the plan to a file, or (None) where `apply STORE` finds it. Returns where it is.

    Raises UsageError for a file inside the store, StoreError if it cannot be written.
    """
    if path is None:
        return keep_plan(planned.plan)
    store = planned.scene.store
    stores = store.data_directories
    refuse_inside(path, stores)
    with open_output(path, binary=False, forbidden=stores) as stream:
        stream.write(plan_text(planned.plan))
    return path
