"""The texts of plans keep to docs/style.md, as far as a machine can tell."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import rocketfsck.repair.plan
import rocketfsck.repair.repairs
from rocketfsck.repair.plan import planning
from rocketfsck.repair.plan.law import KINDS, notice_text
from rocketfsck.repair.plan.model import Notice
from rocketfsck.repair.repairs import ALL, reasons

from tests.words import faults_of

TEXTS = {
    **{f"reason {rule}": text for rule, text in reasons.REASONS.items()},
    **{name: text for name, text in vars(reasons).items() if isinstance(text, str) and name.isupper()},
    **{name: text for name, text in vars(planning).items() if isinstance(text, str) and name.isupper()},
    **{row.name: row.summary for row in ALL},
    **{
        f"notice {kind} {count}": notice_text(Notice(kind, count))
        for kind in KINDS
        for count in (1, 2, 65_536)
    },
}


def _values(module: Path) -> Iterator[str]:
    """Every text of a module that is a sentence, with 1 where a value comes that is no counted noun."""
    tree = ast.parse(module.read_text("utf-8"))
    inside = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    documents = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        and isinstance(node.body[0], ast.Expr)
    }
    documents |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if node in inside or node in documents:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.count(" ") > 1:
            yield node.value
        if isinstance(node, ast.JoinedStr):
            yield "".join(map(_part, node.values))


def _part(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    return "X" if "count_of" in ast.unparse(part) else "1"


HASHED = "the chunks of 1 bytes that are not zero"
"""What no reader sees: preconditions hash it."""


@cache
def notes() -> dict[str, str]:
    """The sentences of repairs and plans. They are read when a test asks, not while tests are collected."""
    return {
        f"{module.stem}: {text}": text
        for package in (rocketfsck.repair.repairs, rocketfsck.repair.plan)
        for path in package.__path__
        for module in sorted(Path(path).glob("*.py"))
        for text in _values(module)
        if text != HASHED
    }


def test_reasons_and_notices_are_plain() -> None:
    assert {name: faults for name, text in TEXTS.items() if (faults := faults_of(text))} == {}
    sentences = {
        name: text
        for name, text in TEXTS.items()
        if text.endswith(".")
        or not (text[0].islower() or text[0] in "0123456789{" or text.split()[0].isupper())
    }
    assert sentences == {}


def test_notes_are_plain() -> None:
    faults = {
        name: fault
        for name, note in notes().items()
        for fault in faults_of(note)
        if not fault.startswith("a range of one")
    }
    assert faults == {}
    assert any(note.startswith("move the file aside") for note in notes().values())
    assert any("X" in note for note in notes().values())
