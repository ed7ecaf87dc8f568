"""Explains rules, classes of faults and repairs by their names, and what a broker logged about its store."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rocketfsck.commands.shared import StoreOptions
from rocketfsck.common.options import STORE, Argument, Option, beginning
from rocketfsck.common.rows import Text
from rocketfsck.common.wording import visible
from rocketfsck.errors import UsageError

if TYPE_CHECKING:
    from rocketfsck.query.evidence import StorePlace
    from rocketfsck.repair.plan.table import Row
    from rocketfsck.store import Store
    from rocketfsck.verify.finding import Rule
    from rocketfsck.verify.logged.answers import LineMeaning
    from rocketfsck.verify.rules.catalog import FaultClass

EVERY_REPAIR = "repairs"
"""The name of the list of all repairs."""
STDIN = "-"
TEXT_LIMIT = 64 << 20
"""Bytes of standard input that are read at most."""


def _names() -> list[str]:
    """Ids, slugs, classes and repairs."""
    from rocketfsck.repair.plan.planning import all_repairs
    from rocketfsck.verify.rules.catalog import FAULT_CLASSES, RULES

    return [*RULES, *(rule.slug for rule in RULES.values()), *FAULT_CLASSES, EVERY_REPAIR, *all_repairs()]


def _beginning(begun: str) -> list[str]:
    """Names that begin so."""
    return beginning(_names(), begun)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainCommand:
    """What is explained, None for all."""

    name: Annotated[str | None, Argument(complete=_beginning)] = None
    store: Annotated[
        Path | None,
        Option("For a line of a log: look up what this store has at the places that it names.", kind=STORE),
    ] = None
    stated: StoreOptions = field(default_factory=StoreOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A rule, a class of faults, a repair or a line in a row: what has no meaning for one of them is None.

    Of a line, `id` is the name of what is known about it, `severity` how grave it is, `text` the first such
    line and `line` its number, `logged_by` the statements in the sources, `next` command lines.
    """

    kind: Literal["rule", "fault-class", "repair", "line"]
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
    text: str | None = None
    line: int | None = None
    count: int | None = None
    template: Text | None = None
    logged_by: Text | None = None
    issues: Text | None = None
    places: str | None = None
    next: str | None = None


@dataclass(frozen=True, slots=True)
class ExplainedLine:
    """What a line means, and what a store has at the places that it names, with the rules of a quick check
    that have findings in those files."""

    answer: LineMeaning
    places: tuple[StorePlace, ...] = ()
    rules: tuple[str, ...] = ()
    root: str = "STORE"

    @property
    def next(self) -> tuple[str, ...]:
        """Command lines: of the places, then of the line itself."""
        own = self.answer.command.split()
        named = dict(self.answer.values)
        filled = [named.get(word[1:-1], word) if word.startswith("{") else word for word in own]
        vectors = [place.command for place in self.places if place.command]
        vectors += [tuple(self.root if word == "STORE" else word for word in filled)] if own else []
        return tuple(shlex.join(["rocketfsck", *vector]) for vector in dict.fromkeys(vectors))


@dataclass(frozen=True, slots=True)
class ExplainAnswer:
    """The rules, classes of faults and repairs of a name, or what the lines of a log mean, the gravest first.

    `entry_count` entries were read; `unknown_count` of them are not about a store."""

    rules: tuple[Rule, ...] = ()
    classes: tuple[FaultClass, ...] = ()
    repairs: tuple[Row, ...] = ()
    lines: tuple[ExplainedLine, ...] = ()
    entry_count: int = 0
    unknown_count: int = 0

    def rows(self) -> Iterator[Explained]:
        """A row for each of them."""
        yield from map(_of_rule, self.rules)
        for known in self.classes:
            yield Explained(
                kind="fault-class", id=known.id, slug=known.title, meaning=known.meaning, advice=known.advice
            )
        yield from map(_of_repair, self.repairs)
        yield from map(_of_line, self.lines)


def explain(options: ExplainCommand) -> ExplainAnswer:
    """Look a name up; with blanks it is text of a log, and `-` is standard input.

    Raises UsageError for a name that nothing has, with the nearest that something has, and for a text without
    a line about a store; with a store, as `open_store` does.
    """
    from rocketfsck.repair.plan.planning import all_repairs
    from rocketfsck.verify.rules.catalog import FAULT_CLASSES, RULES

    name, rules, repairs = options.name, RULES.values(), all_repairs().values()
    if name is None:
        return ExplainAnswer(tuple(rules), tuple(FAULT_CLASSES.values()), tuple(repairs))
    if name == STDIN:
        return _explain_log(_standard_input(), options)
    small, large = name.lower(), name.upper()
    found = ExplainAnswer(
        tuple(rule for rule in rules if large in (rule.id, rule.family) or small == rule.slug),
        tuple(known for known in FAULT_CLASSES.values() if known.id == large),
        tuple(known for known in repairs if small in (known.name, EVERY_REPAIR)),
    )
    if not (found.rules or found.classes or found.repairs):
        if any(map(str.isspace, name)):
            return _explain_log(name, options)
        names = [known for known in _names() if known != EVERY_REPAIR]
        near = get_close_matches(large, names, 1) or get_close_matches(small, names, 1)
        hint = f"; did you mean {near[0]}?" if near else "; `rocketfsck explain` lists all"
        raise UsageError(f"no rule, fault class or repair has the name {visible(name)!r}{hint}")
    return found


def _standard_input() -> str:
    read = sys.stdin.buffer.read(TEXT_LIMIT + 1)
    if len(read) > TEXT_LIMIT:
        raise UsageError("standard input has more than 64 MiB; give a part of the log, like the last start")
    return read.decode("utf-8", "surrogateescape")


def _explain_log(text: str, options: ExplainCommand) -> ExplainAnswer:
    from rocketfsck.verify.logged.answers import explain_text

    found = explain_text(text)
    if not found.answers:
        raise UsageError("no line of it is one that RocketMQ 4.4 to 5.5 logs about a store")
    if options.store is None:
        lines = tuple(map(ExplainedLine, found.answers))
    else:
        store = options.stated.open("explain", options.store)
        lines = tuple(_look_up(store, found.answers, str(options.store)))
    return ExplainAnswer(lines=lines, entry_count=found.entry_count, unknown_count=found.unknown_count)


def _look_up(store: Store, answers: tuple[LineMeaning, ...], root: str) -> Iterator[ExplainedLine]:
    """The answers with what the store has at their places, and what a quick check says of those files."""
    from rocketfsck.query.evidence import places_of
    from rocketfsck.verify.options import CheckOptions
    from rocketfsck.verify.run import check_store

    placed = [(answer, places_of(store, answer.values, root)) for answer in answers]
    files = {place.file for _, places in placed for place in places if place.file is not None}
    report = check_store(store, CheckOptions(level="quick")) if files else None
    for answer, places in placed:
        named = {place.file for place in places}
        rules = sorted({item.rule for item in report.findings if item.where.file in named}) if report else ()
        yield ExplainedLine(answer, places, tuple(rules), root)


def _of_line(found: ExplainedLine) -> Explained:
    answer, family = found.answer, found.answer.family
    return Explained(
        kind="line",
        id="statement" if family is None else family.name,
        severity=answer.weight,
        meaning=answer.meaning,
        level=answer.level,
        fault_class=None if family is None else " ".join(family.classes) or None,
        advice=answer.advice,
        rules=None if family is None else " ".join(family.rules) or None,
        text=answer.text[:1000],
        line=answer.line,
        count=answer.count,
        template=answer.template,
        logged_by="; ".join(logged_by(answer)) or None,
        issues=None if family is None else ", ".join(issue.text for issue in family.issues) or None,
        places="; ".join(place.says for place in found.places) or None,
        next="; ".join(found.next) or None,
    )


def logged_by(answer: LineMeaning) -> Iterator[str]:
    """The statements of a line: where in the sources, at which level, in which versions."""
    for said in answer.logged_by:
        yield f"{said.place} ({said.level}, {said.versions})"


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
