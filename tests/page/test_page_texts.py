"""The texts of the page's script keep to docs/style.md, as those of the package do."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.words import fragment_faults

SOURCES = sorted((Path(__file__).parent.parent.parent / "page" / "source").glob("*.js"))

_PARTS = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<pattern>(?:(?<=[(,=:]\ )|(?<=\())/(?:\[[^\]\n]*\]|\\.|[^/\n\\])+/[a-z]*)
    |(?P<plain>"(?:[^"\\\n]|\\.)*")
    |(?P<tick>`)|(?P<open>\{)|(?P<close>\})""",
    re.DOTALL | re.VERBOSE,
)
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*", re.DOTALL)
_PROSE = re.compile(r"[A-Za-z]{2,}[,;:.]? [A-Za-z`]|^(?:It|it|They|they|Its|its|Their|their) ")


def _texts(source: str) -> Iterator[str]:
    """All literals of a script; what is put into a template is `{}` in it."""
    at = 0
    waiting, depths = [""], [0]  # the templates that are open, and how many braces are open in each
    while found := _PARTS.search(source, at):
        at = found.end()
        kind = found.lastgroup
        if kind == "plain":
            yield found[0][1:-1]
        elif kind == "open":
            depths[-1] += 1
        elif kind == "close" and depths[-1] == 0 and len(waiting) > 1:
            depths.pop()
            waiting[-1] += "{}"
            at = yield from _more(source, at, waiting, depths)
        elif kind == "close":
            depths[-1] -= 1
        elif kind == "tick":
            waiting.append("")
            at = yield from _more(source, at, waiting, depths)


def _more(source: str, at: int, waiting: list[str], depths: list[int]) -> Generator[str, None, int]:
    """Goes on in the last template: to its end, which gives its text, or to the next value in it."""
    part = _TEMPLATE.match(source, at)
    assert part
    waiting[-1] += part[0]
    if source.startswith("`", part.end()):
        yield waiting.pop()
        return part.end() + 1
    depths.append(0)
    return part.end() + 2


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_texts_are_plain(path: Path) -> None:
    texts = [text for text in _texts(path.read_text("utf-8")) if _PROSE.search(text)]
    assert [f"{fault} in {text!r}" for text in texts for fault in fragment_faults(text)] == []


def test_texts_are_found_wherever_they_are() -> None:
    texts = [text for path in SOURCES for text in _texts(path.read_text("utf-8"))]
    assert sum(bool(_PROSE.search(text)) for text in texts) > 100
    assert "{} of {} are listed one by one; the map and the numbers count all of them." in texts
    nested = 'f(`one ${a.map((b) => `two ${b} three`)} four`, "five six"); // "it is seven"'
    assert list(_texts(nested)) == ["two {} three", "one {} four", "five six"]


def test_what_the_style_forbids_is_seen() -> None:
    (text,) = _texts("el('p'); `it is ${word}`")
    assert fragment_faults(text)


def test_a_source_is_read_at_a_sitting() -> None:
    assert [path.name for path in SOURCES if len(path.read_text("utf-8").splitlines()) > 350] == []
