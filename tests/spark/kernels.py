"""Kernels of the tests: in a module of their own, since workers import what they run."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def double(number: int) -> int:
    return 2 * number


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


class DyingInTheEnd:
    """A kernel whose first attempt at anything dies where it would give its work a name."""

    def __init__(self, kernel: Callable[[Any], Any], folder: Path) -> None:
        self.kernel = kernel
        self.marker = folder / getattr(kernel, "__name__", "kernel")

    def __call__(self, task: Any) -> Any:
        try:
            self.marker.touch(exist_ok=False)
        except FileExistsError:
            return self.kernel(task)
        setattr(Path, "rename", _die)  # noqa: B010 - of a process that has not long to live
        setattr(Path, "replace", _die)  # noqa: B010
        return self.kernel(task)


def _die(*_: object) -> None:
    os._exit(1)
