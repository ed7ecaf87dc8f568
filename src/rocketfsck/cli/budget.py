"""How much of the machine a command may use: `-j`, `--max-memory`, `--bwlimit` and `--background`.

The number of jobs follows from the memory. The limits are those of the process: they hold for all that a
command does, and for the threads that it starts.

`-t`: how long the passes of a command took, on standard error, and for documents as data.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Annotated, Any

import click

from rocketfsck.cli.lang import say_line
from rocketfsck.cli.show.text import aligned, byte_size, visible
from rocketfsck.common.budget import within
from rocketfsck.common.options import Option
from rocketfsck.engine.passes import MIB, Need, Pass, Passes, bounded_memory
from rocketfsck.errors import UsageError

_HEAD = ("pass", "time", "bytes", "rate", "peak memory")


def timing_param() -> click.Option:
    """`-t`."""
    return click.Option(
        ["-t", "--timing"],
        count=True,
        help="Say on standard error how long each pass took, how many bytes it read and its peak of memory; "
        "-tt: each file, too.",
    )


@contextmanager
def timed(values: Mapping[str, Any]) -> Iterator[Passes | None]:
    """A recorder, where the values of a command line ask for one; what it has is printed in the end, also
    where the command fails."""
    timing = values.get("timing")
    passes = Passes(each_task=timing > 1) if timing else None
    try:
        yield passes
    finally:
        if passes is not None:
            sys.stdout.flush()
            for line in timing_lines(passes.finish()):
                say_line(line, err=True)


def timing_lines(passes: Sequence[Pass]) -> Iterator[str]:
    """A table of passes; the tasks of a pass are indented."""
    rows = [_HEAD, *(_cells(item) for item in passes)]
    yield from aligned(rows, right=(1, 2, 3, 4))


def _cells(item: Pass) -> tuple[str, ...]:
    count = f" ({item.task_count:,})" if item.task_count else ""
    return (
        f"{'  ' if item.detail else ''}{visible(item.name)}{count}",
        f"{item.seconds:.3f} s",
        "" if item.byte_count is None else byte_size(item.byte_count),
        "" if item.byte_rate is None else f"{byte_size(round(item.byte_rate))}/s",
        "" if item.peak_memory_size is None else byte_size(item.peak_memory_size),
    )


NEEDS: Mapping[str, Need] = {
    "check": Need(320 * MIB, 64 * MIB),
    "plan": Need(320 * MIB, 64 * MIB),
    "fix": Need(320 * MIB, 64 * MIB),
    "rebuild": Need(300 * MIB, 64 * MIB),
    "count": Need(320 * MIB, 64 * MIB),
    "salvage": Need(320 * MIB, 64 * MIB),
    "compare": Need(256 * MIB, 64 * MIB),
    "export": Need(448 * MIB, 192 * MIB),
}
"""By command. docs/guide/limits.md has the same table; the tests measure it."""

ROWS_SIZE = 64 * MIB
"""Of an export's task, the part for its rows where memory is limited."""

NICENESS = 19
IO_PRIORITY = 2 << 13 | 7
"""The last of the best-effort class; the class "idle" might never be served next to a busy broker."""
_IOPRIO_SET: Mapping[str, int] = {"x86_64": 251, "aarch64": 30}
"""The number of the system call, which the C library does not have."""

Jobs = Annotated[
    int | None,
    Option("Work on N files at once; default: one per core.", names=("-j", "--jobs"), metavar="N", least=1),
]
ReadRate = Annotated[
    int | None, Option("Read at most so much a second, like 50MiB.", metavar="RATE", kind="size")
]
Background = Annotated[
    bool, Option("Run at the lowest CPU and I/O priority, and leave the page cache as it was.")
]


def max_memory(command: str) -> Option:
    """`--max-memory` for the command of this name."""
    need = NEEDS[command]
    return Option(
        f"Use at most this much memory: {need.fixed // MIB}MiB and {need.each // MIB}MiB a job; "
        "what does not fit is an error.",
        metavar="SIZE",
        kind="size",
    )


@contextmanager
def within_budget(command: str, values: Mapping[str, Any]) -> Iterator[None]:
    """Run the block within what the options of a command say, as far as it has them. Raises UsageError."""
    jobs, memory, rate = (values.get(name) for name in ("jobs", "max_memory", "bwlimit"))
    background = values.get("background", False)
    with ExitStack() as stack:
        stack.enter_context(within(jobs=jobs))
        if values.get("engine", "local") != "local":
            if memory is not None:
                raise UsageError("--max-memory limits this process; Spark has spark.executor.memory")
            if rate is not None or background:
                raise UsageError("--bwlimit and --background are for this process, not for Spark")
        if memory is not None:
            stack.enter_context(bounded_memory(memory, NEEDS[command]))
        if rate is not None and not rate:
            raise UsageError("--bwlimit is at least 1 byte a second")
        if rate is not None or background:
            from rocketfsck.store.reading import reading_politely

            if background:
                lower_priority()
            stack.enter_context(reading_politely(rate, keeps_cache=background))
        yield


def lower_priority() -> None:
    """Give all other processes precedence, on the processor and, on Linux, at the disk."""
    with suppress(OSError):
        os.nice(NICENESS)
    number = _IOPRIO_SET.get(platform.machine())
    if sys.platform == "linux" and number is not None:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).syscall(number, 1, 0, IO_PRIORITY)
