"""What a repair is: a row of the table of repairs. The rows themselves are in `repairs/`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketfsck.repair.plan.model import Action

if TYPE_CHECKING:
    from rocketfsck.repair.plan.scene import ActScene, PlanScene
    from rocketfsck.verify.finding import Finding


@dataclass(frozen=True, slots=True)
class Repair:
    """One way to repair.

    `name` is what a plan calls its actions, what `--only` and `--except` take, and what rules give as their
    `repair`. `order` says when its actions come in a plan: small first (names and lengths of files, then the
    log, then what is rebuilt from it, then checkpoint and config). `plan` makes actions of the findings whose
    rules ask for this repair: it yields nothing for those it cannot answer, and may yield actions of other
    repairs that answer them better. `act` carries out one action on the working tree; it raises StoreError
    and changes nothing where the tree is not what the action expects.

    What the law of safety asks (`repair.plan.law`): `writes_by` names everything that the acts write by
    (`repair.plan.basis.BASES`), `traits` the traits of the broker's version among it; `areas` are the parts
    of the store that the acts change or take something from, () for that of the action's target.

    `answers` are rules that the repair can answer beside those that name it.

    `needs` are repairs whose actions the acts of this one take for done: where an action of one of them is
    wanted and left out of a plan, those of this one are left out with it (`repair.plan.law.dependents`).
    """

    name: str
    order: int
    summary: str
    plan: Callable[[PlanScene, Sequence[Finding]], Iterable[Action]]
    act: Callable[[ActScene, Action], None]
    areas: tuple[str, ...] = ()
    writes_by: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
