"""Runs the tests of mutants, each mutant in a child process of one that has imported everything.

A child costs a fork and what pytest does before the first test. It runs in a group of processes of its own,
which ends with it, and its memory has a limit: a change may well ask for too much of it.
"""

from __future__ import annotations

import gc
import math
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Literal

import pytest

from tests.mutation.calls import Calls
from tests.mutation.functions import Source, fits, living, replace
from tests.mutation.mutants import Mutant, mutated_code

Verdict = Literal["killed", "hung", "survived", "not covered", "left out", "broken"]

OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-n", "0", "-W", "ignore::pytest.PytestAssertRewriteWarning")
"""Of pytest in this process, in which what is tested may have been imported before."""
MEMORY = 6 << 30  # bytes of data that one child may have
SLOWER = 5  # times: a test beside others, in a process that has just been made
WAITING = 4  # times the processor's seconds, on the clock: others have the processor, too
POLL = 0.02  # seconds


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a mutant: killed by a test or by a time limit; `ran_count` of `calling_count` tests ran.

    "left out": its code does not fit into the function. "broken": its tests could not be run.
    """

    mutant: Mutant
    verdict: Verdict
    ran_count: int = 0
    calling_count: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    """What a child does: give functions this code, run these tests, end after so many processor seconds."""

    mutant: Mutant
    code: CodeType
    objects: Sequence[FunctionType]
    tests: Sequence[str]
    calling_count: int
    limit: float

    def outcome(self, verdict: Verdict) -> Outcome:
        return Outcome(self.mutant, verdict, len(self.tests), self.calling_count)


def collect(tests: Iterable[str]) -> None:
    """Import the modules of these tests, and whatever they take, into this process, for its children."""
    files = sorted({test.partition("::")[0] for test in tests})
    if files:
        _silently(lambda: pytest.main(["--collect-only", *OPTIONS, *files]))


def run_all(
    source: Source, mutants: Sequence[Mutant], calls: Calls, *, budget: float, patience: float, jobs: int
) -> Iterator[Outcome]:
    """The outcomes of mutants, as they come. Call `collect` before.

    `budget` is in seconds that the tests of a mutant took when calls were noted. `SLOWER` times as long is
    not yet a hang, and `patience` seconds more, all of them seconds of the processor.
    """
    source.import_all()
    objects = living([source.file(module) for module in source.modules()])
    gc.collect()
    gc.freeze()  # pytest collects garbage several times: not what every child has from this process
    running: dict[int, tuple[Work, float, Path]] = {}
    try:
        for mutant in mutants:
            work = _prepared(source, mutant, calls, objects, budget, patience)
            if isinstance(work, Outcome):
                yield work
                continue
            while len(running) >= jobs:
                yield from _ended(running)
            _start(work, running)
        while running:
            yield from _ended(running)
    finally:
        gc.unfreeze()  # or nobody finds the functions of this process again
        for child, (_, _, scratch) in running.items():
            _end(child, scratch)
            os.waitpid(child, 0)


def _prepared(
    source: Source,
    mutant: Mutant,
    calls: Calls,
    objects: dict[tuple[str, str, int], list[FunctionType]],
    budget: float,
    patience: float,
) -> Work | Outcome:
    tests = calls.chosen(mutant.name, budget)
    if not tests:
        return Outcome(mutant, "not covered")
    code = mutated_code(source, mutant)
    found = objects.get((source.file(mutant.module), mutant.function, mutant.first_line), [])
    if code is None or not found or not all(fits(item, code) for item in found):
        return Outcome(mutant, "left out")
    seconds = sum(calls.seconds[test] for test in tests)
    calling = len(calls.tests_of(mutant.name))
    return Work(mutant, code, found, tests, calling, patience + SLOWER * seconds)


def _start(work: Work, running: dict[int, tuple[Work, float, Path]]) -> None:
    scratch = Path(tempfile.mkdtemp(prefix="mutant-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
    sys.stdout.flush()
    child = os.fork()
    if child:
        running[child] = (work, time.monotonic() + WAITING * work.limit, scratch)
        return
    code = 70
    try:
        os.setpgid(0, 0)
        seconds = math.ceil(work.limit)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        replace(dict.fromkeys(work.objects, work.code))
        options = [*OPTIONS, f"--basetemp={scratch / 'tests'}", *work.tests]
        code = int(_silently(lambda: pytest.main(options)))
    finally:
        os._exit(code)  # nothing that the parent has asked for at its end is to happen here


def _ended(running: dict[int, tuple[Work, float, Path]]) -> Iterator[Outcome]:
    """The outcomes of children that have ended or are ended now; waits a moment where there are none."""
    for child, (work, deadline, scratch) in list(running.items()):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            verdict = _verdict(os.waitstatus_to_exitcode(status))
        elif time.monotonic() > deadline:
            verdict = "hung"
        else:
            continue
        del running[child]
        _end(child, scratch)
        if not ended:
            os.waitpid(child, 0)
        yield work.outcome(verdict)
    time.sleep(POLL)


def _verdict(code: int) -> Verdict:
    """What pytest's exit code says; a signal, less than 0, is a crash that nobody overlooks, or the limit."""
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return "hung"
    if code == pytest.ExitCode.OK:
        return "survived"
    if code in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED):
        return "broken"
    return "killed"


def _end(child: int, scratch: Path) -> None:
    """End what is left of a child's group, and remove its files."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    shutil.rmtree(scratch, ignore_errors=True)


def _silently(function: Callable[[], int | pytest.ExitCode]) -> int:
    """Call a function whose output nobody reads, not even that of the processes that it starts."""
    kept = os.dup(1), os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        sys.stdout.flush()
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        return int(function())
    finally:
        sys.stdout.flush()
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        for number in (*kept, nothing):
            os.close(number)
