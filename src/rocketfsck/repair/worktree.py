"""The tree that the acts of a repair change: a copy beside the store whose untouched files are hard links.

    <area>/store/…         reads like the store; file names are relative to it
    <area>/outside/<n>/…   commitlog directories outside of the store's root, by their number
    <area>/set-aside/…     what was taken out of the tree, under its name
    <area>/scratch/…       what is being built

A file is shared with the store as long as nothing changes it. Before the first change it is made our own: a
reflink, else a sparse copy. So no change of the tree ever reaches the store. Content that changes keeps its
file's time of modification, by which a broker deletes old files; `set_mtime` sets another.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.repair import fileops
from rocketfsck.store.reading import FileReader, file_kind, os_error_text
from rocketfsck.verify.catalog import printable

_MAX_DEPTH = 64
_Identity = tuple[int, int]


class WorkTree:
    """A directory that reads like the store and takes every change that an act makes.

    Names of files are relative to the root with `/` between the parts; those of a commitlog directory
    outside of the root are full paths. A name that leads anywhere else raises UsageError. Every other
    failure is a StoreError with the file. `root` and `set_aside_root` are the directories on disk. `links`
    are the symbolic links of the store that were followed: such a tree cannot take the store's place.
    """

    def __init__(self, area: Path, outside: Sequence[Path] = ()) -> None:
        self.area = area
        self.root = area / "store"
        self.set_aside_root = area / "set-aside"
        self.outside = {os.fspath(path): f"{area}/outside/{number}" for number, path in enumerate(outside)}
        self.links: list[str] = []

    @classmethod
    def clone(
        cls,
        source: Path,
        area: Path,
        *,
        outside: Sequence[Path] = (),
        borrow: bool = False,
        without: Sequence[str] = (),
    ) -> WorkTree:
        """A tree in the existing directory `area` that has all that is in `source` and the `outside` ones.

        Where hard links cannot be made, files are copied; with `borrow` the tree has symbolic links to them
        instead. `without` names entries at the root that are left out. Raises StoreError if something cannot
        be read or written.
        """
        tree = cls(area, outside)
        with _named("", "cannot be copied"):
            fileops.make_directory(f"{area}/outside")
            cloner = _Cloner(tree, borrow)
            cloner.directory(os.fspath(source), os.fspath(tree.root), "", (), frozenset(without))
            for path, place in tree.outside.items():
                cloner.directory(path, place, path, (), frozenset())
        return tree

    def place(self, file: str) -> str:
        """The path on disk of a name; raises UsageError for one that leads out of the tree."""
        base, parts = os.fspath(self.root), file.split("/")
        if file.startswith("/"):
            for directory, place in self.outside.items():
                if file == directory or file.startswith(directory + "/"):
                    base, parts = place, file[len(directory) + 1 :].split("/")
                    break
            else:
                raise UsageError(f"{printable(file)} is in no directory of the store")
        if parts == [""]:
            return base
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise UsageError(f"{printable(file)} is not the name of a file in the store")
        path = base
        for part in parts[:-1]:
            path += "/" + part
            if os.path.islink(path):  # noqa: PTH114 - names may be any bytes
                raise UsageError(f"{printable(file)} leads through a symbolic link")
        return "/".join((base, *parts))

    def name_of(self, path: str) -> str:
        """The name in the store of a path on disk below the tree; the path itself where it is elsewhere."""
        for directory, place in (("", os.fspath(self.root)), *self.outside.items()):
            if path == place or path.startswith(place + "/"):
                return (directory + path[len(place) :]).removeprefix("" if directory else "/")
        return path

    def exists(self, file: str) -> bool:
        """Whether anything has this name: a file, a directory, a link that leads nowhere."""
        return os.path.lexists(self.place(file))

    def size(self, file: str) -> int:
        """The length of a file in bytes."""
        with _named(file, "cannot be read"):
            status = os.stat(self.place(file))  # noqa: PTH116
        if not stat.S_ISREG(status.st_mode):
            raise StoreError(f"is {file_kind(status.st_mode)}, not a regular file", path=file)
        return status.st_size

    def names(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""
        with _named(directory, "cannot be listed"):
            return sorted(os.listdir(self.place(directory)))  # noqa: PTH208

    def read(self, file: str, start: int, size: int) -> bytes:
        """Exactly `size` bytes from position `start`; the caller has bounded `size`."""
        with FileReader(self.place(file)) as reader:
            return reader.read(start, size)

    def write(self, file: str, pos: int, data: bytes) -> None:
        """Put bytes at a position; a file that ends before gets longer."""
        with self._changing(file) as path:
            fileops.write(path, pos, data)

    def zero(self, file: str, start: int, end: int) -> None:
        """Zeros in `start:end`, which must lie in the file; holes where the file system has them."""
        if not 0 <= start <= end <= self.size(file):
            raise StoreError(f"has no bytes {start} to {end}", path=file)
        if start < end:
            with self._changing(file) as path:
                fileops.punch(path, start, end)

    def resize(self, file: str, size: int) -> None:
        """Cut a file, or make it longer by a hole."""
        with self._changing(file) as path:
            fileops.truncate(path, size)

    def create(self, file: str, size: int) -> None:
        """A new file of zeros; the directories above it are made."""
        path = self.place(file)
        with _named(file, "cannot be made"):
            self._make_parents(path)
            fileops.create(path, size, 0o644)
            fileops.take_owner(path, self._owner())

    def rename(self, old: str, new: str) -> None:
        """Give a file or directory another name, at which nothing may be."""
        source, target = self.place(old), self.place(new)
        if os.path.lexists(target):
            raise StoreError("exists, so that nothing can be renamed to it", path=new)
        with _named(old, f"cannot be renamed to {printable(new)}"):
            self._make_parents(target)
            fileops.rename(source, target)

    def set_aside(self, file: str) -> str:
        """Move a file or directory out of the tree; nothing is deleted.

        Returns its name below `set_aside_root`: the one it had, with a number behind it if that is taken.
        """
        source = self.place(file)
        name = wanted = file.strip("/")
        number = 1
        while os.path.lexists(f"{self.set_aside_root}/{name}"):
            number += 1
            name = f"{wanted}.{number}"
        target = f"{self.set_aside_root}/{name}"
        with _named(file, "cannot be set aside"):
            if source in (os.fspath(self.root), *self.outside.values()):
                raise UsageError("a whole store is not set aside")
            os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
            for path in _borrowed(source):
                self._own(path)
            fileops.rename(source, target)
        return name

    def adopt(self, path: Path, file: str) -> None:
        """Let a finished file or directory tree from a scratch directory be `file`.

        What was there is set aside.
        """
        target = self.place(file)
        if os.path.lexists(target):
            self.set_aside(file)
        with _named(file, "cannot be put in place"):
            owner = self._owner()
            for folder, _, names in os.walk(path):
                for place in (folder, *(f"{folder}/{name}" for name in names)):
                    fileops.take_owner(place, owner)
            if path.is_file():
                fileops.take_owner(os.fspath(path), owner)
            self._make_parents(target)
            fileops.rename(os.fspath(path), target)

    def scratch(self) -> Path:
        """A new empty directory on the tree's file system."""
        above = self.area / "scratch"
        with _named("scratch", "cannot be made"):
            above.mkdir(exist_ok=True)
            place = Path(tempfile.mkdtemp(dir=above))
            place.chmod(0o755)
        return place

    def set_mtime(self, file: str, mtime_ns: int) -> None:
        """Set the time of modification, in nanoseconds since 1970."""
        path = self.place(file)
        with _named(file, "cannot be changed"):
            self._own(path)
            fileops.set_times(path, mtime_ns, mtime_ns)

    def remove_empty_directory(self, directory: str) -> None:
        """Remove a directory that has nothing in it."""
        with _named(directory, "cannot be removed"):
            fileops.remove_directory(self.place(directory))

    def is_shared(self, file: str) -> bool:
        """Whether a regular file's bytes are still those of the store, or of somebody else."""
        return _is_shared(self.place(file))

    def make_own(self, file: str) -> None:
        """Break the link to the store's file, if there is one."""
        with _named(file, "cannot be copied"):
            self._own(self.place(file))

    @contextmanager
    def _changing(self, file: str) -> Iterator[str]:
        """The path of a file that is our own; its times are put back afterwards."""
        path = self.place(file)
        self.size(file)  # a regular file, or a clear error
        with _named(file, "cannot be changed"):
            self._own(path)
            status = os.stat(path)  # noqa: PTH116
            try:
                yield path
            finally:
                fileops.set_times(path, status.st_atime_ns, status.st_mtime_ns)

    def _own(self, path: str) -> None:
        if not _is_shared(path):
            return
        part = f"{self.area}/own.part"
        if os.path.lexists(part):
            fileops.unlink(part)
        fileops.copy(path, part)
        fileops.rename(part, path)

    def _make_parents(self, path: str) -> None:
        missing = []
        above = os.path.dirname(path)  # noqa: PTH120
        while not os.path.isdir(above):  # noqa: PTH112
            missing.append(above)
            above = os.path.dirname(above)  # noqa: PTH120
        for directory in reversed(missing):
            fileops.make_directory(directory, 0o755)
            fileops.take_owner(directory, self._owner())

    def _owner(self) -> os.stat_result:
        return self.root.stat()


