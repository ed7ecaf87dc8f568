"""Kills: the tests in which a process dies, run with every point, and the points counted as they come."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.trust.documents import ROOT, Kills, KillTest, commit

FILES = ("tests/cases/test_building_kill.py", "tests/cases/test_repair_kill.py")
WAYS = ("killed_at", "failing", "run_and_kill")
"""The functions of these tests that let a process die, or an operation fail: a call is a point."""

QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""What is measured is imported already."""
OPERATIONS = {
    "test_killed_at_every_operation[write-exchange]": ("write",),
    "test_killed_at_every_operation[overwrite-exchange]": ("write --overwrite",),
    "test_killed_at_every_operation[append-exchange]": ("write --append",),
    "test_killed_at_every_operation[rebuild-exchange]": ("rebuild",),
    "test_killed_at_every_operation[salvage-exchange]": ("salvage",),
    "test_apply_is_killed_at_every_operation[before-links-beside]": ("apply", "undo"),
    "test_apply_is_killed_at_every_operation[before-links-in-place]": (
        "apply --in-place",
        "undo of apply --in-place",
    ),
}
"""By test: the commands whose file operations it counts before it kills, in their order."""


class Points:
    """A plugin that counts by test, while the tests run as they are."""

    def __init__(self) -> None:
        self.points, self.cases, self.passed = Counter[str](), Counter[str](), Counter[str]()
        self.operations: dict[str, int] = {}
        self.now = ""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for module in {item.module for item in session.items if isinstance(item, pytest.Function)}:
            for way in WAYS:
                if hasattr(module, way):
                    setattr(module, way, self._counting(getattr(module, way)))
            if hasattr(module, "counted"):
                module.counted = self._measuring(module.counted)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.now = nodeid.rpartition("::")[2]
        self.wanted = list(OPERATIONS.get(self.now, ()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            name = report.nodeid.rpartition("::")[2].partition("[")[0]
            self.cases[name] += not report.skipped
            self.passed[name] += report.passed

    def _counting(self, way: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **named: Any) -> Any:
            self.points[self.now.partition("[")[0]] += 1
            return way(*arguments, **named)

        return counting

    def _measuring(self, counted: Callable[[], Any]) -> Callable[[], Any]:
        @contextmanager
        def measuring() -> Iterator[list[str]]:
            with counted() as names:
                yield names
            if self.wanted:
                self.operations[self.wanted.pop(0)] = len(names)

        return measuring


def measure(_jobs: int = 1, _count: int | None = None) -> Kills:
    """Run the tests as `make nightly` does, with every point: half an hour."""
    os.environ["ROCKETFSCK_NIGHTLY"] = "1"
    os.chdir(ROOT)
    points = Points()
    pytest.main(["-q", "-p", "no:cacheprovider", "-n", "0", *QUIET, *FILES], plugins=[points])
    tests = (
        KillTest(name, points.points[name], points.cases[name], points.passed[name])
        for name in sorted(points.points)
    )
    return Kills(commit(), points.operations, tuple(tests))
