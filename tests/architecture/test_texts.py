"""Every text in the source keeps to docs/style.md, as far as a machine can tell: all string literals do.

The forms are in `tests/words.py`. What rules and repairs say of findings is held in more detail by
`tests/unit/verify/test_words.py` and `tests/unit/repair/core/test_words.py`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import MODULES, ROOT, nodes_of, table_texts
from tests.words import faults_of, fragment_faults

PAGES = (
    "specs/*.md",
    "docs/guide/*.md",
    "docs/tutorial.md",
    "docs/symptoms.md",
    "docs/trust.md",
    "README.md",
    "CONTRIBUTING.md",
)
"""Pages of documentation that are held to the forms, as globs."""

OF_FIELDS = ("many of one", "one of many", "a verb for one")
"""Forms that pages about fields break where they are right: "topicLength i16, topic"."""

_PLACE = re.compile(r"\{[^{}]*\}")
_PROSE = re.compile(r"[A-Za-z]{2,}[,;:.]? [A-Za-z`]|^(?:It|it|They|they|Its|its|Their|their) ")


def _texts(module: str) -> Iterator[tuple[int, str]]:
    """The literals of a module that are sentences or parts of one, and the help of its commands, with lines.

    A value that is put into a text is `{}` in it.
    """
    nodes = nodes_of(module)
    skipped = {
        id(part)
        for node in nodes
        for part in (ast.walk(node) if isinstance(node, ast.JoinedStr) else ())
        if part is not node and not isinstance(part, ast.JoinedStr)
    }
    skipped |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        text = _text_of(node)
        if text is not None and id(node) not in skipped and _PROSE.search(text):
            yield node.lineno, text  # type: ignore[attr-defined]
        if isinstance(node, ast.FunctionDef) and _is_command(node):
            yield from ((node.lineno, part) for part in re.split(r"\n\s*\n", ast.get_docstring(node) or ""))


def _text_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _PLACE.sub("{}", node.value)
    return None


def _paragraphs(page: Path) -> Iterator[str]:
    """What a page says in sentences: no fenced code, no rows of tables; code in a sentence is ``."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]+`", "``", text)
    for paragraph in re.split(r"\n\s*\n|\n(?= *(?:[-*]|\d+\.|#+) )", text):
        if not paragraph.lstrip().startswith("|"):
            yield " ".join(re.sub(r"^\s*(?:[-*]|\d+\.|#+) ", "", paragraph).split())


def _is_command(node: ast.FunctionDef) -> bool:
    """Whether the function is a command, whose docstring is its help."""
    names = (ast.unparse(item.func if isinstance(item, ast.Call) else item) for item in node.decorator_list)
    return any(name.endswith((".command", ".group")) for name in names)


def test_texts_are_plain() -> None:
    """Texts are in raises, in tables, in f-strings and in help: wherever they are, they are found."""
    texts = [(module, line, text) for module in MODULES for line, text in _texts(module)]
    texts += [(table, 0, _PLACE.sub("{}", text)) for table, text in table_texts() if _PROSE.search(text)]
    faults = [
        f"{module}:{line}: {fault} in {text!r}"
        for module, line, text in texts
        for fault in fragment_faults(text)
    ]
    assert faults == []
    assert len(texts) > 2000, "or nothing was looked at"
    assert any("{}" in text for _, _, text in texts)


@pytest.mark.parametrize(
    "page", sorted({path.relative_to(ROOT).as_posix() for glob in PAGES for path in ROOT.glob(glob)})
)
def test_pages_are_plain(page: str) -> None:
    paragraphs = list(_paragraphs(ROOT / page))
    assert paragraphs
    faults = [f"{fault} in {text!r}" for text in paragraphs for fault in faults_of(text)]
    assert [fault for fault in faults if not fault.startswith(OF_FIELDS)] == []


@pytest.mark.parametrize(
    "text",
    [
        "it is empty",
        "its length is not the configured one",
        "no record stands there",
        "the broker is told",
        "bytes behind the end",
        "these are gone",
        "{} is no record",
        "They are lost",
        "the file is written anew",
    ],
)
def test_what_the_style_forbids_is_seen_in_a_fragment(text: str) -> None:
    assert fragment_faults(text)


@pytest.mark.parametrize("text", ["{} is empty", "there is no record", "the store is no longer locked"])
def test_plain_fragments_pass(text: str) -> None:
    assert fragment_faults(text) == []
