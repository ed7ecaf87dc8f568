"""Where what is written goes: to whatever has the name that the user gave.

    a regular file, or nothing      a new file next to it takes the name when it is whole (fsync, rename)
    a link                          what it leads to, also if nothing is there yet; the link stays
    a descriptor of this process    /dev/stdout, /dev/fd/N, `>(…)`: written through, where it is
    a device, a pipe                written through

Nothing that is not a regular file is ever replaced or removed. Who may read a new file: `privacy`.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from rocketfsck.common import privacy
from rocketfsck.errors import StoreError

STDOUT = Path("/dev/stdout")
"""Standard output as a place for a file."""
STDIN = Path("/dev/stdin")
"""Standard input as a file."""
_DESCRIPTORS = re.compile(r"/proc/(\d+)(?:/task/\d+)?/fd")
_LINKS = 40
"""So many links are followed, one after the other, as the system does."""
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def place_of(path: str | os.PathLike[str]) -> tuple[str, int | None]:
    """The full path that a name leads to, and the number of the own descriptor that it names, if it does.

    Unlike `realpath` it does not look behind a descriptor: what is written there goes where that is.
    Raises OSError for links that lead in a circle.
    """
    text = os.path.abspath(path)  # noqa: PTH100 - the last part need not exist
    for _ in range(_LINKS):
        folder, name = os.path.realpath(os.path.dirname(text)), os.path.basename(text)  # noqa: PTH119, PTH120
        text = os.path.join(folder, name)  # noqa: PTH118
        owner = _DESCRIPTORS.fullmatch(folder)
        if owner is not None:
            return text, int(name) if int(owner[1]) == os.getpid() and name.isdecimal() else None
        if not os.path.islink(text):  # noqa: PTH114
            return text, None
        text = os.path.join(folder, os.readlink(text))  # noqa: PTH115, PTH118
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))


def open_through(path: str | os.PathLike[str]) -> int | None:
    """A descriptor, for writing, of what is not a regular file; None where there is one, or nothing.

    Whatever is there is neither made, nor emptied, nor replaced. Raises OSError.
    """
    place, own = place_of(path)
    if own is not None:
        sys.stdout.flush()
        return os.dup(own)
    try:
        status = os.stat(place)  # noqa: PTH116
    except FileNotFoundError:
        return None
    if stat.S_ISREG(status.st_mode) and not _is_kept_open(place):
        return None
    return os.open(place, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY)


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether a name leads to something that is written through: no regular file, directory or nothing."""
    try:
        place, own = place_of(path)
        mode = os.stat(place).st_mode  # noqa: PTH116
        return own is not None or _is_kept_open(place) or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    except OSError:
        return False


def _is_kept_open(place: str) -> bool:
    """Whether a place is a descriptor of a process."""
    return _DESCRIPTORS.fullmatch(os.path.dirname(place)) is not None  # noqa: PTH120


@contextmanager
def written(path: str | os.PathLike[str], *, binary: bool = False) -> Iterator[IO[Any]]:
    """A stream to what has this name; a regular file appears, or is replaced, when the block has ended well.

    Text is UTF-8, its lines end as they are written. Raises StoreError if it cannot be written.
    """
    with _named(path):
        through = open_through(path)
    with _through(path, through, binary) if through is not None else _whole(path, binary) as stream:
        yield stream


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write one text to what has this name, as `written` does. Raises StoreError."""
    with written(path) as stream:
        stream.write(text)


@contextmanager
def _through(path: str | os.PathLike[str], descriptor: int, binary: bool) -> Iterator[IO[Any]]:
    stream = stream_of(descriptor, binary)
    try:
        with _named(path, of_others=False):
            yield stream
            stream.flush()
            with suppress(OSError):  # a pipe, or a device that keeps nothing
                os.fsync(descriptor)
    finally:
        with suppress(OSError):  # what could not be written is said already
            stream.close()


@contextmanager
def _whole(path: str | os.PathLike[str], binary: bool) -> Iterator[IO[Any]]:
    with _named(path):
        folder, name = os.path.split(place_of(path)[0])
        shelf = os.open(folder, _DIRECTORY)
    part = f".{name[:200]}.{secrets.token_hex(8)}.part"
    made = False
    try:
        with _named(path):
            descriptor = os.open(part, _NEW, privacy.mode_to_make(0o666), dir_fd=shelf)
            made = True
            _restrict(descriptor, name, shelf)
        with _named(path, of_others=False), stream_of(descriptor, binary) as stream:
            yield stream
            stream.flush()
            os.fsync(descriptor)
        with _named(path):
            os.rename(part, name, src_dir_fd=shelf, dst_dir_fd=shelf)
            made = False
            os.fsync(shelf)
    finally:
        if made:
            os.unlink(part, dir_fd=shelf)
        os.close(shelf)


def _restrict(descriptor: int, name: str, shelf: int) -> None:
    """Let only those read the new file who may read the store, and the file that it replaces."""
    status = os.fstat(descriptor)
    mode = stat.S_IMODE(status.st_mode)
    wanted = privacy.wanted_mode(mode, status.st_gid)
    if privacy.is_free():
        with suppress(FileNotFoundError):
            wanted &= os.stat(name, dir_fd=shelf, follow_symlinks=False).st_mode | 0o600
    if wanted != mode:
        os.fchmod(descriptor, wanted)


def stream_of(descriptor: int, binary: bool) -> IO[Any]:
    """An open file as a stream; text is UTF-8, its lines end as they are written."""
    if binary:
        return os.fdopen(descriptor, "wb")
    return os.fdopen(descriptor, "w", encoding="utf-8", newline="")


@contextmanager
def _named(path: str | os.PathLike[str], *, of_others: bool = True) -> Iterator[None]:
    """OSError as StoreError that names the file; without `of_others` not where it names another one."""
    try:
        yield
    except OSError as error:
        if not of_others and error.filename is not None:
            raise
        raise StoreError(f"cannot be written: {error.strerror or error}", path=os.fspath(path)) from error
