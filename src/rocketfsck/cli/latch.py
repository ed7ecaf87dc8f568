"""One question for each kind of repair, as `fix` asks on a terminal.

    Carry out cut-log (1 action; loses 1 record, 256 bytes)? [y/N/a/q/?]

`a` agrees to all kinds that follow, but for what is assumed: that is asked for all the same. What needs a
kind that was declined is left out with it and not asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import click

from rocketfsck.cli.lang import said, say_line
from rocketfsck.cli.show.text import count_of, sentence, shorten, visible
from rocketfsck.repair.plan.law import all_assumptions, dependents
from rocketfsck.repair.plan.model import Action, Plan
from rocketfsck.repair.plan.planning import all_repairs

CHOICES = "y/N/a/q/?"
LEGEND = (
    "  y  carry out this kind of repair",
    "  n  leave it out, with what needs it (also: an empty answer)",
    "  a  carry out this kind and all that follow; what is assumed is asked for all the same",
    "  q  stop: nothing is changed",
)
_SHOWN = 12


@dataclass(slots=True)
class Latch:
    """The answers so far: kinds by name; `rest` says that all others are agreed to, `stopped` that nothing
    is to be done."""

    agreed: set[str] = field(default_factory=set)
    declined: set[str] = field(default_factory=set)
    rest: bool = False
    stopped: bool = False

    def ask(self, plan: Plan) -> None:
        """Ask for every kind of the plan that has no answer yet. Raises click.Abort where the input ends."""
        for name in dict.fromkeys(action.name for action in plan.actions):
            if self.stopped:
                return
            if name in self.agreed | self.declined:
                continue
            same = [action for action in _without(plan.actions, self.declined) if action.name == name]
            if same:
                self._ask_kind(name, same)

    def _ask_kind(self, name: str, same: Sequence[Action]) -> None:
        if self.rest and not _assumed(same):
            self.agreed.add(name)
            return
        while True:
            answer = click.prompt(
                said(f"Carry out {name} ({_facts(same)})? [{CHOICES}]"),
                default="n",
                show_default=False,
                prompt_suffix=" ",
                err=True,
            )
            match answer.strip().lower():
                case "y" | "yes" | "a" | "all" as word:
                    self.rest = self.rest or word in ("a", "all")
                    self.agreed.add(name)
                case "n" | "no":
                    self.declined.add(name)
                case "q" | "quit":
                    self.stopped = True
                case _:
                    for line in _help(name, same):
                        say_line(line, err=True)
                    continue
            return


def agreed_plan(plan: Plan, replan: Callable[[set[str]], Plan]) -> Plan | None:
    """The plan without the kinds that the user declines; None where nothing is to be done.

    `replan` makes the plan without the kinds of these names. Where that brings a kind that nobody was asked
    for, it is asked for, too. Raises click.Abort at the end of the input.
    """
    latch = Latch()
    while plan.actions and not latch.stopped:
        latch.ask(plan)
        if latch.stopped or not {action.name for action in plan.actions} & latch.declined:
            break
        plan = replan(latch.declined)
    return None if latch.stopped or not plan.actions else plan


def _without(actions: Sequence[Action], declined: set[str]) -> list[Action]:
    """The actions that neither were declined nor need what was."""
    left_out = [action for action in actions if action.name in declined]
    rest = [action for action in actions if action.name not in declined]
    gone = [action for action, _ in dependents(rest, left_out, all_repairs())]
    return [action for action in rest if action not in gone]


def _assumed(same: Sequence[Action]) -> list[str]:
    return [
        f"{visible(item.name)} {shorten(visible(str(item.value)), 40)}"
        for item in all_assumptions(same)
        if item.how == "assumed"
    ]


def _facts(same: Sequence[Action]) -> str:
    """How many actions, and what they lose and assume."""
    losses: dict[str, int] = {}
    for loss in chain.from_iterable(action.losses for action in same):
        losses[loss.what] = losses.get(loss.what, 0) + loss.count
    facts = [count_of(len(same), "action")]
    if losses:
        lost = (count_of(count, visible(what)) for what, count in losses.items())
        facts.append(f"loses {', '.join(lost)}")
    assumed = _assumed(same)
    if assumed:
        facts.append(f"assumes {', '.join(assumed)}")
    return "; ".join(facts)


def _help(name: str, same: Sequence[Action]) -> Iterator[str]:
    """What this kind does, action by action, and what may be answered."""
    for action in same[:_SHOWN]:
        yield f"  {visible(action.target) or 'the store'}: {sentence(action.note)}"
    if len(same) > _SHOWN:
        yield f"  … {len(same) - _SHOWN:,} more"
    yield f"  `rocketfsck explain {name}` says more."
    yield from LEGEND
