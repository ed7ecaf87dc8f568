"""Every change that is made to a file system goes through here, one system call a function.

Files and directories are named by `confined.Place`, so that nothing outside of the directories that were
opened for writing can be reached, and no symbolic link is followed. `watch` is called with the operation's
name and its path before each: tests count the operations, let them fail and kill the process at every one.
Errors are OSError as the system gives them.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rocketfsck.common.outputs import mode_to_make
from rocketfsck.store.places.entries import layers
from rocketfsck.store.reading import FileReader
from rocketfsck.writer.disk import confined
from rocketfsck.writer.disk.confined import ConfinedPlace, Root, Traits

watch: Callable[[str, str], None] | None = None

COPY_SIZE = 1 << 20
NO_LINKS = frozenset(
    {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES, errno.EINVAL}
)
"""What a file system answers that cannot make this hard link; anything else is an error."""

_FICLONE = 0x40049409
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_RENAME_EXCHANGE = 2
_NO_EXCHANGE = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})
_PATH_ONLY: int = getattr(os, "O_PATH", os.O_RDONLY)


def _before(name: str, place: ConfinedPlace) -> None:
    if watch is not None:
        watch(name, str(place))


def open_file(place: ConfinedPlace, flags: int, mode: int = 0o644) -> int:
    """A descriptor of the file at a place: the one function that opens something for writing."""
    with confined.reached(place) as (above, name):
        return os.open(name, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode_to_make(mode), dir_fd=above)


@contextmanager
def held(descriptor: int) -> Iterator[int]:
    """An open file, which is closed at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def status_of(place: ConfinedPlace) -> os.stat_result:
    """What `lstat` says; the link itself where it is one."""
    with confined.reached(place) as (above, name):
        return os.stat(name, dir_fd=above, follow_symlinks=False)


def exists(place: ConfinedPlace) -> bool:
    """Whether anything has this name, also a link whose target is missing."""
    return _mode_of(place) != 0


def is_directory(place: ConfinedPlace) -> bool:
    """Whether there is a directory, and not only a link to one."""
    return stat.S_ISDIR(_mode_of(place))


def is_file(place: ConfinedPlace) -> bool:
    """Whether there is a regular file, and not only a link to one."""
    return stat.S_ISREG(_mode_of(place))


def _mode_of(place: ConfinedPlace) -> int:
    """The mode of what has this name; 0 for nothing."""
    try:
        return status_of(place).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0


def list_names(place: ConfinedPlace) -> list[str]:
    """The names in a directory, sorted."""
    with held(open_file(place, os.O_RDONLY | os.O_DIRECTORY)) as descriptor:
        return sorted(os.listdir(descriptor))  # noqa: PTH208


def make_directory(place: ConfinedPlace, mode: int = 0o777) -> None:
    """Make one new directory."""
    _before("mkdir", place)
    with confined.reached(place) as (above, name):
        os.mkdir(name, mode_to_make(mode), dir_fd=above)


def remove_directory(place: ConfinedPlace) -> None:
    """Remove an empty directory."""
    _before("rmdir", place)
    with confined.reached(place) as (above, name):
        os.rmdir(name, dir_fd=above)


def unlink(place: ConfinedPlace) -> None:
    """Take one name of a file away."""
    _before("unlink", place)
    with confined.reached(place) as (above, name):
        os.unlink(name, dir_fd=above)


def link(source: ConfinedPlace | str, target: ConfinedPlace) -> None:
    """Give a file (or a symbolic link itself) a second name. The source may be anywhere."""
    _before("link", target)
    with confined.reached(target) as (above, name):
        if isinstance(source, str):
            os.link(source, name, dst_dir_fd=above, follow_symlinks=False)
            return
        with confined.reached(source) as (other, old):
            os.link(old, name, src_dir_fd=other, dst_dir_fd=above, follow_symlinks=False)


def symlink(text: str, target: ConfinedPlace) -> None:
    """Make a symbolic link."""
    _before("symlink", target)
    with confined.reached(target) as (above, name):
        os.symlink(text, name, dir_fd=above)


def rename(source: ConfinedPlace, target: ConfinedPlace) -> None:
    """Rename, replacing a file or an empty directory at the target."""
    _before("rename", target)
    with confined.reached(target) as (above, name), confined.reached(source) as (other, old):
        os.rename(old, name, src_dir_fd=other, dst_dir_fd=above)


