"""Which tests call which functions, and how long each takes: one run of the tests tells, a file keeps it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.functions import Source

PLAIN = "not nightly and not oracle and not spark"


@dataclass(frozen=True, slots=True)
class Calls:
    """What one run of tests has shown.

    `functions` are all whose calls were noted; `seconds` and `called` have the tests that passed, by id.
    """

    functions: frozenset[str]
    seconds: Mapping[str, float]
    called: Mapping[str, frozenset[str]]

    def tests_of(self, function: str) -> list[str]:
        """The tests that call a function, the quickest first."""
        found = (test for test, called in self.called.items() if function in called)
        return sorted(found, key=lambda test: (self.seconds[test], test))

    def chosen(self, function: str, budget: float) -> list[str]:
        """As many of them, the quickest first, as take no longer than `budget` seconds; one at least."""
        tests, total = self.tests_of(function), 0.0
        for number, test in enumerate(tests):
            total += self.seconds[test]
            if total > budget and number:
                return tests[:number]
        return tests

    def write(self, path: Path) -> None:
        names = sorted(self.functions)
        numbers = {name: number for number, name in enumerate(names)}
        tests = {
            test: {
                "seconds": round(self.seconds[test], 4),
                "calls": sorted(numbers[name] for name in called),
            }
            for test, called in sorted(self.called.items())
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"functions": names, "tests": tests}))


def read_calls(path: Path) -> Calls:
    """What `Calls.write` has written."""
    document = json.loads(path.read_text())
    names, tests = document["functions"], document["tests"]
    return Calls(
        frozenset(names),
        {test: row["seconds"] for test, row in tests.items()},
        {test: frozenset(names[number] for number in row["calls"]) for test, row in tests.items()},
    )


def make_calls(source: Source, tests: Sequence[str], path: Path, jobs: int) -> Calls:
    """Run the tests once, and note what they call. What fails is left out: it would notice every change."""
    options = ["--calls", str(path), "--calls-source", str(source.root)]
    options += ["--calls-packages", ",".join(source.packages)]
    workers = ["-n", str(jobs), "--dist", "worksteal"] if jobs > 1 else ["-n", "0"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.mutation.plugin"]
    subprocess.run([*command, *options, *workers, "-m", PLAIN, *tests], check=False, stdout=sys.stderr)
    return read_calls(path)
