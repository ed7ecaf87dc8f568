"""The modules of the package as text and as trees, each read once."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "rocketfsck"
MODULES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))
TABLES = sorted(SOURCE.glob("verify/**/*.json"))
"""Rows of data: rules, classes of faults, what lines of a log mean."""
assert TABLES
assert len(MODULES) > 100, "or the tests of the architecture look at nothing"


def table_texts() -> Iterator[tuple[str, str]]:
    """Every text in the rows of data, with the name of its file."""
    for path in TABLES:
        yield from ((path.name, text) for text in _texts_in(json.loads(path.read_text("utf-8"))))


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(member)


@cache
def text_of(module: str) -> str:
    return (SOURCE / module).read_text("utf-8")


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(text_of(module), module)


@cache
def nodes_of(module: str) -> tuple[ast.AST, ...]:
    """All nodes of a module's tree, as `ast.walk` gives them."""
    return tuple(ast.walk(tree_of(module)))


def _name(module: str) -> str:
    parts = ["rocketfsck", *module.removesuffix(".py").split("/")]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {_name(module): module for module in MODULES}
"""The modules of the package by the names that they are imported under."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A module that an import takes something from, one of the package's own as deep as the names lead."""

    name: str
    line: int
    is_late: bool = False  # in a function
    is_for_types: bool = False


@cache
def taken_by(module: str) -> tuple[Taken, ...]:
    """What a module of the package imports, wherever in it."""
    return tuple(taken_below(tree_of(module)))


def taken_below(node: ast.AST, *, is_late: bool = False, is_for_types: bool = False) -> Iterator[Taken]:
    """What is imported below a node of a tree."""
    if isinstance(node, ast.Import):
        yield from (Taken(alias.name, node.lineno, is_late, is_for_types) for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        inner = (f"{node.module}.{alias.name}" for alias in node.names)
        names = (name if name in NAMES else node.module for name in inner)
        yield from (Taken(name, node.lineno, is_late, is_for_types) for name in names)
    is_late = is_late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    typed = node.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" else []
    for child in ast.iter_child_nodes(node):
        yield from taken_below(child, is_late=is_late, is_for_types=is_for_types or child in typed)
