"""Every change that a repair makes to a file system goes through here, one system call a function.

`watch` is called with the operation's name and its path before each: tests count the operations, let them
fail and kill the process at every one. Errors are OSError as the system gives them.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from collections.abc import Callable

from rocketfsck.store.reading import FileReader
from rocketfsck.writer.publish import exchange_names

watch: Callable[[str, str], None] | None = None

COPY_SIZE = 1 << 20
NO_LINKS = frozenset(
    {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES, errno.EINVAL}
)
"""What a file system answers that cannot make this hard link; anything else is an error."""

_FICLONE = 0x40049409
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_NO_EXCHANGE = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})


def _before(name: str, path: str) -> None:
    if watch is not None:
        watch(name, path)


def make_directory(path: str, mode: int = 0o777) -> None:
    """Make one new directory."""
    _before("mkdir", path)
    os.mkdir(path, mode)  # noqa: PTH102 - names may be any bytes


def remove_directory(path: str) -> None:
    """Remove an empty directory."""
    _before("rmdir", path)
    os.rmdir(path)  # noqa: PTH106


def unlink(path: str) -> None:
    """Take one name of a file away."""
    _before("unlink", path)
    os.unlink(path)  # noqa: PTH108


def link(source: str, target: str) -> None:
    """Give a file (or a symbolic link itself) a second name."""
    _before("link", target)
    os.link(source, target, follow_symlinks=False)


def symlink(text: str, target: str) -> None:
    """Make a symbolic link."""
    _before("symlink", target)
    os.symlink(text, target)  # noqa: PTH211


def rename(source: str, target: str) -> None:
    """Rename, replacing a file or an empty directory at the target."""
    _before("rename", target)
    os.rename(source, target)  # noqa: PTH104


def exchange(first: str, second: str) -> bool:
    """Let two names change places in one step; False where the system cannot do that.

    Raises OSError where it can and something else is wrong.
    """
    _before("exchange", second)
    code = exchange_names(first, second)
    if not code:
        return True
    if code in _NO_EXCHANGE:
        return False
    raise OSError(code, os.strerror(code), second)


def create(path: str, size: int, mode: int = 0o666) -> None:
    """A new file of zeros, without blocks."""
    _before("create", path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)


def write(path: str, pos: int, data: bytes) -> None:
    """Write all of `data` at a position of an existing file, in as many calls as it takes."""
    _before("write", path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        write_all(descriptor, data, pos)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes, pos: int) -> None:
    """`pwrite` until everything is written."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, pos)
        view, pos = view[written:], pos + written


def truncate(path: str, size: int) -> None:
    """Set the length of a file; what is added are zeros."""
    _before("truncate", path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)


def punch(path: str, start: int, end: int) -> None:
    """Zeros in `start:end`, as a hole where the file system has holes."""
    _before("write", path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if not _punch_hole(descriptor, start, end):
            for pos in range(start, end, COPY_SIZE):
                write_all(descriptor, bytes(min(COPY_SIZE, end - pos)), pos)
    finally:
        os.close(descriptor)


def _punch_hole(descriptor: int, start: int, end: int) -> bool:
    try:
        fallocate = ctypes.CDLL(None, use_errno=True).fallocate64
    except (OSError, AttributeError):
        return False
    arguments = (ctypes.c_int(descriptor), ctypes.c_int(_KEEP_SIZE | _PUNCH_HOLE))
    return bool(fallocate(*arguments, ctypes.c_int64(start), ctypes.c_int64(end - start)) == 0)


def set_times(path: str, atime_ns: int, mtime_ns: int) -> None:
    """Set the times of a file or directory; a symbolic link is not followed."""
    _before("utime", path)
    os.utime(path, ns=(atime_ns, mtime_ns), follow_symlinks=False)


def copy(source: str, target: str) -> None:
    """A new file with the bytes, holes, permissions, owner (if we may) and times of another.

    By reflink where the file system has them, else only what holds data is copied. Raises StoreError if the
    source cannot be read, OSError if the target cannot be written.
    """
    _before("create", target)
    with FileReader(source) as reader:
        status = os.stat(source)  # noqa: PTH116
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(target, flags, 0o600)
        try:
            if not _reflink(source, descriptor):
                os.ftruncate(descriptor, reader.size)
                for start, end in reader.data_extents():
                    for pos in range(start, end, COPY_SIZE):
                        _before("write", target)
                        write_all(descriptor, reader.read(pos, min(COPY_SIZE, end - pos)), pos)
            take_owner(descriptor, status)
            os.fchmod(descriptor, status.st_mode & 0o7777)
        finally:
            os.close(descriptor)
    set_times(target, status.st_atime_ns, status.st_mtime_ns)


def _reflink(source: str, descriptor: int) -> bool:
    origin = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.ioctl(descriptor, _FICLONE, origin)
    except OSError:
        return False
    finally:
        os.close(origin)
    return True


def take_owner(place: int | str, status: os.stat_result) -> None:
    """Give a file the owner and group that `status` names, as far as we may."""
    mine = os.stat(place)  # noqa: PTH116
    if (mine.st_uid, mine.st_gid) != (status.st_uid, status.st_gid):
        try:
            os.chown(place, status.st_uid, status.st_gid)
        except PermissionError:
            return


def sync(path: str) -> None:
    """Make a file's bytes, or a directory's names, durable."""
    _before("fsync", path)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
