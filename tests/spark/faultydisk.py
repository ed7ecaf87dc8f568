"""A disk that fails, or holds up, whoever wants one file: in the Pythons of executors, while they do a task.

Python itself imports a module `sitecustomize` when it starts; the settings here put one on the PYTHONPATH of
executors. The driver and this process find the disk sound.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

At = Literal["open", "read"]
EVERY = 99
"""More attempts than a task has."""
_REPOSITORY = Path(__file__).parents[2]


def failing(folder: Path, file: Path, at: At, attempts: int = EVERY) -> Mapping[str, str]:
    """Settings of Spark: a file cannot be opened or read in the first attempts of each task.

    `folder` is a new one, for the module.
    """
    return _settings(folder, f"fail({str(file)!r}, {at!r}, {attempts})")


def holding(folder: Path, file: Path) -> Mapping[str, str]:
    """Settings of Spark: whoever opens a file waits until `let_go`; `held` says who does. `folder` is new."""
    return _settings(folder, f"hold({str(file)!r}, {str(folder)!r})")


def held(folder: Path) -> set[int]:
    """The Pythons that wait, or have waited."""
    return {int(path.name) for path in folder.iterdir() if path.name.isdigit()}


def let_go(folder: Path) -> None:
    """Nobody waits any more."""
    (folder / "go").touch()


def _settings(folder: Path, call: str) -> Mapping[str, str]:
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(f"from {__name__} import fail, hold\n{call}\n", "utf-8")
    places = (str(folder), str(_REPOSITORY), os.environ.get("PYTHONPATH"))
    return {"spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, places))}


def fail(file: str, at: At, attempts: int) -> None:
    """From now on a file fails, in tasks, in their first attempts."""

    def look() -> None:
        number = _attempt()
        if number is not None and number < attempts:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    if at == "open":
        _at_opening(file, look)
    else:
        os.preadv = _looking(os.preadv, file, look)
        os.pread = _looking(os.pread, file, look)


@contextmanager
def failing_here(file: str, attempts: int) -> Iterator[None]:
    """While in it, a file cannot be read in the first attempts of tasks of this process."""
    sound = os.preadv, os.pread
    fail(file, "read", attempts)
    try:
        yield
    finally:
        os.preadv, os.pread = sound


def hold(file: str, folder: str) -> None:
    """From now on, who opens a file in a task says so in a folder, and waits until a file `go` is there."""

    def look() -> None:
        if _attempt() is None:
            return
        Path(folder, f"{os.getpid()}").touch()
        while not Path(folder, "go").exists():
            time.sleep(0.05)

    _at_opening(file, look)


def _at_opening(file: str, look: Callable[[], None]) -> None:
    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and arguments[0] == file:
            look()

    sys.addaudithook(hear)


def _looking(real: Callable[..., Any], file: str, look: Callable[[], None]) -> Any:
    def read(descriptor: int, *rest: Any) -> Any:
        if str(Path(f"/proc/self/fd/{descriptor}").readlink()) == file:
            look()
        return real(descriptor, *rest)

    return read


def _attempt() -> int | None:
    """How often Spark has started this task before; None where this is no task."""
    module = sys.modules.get("pyspark.taskcontext")
    task = None if module is None else module.TaskContext.get()
    return None if task is None else int(task.attemptNumber())
