"""`--bwlimit` and `--background`: how much a command may disturb a broker on the same machine."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from typing import Any

import click

from rocketfsck.cli.paramtypes import ByteSize
from rocketfsck.errors import UsageError

Function = Callable[..., Any]

NICENESS = 19
IO_PRIORITY = 2 << 13 | 7
"""The last of the best-effort class; the class "idle" might never be served next to a busy broker."""
_IOPRIO_SET: Mapping[str, int] = {"x86_64": 251, "aarch64": 30}
"""The number of the system call, which the C library does not have."""


def manners_options(function: Function) -> Function:
    """`--bwlimit` and `--background`, for a command that reads in this process."""

    @wraps(function)
    def run(*args: Any, bwlimit: int | None, background: bool, **given: Any) -> Any:
        if bwlimit is None and not background:
            return function(*args, **given)
        if given.get("engine", "local") != "local":
            raise UsageError("--bwlimit and --background are for this process, not for Spark")
        if bwlimit is not None and not bwlimit:
            raise UsageError("--bwlimit is at least 1 byte a second")
        from rocketfsck.store.manners import reading_politely

        if background:
            lower_priority()
        with reading_politely(bwlimit, keeps_cache=background):
            return function(*args, **given)

    limit = click.option(
        "--bwlimit", type=ByteSize(), metavar="RATE", help="Read at most so much a second, like 50MiB."
    )
    background = click.option(
        "--background",
        is_flag=True,
        help="Run at the lowest CPU and I/O priority, and leave the page cache as it was.",
    )
    return limit(background(run))


def lower_priority() -> None:
    """Give all other processes precedence, on the processor and, on Linux, at the disk."""
    with suppress(OSError):
        os.nice(NICENESS)
    number = _IOPRIO_SET.get(platform.machine())
    if sys.platform == "linux" and number is not None:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).syscall(number, 1, 0, IO_PRIORITY)
