"""Keeps brokers and other repairs away from a store while it is repaired.

A broker is kept away as it keeps another broker away: by a POSIX record lock on byte 0 of `lock` (reference
5.4). Other repairs by a lock on the directory above the store. A process that closes any descriptor of a
file loses its POSIX locks on it, so nothing may open the store's `lock` while it is held, or `renew` must be
called afterwards.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError
from rocketfsck.store.reading import named_errors, os_error_text

_BUSY = frozenset({errno.EACCES, errno.EAGAIN})
_MAX_LOCK_SIZE = 1 << 20


class StoreLock:
    """The record lock on byte 0 of a store's `lock`, or nothing where there is no such file."""

    def __init__(self, root: str) -> None:
        self.path = f"{root}/lock"
        self.descriptor = -1

    def take(self) -> None:
        """Take the lock. StoreError if a broker holds it, or the file cannot be opened for writing."""
        try:
            self.descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, IsADirectoryError):
            return  # no broker can hold what is not there, or is not a file
        except OSError as error:
            if error.errno == errno.ELOOP:
                return  # nor what leads to itself
            raise StoreError(f"cannot be opened: {os_error_text(error)}", path=self.path) from error
        if not stat.S_ISREG(os.fstat(self.descriptor).st_mode):
            self.release()
            return
        self.renew()

    def renew(self) -> None:
        """Take the lock once more, after something may have opened and closed the file."""
        if self.descriptor < 0:
            return
        try:
            fcntl.lockf(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            if error.errno in _BUSY:
                text = "a broker holds the lock of this store; stop it first"
                raise StoreError(text, path=self.path) from error
            raise StoreError(f"cannot be locked: {os_error_text(error)}", path=self.path) from error

    def content(self) -> bytes | None:
        """What is in the file, without another descriptor; None where there is none.

        Raises StoreError for a file so long that it cannot be a lock.
        """
        if self.descriptor < 0:
            return None
        if os.fstat(self.descriptor).st_size > _MAX_LOCK_SIZE:
            raise StoreError(
                f"has more than {count_of(_MAX_LOCK_SIZE, 'byte')}; move it away", path=self.path
            )
        return os.pread(self.descriptor, _MAX_LOCK_SIZE, 0)

    def release(self) -> None:
        """Give the lock back."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


@contextmanager
def only_repair(root: str) -> Iterator[None]:
    """Keep other repairs of stores in the same directory away; StoreError if there is one."""
    above = os.path.dirname(root)  # noqa: PTH120
    with named_errors(above, "cannot be opened"):
        descriptor = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lock_directory(descriptor, above, "repair")
        yield
    finally:
        os.close(descriptor)


def lock_directory(descriptor: int, path: str, what: str) -> bool:
    """Lock an open file for the work (`what`) in a directory; False on a file system without such locks.

    Raises StoreError where another such work is running.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StoreError(f"another {what} is running in this directory", path=path) from error
    except OSError:
        return False
    return True
