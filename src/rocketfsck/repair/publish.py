"""Brings a finished tree to the store's place, and back.

Beside: the two root directories change names, in one step where the system can (renameat2), else in three
renames with the area as spare place. In place: every file that differs is replaced by a rename in its own
directory. Nothing is ever written into a file of the store, so whatever else has hard links to it (the kept
store of an earlier repair) stays as it is. Every step can be done again: what was interrupted is finished, or
taken back, by going through all steps once more.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

from rocketfsck.errors import StoreError
from rocketfsck.repair import fileops
from rocketfsck.repair.area import Area, Change, Directory, identity
from rocketfsck.store.reading import FileReader

_ACTIVE_COUNT = 2
"""The last files of a queue that a broker goes on writing: the one with the end, and one made in advance."""

_PART = ".rocketfsck.part"


def settle(root: str) -> None:
    """Make all files our own that a broker may go on writing to, and make everything durable.

    Only those stay hard links that no broker writes to any more: of files whose names are numbers all but
    the last two of their directory, and RocksDB's tables. Raises OSError or StoreError.
    """
    for folder, folders, names in os.walk(root):
        folders.sort()
        numbers = sorted(name for name in names if name.isascii() and name.isdigit())
        finished = {*numbers[:-_ACTIVE_COUNT], *(name for name in names if name.endswith(".sst"))}
        for name in sorted(names):
            path = f"{folder}/{name}"
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode) and name not in finished and status.st_nlink > 1:
                own(path)


def own(path: str) -> None:
    """Let a file be a copy of its own. Raises OSError or StoreError."""
    part = path + _PART
    if os.path.lexists(part):
        fileops.unlink(part)
    fileops.copy(path, part)
    fileops.rename(part, path)


def active_size(root: str) -> int:
    """Bytes on disk of the files that `settle` will copy."""
    total = 0
    for folder, _, names in os.walk(root):
        numbers = sorted(name for name in names if name.isascii() and name.isdigit())
        finished = {*numbers[:-_ACTIVE_COUNT], *(name for name in names if name.endswith(".sst"))}
        for name in set(names) - finished:
            status = os.lstat(f"{folder}/{name}")
            total += status.st_blocks * 512 if stat.S_ISREG(status.st_mode) else 0
    return total


def sync_tree(root: str) -> None:
    """Make every file that is our own, and every directory, durable. Raises OSError."""
    for folder, _, names in os.walk(root, topdown=False):
        for name in names:
            path = f"{folder}/{name}"
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                fileops.sync(path)
        fileops.sync(folder)


def bring(area: Area, wanted: str) -> None:
    """Let the root directory with this identity stand at the store's place, the other one in the area.

    Raises StoreError if it is nowhere, OSError as the system gives it.
    """
    root, inner, spare = area.journal.store, area.at("store"), area.at("spare")
    if os.path.lexists(root) and os.path.lexists(spare):  # interrupted before its last rename
        if os.path.lexists(inner):
            raise StoreError("was made anew while a repair was interrupted; look for the other", path=spare)
        fileops.rename(spare, inner)
    places = {identity(path): path for path in (root, inner, spare) if os.path.lexists(path)}
    if wanted not in places:
        raise StoreError("is gone, or was replaced by something else", path=root)
    if places[wanted] != root:
        if not os.path.lexists(root):
            fileops.rename(places[wanted], root)
        elif not fileops.exchange(inner, root):
            fileops.rename(root, spare)
            fileops.rename(inner, root)
    if os.path.lexists(spare):
        fileops.rename(spare, inner)
    fileops.sync(os.path.dirname(root))  # noqa: PTH120
    fileops.sync(os.fspath(area.path))


def perform(area: Area) -> None:
    """In place: make every change. Raises StoreError or OSError."""
    journal = area.journal
    for change in journal.changes:
        if change.staged is None:
            _put(area, change.path, None)
    for directory in journal.removed:
        if _is_directory(directory.path):
            fileops.remove_directory(directory.path)
    for directory in journal.made:
        if not _is_directory(directory.path):
            fileops.make_directory(directory.path, directory.mode)
            fileops.take_owner(directory.path, os.stat(journal.store))  # noqa: PTH116
    for change in journal.changes:
        if change.staged is not None:
            _put(area, change.path, change.staged)
    _sync_touched(area)


def take_back(area: Area) -> None:
    """In place: undo every change. Raises StoreError or OSError."""
    journal = area.journal
    for change in reversed(journal.changes):
        if change.staged is not None:
            _put(area, change.path, change.saved)
    for directory in reversed(journal.made):
        if _is_directory(directory.path):
            fileops.remove_directory(directory.path)
    for directory in reversed(journal.removed):
        if not _is_directory(directory.path):
            fileops.make_directory(directory.path, 0o755)
    for change in reversed(journal.changes):
        if change.staged is None:
            _put(area, change.path, change.saved)
    for directory in (*journal.removed, *journal.touched):
        os.chmod(directory.path, directory.mode)  # noqa: PTH101
        fileops.set_times(directory.path, directory.atime_ns, directory.mtime_ns)
    _sync_touched(area)


def _sync_touched(area: Area) -> None:
    for directory in (*area.journal.made, *area.journal.removed, *area.journal.touched):
        if os.path.lexists(directory.path):
            fileops.sync(directory.path)


def _put(area: Area, path: str, name: str | None) -> None:
    """Let `path` be what the area has under `name`, or nothing."""
    part = path + _PART
    if os.path.lexists(part):
        fileops.unlink(part)
    if name is None:
        # After an interruption a directory may stand here already that takes the place of a file.
        if os.path.lexists(path) and not _is_directory(path):
            fileops.unlink(path)
        return
    source = area.at(name)
    if os.path.lexists(path) and os.path.samestat(os.lstat(path), os.lstat(source)):
        return  # a rename of one name of a file to another of its names does nothing
    second_name(source, part)
    fileops.rename(part, path)


def second_name(source: str, target: str) -> None:
    """A hard link, or where there can be none a durable copy. StoreError or OSError."""
    try:
        fileops.link(source, target)
    except OSError as error:
        if error.errno not in fileops.NO_LINKS:
            raise
        mode = os.lstat(source).st_mode
        if stat.S_ISLNK(mode):
            fileops.symlink(os.readlink(source), target)  # noqa: PTH115
        elif stat.S_ISREG(mode):
            fileops.copy(source, target)
            fileops.sync(target)
        else:
            raise


class Differences:
    """What must be done in place: filled by going through the store and the tree side by side."""

    def __init__(self, area: Area) -> None:
        self._area = area
        self.changes: list[Change] = []
        self.made: list[Directory] = []
        self.removed: list[Directory] = []
        self._touched: dict[str, Directory] = {}

    @property
    def touched(self) -> tuple[Directory, ...]:
        """Directories that are there before and after, whose entries change."""
        inner = {directory.path for directory in (*self.made, *self.removed)}
        return tuple(found for path, found in sorted(self._touched.items()) if path not in inner)

    def compare(self, store: str, tree: str) -> None:
        """Find what differs between a directory of the store and its image. StoreError or OSError."""
        here, there = _entries(store), _entries(tree)
        for name in sorted(
            {*here, *there} - {"lock"} if store == self._area.journal.store else {*here, *there}
        ):
            left, right = f"{store}/{name}", f"{tree}/{name}"
            if name not in there:
                self._gone(left)
            elif name not in here:
                self._new(left, right)
            elif _is_directory(right):
                if os.path.isdir(left):  # noqa: PTH112 - a symbolic link to one is gone into
                    self.compare(os.path.realpath(left), right)
                else:
                    self._gone(left)
                    self._new(left, right)
            elif _is_directory(left):
                self._gone(left)
                self._new(left, right)
            elif not _same(left, right):
                regular = stat.S_ISREG(os.lstat(right).st_mode) and os.path.isfile(left)  # noqa: PTH113
                self._replace(os.path.realpath(left) if regular else left, right)

    def _gone(self, path: str) -> None:
        self._touch(path)
        if not _is_directory(path):
            self.changes.append(Change(path, None, self._saved()))
            return
        for name in sorted(_entries(path)):
            self._gone(f"{path}/{name}")
        self.removed.append(_directory(path))

    def _new(self, path: str, image: str) -> None:
        self._touch(path)
        if not _is_directory(image):
            self.changes.append(Change(path, self._staged(image), None))
            return
        self.made.append(Directory(path, 0o755, 0, 0))
        for name in sorted(_entries(image)):
            self._new(f"{path}/{name}", f"{image}/{name}")

    def _replace(self, path: str, image: str) -> None:
        self._touch(path)
        self.changes.append(Change(path, self._staged(image), self._saved()))

    def _saved(self) -> str:
        return f"before/{len(self.changes)}"

    def _staged(self, image: str) -> str:
        """The image's name in the area; it is made our own if it is only lent from the store."""
        status = os.lstat(image)
        lent = stat.S_ISLNK(status.st_mode) and os.path.isfile(image)  # noqa: PTH113
        if lent or (stat.S_ISREG(status.st_mode) and status.st_nlink > 1):
            own(image)
        return os.path.relpath(image, self._area.path)

    def _touch(self, path: str) -> None:
        above = os.path.dirname(path)  # noqa: PTH120
        if above not in self._touched and os.path.isdir(above):  # noqa: PTH112
            self._touched[above] = _directory(above)


