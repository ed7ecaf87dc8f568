"""`rocketfsck explain [NAME]`: a rule, a fault class, a repair or a line of a log; or the list of all.

`rocketfsck schema [NAME]`: the JSON Schema of a document, or the list of documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import click

from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.output import FORMATS, Destination, Table, open_output, schema_with_texts
from rocketfsck.cli.settings import settings_of
from rocketfsck.cli.show.text import Palette, aligned, sentence, text_columns, visible, wrapped
from rocketfsck.commands import explain as commands_explain
from rocketfsck.common.documents import json_text, members
from rocketfsck.common.options import Argument, beginning
from rocketfsck.common.rows import columns_of
from rocketfsck.errors import UsageError

if TYPE_CHECKING:
    from rocketfsck.repair.plan.table import Row
    from rocketfsck.verify.finding import Rule
    from rocketfsck.verify.rules.catalog import FaultClass


def _beginning(begun: str) -> list[str]:
    """Names of documents that begin so."""
    from rocketfsck.cli.schema.table import DOCUMENTS

    return beginning(DOCUMENTS, begun)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaLine:
    """Whose schema is printed, None for the list of documents, and where."""

    name: Annotated[str | None, Argument(complete=_beginning)] = None
    answer: Annotated[Destination, Formats(integers=True)]


@command_of(SchemaLine)
def schema_command(line: SchemaLine) -> None:
    """Print the JSON Schema (draft 2020-12) of the document NAME; without NAME, list the documents.

    With --json-integers strings, the schema is that of documents written so.
    """
    from rocketfsck.cli.schema.table import DOCUMENTS, document_schema

    name = line.name
    if name is not None and name not in DOCUMENTS:
        raise UsageError(f"no document is called {visible(name)!r}; `rocketfsck schema` lists all")
    with open_output(line.answer.path, binary=False) as stream:
        if name is not None:
            schema = document_schema(name)
            texts = settings_of(click.get_current_context()).integer_texts
            stream.write(json_text(schema_with_texts(schema) if texts else schema, indent=2) + "\n")
        else:
            rows = [(name, document.about) for name, document in DOCUMENTS.items()]
            stream.writelines(f"{line}\n" for line in aligned(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainLine(commands_explain.ExplainCommand):
    """What is explained, and where."""

    answer: Annotated[Destination, Formats(FORMATS)]


@command_of(ExplainLine)
def explain_command(line: ExplainLine) -> None:
    """Explain a rule (CQ004, or its slug), a fault class (Q3), a repair (fence-gap), or a line of a log.

    Without NAME, explain lists all rules, classes and repairs. A family of rules (CL, CQ …) lists its
    members, and `repairs` lists the repairs, by the names that plans, --only and --except use.

    A NAME with blanks is a line that a broker logged about its store (in store.log or broker.log), or a
    stack trace; `-` reads a log from standard input. explain says what each line means, since when a known
    issue is fixed, and what to do. With --store, explain looks up the offsets, queues and files that a line
    names.
    """
    found = commands_explain.explain(line)
    is_single = line.name is not None and len(list(found.rows())) == 1
    lines = _log if found.lines else _full if is_single else _list
    columns, rows = columns_of(commands_explain.Explained), (dict(members(row)) for row in found.rows())
    line.answer.say_rows(partial(lines, found), Table(columns, {"kind": "rocketfsck.explain"}, rows))


def _list(found: commands_explain.ExplainAnswer, palette: Palette) -> Iterator[str]:
    from rocketfsck.cli.show.report import paint
    from rocketfsck.verify.finding import FAMILIES

    for family, title in FAMILIES.items():
        listed = [rule for rule in found.rules if rule.family == family]
        if listed:
            yield palette.bold(f"{family}: {title}")
            yield from (
                f"  {line}"
                for line in aligned(
                    [rule.id, paint(palette, rule.severity, f"{rule.severity.name.lower():<7}"), rule.slug]
                    for rule in listed
                )
            )
    if found.classes:
        yield palette.bold("Fault classes")
        yield from (f"  {line}" for line in aligned([known.id, known.title] for known in found.classes))
    if found.repairs:
        yield palette.bold("Repairs, in the order in which a plan has them")
        yield from (f"  {line}" for line in aligned([known.name, known.summary] for known in found.repairs))


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


def _full(found: commands_explain.ExplainAnswer, palette: Palette) -> Iterator[str]:
    columns = text_columns()
    yield from _rules(found.rules, palette, columns)
    yield from _classes(found.classes, palette, columns)
    yield from _repairs(found.repairs, palette, columns)


def _log(found: commands_explain.ExplainAnswer, palette: Palette) -> Iterator[str]:
    """What lines mean, the gravest first; of many lines, those that are normal in short."""
    columns, is_many = text_columns(), len(found.lines) > 1
    normal = [item for item in found.lines if item.answer.weight == "normal"] if is_many else []
    for item in found.lines:
        if item not in normal:
            yield from _line(item, palette, columns)
    if normal:
        yield palette.bold("Normal in a healthy store")
        yield from (
            f"  {row}"
            for row in aligned([f"{item.answer.count:,}", _excerpt(item, columns - 12)] for item in normal)
        )
    if found.unknown_count:
        yield f"{found.unknown_count:,} of {found.entry_count:,} entries say nothing about a store."


def _excerpt(item: commands_explain.ExplainedLine, columns: int) -> str:
    text = sentence(item.answer.template or item.answer.text)
    return text if len(text) <= columns else text[: columns - 1] + "…"


WEIGHTS = {
    "normal": "normal in a healthy store",
    "notice": "worth a look",
    "damage": "the store, or what a start makes of it, is at stake",
}


def _line(item: commands_explain.ExplainedLine, palette: Palette, columns: int) -> Iterator[str]:
    answer, family = item.answer, item.answer.family
    shown = sentence(" ".join(answer.text[:1000].split()))
    yield palette.bold(shown if len(shown) <= 2 * columns else shown[: 2 * columns - 1] + "…")
    yield ""
    yield from wrapped(answer.meaning, columns, "  ")
    yield from wrapped(answer.advice, columns, "  ")
    yield ""
    rows = [("how grave", WEIGHTS[answer.weight])]
    if answer.count > 1:
        rows.append(("how often", f"{answer.count:,} lines, first in line {answer.line:,}"))
    rows += [("logged by", place) for place in list(commands_explain.logged_by(answer))[:4]]
    if answer.frame is not None:
        rows.append(("thrown in", visible(answer.frame)))
    if family is not None:
        rows += [("a check says", " ".join(family.rules))] if family.rules else []
        rows += [("fault class", " ".join(family.classes))] if family.classes else []
        rows += (
            [("apache/rocketmq", ", ".join(issue.text for issue in family.issues))] if family.issues else []
        )
    for place in item.places:
        rows.append(("in this store", sentence(place.says)))
    if item.rules:
        rows.append(("quick check", f"{' '.join(item.rules)} in these files"))
    for title, text in rows:
        yield from wrapped(f"{title}: {text}", columns, "  ")
    yield from (f"  next: {sentence(command)}" for command in item.next)
    yield ""


def _paragraphs(title: str, texts: Sequence[str], columns: int) -> Iterator[str]:
    """Texts below their title, with an empty line behind each."""
    yield from (title, "")
    for text in texts:
        yield from (*wrapped(text, columns, "  "), "")


def _rules(rules: Sequence[Rule], palette: Palette, columns: int) -> Iterator[str]:
    from rocketfsck.verify.rules.catalog import FAULT_CLASSES

    for rule in rules:
        title = f"{palette.bold(rule.id)}  {palette.bold(rule.slug)}"
        yield from _paragraphs(title, (rule.meaning, rule.why), columns)
        known = FAULT_CLASSES.get(rule.fault_class or "")
        rows = [
            ("severity", rule.severity.name.lower()),
            ("certainty", f"{rule.strictness}: {STRICTNESS[rule.strictness]}"),
            ("looked for in", LEVELS[rule.level]),
            ("repaired by", _repaired_by(rule)),
            ("format", f"reference {rule.reference}"),
            ("fault class", f"{known.id}, {known.title}" if known else "none"),
        ]
        yield from (f"  {line}" for line in aligned(rows, labels=True))
        if known:
            yield ""
            yield from wrapped(known.meaning, columns, "  ")
            yield from wrapped(known.advice, columns, "  ")


def _classes(classes: Sequence[FaultClass], palette: Palette, columns: int) -> Iterator[str]:
    from rocketfsck.verify.rules.catalog import RULES

    for known in classes:
        title = f"{palette.bold(known.id)}  {palette.bold(known.title)}"
        yield from _paragraphs(title, (known.meaning, known.advice), columns)
        listed = [rule for rule in RULES.values() if rule.fault_class == known.id]
        if known.found_by:
            yield f"  One store does not show it: `{known.found_by}` finds it in two."
        else:
            yield "  Rules of this class:" if listed else "  No rule belongs to this class."
        yield from (
            f"    {line}"
            for line in aligned([rule.id, rule.severity.name.lower(), rule.slug] for rule in listed)
        )


def _repairs(repairs: Sequence[Row], palette: Palette, columns: int) -> Iterator[str]:
    """A repair in full: what it does, what it answers, and what it must know to be provably safe."""
    from rocketfsck.repair.plan.planning import rules_of

    for known in repairs:
        yield from _paragraphs(palette.bold(known.name), (known.summary,), columns)
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