def exchange(first: ConfinedPlace, second: ConfinedPlace) -> bool:
    """Let two names change places in one step; False where the system cannot do that.

    Raises OSError where it can and something else is wrong.
    """
    _before("exchange", second)
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # a C library that does not have it
        return False
    with confined.reached(first) as (one, old), confined.reached(second) as (other, new):
        arguments = (one, os.fsencode(old), other, os.fsencode(new), _RENAME_EXCHANGE)
        code = 0 if renameat2(*arguments) == 0 else ctypes.get_errno()
    if not code:
        return True
    if code in _NO_EXCHANGE:
        return False
    raise OSError(code, os.strerror(code), str(second))


def create(place: ConfinedPlace, size: int, mode: int = 0o666) -> None:
    """A new file of zeros, without blocks."""
    _before("create", place)
    with held(open_file(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)) as descriptor:
        os.ftruncate(descriptor, size)


def create_file(place: ConfinedPlace, mode: int = 0o666) -> int:
    """A descriptor, for writing, of a new file; the caller closes it."""
    _before("create", place)
    return open_file(place, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)


def write_new(place: ConfinedPlace, data: bytes, mode: int = 0o666) -> None:
    """A new file with this content; what had the name before goes."""
    if exists(place):
        unlink(place)
    create(place, 0, mode)
    write(place, 0, data)


def append(place: ConfinedPlace, data: bytes, mode: int = 0o666) -> None:
    """Write after the end of a file, durably; the file is made if it is not there yet."""
    _before("append", place)
    with held(open_file(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode)) as descriptor:
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)


def open_part(place: ConfinedPlace) -> int:
    """A descriptor, for writing, of a file that is made if it is not there yet; the caller closes it."""
    _before("write", place)
    return open_file(place, os.O_WRONLY | os.O_CREAT)


def write_part(
    place: ConfinedPlace, data: bytes | memoryview, pos: int, size: int, mtime_ns: int | None
) -> None:
    """Write at a position of a file, made with `size` zero bytes if it is not there yet; set its time."""
    with held(open_part(place)) as descriptor:
        if os.fstat(descriptor).st_size != size:
            os.ftruncate(descriptor, size)
        write_all(descriptor, data, pos)
        if mtime_ns is not None:
            os.utime(descriptor, ns=(mtime_ns, mtime_ns))


def open_directory(path: str | os.PathLike[str], *, only: frozenset[str] | None = None) -> Root:
    """The directory at a path that the user named, as a root; it is made, with those above it, if need be."""
    text = os.path.realpath(path)
    try:
        return confined.open_root(text, only=only)
    except FileNotFoundError:
        folder, name = os.path.split(text)
    with open_directory(folder) as above:
        make_directory(above / name)
        return confined.enter_root(above / name, only=only)


def make_directories(place: ConfinedPlace, mode: int = 0o777) -> None:
    """Make a directory, if it is not there, and those above it."""
    if place.name and not is_directory(place):
        make_directories(place.parent, mode)
        try:
            make_directory(place, mode)
        except FileExistsError:
            if not is_directory(place):
                raise


def write(place: ConfinedPlace, pos: int, data: bytes | bytearray | memoryview) -> None:
    """Write all of `data` at a position of an existing file, in as many calls as it takes."""
    _before("write", place)
    with held(open_file(place, os.O_WRONLY)) as descriptor:
        write_all(descriptor, data, pos)


