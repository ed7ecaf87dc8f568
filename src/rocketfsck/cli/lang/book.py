"""A book of phrases: English texts with places for values, and what each is in another language.

Files of the book (`zh/*.tsv`): a line is an English phrase, a tab, and the other language's.

    place   := {name} | {1}            any text, which is translated by itself
             | {n:noun}                a number and a noun: `1 file`, `2 files`
             | {n:,}                   a number
             | {n?is|are}              one of two words, left out in the other language
             | {first..last:noun}      one or two values, with or without a noun

The other language names its places (`{name}`, `{first..last}`) in any order. What a phrase says as a whole
is looked up first; else a text is taken apart at the ends of sentences, at `; `, `: ` and `, `, and its parts
are looked up. Names, numbers and commands are in no phrase, and stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import chain, zip_longest

from rocketfsck.common.wording import PLACE, plural_of

SAME = "="
"""In place of a translation: the phrase is the same in both languages."""
NOUNS, WORDS = "nouns.tsv", "words.tsv"
CHOSEN = ("verdict.tsv", "frames.tsv", "composed.tsv")
"""Files whose phrases are looked for before those of the others."""
_WORD = re.compile(r"(?<![\w{}])[A-Za-z]{2,}(?![\w{}])")
_RANGE = re.compile(r"([\d.,]+(?:-[A-Z]+)?) to ([\d.,]+(?:-[A-Z]+)?)")
_LETTERS = re.compile(r"[A-Za-z]{2}")
_COUNT = re.compile(r"(-?[\d,]+(?:\.\d+)?) ([A-Za-z][A-Za-z -]*)")
_SEPARATORS: tuple[tuple[str, str], ...] = (
    (". ", "。"), ("; ", "；"), (": ", "："), (", ", "，"), (" and ", "和"),
)  # fmt: skip
_LEAD = re.compile(r"(?:- |[A-Z]{1,2}\d{1,3} (?:[a-z]+(?:-[a-z]+)+: )?)(?=\S)")
"""What comes before a text: the mark of a list, the name of a rule or of a class of damage."""
_BRACKETED = re.compile(r"(.*\S) \(([^()]*(?:\([^()]*\)[^()]*)*)\)", re.DOTALL)
_ENDS = {".": "。", ":": "：", ";": "；", ",": "，"}
_CLAUSE, _ITEM = r"(?:(?!\. |; ).)", r"(?:(?!\. |; |, ).)"
"""A character of what a place may hold: no end of a clause is in it; in a short phrase, no comma either."""
_SHORT, _SHORTEST = 16, 4
"""Fixed characters of a short phrase at most, and of one whose places hold no blank."""
_LEAST_WEIGHT = 8
"""Fixed letters that a phrase with places has at least: shorter ones would be found where they are not."""
_CHOSEN_WEIGHT = 1000
_LONGEST = 400
"""Characters of a text that is compared with phrases with places; longer ones are known whole or in parts."""
_MOST_PARTS = 16
"""Marks in a text that is taken apart, at most: what has more of them is data."""
_MOST_CACHED = 4096


Names = tuple[tuple[str, str | None], ...]
"""Of each place that has a value: its name, and that of the end of a range."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase with places: how it is found, and what is said.

    Of several, the one of most `weight` is taken: the number of fixed characters, more for chosen ones.
    """

    english: str
    target: str
    weight: int
    allowed: str

    def match(self, text: str) -> tuple[re.Match[str], Names] | None:
        """How a text is this phrase, and the names of its places; None if it is another."""
        pattern, names = _compiled(self.english, self.allowed)
        found = pattern.fullmatch(text)
        return None if found is None else (found, names)


@dataclass(slots=True)
class Book:
    """Phrases without places by their text, those with places by one of their words, nouns after numbers, and
    single words that no store has as a name."""

    exact: Mapping[str, str]
    phrases: Mapping[str, Sequence[Phrase]]
    nouns: Mapping[str, str]
    words: Mapping[str, str]
    _known: dict[str, str] = field(default_factory=dict)

    def say(self, text: str) -> str:
        """The text in the other language, as far as there are phrases for it."""
        if not _LETTERS.search(text):
            return text
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= _MOST_CACHED:
                self._known.clear()
            self._known[text] = text  # a phrase that would lead back to itself ends here
            known = self._known[text] = self._said(text)
        return known

    def say_within(self, text: str) -> str:
        """A part of a text: a single word may be a name (a topic `message`), and stays."""
        return self.words.get(text, text) if " " not in text.strip() else self.say(text)

    def _said(self, text: str) -> str:
        inner = text.strip()
        if inner != text:
            at = text.index(inner)
            return f"{text[:at]}{self.say(inner)}{text[at + len(inner) :]}"
        led = _LEAD.match(text)
        if led is not None and (rest := self.say(text[led.end() :])) != text[led.end() :]:
            return f"{led[0]}{rest}"
        found = self._known_phrase(text) if " " in text else self._whole(text)
        return self._in_parts(text) if found is None else found

    def _whole(self, text: str) -> str | None:
        exact = self.exact.get(text)
        if exact is not None:
            return text if exact == SAME else exact
        counted = _COUNT.fullmatch(text)
        if counted is not None and counted[2] in self.nouns:
            return f"{counted[1]} {self.nouns[counted[2]]}"
        if _RANGE.fullmatch(text):
            return _RANGE.sub(r"\1 到 \2", text)
        if len(text) > _LONGEST:
            return None
        words = dict.fromkeys(_WORD.findall(text))
        found = sorted(
            (phrase for word in words for phrase in self.phrases.get(word, ())), key=lambda each: -each.weight
        )
        for phrase in found:
            match = phrase.match(text)
            if match is not None:
                return text if phrase.target == SAME else self._filled(phrase.target, *match)
        return None

    def _filled(self, target: str, match: re.Match[str], names: Names) -> str:
        values: dict[str, str] = {}
        for number, (name, last) in enumerate(names):
            value = self.say_within(match[f"v{number}"] or "")
            end = match[f"w{number}"] if last is not None else None
            place = name if last is None else f"{name}..{last}"
            values.setdefault(place, f"{value} 到 {end}" if end else value)
        return _NAME.sub(lambda place: values.get(place[1], ""), target)

    def _in_parts(self, text: str) -> str:
        """What comes before and after a mark that parts the text, each said by itself.

        The mark is one with a phrase after it, else one with a phrase before it, else the first. Brackets at
        the end are a part of their own.
        """
        bracketed = _BRACKETED.fullmatch(text)
        if bracketed is not None:
            first, inner = self.say_within(bracketed[1]), self.say_within(bracketed[2])
            return f"{first} ({inner})" if inner == bracketed[2] else f"{first}（{inner}）"
        places = [
            (text[: found.start()], other, text[found.end() :])
            for mark, other in _SEPARATORS
            for found in re.finditer(re.escape(mark), text)
        ]
        if len(places) > _MOST_PARTS:
            return text
        for first, other, rest in places:
            known = self._known_phrase(rest)
            if known is not None:
                return f"{self.say_within(first)}{other}{known}"
        for first, other, rest in reversed(places):
            known = self._known_phrase(first)
            if known is not None:
                return f"{known}{other}{self.say_within(rest)}"
        for first, other, rest in places:
            said = self.say_within(first), self.say_within(rest)
            if said != (first, rest):
                return f"{said[0]}{other}{said[1]}"
        return text

    def _known_phrase(self, text: str) -> str | None:
        """What a phrase of several words says, also one that ends a sentence here or in the book."""
        if " " not in text:
            return None
        if text[-1] in _ENDS and text not in self.exact:
            ended = self._whole(text[:-1])
            if ended is not None:
                return ended + _ENDS[text[-1]]
        known = self._whole(text)
        if known is None and text[-1] not in _ENDS:  # the end of the sentence was taken off with what follows
            sentence = self._whole(f"{text}.")
            return None if sentence is None else sentence.removesuffix("。")
        return known


_NAME = re.compile(r"\{([a-z_0-9.]+)\}")


def phrase_of(english: str, target: str, weight: int = 0) -> Sequence[tuple[str, Phrase]]:
    """The words that a phrase with places is found by, each with the phrase; none if it is too short."""
    own = len(PLACE.sub("", english))
    allowed = r"\S" if own <= _SHORTEST else _ITEM if own <= _SHORT and not weight else _CLAUSE
    phrase = Phrase(english, target, own + weight, allowed)
    words = _WORD.findall(PLACE.sub("{}", english))
    places = list(PLACE.finditer(english))
    choices = [
        word
        for place in places
        if place["many"] is not None
        for word in _WORD.findall(f"{place['one']} {place['many']}")
    ]
    fixed = [*words, *choices, *(place["noun"] or "" for place in places)]
    is_short = not weight and sum(map(len, fixed)) < _LEAST_WEIGHT and PLACE.match(english) is not None
    if not (words or choices) or is_short:
        return ()
    return [(key, phrase) for key in ([max(words, key=len)] if words else dict.fromkeys(choices))]


@cache
def _compiled(english: str, allowed: str) -> tuple[re.Pattern[str], Names]:
    """A phrase as a regular expression, whose places hold `allowed` characters, and their names.

    Of places side by side the first has all; one before a single character and another place does not have
    that character. Where a text may be divided in many ways, a hostile one would be tried in all of them.
    """
    pattern: list[str] = []
    names: list[tuple[str, str | None]] = []
    places = list(PLACE.finditer(english))
    last_end = 0
    for place, after in zip_longest(places, places[1:]):
        literal = english[last_end : place.start()]
        between = None if after is None else english[place.end() : after.start()]
        one = between is not None and len(between) == 1
        own = "" if names and not literal else f"[^{re.escape(between or '')}]" if one else allowed
        pattern += [re.escape(literal), _place(place, names, own)]
        last_end = place.end()
    pattern.append(re.escape(english[last_end:]))
    return re.compile("".join(pattern), re.DOTALL), tuple(names)


def _place(match: re.Match[str], names: list[tuple[str, str | None]], allowed: str) -> str:
    """What a place may hold, of `allowed` characters, as a regular expression; its names are added."""
    if match["many"] is not None:
        return f"(?:{re.escape(match['one'])}|{re.escape(match['many'])})"
    number, noun = len(names), match["noun"]
    names.append((match["name"], match["last"]))
    is_number = noun is not None and match["last"] is None
    repeated = "" if not allowed else "*?" if match["name"].isdigit() else "+?"
    any_text = r"-?[\d,]+" if is_number else f"{allowed}{repeated}"
    value = f"(?P<v{number}>{any_text})"
    noun = None if noun in (None, ",") else noun
    plural = None if noun is None else f"(?:{re.escape(noun)}|{re.escape(plural_of(noun))})"
    if match["last"] is not None:
        head = f"{plural} " if plural else ""
        return f"{head}{value}(?: to (?P<w{number}>{any_text}))?"
    return f"{value} {plural}" if plural else value


def book_of(
    rows: Iterable[tuple[str, str]],
    nouns: Iterable[tuple[str, str]] = (),
    words: Iterable[tuple[str, str]] = (),
    chosen: Iterable[tuple[str, str]] = (),
) -> Book:
    """The book of these phrases, nouns and single words; `chosen` phrases come before the others."""
    exact: dict[str, str] = {}
    phrases: dict[str, list[Phrase]] = {}
    weighed = chain(((*row, _CHOSEN_WEIGHT) for row in chosen), ((*row, 0) for row in rows))
    for english, target, weight in weighed:
        if PLACE.search(english) is None:
            exact.setdefault(english, target)
            continue
        for word, phrase in phrase_of(english, target, weight):
            phrases.setdefault(word, []).append(phrase)
    counted: dict[str, str] = {}
    for noun, target in nouns:
        counted[noun] = counted[plural_of(noun)] = target
    return Book(exact, phrases, counted, dict(words))


def rows_of(text: str) -> Iterator[tuple[str, str]]:
    """The rows of a file of the book: English, the other language."""
    for line in text.splitlines():
        english, _, target = line.partition("\t")
        if english:
            yield english, target


@cache
def read_book(language: str) -> Book:
    """The book of a language that the package has."""
    folder = files("rocketfsck.cli.lang") / language
    texts = {
        entry.name: entry.read_text("utf-8") for entry in folder.iterdir() if entry.name.endswith(".tsv")
    }
    nouns, words = (list(rows_of(texts.pop(name))) for name in (NOUNS, WORDS))
    chosen = [row for name in CHOSEN for row in rows_of(texts.pop(name))]
    rows = [row for name in sorted(texts) for row in rows_of(texts[name])]
    return book_of([*rows, *words], nouns, words, chosen)
