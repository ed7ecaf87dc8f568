"""What the command line says, in other languages than English: chosen once for a command line (ADR 0037).

Texts are made in English, and translated when they are printed (`said`), by a book of phrases. JSON, tables,
reports, plans and the names in them are the same in every language.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketfsck.cli.lang.book import Book

LANGUAGES = ("en", "zh")
"""The first is the one that texts are made in."""
VARIABLE = "ROCKETFSCK_LANG"
_LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG")
"""Variables of the locale: the first that is set holds."""
_PARTED = ("", "_", ".", "@", "-")
"""What is after the name of a language in a locale."""


class _Speaker:
    """The book of the language in use; None: texts stay as they are made."""

    def __init__(self) -> None:
        self.book: Book | None = None


_SPEAKER = _Speaker()


def chosen_language(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """The language that `--lang` names, else ROCKETFSCK_LANG, else the locale; English for an unknown one.

    A config file is read later, and then decides where neither of the first two does.
    """
    for number, argument in enumerate(arguments):
        name, _, value = argument.partition("=")
        if name == "--lang":
            value = value or "".join(arguments[number + 1 : number + 2])
            return value if value in LANGUAGES else LANGUAGES[0]
    if environment.get(VARIABLE) in LANGUAGES:
        return environment[VARIABLE]
    stated = next((environment[name] for name in _LOCALE if environment.get(name)), "")
    return "zh" if stated[:2].lower() == "zh" and stated[2:3] in _PARTED else LANGUAGES[0]


def speak(language: str) -> None:
    """Say everything in this language from now on; in English where a stream cannot show its characters."""
    if language == LANGUAGES[0] or not _can_show("中"):
        _SPEAKER.book = None
        return
    from rocketfsck.cli.lang.book import read_book

    _SPEAKER.book = read_book(language)


def _can_show(text: str) -> bool:
    try:
        for stream in (sys.stdout, sys.stderr):
            text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def said(text: str) -> str:
    """A paragraph, a clause or a word in the language in use; what has no translation stays as it is."""
    book = _SPEAKER.book
    return text if book is None else book.say(text)


def said_row(row: Sequence[str], *, is_head: bool = False, is_labelled: bool = False) -> tuple[str, ...]:
    """The cells of a row of a table.

    Single words are translated in the head alone, and in a first cell that is a label: others may be names.
    """
    book = _SPEAKER.book
    if book is None:
        return tuple(row)
    words = is_head and not any(character.isdigit() for cell in row for character in cell)
    return tuple(
        (book.say if words or (is_labelled and not at) else book.say_within)(cell)
        for at, cell in enumerate(row)
    )


def is_translating() -> bool:
    """Whether another language than that of the texts is in use."""
    return _SPEAKER.book is not None


_PIECES = "(\x1b\\[[0-9;]*m|  +)"
_OURS = "[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]"


def said_line(line: str) -> str:
    """A printed line: what is between colours and gaps, each by itself; what is no longer English stays."""
    book = _SPEAKER.book
    if book is None:
        return line
    pieces = re.split(_PIECES, line)
    words = [piece for piece in pieces if piece.strip() and not piece.startswith("\x1b")]
    if not words:
        return line
    spoken = [
        piece if piece.startswith(("\x1b", "  ")) or re.search(_OURS, piece) else book.say_within(piece)
        for piece in pieces
    ]
    if len(words) == 1 or pieces[0][:1].isupper():  # a text, or a label in front of others
        at = pieces.index(words[0])
        spoken[at] = book.say(words[0]) if spoken[at] == pieces[at] else spoken[at]
        if at + 2 < len(pieces) and not at:  # what follows a label stays in its column
            room = len(pieces[0]) + len(pieces[1]) - len(spoken[0]) - len(re.findall(_OURS, spoken[0]))
            spoken[1] = " " * max(room, 2) if pieces[1].isspace() else pieces[1]
    return "".join(spoken)


def say_line(line: str, *, err: bool = False) -> None:
    """Print a line, on standard error with `err`."""
    print(said_line(line), file=sys.stderr if err else sys.stdout)
