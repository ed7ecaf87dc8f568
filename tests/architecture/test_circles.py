"""No modules import each other in a circle, imports for types and those in functions included."""

from __future__ import annotations

from collections.abc import Mapping

from tests.architecture.source import NAMES, taken_by


def imports() -> dict[str, set[str]]:
    """By module of the package, those that it imports."""
    found = {
        name: {taken.name for taken in taken_by(module) if taken.name in NAMES} - {name}
        for name, module in NAMES.items()
    }
    assert sum(map(len, found.values())) > 1000, "or the tests below look at nothing"
    return found


def circles_of(graph: Mapping[str, set[str]]) -> list[frozenset[str]]:
    """The sets of modules that all reach each other, of two modules or more (Tarjan)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found: list[frozenset[str]] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        path.append(name)
        for other in sorted(graph[name]):
            if other not in number:
                visit(other)
            if other in path:
                low[name] = min(low[name], low[other])
        if low[name] == number[name]:
            at = path.index(name)
            circle = frozenset(path[at:])
            del path[at:]
            if len(circle) > 1:
                found.append(circle)

    for name in sorted(graph):
        if name not in number:
            visit(name)
    return found


def test_there_are_no_circles() -> None:
    assert circles_of(imports()) == []


def test_a_circle_is_seen() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a"}}
    assert circles_of(graph) == [frozenset({"b", "c"})]
