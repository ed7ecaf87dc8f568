"""`rocketfsck explain [NAME]`: a rule, a fault class or a repair in full, or the list of all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.output import FORMATS, Column, Destination, open_rows
from rocketfsck.cli.show.text import Palette, aligned, text_columns, visible, wrapped
from rocketfsck.common.options import Argument, beginning
from rocketfsck.errors import UsageError

if TYPE_CHECKING:
    from rocketfsck.repair.plan.table import Row
    from rocketfsck.verify.rules.faultclasses import FaultClass
    from rocketfsck.verify.rules.rule import Rule


COLUMNS = tuple(
    Column(name, "text")
    for name in (
        "kind",
        "id",
        "slug",
        "severity",
        "meaning",
        "why",
        "strictness",
        "level",
        "repair",
        "reference",
        "fault_class",
        "advice",
        "rules",
    )
)


EVERY_REPAIR = "repairs"
"""The name of the list of all repairs."""


def _beginning(begun: str) -> list[str]:
    """Ids, slugs, classes and repairs that begin so."""
    from rocketfsck.repair.plan.planning import all_repairs
    from rocketfsck.verify.rules.catalog import RULES
    from rocketfsck.verify.rules.faultclasses import FAULT_CLASSES

    slugs = [rule.slug for rule in RULES.values()]
    return beginning([*RULES, *slugs, *FAULT_CLASSES, EVERY_REPAIR, *all_repairs()], begun)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainLine:
    """What is explained, None for the list of all, and where."""

    name: Annotated[str | None, Argument(complete=_beginning)] = None
    answer: Annotated[Destination, Formats(FORMATS)]


@command_of(ExplainLine)
def command(line: ExplainLine) -> None:
    """Explain a rule (CQ004, or its slug), a fault class (Q3) or a repair (fence-gap).

    Without NAME, explain lists all rules, classes and repairs. A family of rules (CL, CQ …) lists its
    members, and `repairs` lists the repairs, by the names that plans, --only and --except use.
    """
    from rocketfsck.repair.plan.planning import all_repairs
    from rocketfsck.verify.rules.catalog import RULES
    from rocketfsck.verify.rules.faultclasses import FAULT_CLASSES

    name, answer = line.name, line.answer
    rules = list(RULES.values())
    classes = list(FAULT_CLASSES.values())
    repairs = list(all_repairs().values())
    if name is not None:
        rules = [
            rule for rule in rules if name.upper() in (rule.id, rule.family) or name.lower() == rule.slug
        ]
        classes = [known for known in classes if known.id == name.upper()]
        repairs = [known for known in repairs if name.lower() in (known.name, EVERY_REPAIR)]
        if not rules and not classes and not repairs:
            slugs = [rule.slug for rule in RULES.values()]
            raise UsageError(_unknown(name, [*RULES, *slugs, *FAULT_CLASSES, *all_repairs()]))
    with answer.open() as stream:
        if answer.form == "text":
            palette = answer.palette(stream)
            single = name is not None and len(rules) + len(classes) + len(repairs) == 1
            columns = text_columns()
            lines = (
                chain(_full(rules, classes, palette, columns), _repairs(repairs, palette, columns))
                if single
                else _list(rules, classes, repairs, palette)
            )
            for text in lines:
                stream.write(text + "\n")
            return
        with open_rows(stream, answer.form, COLUMNS, {"kind": "rocketfsck.explain"}) as writer:
            for row in (*map(_rule_row, rules), *map(_class_row, classes), *map(_repair_row, repairs)):
                writer.write(row)


def _unknown(name: str, names: list[str]) -> str:
    near = get_close_matches(name.upper(), names, 1) or get_close_matches(name.lower(), names, 1)
    hint = f"; did you mean {near[0]}?" if near else "; `rocketfsck explain` lists all"
    return f"no rule, fault class or repair has the name {visible(name)!r}{hint}"


def _rule_row(rule: Rule) -> dict[str, Any]:
    from rocketfsck.repair.plan.planning import repairs_of

    return {
        "kind": "rule",
        "id": rule.id,
        "slug": rule.slug,
        "severity": rule.severity.name.lower(),
        "meaning": rule.meaning,
        "why": rule.why,
        "strictness": rule.strictness,
        "level": rule.level,
        "repair": " ".join(repairs_of(rule.id)) or None,
        "reference": rule.reference,
        "fault_class": rule.fault_class,
        "advice": None,
        "rules": None,
    }


def _class_row(known: FaultClass) -> dict[str, Any]:
    empty: dict[str, Any] = dict.fromkeys((column.name for column in COLUMNS), None)
    return empty | {
        "kind": "fault-class",
        "id": known.id,
        "slug": known.title,
        "meaning": known.meaning,
        "advice": known.advice,
    }


def _repair_row(known: Row) -> dict[str, Any]:
    from rocketfsck.repair.plan.planning import rules_of

    empty: dict[str, Any] = dict.fromkeys((column.name for column in COLUMNS), None)
    return empty | {
        "kind": "repair",
        "id": known.name,
        "meaning": known.summary,
        "rules": " ".join(rules_of(known)),
    }


def _list(
    rules: list[Rule], classes: list[FaultClass], repairs: list[Row], palette: Palette
) -> Iterator[str]:
    from rocketfsck.cli.show.report import paint
    from rocketfsck.verify.rules.rule import FAMILIES

    for family, title in FAMILIES.items():
        members = [rule for rule in rules if rule.family == family]
        if members:
            yield palette.bold(f"{family}: {title}")
            yield from (
                f"  {line}"
                for line in aligned(
                    [rule.id, paint(palette, rule.severity, f"{rule.severity.name.lower():<7}"), rule.slug]
                    for rule in members
                )
            )
    if classes:
        yield palette.bold("Fault classes")
        yield from (f"  {line}" for line in aligned([known.id, known.title] for known in classes))
    if repairs:
        yield palette.bold("Repairs, in the order in which a plan has them")
        yield from (f"  {line}" for line in aligned([known.name, known.summary] for known in repairs))


STRICTNESS = {
    "strict": "holds in every store",
    "dialect": "depends on the broker's version",
    "heuristic": "has legal exceptions",
    "config": "depends on the broker's configuration",
}
LEVELS = {
    "quick": "quick, cross and full checks",
    "cross": "cross and full checks",
    "full": "full checks only",
}


def _full(rules: list[Rule], classes: list[FaultClass], palette: Palette, columns: int) -> Iterator[str]:
    from rocketfsck.verify.rules.catalog import RULES
    from rocketfsck.verify.rules.faultclasses import FAULT_CLASSES

    for rule in rules:
        yield f"{palette.bold(rule.id)}  {palette.bold(rule.slug)}"
        yield ""
        yield from wrapped(rule.meaning, columns, "  ")
        yield ""
        yield from wrapped(rule.why, columns, "  ")
        yield ""
        known = FAULT_CLASSES.get(rule.fault_class or "")
        rows = [
            ("severity", rule.severity.name.lower()),
            ("certainty", f"{rule.strictness}: {STRICTNESS[rule.strictness]}"),
            ("looked for in", LEVELS[rule.level]),
            ("repaired by", _repaired_by(rule)),
            ("format", f"reference {rule.reference}"),
            ("fault class", f"{known.id}, {known.title}" if known else "none"),
        ]
        yield from (f"  {line}" for line in aligned(rows))
        if known:
            yield ""
            yield from wrapped(known.meaning, columns, "  ")
            yield from wrapped(known.advice, columns, "  ")
    for known in classes:
        yield f"{palette.bold(known.id)}  {palette.bold(known.title)}"
        yield ""
        yield from wrapped(known.meaning, columns, "  ")
        yield ""
        yield from wrapped(known.advice, columns, "  ")
        yield ""
        members = [rule for rule in RULES.values() if rule.fault_class == known.id]
        yield "  Rules of this class:" if members else "  No rule belongs to this class."
        yield from (
            f"    {line}"
            for line in aligned([rule.id, rule.severity.name.lower(), rule.slug] for rule in members)
        )


def _repairs(repairs: list[Row], palette: Palette, columns: int) -> Iterator[str]:
    """A repair in full: what it does, what it answers, and what it must know to be provably safe."""
    from rocketfsck.repair.plan.planning import rules_of

    for known in repairs:
        yield palette.bold(known.name)
        yield ""
        yield from wrapped(known.summary, columns, "  ")
        yield ""
        writes_by = [*known.writes_by, *(["version"] if known.traits else [])]
        rows = [
            ("answers", ", ".join(rules_of(known)) or "what `rocketfsck compare --heal` finds"),
            ("writes by", ", ".join(writes_by) or "only the bytes that it changes"),
            ("takes from", ", ".join(known.areas) or "the file that it changes"),
            *([("is left out without", ", ".join(known.needs))] if known.needs else []),
        ]
        for title, text in rows:
            yield from wrapped(f"{title}: {text}", columns, "  ")


def _repaired_by(rule: Rule) -> str:
    from rocketfsck.repair.plan.planning import repairs_of

    names = repairs_of(rule.id)
    if len(names) == 1:
        return f"{names[0]}, as `rocketfsck plan STORE --only {names[0]}` plans it"
    if names:
        return f"{' or '.join(names)}, as `rocketfsck plan STORE` plans it"
    if rule.severity.name == "INFO":
        return "nothing: a note needs no repair"
    return "nothing: a person must decide"
