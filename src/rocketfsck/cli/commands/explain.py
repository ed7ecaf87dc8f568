"""`rocketfsck explain [NAME]`: a rule or a fault class in full, or the list of all."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.base import Command, common_options, settings_of, terminal_width
from rocketfsck.cli.output import Column, Format, open_output, open_rows
from rocketfsck.cli.palette import Palette
from rocketfsck.cli.table import aligned, wrapped
from rocketfsck.cli.text import visible
from rocketfsck.errors import UsageError

if TYPE_CHECKING:
    from rocketfsck.verify.faultclasses import FaultClass
    from rocketfsck.verify.rule import Rule

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
    )
)


def _complete(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Ids, slugs and classes that begin so, for the shell."""
    from rocketfsck.verify.catalog import RULES
    from rocketfsck.verify.faultclasses import FAULT_CLASSES

    names = [*RULES, *(rule.slug for rule in RULES.values()), *FAULT_CLASSES]
    return [name for name in names if name.lower().startswith(begun.lower())]


@click.command(cls=Command)
@click.argument("name", required=False, shell_complete=_complete)
@click.option(
    "--format", "output_format", type=click.Choice(["text", "json", "jsonl", "csv"]), default="text"
)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file.")
@click.pass_context
@common_options
def command(context: click.Context, name: str | None, output_format: Format, output: Path | None) -> None:
    """Explain a rule (CQ004, or its slug) or a fault class (Q3); without NAME list them all.

    A family of rules (CL, CQ …) lists its members.
    """
    from rocketfsck.verify.catalog import RULES
    from rocketfsck.verify.faultclasses import FAULT_CLASSES

    rules = list(RULES.values())
    classes = list(FAULT_CLASSES.values())
    if name is not None:
        rules = [
            rule for rule in rules if name.upper() in (rule.id, rule.family) or name.lower() == rule.slug
        ]
        classes = [known for known in classes if known.id == name.upper()]
        if not rules and not classes:
            raise UsageError(
                _unknown(name, [*RULES, *(rule.slug for rule in RULES.values()), *FAULT_CLASSES])
            )
    with open_output(output, binary=False) as stream:
        if output_format == "text":
            palette = Palette(output is None and settings_of(context).colored(stream))
            single = name is not None and len(rules) + len(classes) == 1
            lines = (
                _full(rules, classes, palette, min(terminal_width(100), 100))
                if single
                else _list(rules, classes, palette)
            )
            for line in lines:
                stream.write(line + "\n")
            return
        with open_rows(stream, output_format, COLUMNS, {"kind": "rocketfsck.explain"}) as writer:
            for row in (*map(_rule_row, rules), *map(_class_row, classes)):
                writer.write(row)


def _unknown(name: str, names: list[str]) -> str:
    near = get_close_matches(name.upper(), names, 1) or get_close_matches(name.lower(), names, 1)
    hint = f"; did you mean {near[0]}?" if near else "; `rocketfsck explain` lists all"
    return f"no rule or fault class is called {visible(name)!r}{hint}"


def _rule_row(rule: Rule) -> dict[str, Any]:
    return {
        "kind": "rule",
        "id": rule.id,
        "slug": rule.slug,
        "severity": rule.severity.name.lower(),
        "meaning": rule.template,
        "why": rule.why,
        "strictness": rule.strictness,
        "level": rule.level,
        "repair": rule.repair,
        "reference": rule.reference,
        "fault_class": rule.fault_class,
        "advice": None,
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


def _list(rules: list[Rule], classes: list[FaultClass], palette: Palette) -> Iterator[str]:
    from rocketfsck.cli.reporttext import paint
    from rocketfsck.verify.rule import FAMILIES

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
    from rocketfsck.verify.catalog import RULES
    from rocketfsck.verify.faultclasses import FAULT_CLASSES

    for rule in rules:
        yield f"{palette.bold(rule.id)}  {palette.bold(rule.slug)}"
        yield ""
        yield from wrapped(rule.template, columns, "  ")
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
        yield "  Rules whose breach is of this class:" if members else "  No rule belongs to this class."
        yield from (
            f"    {line}"
            for line in aligned([rule.id, rule.severity.name.lower(), rule.slug] for rule in members)
        )


def _repaired_by(rule: Rule) -> str:
    if rule.repair is not None:
        return f"{rule.repair}, as `rocketfsck plan STORE --only {rule.repair}` plans it"
    if rule.severity.name == "INFO":
        return "nothing: it is a note, there is nothing to repair"
    return "nothing: it must be judged by a person"
