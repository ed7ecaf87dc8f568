"""Files in the making: full length, sparse, with the mtime of the last message in them. Reference 1.2.

A broker expires files by their mtime, so it is that of the last storeTimestamp, not of the rebuilding.
"""

from __future__ import annotations

import os
from pathlib import Path

from rocketfsck.errors import StoreError

LAST_TIME = 253_402_300_799_999
"""The end of the year 9999 in ms: later times in a file are no times."""


def write_part(path: Path, data: memoryview | bytes, pos: int, file_size: int, timestamp: int | None) -> None:
    """Write `data` at `pos` of a file, made with `file_size` zero bytes if it is not there yet.

    `timestamp` (ms) becomes the file's mtime. Raises StoreError if it cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if os.fstat(descriptor).st_size != file_size:
                os.ftruncate(descriptor, file_size)
            view = memoryview(data)
            while view:
                written = os.pwrite(descriptor, view, pos)
                view = view[written:]
                pos += written
            if timestamp is not None:
                set_time(descriptor, timestamp)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(f"cannot be written: {error.strerror or error}", path=str(path)) from error


def set_time(file: int | Path, timestamp: int) -> None:
    """Give a file the time of a message (ms) as its mtime; times that are none count as the nearest."""
    nanoseconds = min(max(timestamp, 0), LAST_TIME) * 1_000_000
    os.utime(file, ns=(nanoseconds, nanoseconds))


def make_directory(path: Path) -> None:
    """Make a directory and its parents; StoreError if that cannot be done."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot be made: {error.strerror or error}", path=str(path)) from error
