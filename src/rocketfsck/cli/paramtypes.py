"""Types of parameters: points in time, ranges, durations, sizes, and the places of stores.

What a command reads like a file and is not one: standard input (`-`), pipes, `<(…)`.

Documents, files of a store and images are read at any place, so that what comes from a pipe is kept in a file
first, where intermediate files go (`common.outputs`); the file is deleted when the command ends.

A FIFO with a name may be one that nobody writes to: a broken store has them, too. Opening such a FIFO waits
without an end, so that it is opened without waiting, and refused if no writer comes.

How much of the machine a command may use: `-j`, `--max-memory`, `--bwlimit` and `--background`.

The number of jobs follows from the memory. The limits are those of the process: they hold for all that a
command does, and for the threads that it starts.

`-t`: how long the passes of a command took, on standard error, and for documents as data.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import select
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import click

from rocketfsck.cli.lang import say_line
from rocketfsck.cli.show.text import aligned, byte_size, visible
from rocketfsck.common.budget import within
from rocketfsck.common.options import Option
from rocketfsck.common.outputs import STDIN, STDOUT, limit_to, scratch_parent
from rocketfsck.common.wording import parse_duration, parse_size, parse_time
from rocketfsck.engine.passes import MIB, Need, Pass, Passes, bounded_memory
from rocketfsck.errors import StoreError, UsageError

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


PIECE_SIZE = 1 << 20

WRITER_SECONDS = 5.0
"""How long the writer of a FIFO may take to open it: `mkfifo F; producer > F & rocketfsck dump F`."""
_LOOK_SECONDS = 0.02
_OPEN_ALREADY = (os.fspath(STDIN), "/dev/fd/", "/proc/")
"""Where descriptors of this process have names: their pipes have had their writers."""


def as_file(path: Path, context: click.Context | None) -> Path:
    """The path, or that of a file with all that comes out of the pipe there. Raises StoreError."""
    try:
        if not stat.S_ISFIFO(path.stat().st_mode) or context is None or context.resilient_parsing:
            return path
    except OSError:
        return path  # whoever opens it says what is wrong
    with ExitStack() as undo:
        folder = undo.enter_context(TemporaryDirectory(prefix="rocketfsck-", dir=scratch_parent()))
        kept = Path(folder) / ("stdin" if path == STDIN else path.name)
        try:
            _copy(path, kept)
        except OSError as error:
            text = f"cannot be read into {folder}: {error.strerror}"
            raise StoreError(text, path=os.fspath(path)) from error
        context.call_on_close(undo.pop_all().close)
    return kept


def _copy(path: Path, kept: Path) -> None:
    """All that comes out of a pipe, into a new file. Raises OSError, StoreError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as source, kept.open("xb", buffering=0) as target:
        first = _first_piece(descriptor, os.fspath(path))
        target.write(first)
        if first:
            os.set_blocking(descriptor, True)
            shutil.copyfileobj(source, target, PIECE_SIZE)


def _first_piece(descriptor: int, path: str) -> bytes:
    """What comes first out of a pipe that is open without waiting; b"" where it ends at once.

    Waits for a writer that is there as long as it takes, for one that is not WRITER_SECONDS. Raises OSError,
    StoreError for a FIFO that nobody writes to.
    """
    look = select.poll()
    look.register(descriptor, select.POLLIN)
    given_up = time.monotonic() + WRITER_SECONDS
    while True:
        try:
            data = os.read(descriptor, PIECE_SIZE)
        except BlockingIOError:  # somebody has it open to write
            look.poll()
            continue
        if data or path.startswith(_OPEN_ALREADY) or look.poll(0):
            return data
        if time.monotonic() > given_up:
            text = f"is a FIFO, and nobody has opened it to write within {WRITER_SECONDS:g} s"
            raise StoreError(text, path=path)
        time.sleep(_LOOK_SECONDS)


if TYPE_CHECKING:
    _Any = click.ParamType[Any]
else:  # generic only from click 8.2 on
    _Any = click.ParamType

_INT64 = 1 << 63
_RANGE = re.compile(r"(\d*):(\d*)|(\d+)", re.ASCII)


class ParsedText(_Any):
    """What a function makes of a text; it raises ValueError for one of another form."""

    def __init__(self, parse: Callable[[str], Any], name: str = "text") -> None:
        self.parse = parse
        self.name = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self.parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


def parse_range(text: str) -> tuple[int, int]:
    """`N`, or `FROM:TO` with either end left out; half-open. Raises ValueError."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is neither N nor FROM:TO")
    if match[3]:
        return int(match[3]), int(match[3]) + 1
    return int(match[1] or 0), int(match[2] or _INT64)


def parse_mode(text: str) -> int:
    """Permissions as octal digits, like 640. Raises ValueError."""
    if re.fullmatch(r"0?[0-7]{3}", text, re.ASCII) is None:
        raise ValueError(f"{text!r} is not a mode like 640: three octal digits")
    return int(text, 8)


QUANTITIES: Mapping[str, ParsedText] = {
    "size": ParsedText(parse_size, "size"),
    "duration": ParsedText(parse_duration, "duration"),
    "time": ParsedText(parse_time, "time"),
    "range": ParsedText(parse_range, "N|FROM:TO"),
}
"""Numbers with a notation, by `common.options.Quantity`."""
FILE_MODE = ParsedText(parse_mode, "mode")


class InputPath(click.Path):
    """A file that is read; `-` is standard input. What is written is for nobody who cannot read this file."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(path_type=Path, **kwargs)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        named = str(STDIN) if value == "-" else value
        path = as_file(Path(os.fsdecode(super().convert(named, param, ctx))), ctx)
        limit_to(path)
        return path


class OutputPath(click.Path):
    """A file that is written; `-` is standard output. Where it goes: `common.outputs`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(path_type=Path, dir_okay=False, **kwargs)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return STDOUT if value == "-" else super().convert(value, param, ctx)


class StorePath(click.Path):
    """A file or directory, or the URL of one; that it exists is for the store to say.

    `local` says why a URL will not do, in words: what is done needs a directory of this machine. What is
    written is for nobody who cannot read what is here, unless it is itself the place of what is `written`.
    With `stdin`, `-` is standard input, and pipes are read.
    """

    def __init__(
        self, local: str | None = None, *, written: bool = False, stdin: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(path_type=Path, **kwargs)
        self.local = local
        self.written = written
        self.stdin = stdin

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if self.stdin and "://" not in str(value):
            return InputPath().convert(value, param, ctx)
        place = self._place(value, param, ctx)
        if not self.written:
            limit_to(place)
        return place

    def _place(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and "://" in value:
            from rocketfsck.store.places.locations import locate, refuse_remote

            place = locate(value)
            if self.local is not None:
                refuse_remote(place, self.local)
            return place
        return super().convert(value, param, ctx)
