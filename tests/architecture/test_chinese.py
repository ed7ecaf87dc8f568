"""Nothing that the command line declares lacks its Chinese, and no Chinese is of a text that is gone.

What is declared: rules, helps of commands and options, messages of errors. What commands compose of parts is
held by the pages and screens in Chinese, on which no English is left (tests/cases).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

import click
import pytest

from rocketfsck.cli.app import group
from rocketfsck.cli.base import EXAMPLES, EXIT_STATUS
from rocketfsck.cli.commands import COMMANDS, GROUPS, load_command
from rocketfsck.cli.lang.book import SAME, rows_of
from rocketfsck.common.wording import PLACE
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.writer.damage import DAMAGES

from docs.site import translated
from tests.architecture.source import MODULES, nodes_of, table_texts
from tests.chinese import PAGES, english_left, printed_lines

FOLDER = files("rocketfsck.cli.lang") / "zh"
FILES = sorted(entry.name for entry in FOLDER.iterdir() if entry.name.endswith(".tsv"))
BY_HAND = {"heads.tsv", "words.tsv", "nouns.tsv", "verdict.tsv", "composed.tsv", "frames.tsv"}
"""Files whose phrases are parts that a text is composed of, or click's own."""
_FRAGMENT = re.compile(r"[A-Za-z][a-z]+(?: [a-z]+)+")


def _rows(name: str) -> list[tuple[str, str]]:
    return list(rows_of((FOLDER / name).read_text("utf-8")))


@cache
def _book() -> dict[str, str]:
    return {english: chinese for name in FILES for english, chinese in _rows(name)}


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _declared() -> Iterator[str]:
    for rule in RULES.values():
        yield from (rule.template, rule.why)
    for title, lines in GROUPS.items():
        yield from (title, *lines.values())
    yield from (what for examples in EXAMPLES.values() for what, _ in examples)
    yield from (meaning for _, meaning in EXIT_STATUS)
    for damage in DAMAGES.values():
        yield from (damage.summary, damage.needs or "")
    commands: list[click.Command] = [
        group,
        *(load_command(name) for name in COMMANDS),
    ]
    while commands:
        command = commands.pop()
        yield from re.split(r"\n\s*\n", command.help or "")
        yield from (param.help or "" for param in command.params if isinstance(param, click.Option))
        if isinstance(command, click.Group) and command is not group:
            commands += command.commands.values()


def _pattern_of(node: ast.AST) -> str | None:
    """A literal with a place for each value; None for what is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        numbers = iter(range(1, 99))
        parts = (
            str(part.value) if isinstance(part, ast.Constant) else f"{{{next(numbers)}}}"
            for part in node.values
        )
        return "".join(parts)
    return None


OF_PROGRAMS = {"KeyError", "AssertionError", "NotImplementedError"}
"""Errors that nobody reads but who writes programs."""


def _raised() -> Iterator[str]:
    for module in MODULES:
        for node in nodes_of(module):
            call = node.exc if isinstance(node, ast.Raise) else None
            if isinstance(call, ast.Call) and call.args and getattr(call.func, "id", "") not in OF_PROGRAMS:
                yield _pattern_of(call.args[0]) or ""


@pytest.mark.parametrize("declared", [_declared, _raised], ids=["declared", "raised"])
def test_nothing_lacks_its_chinese(declared: object) -> None:
    """New texts are added to the file of their kind: English, a tab, Chinese; `=` where both are the same."""
    assert callable(declared)
    texts = {_one_line(text) for text in declared()}
    assert sorted(text for text in texts if re.search("[a-z]{2}", text) and text not in _book()) == []


@cache
def _literals() -> str:
    """All text of the source, with a line for each literal."""
    found = []
    for module in MODULES:
        for node in nodes_of(module):
            text = _pattern_of(node)
            if text is not None:
                found.append(_one_line(text))
    return "\n".join([*found, *(text for _, text in table_texts())])


@pytest.mark.parametrize("name", [name for name in FILES if name not in BY_HAND])
def test_no_phrase_is_of_a_text_that_is_gone(name: str) -> None:
    stale = []
    declared = {_one_line(text) for text in _declared()}
    for english, _ in _rows(name):
        fragments = [
            fragment for part in PLACE.split(english) if part for fragment in _FRAGMENT.findall(part)
        ]
        if english not in declared and any(fragment not in _literals() for fragment in fragments):
            stale.append(english)
    assert stale == []


@pytest.mark.parametrize("name", FILES)
def test_the_rows_of_the_book(name: str) -> None:
    """In order, each English text once, and each with Chinese whose places the English has."""
    rows = _rows(name)
    assert [english for english, _ in rows] == sorted({english for english, _ in rows})
    for english, chinese in rows:
        assert chinese == SAME or re.search("[\u4e00-\u9fff]", chinese) or name in BY_HAND, english
        places = {
            place["name"] + (f"..{place['last']}" if place["last"] else "")
            for place in PLACE.finditer(english)
        }
        assert set(re.findall(r"\{([a-z_0-9.]+)\}", chinese)) <= places, english


def test_every_page_is_translated_and_none_is_stale() -> None:
    """`python -m docs.site translated PAGE` takes a page as translated, once it is."""
    assert list(translated.faults()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_print_no_english_on_a_chinese_page(page: object) -> None:
    left = [line.strip() for _, line in printed_lines(page) if english_left(line)]  # type: ignore[arg-type]
    assert left == []
