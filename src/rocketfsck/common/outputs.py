"""Where what is written goes: to whatever has the name that the user gave.

    a regular file, or nothing      a new file next to it takes the name when it is whole (fsync, rename)
    a link                          what it leads to, also if nothing is there yet; the link stays
    a descriptor of this process    /dev/stdout, /dev/fd/N, `>(…)`: written through, where it is
    a device, a pipe                written through

Nothing that is not a regular file is ever replaced or removed. Who may read a new file is said below.

Who may read what a command writes: only those who may read the stores that it reads.

`limit_to` gets each store, file or directory that is read. From then on new files and directories of this
process, and of those that it starts, are kept from the group or from all others where these cannot read it:
by the umask, which holds for whatever writes. `set_mode` is what a user asks for in place of that.

Where the user's cache is: one rule for compiled kernels, wrappers and intermediate files.

$ROCKETFSCK_CACHE_DIR        this one alone, where it is set
$XDG_CACHE_HOME/rocketfsck   else
~/.cache/rocketfsck          else, where there is a home directory

Where intermediate files go, and how much room is there: what they hold is somebody's data, not for all.

TMPDIR, if it is set                        whoever set it chose
`scratch` in the user's cache               else, where it can be written (`common.outputs`)
the system's directory for temporary files  where there is no other; ours in it are the user's alone
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from rocketfsck.errors import StoreError

_LEVELS = 2
"""Levels of directories of a store that are looked at: the store, and what is directly in it."""
_READ, _ENTER = 4, 1
_ACL = "system.posix_acl_access"


class _Limits:
    """What was read, and what was asked for. `before` is the umask at the beginning, None without limits."""

    # No dataclass: `--help` loads this module.
    def __init__(self) -> None:
        self.before: int | None = None
        self.mode: int | None = None
        self.seen: set[tuple[int, bool, bool]] = set()  # group, whether it and others can read


_limits = _Limits()


@contextmanager
def limited() -> Iterator[None]:
    """Forget at the end what was read within the block, and give the process its umask back."""
    global _limits
    above, _limits = _limits, _Limits()
    try:
        yield
    finally:
        if _limits.before is not None:
            os.umask(_limits.before)
        _limits = above


def limit_to(path: str | os.PathLike[str]) -> None:
    """Keep what is written from now on from those who cannot read this store, file or directory.

    What cannot be looked at, and a URL, limits nothing.
    """
    text = os.fspath(path)
    if "://" in text:
        return
    before = len(_limits.seen)
    _look_at(os.path.realpath(text))
    if len(_limits.seen) != before:
        _apply()


def set_mode(mode: int) -> None:
    """Give new files exactly these permissions, and directories the same with the right to enter."""
    _limits.mode = mode
    _apply()


def is_free() -> bool:
    """Whether no mode was asked for: then what is replaced limits, too."""
    return _limits.mode is None


def mode_to_make(mode: int) -> int:
    """The mode to make a new file or directory with: an ACL of its directory may replace the umask."""
    if _limits.mode is not None:
        return mode & _entered(_limits.mode)
    return mode & ~_hidden(os.getegid())


def wanted_mode(mode: int, group: int) -> int:
    """What of a new file's permissions may stay, if the file belongs to this group."""
    return _limits.mode if _limits.mode is not None else mode & ~_hidden(group)


def _look_at(path: str) -> None:
    above = os.path.dirname(path)  # noqa: PTH120
    while above != os.path.dirname(above):  # noqa: PTH120
        _note(above, _ENTER)
        above = os.path.dirname(above)  # noqa: PTH120
    _look_below(path, _LEVELS)


def _look_below(path: str, levels: int) -> None:
    is_directory = os.path.isdir(path)  # noqa: PTH112
    _note(path, _ENTER if is_directory else _READ)
    if not is_directory:
        return
    with suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if entry.is_symlink():
                if levels > 1 and entry.is_dir():
                    _look_at_target(entry.path)
            elif entry.is_dir():
                if levels > 1:
                    _look_below(entry.path, levels - 1)
            elif entry.is_file():
                _note(entry.path, _READ)


def _look_at_target(link: str) -> None:
    """A directory that a link in a store leads to: whoever may read it, not what is in other stores."""
    real = os.path.realpath(link)
    _note(real, _ENTER)
    with suppress(OSError), os.scandir(real) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                _note(entry.path, _READ)


def _note(path: str, right: int) -> None:
    with suppress(OSError):
        status = os.stat(path)  # noqa: PTH116
        mode = stat.S_IMODE(status.st_mode)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            return  # a pipe or a device: its mode says nothing about what comes out of it
        others = bool(mode & right)
        group = bool(mode >> 3 & right) and not _has_acl(path)  # whose mask takes the group's place
        if not (others and group):
            _limits.seen.add((status.st_gid, group, others))


def _has_acl(path: str) -> bool:
    try:
        return bool(os.getxattr(path, _ACL))
    except (OSError, AttributeError):  # none, or a system without them
        return False


def _hidden(group: int) -> int:
    """The permissions that a new file of this group must not have."""
    hidden = 0
    for owner, of_group, of_others in _limits.seen:
        if not of_others:
            hidden |= 0o007
        if not (of_group if owner == group else of_others):
            hidden |= 0o070
    return hidden


def _apply() -> None:
    before = os.umask(0o077)
    if _limits.before is None:
        _limits.before = before
    mode = _limits.mode
    if mode is None:
        os.umask(_limits.before | _hidden(os.getegid()))
    else:
        os.umask(0o777 & ~_entered(mode))


def _entered(mode: int) -> int:
    """The mode of a directory whose files have this one: who may read them may enter it."""
    return mode | (mode & 0o444) >> 2


VARIABLE = "ROCKETFSCK_CACHE_DIR"


def cache_directory() -> Path | None:
    """The directory, which need not exist; None where the user has no home directory."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "rocketfsck"
    except RuntimeError:
        return None


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
    from secrets import token_hex

    part = f".{name[:200]}.{token_hex(8)}.part"
    made = False
    try:
        with _named(path):
            descriptor = os.open(part, _NEW, mode_to_make(0o666), dir_fd=shelf)
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
    wanted = wanted_mode(mode, status.st_gid)
    if is_free():
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


def scratch_parent() -> str | None:
    """The directory in which directories for intermediate files are made; None for the system's own."""
    chosen = os.environ.get("TMPDIR")
    if chosen:
        return chosen
    cache = cache_directory()
    if cache is None:
        return None
    scratch = cache / "scratch"
    try:
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return str(scratch) if os.access(scratch, os.W_OK | os.X_OK) else None


def free_size(path: str | os.PathLike[str]) -> int:
    """Bytes that may still be written to the file system of a path. Raises OSError."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize
