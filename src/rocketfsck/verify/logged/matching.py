"""A message as one of the statements, and what is known of it.

The statements by which brokers log about their stores, as released sources have them.

`statements.tsv` is made by `tests/oracle/logstatements.py`: a row for each statement, `Class#method`, level,
versions, template. `throw` in place of a level is an exception, whose template begins with its class.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from rocketfsck.common.documents import packaged_text
from rocketfsck.verify.logged.areas import AREAS, FAMILIES, ClassArea, Family

HOLE = re.compile(r"\{(\w*)\}")
_WORD = re.compile(r"[A-Za-z_]{3,}")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement: who logs it (`Class#method`), at which level, in which of the versions that were read."""

    place: str
    level: str
    versions: str
    template: str

    @property
    def owner(self) -> str:
        """The class, without those inside of it."""
        return re.split(r"[#.]", self.place, maxsplit=1)[0]


@dataclass(frozen=True, slots=True)
class Saying:
    """Statements with the same text. `parts` are the literals around the holes, one more than `holes`."""

    parts: tuple[str, ...]
    holes: tuple[str, ...]
    statements: tuple[Statement, ...]

    @property
    def weight(self) -> int:
        """How many letters are literal."""
        return sum(map(str.isalpha, "".join(self.parts)))

    def values(self, message: str) -> tuple[str, ...] | None:
        """What is in the holes if the message is this text, else None. Linear in the length of it."""
        first, *middle = self.parts
        if not message.startswith(first):
            return None
        if not middle:
            return () if message == first else None
        last, at, found = middle.pop(), len(first), []
        for part in middle:
            next_at = message.find(part, at) if part else at
            if next_at < 0:
                return None
            found.append(message[at:next_at])
            at = next_at + len(part)
        end = len(message) - len(last)
        if end < at or not message.endswith(last):
            return None
        found.append(message[at:end])
        # what begins a message is one word: a name of a service, a file, a class
        return None if not first and " " in found[0].strip() else tuple(found)


@cache
def statements() -> tuple[Statement, ...]:
    """All statements of the table."""
    rows = packaged_text(__name__, "statements.tsv").splitlines()[1:]
    return tuple(Statement(*row.split("\t")) for row in rows)


@cache
def sayings() -> tuple[Saying, ...]:
    """All texts, whoever says them."""
    groups: dict[str, list[Statement]] = defaultdict(list)
    for statement in statements():
        groups[HOLE.sub("{}", statement.template)].append(statement)
    return tuple(
        Saying(tuple(text.split("{}")), tuple(HOLE.findall(group[0].template)), tuple(group))
        for text, group in groups.items()
    )


@cache
def sayings_by_word() -> dict[str, tuple[Saying, ...]]:
    """Each text by the rarest of its words; "" has those in which holes touch each."""
    words = {saying: _words(saying) for saying in sayings()}
    counts = Counter(word for found in words.values() for word in found)
    chosen: dict[str, list[Saying]] = defaultdict(list)
    for saying, found in words.items():
        chosen[min(found, key=lambda word: (counts[word], word), default="")].append(saying)
    return {word: tuple(found) for word, found in chosen.items()}


def words_of(message: str) -> set[str]:
    """The words of a message, and "" for texts without one."""
    return {"", *_WORD.findall(message)}


def _words(saying: Saying) -> set[str]:
    """The words that no hole touches: what fills a hole may be letters, too."""
    found = set()
    for number, part in enumerate(saying.parts):
        for word in _WORD.finditer(part):
            touches_left = number > 0 and word.start() == 0
            touches_right = number < len(saying.parts) - 1 and word.end() == len(part)
            if not touches_left and not touches_right:
                found.add(word.group())
    return found


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
