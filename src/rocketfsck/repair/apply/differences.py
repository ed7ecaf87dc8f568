"""What a repair in place must do: the store and the repaired tree, compared directory by directory.

Every file that differs is replaced as a whole. Nothing outside of the directories that the user named is ever
among the changes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence

from rocketfsck.errors import UsageError
from rocketfsck.repair.apply.publish import own
from rocketfsck.repair.area.journal import Area, Directory, StagedChange
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.rules.catalog import printable
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import Root


class Differences:
    """What must be done in place: filled by going through the store and the tree side by side."""

    def __init__(self, area: Area, bases: Sequence[Root]) -> None:
        self._area = area
        self._bases = bases
        self.changes: list[StagedChange] = []
        self.made: list[Directory] = []
        self.removed: list[Directory] = []
        self._touched: dict[tuple[int, str], Directory] = {}

    @property
    def touched(self) -> tuple[Directory, ...]:
        """Directories that are there before and after, whose entries change."""
        inner = {(directory.base, directory.path) for directory in (*self.made, *self.removed)}
        return tuple(found for key, found in sorted(self._touched.items()) if key not in inner)

    def compare(self, store: str, tree: str) -> None:
        """Find what differs between a directory of the store and its image. StoreError or OSError.

        Raises UsageError where a change would be in a directory that the user has not named.
        """
        here, there = _entries(store), _entries(tree)
        if store == self._area.store:
            here, there = here - {"lock"}, there - {"lock"}
        for name in sorted({*here, *there}):
            left, right = f"{store}/{name}", f"{tree}/{name}"
            if name not in there:
                self._gone(left)
            elif name not in here:
                self._new(left, right)
            elif _is_directory(right):
                if os.path.isdir(left):  # noqa: PTH112 - a link to one elsewhere is gone into
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

    def _where(self, path: str) -> tuple[int, str]:
        """The directory that a path is relative to, by its number, and the rest of the path."""
        holding = [number for number, base in enumerate(self._bases) if base.holds(path)]
        if not holding:
            above = os.path.dirname(path)  # noqa: PTH120
            raise UsageError(
                f"{printable(path)} is outside the store, and the repair would change "
                f"it; to allow this, add --outside {printable(above)}"
            )
        number = max(holding, key=lambda number: len(self._bases[number].path))
        return number, self._bases[number].place_of(path).name

    def _gone(self, path: str) -> None:
        self._touch(path)
        if not _is_directory(path):
            self.changes.append(StagedChange(*self._where(path), None, self._saved()))
            return
        for name in sorted(_entries(path)):
            self._gone(f"{path}/{name}")
        self.removed.append(self._directory(path))

    def _new(self, path: str, image: str) -> None:
        self._touch(path)
        if not _is_directory(image):
            self.changes.append(StagedChange(*self._where(path), self._staged(image), None))
            return
        mode = stat.S_IMODE(os.lstat(image).st_mode)
        self.made.append(Directory(*self._where(path), mode, 0, 0))
        for name in sorted(_entries(image)):
            self._new(f"{path}/{name}", f"{image}/{name}")

    def _replace(self, path: str, image: str) -> None:
        self._touch(path)
        self.changes.append(StagedChange(*self._where(path), self._staged(image), self._saved()))

    def _saved(self) -> str:
        return f"before/{len(self.changes)}"

    def _staged(self, image: str) -> str:
        """The image's name in the area; it is made our own if it is only lent from the store."""
        status = os.lstat(image)
        lent = stat.S_ISLNK(status.st_mode) and os.path.isfile(image)  # noqa: PTH113
        place = self._area.root.place_of(image)
        if lent or (stat.S_ISREG(status.st_mode) and status.st_nlink > 1):
            own(place)
        return place.name

    def _touch(self, path: str) -> None:
        above = os.path.dirname(path)  # noqa: PTH120
        if os.path.isdir(above) and self._where(above) not in self._touched:  # noqa: PTH112
            self._touched[self._where(above)] = self._directory(above)

    def _directory(self, path: str) -> Directory:
        status = os.stat(path)  # noqa: PTH116
        return Directory(*self._where(path), status.st_mode & 0o7777, status.st_atime_ns, status.st_mtime_ns)


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
