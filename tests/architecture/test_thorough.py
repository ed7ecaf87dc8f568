"""The table of what waits for `make thorough` names tests that there are."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests import thorough

ROOT = Path(__file__).parents[2]


@cache
def _tests(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_table_names_tests_once_and_in_order() -> None:
    lines = thorough.TABLE.read_text("utf-8").splitlines()
    names = [line.split("\t")[1] for line in lines]
    assert names == sorted(set(names))
    assert not {name for name in names if name.partition("::")[2] not in _tests(name.partition("::")[0])}


@pytest.mark.parametrize(("cases", "kept"), [(5, [0, 2]), (2, [0, 1]), (1, [0])])
def test_cases_are_spread_evenly(cases: int, kept: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thorough, "read_table", lambda: {"tests/test_a.py::test_b": 2})
    items = [_Item(f"tests/test_a.py::test_b[{number}]") for number in range(cases)]
    others = [_Item("tests/test_a.py::test_c")]
    thorough.mark(items + others)  # type: ignore[arg-type]
    assert [number for number, item in enumerate(items) if not item.markers] == kept
    assert not others[0].markers


class _Item:
    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid
        self.markers: list[str] = []

    def add_marker(self, name: str) -> None:
        self.markers.append(name)
