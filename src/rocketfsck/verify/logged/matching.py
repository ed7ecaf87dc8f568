"""A message as one of the statements, and what is known of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from rocketfsck.verify.logged.areas import AREAS
from rocketfsck.verify.logged.families import FAMILIES
from rocketfsck.verify.logged.model import ClassArea, Family
from rocketfsck.verify.logged.statements import Saying, Statement, sayings_by_word, words_of

_LEAST_LETTERS = 5
_HOLES = re.compile(r"\{\w*\}?")


@dataclass(frozen=True, slots=True)
class LineMatch:
    """A message that is one of the texts: what is in its holes, in their order."""

    saying: Saying
    values: tuple[str, ...]

    @property
    def named(self) -> tuple[tuple[str, str], ...]:
        """The holes with what is in them."""
        return tuple(zip(self.saying.holes, self.values, strict=True))


def match(readings: Iterable[str]) -> LineMatch | None:
    """The text that a message is: of several the one with the most literal letters."""
    best, most = None, 0
    for message in dict.fromkeys(readings):
        for word in words_of(message):
            for saying in sayings_by_word().get(word, ()):
                weight = saying.weight
                if weight <= most or weight < _LEAST_LETTERS:
                    continue
                values = saying.values(message)
                if values is not None:
                    best, most = LineMatch(saying, values), weight
    return best


@cache
def family_of(statement: Statement) -> Family | None:
    """The row of a statement: of several that it begins like the longest, one for its class first."""
    template = _HOLES.sub("{", statement.template)
    best: tuple[bool, int] = (False, 0)
    found = None
    for family in FAMILIES.values():
        if family.owners and statement.owner not in family.owners:
            continue
        for begin in family.begins:
            rank = (bool(family.owners), len(begin))
            if rank > best and template.startswith(_HOLES.sub("{", begin)):
                best, found = rank, family
    return found


def area_of(statement: Statement) -> ClassArea:
    """What the class of a statement does."""
    return _area(statement.owner)


@cache
def _area(owner: str) -> ClassArea:
    ranked = [
        (len(begin), number)
        for number, area in enumerate(AREAS)
        for begin in area.begins
        if owner.startswith(begin)
    ]
    return AREAS[max(ranked)[1]] if ranked else AREAS[-1]


def families_of_trace(errors: Sequence[str], frames: Sequence[tuple[str, str]]) -> tuple[Family, ...]:
    """The rows for a stack trace: by its innermost known method, or else by its exceptions."""
    by_frame = _by_frame()
    for owner, method in frames:
        family = by_frame.get(f"{owner.partition('$')[0]}.{method}")
        if family is not None:
            return (family,)
    return tuple(
        family
        for family in FAMILIES.values()
        if any(text in line for line in errors for text in family.errors)
    )


@cache
def _by_frame() -> Mapping[str, Family]:
    return {frame: family for family in FAMILIES.values() for frame in family.frames}


def is_normal(family: Family, named: Sequence[tuple[str, str]]) -> bool:
    """Whether a line is a normal one: by its row, or by what is in its holes."""
    return family.weight == "normal" or any(pair in family.normal_if for pair in named)