def save_before(area: Area, changes: Iterable[Change]) -> None:
    """Keep every file that will be replaced, durably. Raises StoreError or OSError."""
    fileops.make_directory(area.at("before"), 0o755)
    for change in changes:
        if change.saved is not None:
            second_name(change.path, area.at(change.saved))
    fileops.sync(area.at("before"))


def _directory(path: str) -> Directory:
    status = os.stat(path)  # noqa: PTH116
    return Directory(path, status.st_mode & 0o7777, status.st_atime_ns, status.st_mtime_ns)


def _entries(path: str) -> set[str]:
    return set(os.listdir(path))  # noqa: PTH208


def _is_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH112, PTH114


def _same(left: str, right: str) -> bool:
    """Whether a store's file and its image are the same: one file, or equal in bytes and time."""
    mine, other = os.lstat(left), os.lstat(right)
    if stat.S_ISLNK(other.st_mode):
        if stat.S_ISLNK(mine.st_mode) and os.readlink(left) == os.readlink(right):  # noqa: PTH115
            return True
        return os.path.isfile(right) and os.path.realpath(left) == os.path.realpath(right)  # noqa: PTH113
    if os.path.samestat(mine, other):
        return True
    if not stat.S_ISREG(other.st_mode) or not os.path.isfile(left):  # noqa: PTH113
        return False
    mine = os.stat(left)  # noqa: PTH116
    if os.path.samestat(mine, other):
        return True
    if (mine.st_size, mine.st_mtime_ns) != (other.st_size, other.st_mtime_ns):
        return False
    with FileReader(left) as one, FileReader(right) as two:
        return all(one.read(pos, size) == two.read(pos, size) for pos, size in _pieces(one.size))


def _pieces(size: int) -> Iterator[tuple[int, int]]:
    for pos in range(0, size, fileops.COPY_SIZE):
        yield pos, min(fileops.COPY_SIZE, size - pos)
