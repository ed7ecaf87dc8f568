"""Who may read what a command writes: only those who may read the stores that it reads.

`limit_to` gets each store, file or directory that is read. From then on new files and directories of this
process, and of those that it starts, are kept from the group or from all others where these cannot read it:
by the umask, which holds for whatever writes. `set_mode` is what a user asks for in place of that.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

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
