"""Texts of logs as answers: each thing that was said once, with how often and where first.

explain_text(text)    tuple of LineMeaning, the gravest first, in the order of the text
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rocketfsck.verify.logged.lines import LogEntry, entries_of
from rocketfsck.verify.logged.matching import (
    LineMatch,
    area_of,
    families_of_trace,
    family_of,
    is_normal,
    match,
)
from rocketfsck.verify.logged.model import Family, Weight
from rocketfsck.verify.logged.statements import Statement, statements

_ORDER: tuple[Weight, ...] = ("damage", "notice", "normal")


@dataclass(frozen=True, slots=True)
class LineMeaning:
    """What a line of a log means. `text` is the first such line, `line` its number, `count` how many follow.

    `template` is the statement's text with its holes, None for a trace alone; `logged_by` are its places in
    the sources with level and versions; `values` what is in the holes. `family` is None for a statement
    without a row of its own, whose `meaning` says what its class does. `command` is what to type next,
    without the program."""

    text: str
    line: int
    count: int
    level: str | None
    weight: Weight
    meaning: str
    advice: str
    command: str
    family: Family | None = None
    template: str | None = None
    logged_by: tuple[Statement, ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    frame: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answers to a text, and how many of its entries are not in the table."""

    answers: tuple[LineMeaning, ...]
    entry_count: int
    unknown_count: int


def explain_text(text: str) -> Explanation:
    """What the lines of a text mean."""
    found: dict[tuple[object, ...], LineMeaning] = {}
    entry_count = unknown_count = 0
    for entry in entries_of(text):
        entry_count += 1
        said = list(_answers(entry))
        unknown_count += not said
        for answer in said:
            key = (answer.family and answer.family.name, answer.template, answer.frame, answer.weight)
            known = found.get(key)
            found[key] = answer if known is None else replace(known, count=known.count + 1)
    ordered = sorted(found.values(), key=lambda answer: (_ORDER.index(answer.weight), answer.line))
    return Explanation(tuple(ordered), entry_count, unknown_count)


def _answers(entry: LogEntry) -> Iterator[LineMeaning]:
    """The answers to one entry: of its trace first, which says more than the line above it."""
    matched = match(entry.readings())
    traced = families_of_trace(entry.errors or [entry.text], entry.frames)
    for row in traced:
        yield _of_family(entry, row, matched)
    if matched is None:
        if not traced and entry.frames:
            yield from _of_frames(entry)
        return
    if traced:
        return
    families: dict[str, list[Statement]] = {}
    for statement in _of_level(matched.saying.statements, entry.level):
        family = family_of(statement)
        families.setdefault("" if family is None else family.name, []).append(statement)
    for said_by in families.values():
        family = family_of(said_by[0])
        if family is None:
            yield _of_area(entry, said_by, matched)
        else:
            yield _of_family(entry, family, matched, said_by)


def _of_level(said: tuple[Statement, ...], level: str | None) -> tuple[Statement, ...]:
    """The statements of the level that the line says, if there are some: others are other places."""
    return tuple(statement for statement in said if statement.level == level) or said


def _of_family(
    entry: LogEntry, family: Family, matched: LineMatch | None, said_by: list[Statement] | None = None
) -> LineMeaning:
    named = () if matched is None else matched.named
    return LineMeaning(
        text=entry.text or (entry.errors or [""])[0],
        line=entry.number,
        count=1,
        level=entry.level,
        weight="normal" if is_normal(family, named) else family.weight,
        meaning=family.meaning,
        advice=family.advice,
        command=family.command,
        family=family,
        template=None if matched is None else _template(matched),
        logged_by=tuple(said_by or (() if matched is None else matched.saying.statements)),
        values=named,
        frame=_frame(entry),
    )


def _of_area(entry: LogEntry, said_by: list[Statement], matched: LineMatch) -> LineMeaning:
    """The answer for a statement without a row: what its class does, and which method it is."""
    first = said_by[0]
    area = area_of(first)
    owner, _, method = first.place.partition("#")
    grave = first.level in ("error", "throw")
    throws = "throws this" if first.level == "throw" else f"logs this at level {first.level}"
    how = "Something failed there; an exception below the line says what." if grave else ""
    return LineMeaning(
        text=entry.text,
        line=entry.number,
        count=1,
        level=entry.level,
        weight="normal" if first.level == "info" else "notice",
        meaning=f"{owner} {throws} in {method}. The class does {area.concerns}. {how}".strip(),
        advice=area.advice if first.level != "info" else "Nothing to do.",
        command=area.command,
        template=_template(matched),
        logged_by=tuple(said_by),
        values=matched.named,
        frame=_frame(entry),
    )


def _of_frames(entry: LogEntry) -> Iterator[LineMeaning]:
    """The answer for a trace alone: what the innermost class that logs about a store does."""
    owners = {statement.owner: statement for statement in statements()}
    for name, method in entry.frames:
        statement = owners.get(name.partition("$")[0])
        if statement is not None:
            area = area_of(statement)
            yield LineMeaning(
                text=entry.text or (entry.errors or [""])[0],
                line=entry.number,
                count=1,
                level=entry.level,
                weight="notice",
                meaning=f"An exception in {statement.owner}.{method}. The class does {area.concerns}.",
                advice=area.advice,
                command=area.command,
                frame=f"{name}.{method}",
            )
            return


def _template(matched: LineMatch) -> str:
    return matched.saying.statements[0].template


def _frame(entry: LogEntry) -> str | None:
    """The innermost method of a trace that is one of a class that logs about a store."""
    owners = {statement.owner for statement in statements()} if entry.frames else set()
    return next(
        (f"{name}.{method}" for name, method in entry.frames if name.partition("$")[0] in owners), None
    )
