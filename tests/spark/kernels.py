"""Kernels of the tests: in a module of their own, since workers import what they run."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rocketfsck.engine.seam import Outcome
from rocketfsck.errors import StoreError
from rocketfsck.pipeline.fleet.model import CheckedStore
from rocketfsck.pipeline.fleet.run import CheckJob, Opened
from rocketfsck.pipeline.fleet.stages import PassingEngine
from rocketfsck.verify.tasks.execute import PlannedTask, run_unit
from rocketfsck.verify.tasks.task import TaskResult

from tests.flippingreads import flipping
from tests.spark.faultydisk import failing_here


def double(number: int) -> int:
    return 2 * number


def slow(number: int) -> int:
    time.sleep(2 if number else 0)
    return number


def failing(number: int) -> int:
    raise ValueError(f"no such number: {number}")


def failing_or_slow(marker: str) -> None:
    if not marker:
        raise ValueError("no such file")
    time.sleep(120)
    Path(marker).touch()


def dying_once(marker: str) -> str:
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return "alive"
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
    return "not killed"


def unreadable_once(marker: str) -> str | StoreError:
    """A disk that fails once: an error that is raised, or returned if the marker's name ends so."""
    try:
        _read_with_marker(marker)
    except StoreError as error:
        if marker.endswith("returned"):
            return error
        raise
    return "read"


def _read_with_marker(marker: str) -> None:
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return
    try:
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    except OSError as error:
        raise StoreError("cannot be read", path=marker, offset=0) from error


def always_unreadable(counter: str) -> None:
    """A disk that always fails; how often is the counter's length."""
    with Path(counter).open("ab") as file:
        file.write(b"x")
    try:
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    except OSError as error:
        raise StoreError("cannot be read", path="disk", offset=7) from error


class DyingInTheEnd:
    """A kernel whose first attempt at each kind of task dies where it would give its work a name."""

    def __init__(self, kernel: Callable[[Any], Any], folder: Path) -> None:
        self.kernel, self.folder = kernel, folder
        self.name = getattr(kernel, "__name__", "kernel")

    def __call__(self, task: Any) -> Any:
        try:
            (self.folder / f"{self.name} {type(task).__name__}").touch(exist_ok=False)
        except FileExistsError:
            return self.kernel(task)
        setattr(Path, "rename", _die)  # noqa: B010 - of a process that has not long to live
        setattr(Path, "replace", _die)  # noqa: B010
        return self.kernel(task)


def _die(*_: object) -> None:
    os._exit(1)


def flipped_unit(given: tuple[PlannedTask, str, int, str]) -> TaskResult | StoreError:
    """A task of a check, of which the first read of a byte is wrong."""
    unit, file, pos, marker = given
    with flipping(Path(file), pos, Path(marker)):
        return run_unit(unit)


class Deadly(str):
    """A path that kills the worker which uses it; the process that made it (`driver`) is spared."""

    driver = 0

    def __fspath__(self) -> str:
        if os.getpid() != self.driver:
            os.kill(os.getpid(), signal.SIGKILL)
        return str(self)


def killing_unit(unit: PlannedTask) -> TaskResult | StoreError:
    """A task of a check whose worker dies at the second commit log file."""
    if getattr(unit.task, "index", None) == 1 and unit.key.startswith("commitlog:"):
        os.kill(os.getpid(), signal.SIGKILL)
    return run_unit(unit)


@dataclass(frozen=True, slots=True)
class KillingEngine(PassingEngine):
    """The engine of a store's job on a worker, with that file."""

    def run(
        self, kernel: Callable[[Any], Any], tasks: Sequence[Any], *, deadline: float | None = None
    ) -> Iterator[Outcome[Any, Any]]:
        assert kernel is run_unit
        yield from PassingEngine.run(self, killing_unit, tasks, deadline=deadline)


@dataclass(frozen=True, slots=True)
class KillingJob(CheckJob):
    """The check of a store with that file."""

    def work(self, opened: Opened, engine: PassingEngine) -> CheckedStore:
        same = {item.name: getattr(engine, item.name) for item in fields(engine)}
        return CheckJob.work(self, opened, KillingEngine(**same))


@dataclass(frozen=True, slots=True)
class FaultyJob(CheckJob):
    """The check of a store on a disk where a file cannot be read in the first attempts."""

    file: str
    attempts: int

    def open(self) -> Opened:
        with failing_here(self.file, self.attempts):
            return CheckJob.open(self)

    def work(self, opened: Opened, engine: PassingEngine) -> CheckedStore:
        with failing_here(self.file, self.attempts):
            return CheckJob.work(self, opened, engine)
