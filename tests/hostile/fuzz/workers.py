"""Processes that run cases: forked from one that has imported everything, watched for time and memory.

A worker tells before and after each case. One that is silent for too long is ended and replaced, and so is
one that dies; the case that it was at is the finding.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.hostile.fuzz.cases import Case
from tests.hostile.fuzz.drawing import Ground
from tests.hostile.fuzz.laws import Violation
from tests.hostile.fuzz.scenarios import run_case

TIME_LIMIT = 60.0
MEMORY_LIMIT = 512 << 20
DATA_LIMIT = 1 << 30
"""Private memory beyond what it begins with that the system gives to a worker at most, so that no mutant
takes the machine with it."""
BARE_SIZE = 100 << 20
"""What a process of one command has in memory before it reads the store. A worker, which has run every
command, has more: only what a case adds counts."""

SHARED_EVERY = 10
"""One case in so many has all cores, for what only threads do."""

_LENGTH = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case. Seconds are of the processor; `peak` is bytes, as in a process of its own."""

    case: Case
    violations: tuple[Violation, ...]
    commands: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    wall_seconds: float = 0.0
    peak: int = 0


def scratch_folder() -> Path:
    """A new folder for cases, in memory where there is such a place."""
    shared = Path("/dev/shm")
    above = shared if shared.is_dir() and os.access(shared, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="rocketfsck-fuzz-", dir=above))


def run_here(case: Case, grounds: dict[str, Ground], folder: Path) -> Outcome:
    """One case in this process."""
    _reset_peak()
    base = _status("VmHWM") - BARE_SIZE
    began, began_wall = time.process_time(), time.monotonic()
    place = _case_folder(folder, os.getpid())
    shutil.rmtree(place, ignore_errors=True)
    scene = run_case(case, grounds[case.subject], place)
    peak = _status("VmHWM") - max(base, 0)
    violations = list(scene.violations)
    if peak > MEMORY_LIMIT:
        violations.append(Violation("memory", "case", f"{peak >> 20} MiB at most"))
    seconds, wall = time.process_time() - began, time.monotonic() - began_wall
    return Outcome(case, tuple(violations), scene.commands, seconds, wall, peak)


def _reset_peak() -> None:
    try:
        with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123
            file.write("5")
    except OSError:
        pass


def _status(name: str) -> int:
    """A number of bytes that Linux tells of this process."""
    with open("/proc/self/status") as file:  # noqa: PTH123
        for line in file:
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) << 10
    raise KeyError(name)


@dataclass(slots=True)
class _Worker:
    pid: int
    tasks: int
    results: int
    trace: Path
    case: Case | None = None
    since: float = 0.0


