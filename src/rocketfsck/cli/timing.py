"""`-t`: how long the passes of a command took, on standard error, and for documents as data."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from rocketfsck.cli.show.table import aligned
from rocketfsck.cli.show.text import byte_size, visible
from rocketfsck.engine.passes import Pass, Passes

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
                print(line, file=sys.stderr)


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
