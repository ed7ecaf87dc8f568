"""A book of phrases: English texts with places for values, and what each is in another language.

Files of the book (`zh/*.tsv`): a line is an English phrase, a tab, and the other language's.

    place   := {name} | {1}            any text, which is translated by itself
             | {n:noun}                a number and a noun: `1 file`, `2 files`
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
from itertools import chain

from rocketfsck.common.wording import PLACE, plural_of

SAME = "="
"""In place of a translation: the phrase is the same in both languages."""
NOUNS, WORDS = "nouns.tsv", "words.tsv"
CHOSEN = ("verdict.tsv", "frames.tsv", "composed.tsv")
"""Files whose phrases are looked for before those of the others."""
_WORD = re.compile(r"(?<![\w{}])[A-Za-z]{3,}(?![\w{}])")
_RANGE = re.compile(r"([\d.,]+(?:-[A-Z]+)?) to ([\d.,]+(?:-[A-Z]+)?)")
_LETTERS = re.compile(r"[A-Za-z]{2}")
_COUNT = re.compile(r"(-?[\d,]+(?:\.\d+)?) ([A-Za-z][A-Za-z -]*)")
_SEPARATORS: tuple[tuple[str, str], ...] = (
    (". ", "。"), ("; ", "；"), (": ", "："), (" (", "（"), (", ", "，"), (" and ", "和"),
)  # fmt: skip
_LEAD = re.compile(r"(?:- |[A-Z]{1,2}\d{1,3} )(?=\S)")
"""What comes before a text and is none: the mark of a list, the name of a rule or of a class of damage."""
_ENDS = {".": "。", ":": "：", ";": "；", ",": "，"}
_CLAUSE = r"(?:(?!\. |; ).)"
"""A character of what a place may hold: no end of a clause is in it."""
_LEAST_WEIGHT = 8
"""Fixed letters that a phrase with places has at least: shorter ones would be found where they are not."""
_CHOSEN_WEIGHT = 1000
_MOST_CACHED = 4096


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase with places: how it is found, and what is said.

    Of several, the one of most `weight` is taken: the number of fixed characters, more for chosen ones.
    """

    pattern: re.Pattern[str]
    names: tuple[tuple[str, str | None], ...]
    target: str
    weight: int


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
        if led is not None:
            return f"{led[0]}{self.say(text[led.end() :])}"
        found = self._whole(text)
        if found is None and text[-1:] in _ENDS:
            ended = self._whole(text[:-1])
            found = None if ended is None else ended + _ENDS[text[-1]]
        if found is None and text[-1:] not in _ENDS:
            sentence = self._whole(f"{text}.")  # the end of the sentence was taken off with what follows
            found = None if sentence is None else sentence.removesuffix("。")
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
        words = dict.fromkeys(_WORD.findall(text))
        found = sorted(
            (phrase for word in words for phrase in self.phrases.get(word, ())), key=lambda each: -each.weight
        )
        for phrase in found:
            match = phrase.pattern.fullmatch(text)
            if match is not None:
                return text if phrase.target == SAME else self._filled(phrase, match)
        return None

    def _filled(self, phrase: Phrase, match: re.Match[str]) -> str:
        values: dict[str, str] = {}
        for number, (name, last) in enumerate(phrase.names):
            value = self.say_within(match[f"v{number}"] or "")
            end = match[f"w{number}"] if last is not None else None
            place = name if last is None else f"{name}..{last}"
            values.setdefault(place, f"{value} 到 {end}" if end else value)
        return _NAME.sub(lambda place: values.get(place[1], ""), phrase.target)

    def _in_parts(self, text: str) -> str:
        """What comes before and after a mark that parts the text, each said by itself: the mark after which
        there is a phrase, else the first."""
        for mark, other in _SEPARATORS:
            at = text.find(mark)
            while at >= 0:
                first, rest = text[:at], text[at + len(mark) :]
                if " " in rest and (known := self._whole(rest)) is not None:
                    return _joined((first, rest), (self.say_within(first), known), mark, other)
                at = text.find(mark, at + 1)
        for mark, other in _SEPARATORS:
            first, found, rest = text.partition(mark)
            if found:
                said = self.say_within(first), self.say_within(rest)
                if said != (first, rest):
                    return _joined((first, rest), said, mark, other)
        return text


def _joined(parts: tuple[str, str], said: tuple[str, str], mark: str, other: str) -> str:
    """The parts with the mark of the other language between them; brackets are of what is in them."""
    if mark != " (":
        return f"{said[0]}{other}{said[1]}"
    if said[1] == parts[1]:
        return f"{said[0]}{mark}{said[1]}"
    inner, closing, rest = said[1].partition(")")
    return f"{said[0]}{other}{inner}{'）' if closing else ''}{rest}"


_NAME = re.compile(r"\{([a-z_0-9.]+)\}")


def phrase_of(english: str, target: str, weight: int = 0) -> Sequence[tuple[str, Phrase]]:
    """The words that a phrase with places is found by, each with the phrase; none if it is too short."""
    pattern: list[str] = []
    names: list[tuple[str, str | None]] = []
    last_end = 0
    spans = [match.span() for match in PLACE.finditer(english)]
    for match in PLACE.finditer(english):
        literal = english[last_end : match.start()]
        pattern.append(re.escape(literal))
        weight += len(literal)
        pattern.append(_place(match, names))
        last_end = match.end()
    pattern.append(re.escape(english[last_end:]))
    weight += len(english) - last_end
    words = [
        word[0]
        for word in _WORD.finditer(english)
        if not any(start <= word.start() < end for start, end in spans)
    ]
    choices = [
        word
        for match in PLACE.finditer(english)
        if match["many"] is not None
        for word in _WORD.findall(f"{match['one']} {match['many']}")
    ]
    fixed = [*words, *choices, *(match["noun"] or "" for match in PLACE.finditer(english))]
    if not (words or choices) or (sum(map(len, fixed)) < _LEAST_WEIGHT and PLACE.match(english)):
        return ()
    compiled = re.compile("".join(pattern), re.DOTALL)
    phrase = Phrase(compiled, tuple(names), target, weight)
    return [(key, phrase) for key in ([max(words, key=len)] if words else dict.fromkeys(choices))]


def _place(match: re.Match[str], names: list[tuple[str, str | None]]) -> str:
    """What a place may hold, as a regular expression; its names are added."""
    if match["many"] is not None:
        return f"(?:{re.escape(match['one'])}|{re.escape(match['many'])})"
    number, noun = len(names), match["noun"]
    names.append((match["name"], match["last"]))
    any_text = f"{_CLAUSE}{'*' if match['name'].isdigit() else '+'}?"
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