def write_all(descriptor: int, data: bytes | bytearray | memoryview, pos: int) -> None:
    """`pwrite` until everything is written."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, pos)
        view, pos = view[written:], pos + written


def truncate(place: ConfinedPlace, size: int) -> None:
    """Set the length of a file; what is added are zeros."""
    _before("truncate", place)
    with held(open_file(place, os.O_WRONLY)) as descriptor:
        os.ftruncate(descriptor, size)


def punch(place: ConfinedPlace, start: int, end: int) -> None:
    """Zeros in `start:end`, as a hole where the file system has holes."""
    _before("write", place)
    with held(open_file(place, os.O_WRONLY)) as descriptor:
        if not _punch_hole(descriptor, start, end):
            for pos in range(start, end, COPY_SIZE):
                write_all(descriptor, bytes(min(COPY_SIZE, end - pos)), pos)


def _punch_hole(descriptor: int, start: int, end: int) -> bool:
    try:
        fallocate = ctypes.CDLL(None, use_errno=True).fallocate64
    except (OSError, AttributeError):
        return False
    arguments = (ctypes.c_int(descriptor), ctypes.c_int(_KEEP_SIZE | _PUNCH_HOLE))
    return bool(fallocate(*arguments, ctypes.c_int64(start), ctypes.c_int64(end - start)) == 0)


def set_times(place: ConfinedPlace, atime_ns: int, mtime_ns: int) -> None:
    """Set the times of a file or directory; a symbolic link is not followed."""
    _before("utime", place)
    with confined.reached(place) as (above, name):
        os.utime(name, ns=(atime_ns, mtime_ns), dir_fd=above, follow_symlinks=False)


def set_mode(place: ConfinedPlace, mode: int) -> None:
    """Set the permissions of a file or directory that is not a link, also of one that we may not open."""
    _before("chmod", place)
    with held(open_file(place, _PATH_ONLY)) as descriptor:
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(place))
        if _PATH_ONLY == os.O_RDONLY:
            os.fchmod(descriptor, mode)
        else:
            os.chmod(f"/proc/self/fd/{descriptor}", mode)  # noqa: PTH101 - fchmod needs the right to open


def set_owner(place: ConfinedPlace, user: int, group: int) -> None:
    """Give a file or directory, or a link itself, an owner and a group."""
    _before("chown", place)
    with confined.reached(place) as (above, name):
        os.chown(name, user, group, dir_fd=above, follow_symlinks=False)


def set_traits(place: ConfinedPlace, traits: Traits) -> None:
    """Give a file or directory these owners, permissions and attributes, as far as we may."""
    _before("chmod", place)
    with held(open_file(place, os.O_RDONLY | os.O_NONBLOCK)) as descriptor:
        confined.give_traits(descriptor, traits)


def copy(source: ConfinedPlace | str, target: ConfinedPlace) -> None:
    """A new file with the bytes, holes and times of another, and its traits (see `traits`).

    By reflink where the file system has them, else only what holds data is copied. Raises StoreError if the
    source cannot be read, OSError if the target cannot be written.
    """
    _before("create", target)
    with FileReader(os.fspath(source)) as reader:
        status = os.stat(source)  # noqa: PTH116
        with held(open_file(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)) as descriptor:
            if os.fspath(source) in layers or not _reflink(os.fspath(source), descriptor):
                copy_data(reader, descriptor, target)
            confined.give_traits(descriptor, confined.traits_of(os.fspath(source)))
    set_times(target, status.st_atime_ns, status.st_mtime_ns)


def copy_content(reader: FileReader, target: ConfinedPlace, mode: int = 0o666) -> None:
    """A new file with the length and the bytes of another; holes stay holes.

    Raises StoreError if the other one cannot be read, OSError if the target cannot be written.
    """
    with held(create_file(target, mode)) as descriptor:
        copy_data(reader, descriptor, target)


def copy_data(reader: FileReader, descriptor: int, target: ConfinedPlace) -> None:
    """Give an open file of zeros, `target`, the length and the bytes of another; holes stay holes.

    Raises as `copy_content`.
    """
    os.ftruncate(descriptor, reader.size)
    for pos, data in reader.data_chunks():
        _before("write", target)
        write_all(descriptor, data, pos)


def _reflink(source: str, descriptor: int) -> bool:
    with held(os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)) as origin:
        try:
            fcntl.ioctl(descriptor, _FICLONE, origin)
        except OSError:
            return False
    return True


def has_reflinks(folder: ConfinedPlace) -> bool:
    """Whether copies in a directory share blocks until one of them is written to. Raises OSError."""
    one, other = folder / ".reflink.1", folder / ".reflink.2"
    write_new(one, b"\0")
    try:
        with held(create_file(other)) as descriptor:
            try:
                return _reflink(str(one), descriptor)
            finally:
                unlink(other)
    finally:
        unlink(one)


def sync(place: ConfinedPlace) -> None:
    """Make a file's bytes, or a directory's names, durable."""
    _before("fsync", place)
    with held(open_file(place, os.O_RDONLY | os.O_NONBLOCK)) as descriptor:
        os.fsync(descriptor)


def remove_tree(place: ConfinedPlace, keep: Sequence[str] = (), last: str = "") -> None:
    """Remove a directory and all below; nothing if there is none. Links are removed, not followed.

    `keep` are names directly in it that stay, with the directory. `last` is the name in it that goes last.
    A root (its `ConfinedPlace` has no name) is emptied. Raises OSError.
    """
    if not exists(place):
        return
    if not is_directory(place):
        unlink(place)
        return
    for name in sorted(list_names(place), key=lambda name: (name == last, name)):
        if name in keep:
            continue
        inner = place / name
        if is_directory(inner):
            set_mode(inner, 0o700)  # a directory copied without the right to write
            remove_tree(inner)
        else:
            unlink(inner)
    if not keep and place.name:
        remove_directory(place)


def walk(place: ConfinedPlace) -> Iterator[tuple[ConfinedPlace, list[str], list[str]]]:
    """Every directory at or below a place with the names of directories and of others in it, innermost first.

    Links are others. Raises OSError.
    """
    folders: list[str] = []
    others: list[str] = []
    for name in list_names(place):
        (folders if is_directory(place / name) else others).append(name)
    for name in folders:
        yield from walk(place / name)
    yield place, folders, others
