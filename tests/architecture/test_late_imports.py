"""An import in a function saves something: what its module brings anyway is imported at the top."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from tests.architecture.source import text_of, tree_of
from tests.architecture.test_circles import NAMES

TYPES = "TYPE_CHECKING"
SENT = {"rocketfsck.engine.guard"}
"""Modules with functions that workers get by value: they bring their imports with them."""


def _taken(node: ast.AST, *, is_late: bool = False) -> Iterator[tuple[str, bool, int]]:
    """The modules that are imported below a node, whether in a function, and the line. Not for types."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == TYPES:
            continue
        if isinstance(child, ast.Import):
            yield from ((alias.name, is_late, child.lineno) for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            for alias in child.names:
                inner = f"{child.module}.{alias.name}"
                yield inner if inner in NAMES else child.module, is_late, child.lineno
        in_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from _taken(child, is_late=is_late or in_function)


@cache
def _taken_by(name: str) -> tuple[tuple[str, bool, int], ...]:
    return tuple(_taken(tree_of(NAMES[name]))) if name in NAMES else ()


@cache
def _brought(name: str) -> frozenset[str]:
    """All modules that are there when one has been imported."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += [taken for taken, is_late, _ in _taken_by(module) if not is_late]
            waiting += [module.rpartition(".")[0]] if "." in module else []
    return frozenset(found)


def _gives_names_late(name: str) -> bool:
    """Whether taking a name from a package imports one of its modules (`common.late`)."""
    return name in NAMES and "late_names(" in text_of(NAMES[name])


def test_an_import_in_a_function_saves_something() -> None:
    needless = [
        f"{name}:{line}: {taken}"
        for name in NAMES
        if name not in SENT
        for taken, is_late, line in _taken_by(name)
        if is_late and taken in _brought(name) and not _gives_names_late(taken)
    ]
    assert needless == []


def test_late_and_early_imports_are_seen() -> None:
    source = "import numpy\ndef f():\n    from a import b\nif TYPE_CHECKING:\n    import c\n"
    assert [*_taken(ast.parse(source))] == [("numpy", False, 1), ("a", True, 3)]
    assert "rocketfsck.formats.layout" in _brought("rocketfsck.formats.record")
    assert sum(is_late for name in NAMES for _, is_late, _ in _taken_by(name)) > 100
