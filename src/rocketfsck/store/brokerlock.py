"""Whether a broker is running in a store: the POSIX record lock on byte 0 of `lock`.

A broker holds `FileChannel.tryLock(0, 1, false)`, on Linux an fcntl write lock, while it runs (4.2.0+); the
file's presence means nothing. F_GETLK asks who would be in the way of such a lock, without taking it and
through a read-only descriptor. Reference 5.4.

A process that closes any descriptor of a file gives up its own POSIX locks on it: do not ask in a process
that holds the store's lock itself.
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import struct
import sys
from pathlib import Path

from rocketfsck.errors import StoreError
from rocketfsck.store.circumstances import LiveState, LockState
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.reading import open_regular, os_error_text

_FLOCK = struct.Struct("@hhqqi4x")
"""`struct flock` of 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid."""

_MAX_COMMAND_SIZE = 4096
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})


def read_live_state(lock_path: Path) -> LiveState:
    """Ask the system whether another process holds the lock of a store. Never raises; opens read-only."""
    if is_remote(lock_path):
        return _remote_state(lock_path)
    if not _flock_is_known():
        return LiveState(LockState.UNKNOWN, f"the lock cannot be tested on {platform.platform()}")
    try:
        descriptor = open_regular(lock_path)
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return LiveState(LockState.ABSENT, "there is no file `lock`")
        return LiveState(LockState.UNKNOWN, f"the lock could not be tested: {error}")
    try:
        kind, pid = _query(descriptor)
    except OSError as error:
        text = "the file system has no record locks" if error.errno in _NO_LOCKS else os_error_text(error)
        return LiveState(LockState.UNKNOWN, f"the lock could not be tested: {text}")
    finally:
        os.close(descriptor)
    if kind == fcntl.F_UNLCK:
        return LiveState(LockState.FREE, "no process holds a record lock on byte 0 of `lock`")
    if pid <= 0:
        return LiveState(
            LockState.HELD, "a process that is not visible here holds a record lock on byte 0 of `lock`"
        )
    command = _command_of(pid)
    return LiveState(LockState.HELD, f"process {pid} holds a record lock on byte 0 of `lock`", pid, command)


def _remote_state(lock_path: Path) -> LiveState:
    from rocketfsck.store.places.remote import kind_of

    try:
        if kind_of(str(lock_path)) is None:
            return LiveState(LockState.ABSENT, "there is no file `lock`")
    except StoreError as error:
        return LiveState(LockState.UNKNOWN, f"the lock could not be tested: {error}")
    return LiveState(LockState.UNKNOWN, "a remote file system does not report record locks")


def _flock_is_known() -> bool:
    return sys.platform == "linux" and struct.calcsize("P") == 8


def _query(descriptor: int) -> tuple[int, int]:
    """Type and holder of the lock that conflicts with a write lock on [0, 1); F_UNLCK if none does."""
    wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, wanted))
    return kind, pid


def _command_of(pid: int) -> str | None:
    """The command line of a process, arguments parted by spaces; None where /proc does not tell."""
    try:
        with Path(f"/proc/{pid}/cmdline").open("rb", buffering=0) as stream:
            words = (stream.read(_MAX_COMMAND_SIZE) or b"").rstrip(b"\0").split(b"\0")
    except OSError:
        return None
    return os.fsdecode(b" ".join(words)) or None