class Pool:
    """So many workers on one folder. Use as a context; `run` gives outcomes as they come."""

    def __init__(
        self, grounds: dict[str, Ground], folder: Path, jobs: int, limit: float = TIME_LIMIT
    ) -> None:
        self.grounds, self.folder, self.limit = grounds, folder, limit
        self._workers: list[_Worker] = []
        self._jobs = jobs
        self._started = 0

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            self._end(worker)

    def run(self, cases: Iterable[Case]) -> Iterator[Outcome]:
        """Every case once, in any order."""
        pending = iter(cases)
        while True:
            self._feed(pending)
            busy = [worker for worker in self._workers if worker.case is not None]
            if not busy:
                return
            due = min(worker.since + self.limit for worker in busy) - time.monotonic()
            ready, _, _ = select.select([worker.results for worker in busy], [], [], max(due, 0.05))
            for worker in busy:
                assert worker.case is not None
                if worker.results in ready:
                    outcome = self._take(worker)
                    yield outcome if outcome is not None else self._lost(worker, "crash", "the process died")
                elif time.monotonic() - worker.since > self.limit:
                    yield self._lost(
                        worker, "hang", f"not done after {self.limit:.0f} s: {_stack(worker.trace)}"
                    )

    def _feed(self, pending: Iterator[Case]) -> None:
        while len(self._workers) < self._jobs:
            self._workers.append(self._start())
        for worker in self._workers:
            if worker.case is None:
                case = next(pending, None)
                if case is None:
                    return
                worker.case, worker.since = case, time.monotonic()
                _send(worker.tasks, case)

    def _take(self, worker: _Worker) -> Outcome | None:
        outcome = _receive(worker.results)
        if outcome is not None:
            worker.case = None
        return outcome  # type: ignore[return-value]

    def _lost(self, worker: _Worker, law: str, detail: str) -> Outcome:
        assert worker.case is not None
        case = worker.case
        wall = time.monotonic() - worker.since
        status = self._end(worker)
        self._workers.remove(worker)
        if law == "crash":
            detail += f" of signal {status & 127}" if status & 127 else f" with status {status >> 8}"
        return Outcome(case, (Violation(law, "case", detail),), wall_seconds=wall)

    def _start(self) -> _Worker:
        self._started += 1
        task_end, tasks = os.pipe()
        results, result_end = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # of threads, which nothing here has running when it forks
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        trace = self.folder / f"trace-{pid or os.getpid()}"
        if not pid:
            try:
                os.close(tasks)
                os.close(results)
                _work(self._started, task_end, result_end, self.grounds, self.folder, trace, self.limit)
            except BaseException:  # noqa: BLE001 - whatever it is, the case's number is known
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.close(task_end)
        os.close(result_end)
        return _Worker(pid, tasks, results, trace)

    def _end(self, worker: _Worker) -> int:
        for descriptor in (worker.tasks, worker.results):
            os.close(descriptor)
        os.kill(worker.pid, signal.SIGKILL)  # its pipes may be open in workers forked after it
        _, status = os.waitpid(worker.pid, 0)
        worker.trace.unlink(missing_ok=True)
        shutil.rmtree(_case_folder(self.folder, worker.pid), ignore_errors=True)  # it may fill the memory
        return status


def _case_folder(folder: Path, pid: int) -> Path:
    return folder / f"case-{pid}"


def _work(
    number: int,
    tasks: int,
    results: int,
    grounds: dict[str, Ground],
    folder: Path,
    trace: Path,
    limit: float,
) -> None:
    """The life of a worker of this number: cases until there are none, most of them on one core. Threads
    cost more than they gain where a store is tiny."""
    cores = os.sched_getaffinity(0)
    own = {sorted(cores)[number % len(cores)]}
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    most = _status("VmData") + DATA_LIMIT
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    with trace.open("w") as file:
        while (case := _receive(tasks)) is not None:
            assert isinstance(case, Case)
            file.seek(0)
            file.truncate()
            faulthandler.dump_traceback_later(limit * 0.9, file=file)
            os.sched_setaffinity(0, own if case.seed % SHARED_EVERY else cores)
            outcome = run_here(case, grounds, folder)
            faulthandler.cancel_dump_traceback_later()
            _send(results, outcome)


def _stack(trace: Path) -> str:
    """The functions of our own that a worker was in, innermost first."""
    lines = trace.read_text("utf-8", "replace").splitlines() if trace.exists() else []
    own = [line.strip() for line in lines if "/rocketfsck/" in line]
    return " < ".join(line.rpartition("/rocketfsck/")[2].replace('", line', ":") for line in own[:4])


def _send(descriptor: int, value: object) -> None:
    data = pickle.dumps(value)
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(descriptor, view) :]


def _receive(descriptor: int) -> object | None:
    head = _read(descriptor, _LENGTH.size)
    return None if head is None else pickle.loads(_read(descriptor, _LENGTH.unpack(head)[0]) or b"N.")


def _read(descriptor: int, size: int) -> bytes | None:
    pieces, left = [], size
    while left:
        piece = os.read(descriptor, left)
        if not piece:
            return None
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


Runner = Callable[[Case], Outcome]
