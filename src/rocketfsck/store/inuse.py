"""Whether a broker is running in a store: the POSIX record lock on byte 0 of `lock`.

A broker holds `FileChannel.tryLock(0, 1, false)`, on Linux an fcntl write lock, while it runs (4.2.0+); the
file's presence means nothing. F_GETLK asks who would be in the way of such a lock, without taking it and
through a read-only descriptor. Reference 5.4.

A process that closes any descriptor of a file gives up its own POSIX locks on it: do not ask in a process
that holds the store's lock itself.

A repair of a store that did not end: what its work area next to the store says. Only read.

<STORE>.before-<id>/journal.json      `repair.area.journal` has the grammar; here its state and mode count
<any file>.rocketfsck.part            in place: what was about to take the place of a file
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import re
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from rocketfsck.common.documents import from_document
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.store.circumstances import Evidence, LiveState, LockState, UnfinishedRepair
from rocketfsck.store.model import Store
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.reading import open_regular, os_error_text, read_document

MARK = ".before-"
JOURNAL = "journal.json"
PART = ".rocketfsck.part"
AREA_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}", re.ASCII)
State = Literal["building", "ready", "applied", "undoing", "undone", "final"]
Mode = Literal["beside", "in-place"]
_NAME_SIZE = 180
"""Bytes of the store's name that an area's name begins with."""
_OPEN_STATES = frozenset({"building", "ready", "undoing", "undone"})
_CHANGING_STATES = frozenset({"ready", "undoing"})


@dataclass(frozen=True, slots=True)
class JournalHead:
    """What the journal of a repair says first; `repair.area.journal` has the rest. `store` is where the store
    was."""

    schema_version: int
    state: State
    mode: Mode
    store: str


def notes_of(repair: UnfinishedRepair | None) -> Sequence[Evidence]:
    """What opening says of it."""
    if repair is None:
        return ()
    what = "some files of the store are changed already" if repair.is_mixed else "no file is half changed"
    return (Evidence("a repair of this store is not finished", f"{repair.directory} ({what})"),)


def without_parts(store: Store) -> Store:
    """The store without the files that an interrupted repair in place was about to put into it: they go when
    the repair is finished or taken back."""
    if store.repair is None or not store.repair.is_mixed:
        return store
    return replace(store, strays=tuple(item for item in store.strays if not item.relative.endswith(PART)))


def area_prefix(root: str) -> str:
    """What the names of a store's work areas begin with, next to it."""
    name = os.fsencode(os.path.basename(root))[:_NAME_SIZE]  # noqa: PTH119
    return os.fsdecode(name) + MARK


def unfinished_repair(root: Path) -> UnfinishedRepair | None:
    """The last repair of the store at `root` that runs or was interrupted; None without one.

    An area in another place (`--work-dir`), or one that cannot be read, is not found.
    """
    if is_remote(root):
        return None
    real = os.path.realpath(root)
    above, prefix = os.path.dirname(real), area_prefix(real)  # noqa: PTH120
    try:
        areas = _areas(above, os.stat(above).st_mtime_ns)  # noqa: PTH116
    except OSError:
        return None
    mine = [name for name in areas if name.startswith(prefix) and AREA_ID.fullmatch(name[len(prefix) :])]
    for name in sorted(mine, key=lambda name: name[len(prefix) :], reverse=True):
        journal = _journal(f"{above}/{name}/{JOURNAL}")
        if journal is not None and journal.store == real and journal.state in _OPEN_STATES:
            is_changing = journal.mode == "in-place" and journal.state in _CHANGING_STATES
            return UnfinishedRepair(name, journal.state, is_changing)
    return None


@lru_cache(maxsize=8)
def _areas(above: str, mtime_ns: int) -> tuple[str, ...]:  # noqa: ARG001 - a change asks again
    """The names in a directory that may be work areas, which many stores of one directory share."""
    return tuple(name for name in os.listdir(above) if MARK in name)  # noqa: PTH208


def _journal(path: str) -> JournalHead | None:
    """The beginning of a journal; None where it is not one."""
    try:
        return from_document(JournalHead, read_document(path, "journal"), "journal", exact=False)
    except (StoreError, UsageError):
        return None


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
        how = "a process that is not visible here holds a record lock on byte 0 of `lock`"
        return LiveState(LockState.HELD, how)
    how = f"process {pid} holds a record lock on byte 0 of `lock`"
    return LiveState(LockState.HELD, how, pid, _command_of(pid))


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
