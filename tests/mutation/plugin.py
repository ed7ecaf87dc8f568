"""A pytest plugin that notes which functions each test calls, and how long the test takes.

    pytest -p tests.mutation.plugin --calls FILE --calls-source src/rocketfsck --calls-packages formats,verify

Every function of the packages gets code that first notes its number in a set: far less than a tracer costs.
What a test has called is in its last report, which a worker of xdist sends as it sends any other.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.calls import Calls
from tests.mutation.functions import Source, codes_of, fits, functions_of, living, replace

NOTE = "_mutation_note_call"
"""The name, next to Python's own, by which a function notes that it was called."""

PROPERTY = "mutation_calls"
Answer = Generator[None, pytest.TestReport, pytest.TestReport]


class Noting:
    """Notes calls in the process that runs tests; where there are workers, in each of them."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.called = set[int]()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self) -> None:
        """All modules that tests take at their beginning are imported now; the others are here."""
        setattr(builtins, NOTE, self.called.add)
        install(self.source)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self.called.clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Answer:
        report = yield
        if call.when == "teardown":
            report.user_properties.append((PROPERTY, sorted(self.called)))
        return report


class Keeping:
    """Collects what the reports say, in the process that has them all, and writes it at the end."""

    def __init__(self, path: Path, source: Source) -> None:
        self.path, self.names = path, tuple(names_of(source))
        self.seconds: dict[str, float] = {}
        self.failed = set[str]()
        self.called: dict[str, frozenset[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid
        self.seconds[name] = self.seconds.get(name, 0) + report.duration
        if not report.passed:
            self.failed.add(name)
        for key, numbers in report.user_properties:
            if key == PROPERTY and isinstance(numbers, list):
                self.called[name] = frozenset(self.names[number] for number in numbers)

    def pytest_sessionfinish(self) -> None:
        passed = {name: called for name, called in self.called.items() if name not in self.failed}
        seconds = {name: self.seconds[name] for name in passed}
        Calls(frozenset(self.names), seconds, passed).write(self.path)


def names_of(source: Source) -> dict[str, None]:
    """The functions of a source as `formats/layout.py:Layout.parse`, in an order that each process finds."""
    return {
        f"{module}:{name}": None
        for module in source.modules()
        for name, _ in functions_of(source.tree(module))
    }


def install(source: Source) -> None:
    """Give every function of the source code that notes its number, in this process."""
    source.import_all()
    numbers = {name: number for number, name in enumerate(names_of(source))}
    modules = source.modules()
    objects = living([source.file(module) for module in modules])
    for module in modules:
        tree, file = source.tree(module), source.file(module)
        functions = functions_of(tree)
        for (name, _), function in functions.items():
            place = 1 if ast.get_docstring(function, clean=False) is not None else 0
            call = ast.parse(f"{NOTE}({numbers[f'{module}:{name}']})").body[0]
            for node in ast.walk(call):
                ast.copy_location(node, function.body[0])
            function.body.insert(place, call)
        codes = codes_of(tree, file)
        found = ((item, codes[place]) for place in functions for item in objects.get((file, *place), []))
        replace({item: code for item, code in found if fits(item, code)})


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mutation")
    group.addoption("--calls", type=Path, help="Write to this file which functions each test calls.")
    group.addoption("--calls-source", type=Path, default=Path("src/rocketfsck"))
    group.addoption("--calls-packages", default="formats,verify,repair")


def pytest_configure(config: Any) -> None:
    path: Path | None = config.getoption("--calls")
    if path is None:
        return
    source = Source(
        config.getoption("--calls-source").absolute(),
        tuple(config.getoption("--calls-packages").split(",")),
    )
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Noting(source))
        return
    config.pluginmanager.register(Keeping(path.absolute(), source))
    if not config.getoption("numprocesses", None):
        config.pluginmanager.register(Noting(source))
