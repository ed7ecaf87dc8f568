"""Making a directory appear whole or not at all.

It is built under a temporary name beside its place, made durable, and renamed. Where a directory stands at
that place already, the two change names in one step if the system can (renameat2), else in two.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextmanager
def building_directory(target: Path, *, replace: bool, sync: bool) -> Iterator[Path]:
    """Yield a new directory beside `target` that takes its place when the block ends without an error.

    With an error nothing is left of it and `target` is as it was. Raises FileExistsError if `target` exists
    and `replace` is not set; OSError as the system gives it.
    """
    if not replace and (target.exists() or target.is_symlink()):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    # The name is ours before the directory is there: a signal between the two must not leave it behind.
    building = target.parent / f".{target.name[:200]}.{secrets.token_hex(8)}.part"
    try:
        building.mkdir()
        yield building
        if sync:
            sync_tree(building)
        _publish(building, target, replace=replace)
        if sync:
            sync_path(target.parent)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _publish(building: Path, target: Path, *, replace: bool) -> None:
    if replace and target.exists():
        if exchange_names(building, target):
            aside = building.with_suffix(".old")
            target.rename(aside)
            try:
                building.rename(target)
            except BaseException:
                aside.rename(target)
                raise
            shutil.rmtree(aside)
        return
    # An empty directory made meanwhile would be replaced by a rename; it is not ours.
    if target.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    building.rename(target)


def exchange_names(first: Path | str, second: Path | str) -> int:
    """Let two names change places in one step: 0 if they did, else the system's error number.

    It is ENOSYS where there is no such call.
    """
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # a C library that does not have it
        return errno.ENOSYS
    arguments = (_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE)
    return 0 if renameat2(*arguments) == 0 else ctypes.get_errno()


def sync_tree(directory: Path) -> None:
    """Make every file and directory below durable."""
    for folder, _, names in os.walk(directory, topdown=False):
        for name in names:
            sync_path(Path(folder) / name)
        sync_path(Path(folder))


def sync_path(path: Path) -> None:
    """Make a file, or a directory's names, durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
