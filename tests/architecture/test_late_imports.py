"""An import in a function saves something: what its module brings anyway is imported at the top."""

from __future__ import annotations

import ast
from functools import cache

from tests.architecture.source import NAMES, Taken, taken_below, taken_by, text_of

SENT = {"rocketfsck.engine.guard"}
"""Modules with functions that workers get by value: they bring their imports with them."""


@cache
def _taken(name: str) -> tuple[Taken, ...]:
    """What a module imports when it is run."""
    return tuple(taken for taken in taken_by(NAMES[name]) if not taken.is_for_types) if name in NAMES else ()


@cache
def _brought(name: str) -> frozenset[str]:
    """All modules that are there when one has been imported."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += [taken.name for taken in _taken(module) if not taken.is_late]
            waiting += [module.rpartition(".")[0]] if "." in module else []
    return frozenset(found)


def _gives_names_late(name: str) -> bool:
    """Whether taking a name from a package imports one of its modules (`common.late`)."""
    return name in NAMES and "late_names(" in text_of(NAMES[name])


def test_an_import_in_a_function_saves_something() -> None:
    needless = [
        f"{name}:{taken.line}: {taken.name}"
        for name in NAMES
        if name not in SENT
        for taken in _taken(name)
        if taken.is_late and taken.name in _brought(name) and not _gives_names_late(taken.name)
    ]
    assert needless == []


def test_late_and_early_imports_are_seen() -> None:
    source = "import numpy\ndef f():\n    from a import b\nif TYPE_CHECKING:\n    import c\n"
    tree = ast.parse(source)
    assert [*taken_below(tree)] == [
        Taken("numpy", 1), Taken("a", 3, is_late=True), Taken("c", 5, is_for_types=True)
    ]  # fmt: skip
    assert "rocketfsck.formats.layout" in _brought("rocketfsck.formats.record")
    assert sum(taken.is_late for name in NAMES for taken in _taken(name)) > 100
