"""The first screens of forty damages: in words that an operator knows or can look up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rocketfsck.cli.show.text import width

from tests.cases.firstscreens import COLUMNS, FILES, SCREENS, read, screens
from tests.chinese import english_left
from tests.conftest import NIGHTLY
from tests.words import COINED

GUIDE = Path(__file__).parent.parent.parent / "docs" / "guide"
FAULTS = [fault for faults in SCREENS.values() for fault in faults]
TRIED = FAULTS if NIGHTLY else FAULTS[::8]
WORD = re.compile(r"^\| \*\*(.+?)\*\* \|", re.MULTILINE)
SCREEN_TEXT = {fault: " ".join(screen.split()) for fault, screen in read().items()}
WORDS = WORD.findall((GUIDE / "words.md").read_text("utf-8"))


@pytest.mark.parametrize("language", FILES)
def test_all_screens_are_in_the_file(language: str) -> None:
    assert list(read(language)) == FAULTS
    assert len(FAULTS) == len(set(FAULTS)) == 40


@pytest.mark.parametrize("language", FILES)
def test_the_command_says_what_the_file_has(language: str) -> None:
    """`python -m tests.cases.firstscreens` writes the files anew."""
    known = read(language)
    assert screens(TRIED, language) == {fault: known[fault] for fault in TRIED}


@pytest.mark.parametrize("language", FILES)
def test_a_screen_fits_the_terminal(language: str) -> None:
    """Commands, which are to be pasted, and one word may be longer."""
    for screen in read(language).values():
        for line in screen.splitlines():
            assert width(line) <= COLUMNS or "rocketfsck " in line or "java.lang" in line, line


def test_no_english_is_left_on_a_chinese_screen() -> None:
    """Names, numbers, commands and what a broker says stay; sentences do not."""
    for fault, screen in read("zh").items():
        assert english_left(screen) == [], fault


@pytest.mark.parametrize("word", WORDS)
def test_each_word_of_the_glossary_is_on_a_screen(word: str) -> None:
    pattern = re.compile(r"\b" + re.escape(word).replace("…", r"[\d,]+") + r"\b")
    assert any(pattern.search(text) for text in SCREEN_TEXT.values())


def test_the_glossary_has_each_word_once() -> None:
    assert len(WORDS) == len(set(WORDS)) > 15


@pytest.mark.parametrize("fault", FAULTS)
def test_no_coined_word_is_on_a_screen(fault: str) -> None:
    said = re.sub(r"Next rocketfsck .*", "", SCREEN_TEXT[fault])
    assert COINED.findall(said) == []


def test_coined_words_are_found() -> None:
    text = "2 units are stale, provably safe; it gives out 3 offsets"
    assert COINED.findall(text) == ["units", "stale", "provably", "gives out"]
