"""Kernels of the tests: in a module of their own, since workers import what they run."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def double(number: int) -> int:
    return 2 * number


def failing(number: int) -> int:
    raise ValueError(f"no such number: {number}")


def dying_once(marker: str) -> str:
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return "alive"
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
    return "not killed"
