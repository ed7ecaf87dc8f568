"""Explains rules, classes of faults and repairs, by their names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Literal

from rocketfsck.common.options import Argument, beginning
from rocketfsck.common.rows import Text
from rocketfsck.common.wording import visible
from rocketfsck.errors import UsageError

if TYPE_CHECKING:
    from rocketfsck.repair.plan.table import Row
    from rocketfsck.verify.rules.faultclasses import FaultClass
    from rocketfsck.verify.rules.rule import Rule

EVERY_REPAIR = "repairs"
"""The name of the list of all repairs."""


def _names() -> list[str]:
    """Ids, slugs, classes and repairs."""
    from rocketfsck.repair.plan.planning import all_repairs
    from rocketfsck.verify.rules.catalog import RULES
    from rocketfsck.verify.rules.faultclasses import FAULT_CLASSES

    return [*RULES, *(rule.slug for rule in RULES.values()), *FAULT_CLASSES, EVERY_REPAIR, *all_repairs()]


def _beginning(begun: str) -> list[str]:
    """Names that begin so."""
    return beginning(_names(), begun)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainCommand:
    """What is explained, None for all."""

    name: Annotated[str | None, Argument(complete=_beginning)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A rule, a class of faults or a repair in a row: what has no meaning for one of them is None."""

    kind: Literal["rule", "fault-class", "repair"]
    id: Text
    slug: Text | None = None
    severity: Text | None = None
    meaning: Text
    why: Text | None = None
    strictness: Text | None = None
    level: Text | None = None
    repair: Text | None = None
    reference: Text | None = None
    fault_class: Text | None = None
    advice: Text | None = None
    rules: Text | None = None


@dataclass(frozen=True, slots=True)
class ExplainAnswer:
    """The rules, classes of faults and repairs of a name."""

    rules: tuple[Rule, ...]
    classes: tuple[FaultClass, ...]
    repairs: tuple[Row, ...]

    def rows(self) -> Iterator[Explained]:
        """A row for each of them."""
        yield from map(_of_rule, self.rules)
        for known in self.classes:
            yield Explained(
                kind="fault-class",
                id=known.id,
                slug=known.title,
                meaning=known.meaning,
                advice=known.advice,
            )
        yield from map(_of_repair, self.repairs)


def explain(options: ExplainCommand) -> ExplainAnswer:
    """Look a name up. Raises UsageError for one that nothing has, with the nearest that something has."""
    from rocketfsck.repair.plan.planning import all_repairs
    from rocketfsck.verify.rules.catalog import RULES
    from rocketfsck.verify.rules.faultclasses import FAULT_CLASSES

    name, rules, repairs = options.name, RULES.values(), all_repairs().values()
    if name is None:
        return ExplainAnswer(tuple(rules), tuple(FAULT_CLASSES.values()), tuple(repairs))
    small, large = name.lower(), name.upper()
    found = ExplainAnswer(
        tuple(rule for rule in rules if large in (rule.id, rule.family) or small == rule.slug),
        tuple(known for known in FAULT_CLASSES.values() if known.id == large),
        tuple(known for known in repairs if small in (known.name, EVERY_REPAIR)),
    )
    if not (found.rules or found.classes or found.repairs):
        names = [known for known in _names() if known != EVERY_REPAIR]
        near = get_close_matches(large, names, 1) or get_close_matches(small, names, 1)
        hint = f"; did you mean {near[0]}?" if near else "; `rocketfsck explain` lists all"
        raise UsageError(f"no rule, fault class or repair has the name {visible(name)!r}{hint}")
    return found


def _of_rule(rule: Rule) -> Explained:
    from rocketfsck.repair.plan.planning import repairs_of

    return Explained(
        kind="rule",
        id=rule.id,
        slug=rule.slug,
        severity=rule.severity.word,
        meaning=rule.meaning,
        why=rule.why,
        strictness=rule.strictness,
        level=rule.level,
        repair=" ".join(repairs_of(rule.id)) or None,
        reference=rule.reference,
        fault_class=rule.fault_class,
    )


def _of_repair(known: Row) -> Explained:
    from rocketfsck.repair.plan.planning import rules_of

    return Explained(kind="repair", id=known.name, meaning=known.summary, rules=" ".join(rules_of(known)))
