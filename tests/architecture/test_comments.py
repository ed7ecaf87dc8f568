"""Docstrings and comments keep to docs/style.md."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator

import pytest

from tests.architecture.source import MODULES, nodes_of, text_of
from tests.words import faults_of

FORMS = ("words of yesterday", "no where not is meant", "a double negation", "nobody named", "nothing named")


def _comments(source: str, nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a module with their lines; comments on neighbouring lines are one."""
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            value = node.value.value
            if isinstance(value, str):
                yield node.lineno, value
    first, last, words = 0, -1, ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or token.string.startswith("# noqa"):
            continue
        if words and token.start[0] != last + 1:
            yield first, words
            words = ""
        first, last = first if words else token.start[0], token.start[0]
        words += f" {token.string.lstrip('# ')}"
    if words:
        yield first, words


def faults_in(source: str, nodes: Iterable[ast.AST]) -> list[str]:
    """What docstrings and comments do that texts must not do, with lines; `nodes` are those of the tree."""
    return [
        f"{line}: {fault}"
        for line, text in _comments(source, nodes)
        for fault in faults_of(" ".join(text.split()))
        if fault.startswith(FORMS)
    ]


def test_docstrings_and_comments_are_plain() -> None:
    found = {module: faults_in(text_of(module), nodes_of(module)) for module in MODULES}
    assert {module: faults for module, faults in found.items() if faults} == {}


@pytest.mark.parametrize(
    "source",
    [
        '"""The record stands there."""',
        "x = 1  # is told before",
        "# what is behind\n# the end is lost\n",
        'def f():\n    """Its length is not known."""',
    ],
)
def test_a_fault_is_seen(source: str) -> None:
    assert faults_in(source, ast.walk(ast.parse(source)))
