"""What a command reads like a file and is not one: standard input (`-`), pipes, `<(…)`.

Documents, files of a store and images are read at any place, so that what comes from a pipe is kept in a file
first, where intermediate files go (`store.scratch`); the file is deleted when the command ends.

A FIFO with a name may be one that nobody writes to: a broken store has them, too. Opening such a FIFO waits
without an end, so that it is opened without waiting, and refused if no writer comes.
"""

from __future__ import annotations

import os
import select
import shutil
import stat
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from rocketfsck.common.outputs import STDIN
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
