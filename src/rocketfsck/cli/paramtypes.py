"""Types of parameters: points in time, ranges, durations, sizes, and the places of stores.

What a command reads like a file and is not one: standard input (`-`), pipes, `<(…)`.

Documents, files of a store and images are read at any place, so that what comes from a pipe is kept in a file
first, where intermediate files go (`store.scratch`); the file is deleted when the command ends.

A FIFO with a name may be one that nobody writes to: a broken store has them, too. Opening such a FIFO waits
without an end, so that it is opened without waiting, and refused if no writer comes.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import stat
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rocketfsck.common.outputs import STDIN, STDOUT, limit_to
from rocketfsck.common.wording import parse_duration, parse_size, parse_time
from rocketfsck.errors import StoreError

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
    from rocketfsck.store.scratch import scratch_parent

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
    _Int = click.ParamType[int]
    _Pair = click.ParamType[tuple[int, int]]
    _Float = click.ParamType[float]
    _Any = click.ParamType[Any]
else:  # generic only from click 8.2 on
    _Int = _Pair = _Float = _Any = click.ParamType

Value = TypeVar("Value", int, float)
_INT64 = 1 << 63
_RANGE = re.compile(r"(\d*):(\d*)|(\d+)", re.ASCII)


class Timestamp(_Int):
    """A point in time: milliseconds since 1970, or an ISO 8601 date and time (UTC where it names no zone)."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return value if isinstance(value, int) else _read(self, parse_time, value, param, ctx)


class NumberRange(_Pair):
    """`N`, or `FROM:TO` with either end left out; half-open."""

    name = "N|FROM:TO"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        match = _RANGE.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is neither N nor FROM:TO", param, ctx)
        if match[3]:
            return int(match[3]), int(match[3]) + 1
        return int(match[1] or 0), int(match[2] or _INT64)


class Duration(_Float):
    """Seconds, or a number with s, m, h or d."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return value if isinstance(value, float) else _read(self, parse_duration, value, param, ctx)


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


class FileMode(_Int):
    """Permissions as octal digits, like 640."""

    name = "mode"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if re.fullmatch(r"0?[0-7]{3}", str(value), re.ASCII) is None:
            self.fail(f"{value!r} is not a mode like 640: three octal digits", param, ctx)
        return int(str(value), 8)


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


class ByteSize(_Int):
    """A number of bytes: `4096`, `64KiB`, `4GiB`, or `10MB` for powers of ten."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return value if isinstance(value, int) else _read(self, parse_size, value, param, ctx)


class ParsedText(_Any):
    """What a function makes of a text; it raises ValueError for one of another form."""

    name = "text"

    def __init__(self, parse: Callable[[str], Any]) -> None:
        self.parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return _read(self, self.parse, value, param, ctx) if isinstance(value, str) else value


def _read(
    kind: click.ParamType[Any],
    parse: Callable[[str], Value],
    value: object,
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> Value:
    try:
        return parse(str(value))
    except ValueError as error:
        kind.fail(str(error), param, ctx)
