"""What follows of a heal: the store is looked at as the heal will leave it, and the rest is planned of that.

Of the ordinary planner's actions those are taken that bring queues, index and checkpoint in line with the
log, and those that answer what only came up with the records of the other copy. All else is left to
`rocketfsck plan`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rocketfsck.errors import StoreError
from rocketfsck.repair.plan.law import dependents
from rocketfsck.repair.plan.model import Action, Extent, Unanswered
from rocketfsck.repair.plan.planning import all_repairs, make_plan
from rocketfsck.repair.plan.scene import PlanScene
from rocketfsck.repair.plan.tried import TriedStore
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.rules.catalog import RULES, describe
from rocketfsck.verify.rules.rule import Level
from rocketfsck.verify.run import check_store

DERIVED = frozenset(
    {
        "cut-queue",
        "rebuild-queue",
        "rebuild-index",
        "relink-index",
        "rewrite-index-header",
        "write-checkpoint",
        "save-index",
    }
)
"""Repairs of what brokers derive from the log."""

LOG = frozenset(
    {"salvage-log", "fence-gap", "cut-log", "flip-bit", "zero-stale-tail", "trim-segment", "write-blank"}
)
"""Repairs of damage in the log. What neither copy has is left: a third one may have it."""

_OF_SOUND_LOGS = frozenset({"finish-recovery"})
_ROUND_LIMIT = 4

LEFT = "this plan has only what the other copy can heal; for the rest run rocketfsck plan"
BROUGHT = "the records of the other copy bring this finding: see rocketfsck explain {rule}"


@dataclass(frozen=True, slots=True)
class Followed:
    """The actions of a heal with the findings that they answer, all that follows, and what is left."""

    actions: tuple[Action, ...]
    unanswered: tuple[Unanswered, ...]


def plan_rest(
    scene: PlanScene,
    directory: Path,
    actions: Sequence[Action],
    level: Level,
) -> Followed:
    """Try actions in an empty directory, plan what is to be done then, and try that. Raises StoreError."""
    before = {finding.fingerprint: finding for finding in _bad(scene.findings)}
    if not actions:
        return Followed((), tuple(_left(before.values(), LEFT)))
    with TriedStore(scene.store, directory, actions) as view:
        return _plan_rest(scene, view, before, actions, level)


def _plan_rest(
    scene: PlanScene,
    view: TriedStore,
    before: Mapping[str, Finding],
    actions: Sequence[Action],
    level: Level,
) -> Followed:
    following: list[Action] = []
    todo: Sequence[Action] = actions
    for _ in range(_ROUND_LIMIT):
        view.carry_out(todo)
        store = view.reopen()
        report = check_store(store, CheckOptions(level))
        found = {finding.fingerprint: finding for finding in _bad(report.findings, view)}
        planned = make_plan(store, report).actions
        known = {(action.name, action.target) for action in following}
        todo = [
            action
            for action in _wanted(planned, found.keys() - before.keys())
            if (action.name, action.target) not in known
        ]
        if not todo:
            break
        following += todo
    healed = [finding for name, finding in before.items() if name not in found]
    return Followed(
        (*_answering(actions, healed), *(_moved(action, scene, view, found) for action in following)),
        (
            *_left([finding for name, finding in found.items() if name in before], LEFT),
            *_left([finding for name, finding in found.items() if name not in before], BROUGHT),
        ),
    )


def _answering(actions: Sequence[Action], findings: Iterable[Finding]) -> list[Action]:
    """The actions with the findings that go by them: those of their file, and the first with all others."""
    own: dict[str, list[Finding]] = {action.target: [] for action in actions}
    for finding in findings:
        own[finding.where.file if finding.where.file in own else actions[0].target].append(finding)
    return [
        replace(
            action,
            why=tuple(dict.fromkeys(finding.fingerprint for finding in own[action.target])),
            rules=tuple(sorted({finding.rule for finding in own[action.target]})),
        )
        for action in actions
    ]


def _wanted(planned: Sequence[Action], fresh: Collection[str]) -> list[Action]:
    """What is done of the ordinary plan. Damage that is left in the log keeps what hangs on it as it is, if
    nothing else asks for a change there. What relies on an action that is left out is left out, too."""
    damaged = any(action.name in LOG for action in planned)
    allowed = [
        action
        for action in planned
        if action.name not in LOG and not (damaged and action.name in _OF_SOUND_LOGS)
    ]
    asked = [action for action in allowed if any(name in fresh for name in action.why)]
    wanted = [
        action for action in allowed if action in asked or (action.name in DERIVED and (asked or not damaged))
    ]
    left = [action for action in planned if action not in wanted]
    unfit = [action for action, _ in dependents(wanted, left, all_repairs())]
    return [action for action in wanted if action not in unfit]


def _bad(findings: Iterable[Finding], view: TriedStore | None = None) -> list[Finding]:
    """The findings above info, with the names of files that the store has for them."""
    found = [finding for finding in findings if RULES[finding.rule].severity > Severity.INFO]
    if view is None:
        return found
    return [
        replace(finding, where=replace(finding.where, file=view.name_of(finding.where.file)))
        for finding in found
    ]


def _moved(action: Action, scene: PlanScene, view: TriedStore, found: Collection[str]) -> Action:
    """An action that was planned for the tried store, for the store itself. What an action before it changes
    is not a precondition: it is not yet so when the plan is applied. Nor does it answer what is still
    found."""
    kept = (replace(extent, file=view.name_of(extent.file)) for extent in action.preconditions)
    return replace(
        action,
        target=view.name_of(action.target),
        preconditions=tuple(extent for extent in kept if _holds(scene, extent)),
        why=tuple(name for name in action.why if name not in found),
    )


def _holds(scene: PlanScene, extent: Extent) -> bool:
    if extent.sha256 is None:
        return not os.path.lexists(scene.path_of(extent.file))
    try:
        return scene.extent(extent.file, extent.start, extent.end) == extent
    except StoreError:
        return False


def _left(findings: Iterable[Finding], reason: str) -> Iterable[Unanswered]:
    for finding in findings:
        text = reason.format(rule=finding.rule)
        yield Unanswered(finding.fingerprint, finding.rule, describe(finding), text, finding.count)
