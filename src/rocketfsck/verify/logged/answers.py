"""Texts of logs as answers: each thing that was said once, with how often and where first.

explain_text(text)    tuple of LineMeaning, the gravest first, in the order of the text

Texts of logs as entries: what was said, at which level, with which stack trace.

The layout before a message depends on the broker's logback.xml: `%d %p %t - %m` (as released), or time,
level, logger and message in other orders. So an entry has several readings, the likeliest first: whichever
is a known statement is the right one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from rocketfsck.verify.logged import matching
from rocketfsck.verify.logged.areas import Family, Weight

MESSAGE_LIMIT = 4096
"""As many characters of a line are looked at: templates are shorter, and mostly what fills their holes."""

_STAMP = re.compile(
    r"^\W{0,3}(?:\d{4}[-/]\d{1,2}[-/]\d{1,2}[T ,]{0,2})?\d{1,2}:\d{2}:\d{2}(?:[.,]\d{1,9})?"
    r"(?:Z|[+-]\d{2}:?\d{2})?\W{0,3}"
)
_LEVEL = re.compile(r"\b(ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE)\b\]?\s*")
_FRAME = re.compile(r"^\s*at (?:[\w.@-]+/{1,2})?([\w.$]+)\.([\w$<>]+)\(")
_OLD_FRAME = re.compile(r"^\s+([a-z][\w$]*(?:\.[\w$]+){2,})\.([\w$<>]+)\([\w$]+\.java")
_ERROR = re.compile(
    r"^(?:\s*(?:Caused by|Suppressed): )?(?:[a-zA-Z_][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error)\b(?::|\s*$)"
)
_MORE = re.compile(r"^\s*\.\.\. \d+ (?:more|common frames omitted)")
_LEVEL_NAMES = {"WARNING": "warn"}


@dataclass(slots=True)
class LogEntry:
    """One entry of a log. `number` is its line, from 1; `errors` are the lines of exceptions, `frames` the
    methods of their traces as (class without package, method), innermost first."""

    number: int
    text: str
    errors: list[str] = field(default_factory=list)
    frames: list[tuple[str, str]] = field(default_factory=list)

    @property
    def level(self) -> str | None:
        """The level that the line says, in small letters."""
        found = _LEVEL.search(self.text[:200])
        return None if found is None else _LEVEL_NAMES.get(found[1], found[1].lower())

    def readings(self) -> Iterator[str]:
        """What may be the message, without the layout before it; blanks are single."""
        text = " ".join(self.text[:MESSAGE_LIMIT].split())
        rest = text[_stamp_end(text) :]
        level = _LEVEL.search(rest[:200])
        if level is not None:
            after = rest[level.end() :]
            _, dash, message = after.partition(" - ")
            if dash:
                yield message
            elif after.startswith("- "):
                yield after[2:]
            yield after.partition(" ")[2]
            yield after
        yield rest
        if rest is not text:
            yield text


def _stamp_end(text: str) -> int:
    found = _STAMP.match(text)
    return 0 if found is None else found.end()


def entries_of(text: str) -> Iterator[LogEntry]:
    """The entries of a text. Lines of a stack trace belong to the entry before them."""
    entry: LogEntry | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        head = line[:MESSAGE_LIMIT]
        frame = _FRAME.match(head) or _OLD_FRAME.match(head)
        is_error = _ERROR.match(head) is not None
        if not (frame or is_error or _MORE.match(head)):
            if entry is not None:
                yield entry
            entry = LogEntry(number, line)
            continue
        if entry is None:
            entry = LogEntry(number, head.strip() if is_error else "")
        if is_error:
            entry.errors.append(head.strip())
        elif frame:
            entry.frames.append((frame[1].rpartition(".")[2], frame[2]))
    if entry is not None:
        yield entry


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
    logged_by: tuple[matching.Statement, ...] = ()
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
    matched = matching.match(entry.readings())
    traced = matching.families_of_trace(entry.errors or [entry.text], entry.frames)
    for row in traced:
        yield _of_family(entry, row, matched)
    if matched is None:
        if not traced and entry.frames:
            yield from _of_frames(entry)
        return
    if traced:
        return
    families: dict[str, list[matching.Statement]] = {}
    for statement in _of_level(matched.saying.statements, entry.level):
        family = matching.family_of(statement)
        families.setdefault("" if family is None else family.name, []).append(statement)
    for said_by in families.values():
        family = matching.family_of(said_by[0])
        if family is None:
            yield _of_area(entry, said_by, matched)
        else:
            yield _of_family(entry, family, matched, said_by)


def _of_level(said: tuple[matching.Statement, ...], level: str | None) -> tuple[matching.Statement, ...]:
    """The statements of the level that the line says, if there are some: others are other places."""
    return tuple(statement for statement in said if statement.level == level) or said


def _of_family(
    entry: LogEntry,
    family: Family,
    matched: matching.LineMatch | None,
    said_by: list[matching.Statement] | None = None,
) -> LineMeaning:
    named = () if matched is None else matched.named
    return LineMeaning(
        text=entry.text or (entry.errors or [""])[0],
        line=entry.number,
        count=1,
        level=entry.level,
        weight="normal" if matching.is_normal(family, named) else family.weight,
        meaning=family.meaning,
        advice=family.advice,
        command=family.command,
        family=family,
        template=None if matched is None else _template(matched),
        logged_by=tuple(said_by or (() if matched is None else matched.saying.statements)),
        values=named,
        frame=_frame(entry),
    )


def _of_area(entry: LogEntry, said_by: list[matching.Statement], matched: matching.LineMatch) -> LineMeaning:
    """The answer for a statement without a row: what its class does, and which method it is."""
    first = said_by[0]
    area = matching.area_of(first)
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
    owners = {statement.owner: statement for statement in matching.statements()}
    for name, method in entry.frames:
        statement = owners.get(name.partition("$")[0])
        if statement is not None:
            area = matching.area_of(statement)
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


def _template(matched: matching.LineMatch) -> str:
    return matched.saying.statements[0].template


def _frame(entry: LogEntry) -> str | None:
    """The innermost method of a trace that is one of a class that logs about a store."""
    owners = {statement.owner for statement in matching.statements()} if entry.frames else set()
    return next(
        (f"{name}.{method}" for name, method in entry.frames if name.partition("$")[0] in owners), None
    )
