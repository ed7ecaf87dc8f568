"""What a repair is: a row of the table of repairs. The rows themselves are in `repairs/`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rocketfsck.repair.plan.arguments import Arguments
from rocketfsck.repair.plan.model import Action

if TYPE_CHECKING:
    from rocketfsck.repair.plan.scene import ActScene, PlanScene
    from rocketfsck.verify.finding import Finding


A = TypeVar("A", bound=Arguments)


def _target(action: Action) -> Collection[str]:
    return (action.target,)


@dataclass(frozen=True, slots=True)
class Repair(Generic[A]):
    """One way to repair.

    `name` is what a plan calls its actions, what `--only` and `--except` take, and what rules give as their
    `repair`. `order` says when its actions come in a plan: small first (names and lengths of files, then the
    log, then what is rebuilt from it, then checkpoint and config); no two have the same. `plan` makes actions
    of the findings whose rules ask for this repair: it yields nothing for those it cannot answer, and may
    yield actions of other repairs that answer them better. `act` carries out one action on the working tree
    by its arguments, which have the class `arguments`; where the tree is not what the action expects, it
    raises StoreError and changes nothing.

    What the law of safety asks (`repair.plan.law`): `writes_by` names everything that the acts write by
    (`repair.plan.basis.BASES`), `traits` the traits of the broker's version among it; `areas` are the parts
    of the store that the acts change or take something from, () for that of the action's target.

    `answers` are rules that the repair can answer besides those that name it.

    `needs` are repairs whose actions the acts of this one treat as done: where an action of one of them is
    wanted and left out of a plan, those of this one are left out with it (`repair.plan.law.dependents`).

    `needs_beside` is the same for actions on the same target only.

    `moot_after` are repairs that leave nothing to do for this one: an action on the target of one of theirs,
    or below it, becomes part of that one.

    `places` gives the names at which an action makes or replaces files. A symbolic link there keeps the
    action out of a plan, and so does whatever is in the way and is not set aside by the same plan.
    """

    name: str
    order: int
    summary: str
    plan: Callable[[PlanScene, Sequence[Finding]], Iterable[Action]]
    act: Callable[[ActScene, Action, A], None]
    arguments: type[A]
    areas: tuple[str, ...] = ()
    writes_by: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    needs_beside: tuple[str, ...] = ()
    moot_after: tuple[str, ...] = ()
    places: Callable[[Action], Collection[str]] = _target


Row = Repair[Any]
"""A repair with arguments of any class."""


def is_near(place: str, name: str) -> bool:
    """Whether two names in a store are the same, or one is that of a directory above the other."""
    return f"{place}/".startswith(f"{name}/") or f"{name}/".startswith(f"{place}/")