class _Cloner:
    """Makes the tree; remembers nothing but the links it followed."""

    def __init__(self, tree: WorkTree, borrow: bool) -> None:
        self._tree = tree
        self._borrow = borrow

    def directory(
        self, source: str, target: str, name: str, above: tuple[_Identity, ...], without: frozenset[str]
    ) -> None:
        status = os.stat(source)  # noqa: PTH116
        identity = (status.st_dev, status.st_ino)
        if len(above) > _MAX_DEPTH:
            raise StoreError("directories are nested too deep", path=source)
        with os.scandir(source) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        fileops.make_directory(target, 0o700)
        for entry in listed:
            if entry.name not in without:
                inner = f"{name}/{entry.name}" if name else entry.name
                self._entry(entry, f"{target}/{entry.name}", inner, (*above, identity))
        fileops.take_owner(target, status)
        os.chmod(target, status.st_mode & 0o7777)  # noqa: PTH101
        fileops.set_times(target, status.st_atime_ns, status.st_mtime_ns)

    def _entry(self, entry: os.DirEntry[str], target: str, name: str, above: tuple[_Identity, ...]) -> None:
        if entry.is_symlink() and not self._leads_on(entry, above):
            fileops.symlink(os.readlink(entry.path), target)  # noqa: PTH115
            return
        if entry.is_symlink():
            self._tree.links.append(name)
        if entry.is_dir():
            self.directory(entry.path, target, name, above, frozenset())
        else:
            self._share(os.path.realpath(entry.path), target)

    def _leads_on(self, entry: os.DirEntry[str], above: tuple[_Identity, ...]) -> bool:
        """Whether a symbolic link leads to something, and not back to where we come from."""
        try:
            status = entry.stat()
        except OSError:
            return False
        return (status.st_dev, status.st_ino) not in above

    def _share(self, source: str, target: str) -> None:
        try:
            fileops.link(source, target)
        except OSError as error:
            if error.errno not in fileops.NO_LINKS:
                raise
            if self._borrow:
                fileops.symlink(source, target)
            else:
                fileops.copy(source, target)


def _is_shared(path: str) -> bool:
    """Whether other names lead to the file's bytes, so that they must not be changed."""
    status = os.lstat(path)
    return stat.S_ISLNK(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink > 1)


def _borrowed(path: str) -> Iterator[str]:
    """The symbolic links to regular files at or below a path."""
    if os.path.islink(path):  # noqa: PTH114
        if os.path.isfile(path):  # noqa: PTH113
            yield path
        return
    for folder, _, names in os.walk(path):
        for name in names:
            inner = f"{folder}/{name}"
            if os.path.islink(inner) and os.path.isfile(inner):  # noqa: PTH113, PTH114
                yield inner


@contextmanager
def _named(file: str, what: str) -> Iterator[None]:
    """OSError as StoreError with the file's name."""
    try:
        yield
    except OSError as error:
        name = file or os.fsdecode(error.filename or "")
        raise StoreError(f"{what}: {os_error_text(error)}", path=name) from error
