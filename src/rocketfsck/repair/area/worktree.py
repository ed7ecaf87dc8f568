"""The tree that the acts of a repair change: a copy next to the store whose untouched files are hard links.

    <area>/store/…         reads like the store; file names are relative to it
    <area>/outside/<n>/…   commitlog directories outside of the store's root, by their number
    <area>/set-aside/…     what was taken out of the tree, under its name
    <area>/scratch/…       what is being built

A file is shared with the store as long as nothing changes it. Before the first change it is made our own: a
reflink, else a sparse copy. So no change of the tree ever reaches the store. Content that changes keeps its
file's time of modification, by which a broker deletes old files; `set_mtime` sets another. What takes a
file's place gets its owner, permissions and attributes, what is new those of the files next to it.

Symbolic links of the store: one that leads out of it is followed, and what it leads to can be changed, but
the link itself is never moved. One that leads to something in the store or above it stays a link; neither it
nor what it leads to is changed or moved (`pins`).

A tree to try the acts of a repair on: files are borrowed, and changing a large one costs what is written.

    file of the store      a symbolic link to it
    changed, small         a copy
    changed, large         a sparse file with the changed bytes, above it (`store.places.entries`)

Nothing of the store is touched, not even by a hard link, and nothing of such a tree is ever published.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rocketfsck.common.documents import printable
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.repair.area.manifests import Cloner, pin_on, pins_of
from rocketfsck.store.places.entries import drop_layers, lay, layers, move_layers
from rocketfsck.store.reading import FileReader, file_kind, named_errors
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace, Traits, open_root
from rocketfsck.writer.disk.publish import model_of


class WorkTree:
    """A directory that reads like the store and takes every change that an act makes.

    Names of files are relative to the root with `/` between the parts; those of a commitlog directory
    outside of the root are full paths. A name that leads anywhere else raises UsageError. Every other
    failure is a StoreError with the file. `root` and `set_aside_root` are the directories on disk. `links`
    are the symbolic links of the store that were followed: such a tree cannot take the store's place. `pins`
    are names that cannot be changed because of a link, and why.
    """

    def __init__(self, area: Path, outside: Sequence[Path] = ()) -> None:
        self.area = area
        self.root = area / "store"
        self.set_aside_root = area / "set-aside"
        self.outside = {os.fspath(path): f"{area}/outside/{number}" for number, path in enumerate(outside)}
        self.links: list[str] = []
        self.pins: dict[str, str] = {}
        # What a directory gives to new ones in it: a store of many topics has that many neighbours to list.
        self._models: dict[str, Traits] = {}
        self._confines = open_root(area)

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
        with named_errors("", "cannot be copied"):
            tree.pins.update(pins_of(os.fspath(source), list(tree.outside)))
            fileops.make_directory(tree.at("outside"))
            near = tuple(map(os.path.realpath, (os.fspath(source), *tree.outside)))
            cloner = Cloner(tree.links, tree.pins, borrow)
            cloner.directory(os.fspath(source), tree.at("store"), "", near, frozenset(without))
            for path, place in tree.outside.items():
                cloner.directory(path, tree.on_disk(place), path, near, frozenset())
        return tree

    def at(self, name: str) -> ConfinedPlace:
        """Something in the area, by its name there."""
        return self._confines / name

    def on_disk(self, path: str | Path) -> ConfinedPlace:
        """Something in the area, by its path on disk; raises UsageError for a path elsewhere."""
        return self._confines.place_of(os.fspath(path))

    def _place(self, file: str) -> ConfinedPlace:
        """Where a name is, to be changed; raises StoreError where a link forbids that."""
        path = self.place(file)
        if why := pin_on(file, self.pins):
            raise StoreError(why, path=file)
        return self.on_disk(path)

    def _movable(self, file: str) -> ConfinedPlace:
        """Where a name is, to be moved away; a link that was followed must stay."""
        for name in self.links:
            if name == file or name.startswith(f"{file}/"):
                raise StoreError("is a symbolic link, or has one in it: links are not moved", path=file)
        return self._place(file)

    def place(self, file: str) -> str:
        """The path on disk of a name; raises UsageError for one that leads out of the tree."""
        base, parts = os.fspath(self.root), file.split("/")
        if file.startswith("/"):
            for directory, place in self.outside.items():
                if file == directory or file.startswith(directory + "/"):
                    base, parts = place, file[len(directory) + 1 :].split("/")
                    break
            else:
                raise UsageError(f"{printable(file)} is outside the directories of the store")
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
        """Whether anything has this name: a file, a directory, a link without a target."""
        return os.path.lexists(self.place(file))

    def size(self, file: str) -> int:
        """The length of a file in bytes."""
        with named_errors(file, "cannot be read"):
            status = os.stat(self.place(file))  # noqa: PTH116
        if not stat.S_ISREG(status.st_mode):
            raise StoreError(f"is {file_kind(status.st_mode)}, not a regular file", path=file)
        return status.st_size

    def names(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""
        with named_errors(directory, "cannot be listed"):
            return sorted(os.listdir(self.place(directory)))  # noqa: PTH208

    def read(self, file: str, start: int, size: int) -> bytes:
        """Exactly `size` bytes from position `start`; the caller has bounded `size`."""
        with FileReader(self.place(file)) as reader:
            return reader.read(start, size)

    def write(self, file: str, pos: int, data: bytes) -> None:
        """Put bytes at a position; a file that ends before gets longer."""
        with self._changing(file) as place:
            fileops.write(place, pos, data)

    def zero(self, file: str, start: int, end: int) -> None:
        """Zeros in `start:end`, which must lie in the file; holes where the file system has them."""
        if not 0 <= start <= end <= self.size(file):
            raise StoreError(f"has no bytes {start} to {end}", path=file)
        if start < end:
            with self._changing(file) as place:
                fileops.punch(place, start, end)

    def resize(self, file: str, size: int) -> None:
        """Cut a file, or make it longer by a hole."""
        with self._changing(file) as place:
            fileops.truncate(place, size)

    def create(self, file: str, size: int) -> None:
        """A new file of zeros; the directories above it are made."""
        place = self._place(file)
        with named_errors(file, "cannot be made"):
            self._make_parents(place)
            model = model_of(self._aside(file), place)
            fileops.create(place, size, 0o644)
            fileops.set_traits(place, model)

    def rename(self, old: str, new: str) -> None:
        """Give a file or directory another name, at which nothing may be."""
        source, target = self._movable(old), self._place(new)
        if fileops.exists(target):
            raise StoreError("exists, so no file can take its name", path=new)
        with named_errors(old, f"cannot be renamed to {printable(new)}"):
            self._make_parents(target)
            fileops.rename(source, target)

    def set_aside(self, file: str) -> str:
        """Move a file or directory out of the tree; nothing is deleted.

        Returns its name below `set_aside_root`: the one it had, followed by a number if that is taken.
        """
        source = self._movable(file)
        name = wanted = file.strip("/")
        number = 1
        while os.path.lexists(f"{self.set_aside_root}/{name}"):
            number += 1
            name = f"{wanted}.{number}"
        with named_errors(file, "cannot be set aside"):
            if str(source) in (os.fspath(self.root), *self.outside.values()):
                raise UsageError("a whole store is not set aside")
            target = self.at(f"set-aside/{name}")
            self._make_directories(target.parent)
            for path in _borrowed(str(source)):
                self._own(self.on_disk(path))
            fileops.rename(source, target)
        return name

    def adopt(self, path: Path, file: str) -> None:
        """Let a finished file or directory tree from a scratch directory be `file`.

        What was there is set aside.
        """
        target = self._place(file)
        aside = self._aside(file)
        if fileops.exists(target):
            aside = self.at(f"set-aside/{self.set_aside(file)}")
        with named_errors(file, "cannot be put in place"):
            source = self.on_disk(path)
            self._make_parents(target)
            self._give_traits(source, aside, target)
            fileops.rename(source, target)

    def _give_traits(self, source: ConfinedPlace, aside: ConfinedPlace | None, target: ConfinedPlace) -> None:
        """Let what will be at `target` have the traits of what was there, or of what is next to it."""
        fileops.set_traits(source, model_of(aside, target, fileops.is_directory(source)))
        if fileops.is_directory(source):
            for name in fileops.list_names(source):
                inner = None if aside is None or not fileops.is_directory(aside) else aside / name
                self._give_traits(source / name, inner, target / name)

    def _aside(self, file: str) -> ConfinedPlace | None:
        """What was set aside under a file's own name, if anything was."""
        place = self.at(f"set-aside/{file.strip('/')}")
        return place if fileops.exists(place) else None

    def scratch(self) -> Path:
        """A new empty directory on the tree's file system."""
        with named_errors("scratch", "cannot be made"):
            place = self.at("scratch") / secrets.token_hex(8)
            self._make_directories(place)
        return Path(place)

    def set_mtime(self, file: str, mtime_ns: int) -> None:
        """Set the time of modification, in nanoseconds since 1970."""
        place = self._place(file)
        with named_errors(file, "cannot be changed"):
            self._own(place)
            fileops.set_times(place, mtime_ns, mtime_ns)

    def is_shared(self, file: str) -> bool:
        """Whether a regular file's bytes are still those of the store, or of somebody else."""
        return _is_shared(self.place(file))

    @contextmanager
    def _changing(self, file: str) -> Iterator[ConfinedPlace]:
        """The place of a file that is our own; its times are put back afterwards."""
        place = self._place(file)
        self.size(file)  # a regular file, or a clear error
        with named_errors(file, "cannot be changed"):
            self._own(place)
            status = fileops.status_of(place)
            try:
                yield place
            finally:
                fileops.set_times(place, status.st_atime_ns, status.st_mtime_ns)

    def _own(self, place: ConfinedPlace) -> None:
        if not _is_shared(str(place)):
            return
        part = self._own_part()
        fileops.copy(place, part)
        fileops.rename(part, place)

    def _own_part(self) -> ConfinedPlace:
        """Where a file is made our own before it takes the other's place; nothing is there."""
        part = self.at("own.part")
        if fileops.exists(part):
            fileops.unlink(part)
        return part

    def _make_directories(self, place: ConfinedPlace) -> None:
        """Make a directory of the area and those above it."""
        if place.name and not fileops.exists(place):
            self._make_directories(place.parent)
            fileops.make_directory(place, 0o755)

    def _make_parents(self, place: ConfinedPlace) -> None:
        """Make the directories above a place in the tree, each like those next to it."""
        above = place.parent
        if fileops.exists(above):
            return
        self._make_parents(above)
        folder = os.fspath(above.parent)
        if folder not in self._models:
            self._models[folder] = model_of(None, above, True)
        fileops.make_directory(above, 0o755)
        fileops.set_traits(above, self._models[folder])


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


COPIED_SIZE = 1 << 20
"""Files up to this size are copied before they are changed."""


class ThinTree(WorkTree):
    """A `WorkTree` whose large files have layers; what reads its files in this process reads through them."""

    def close(self) -> None:
        """Forget the layers: from now on the changed files cannot be read."""
        drop_layers(os.fspath(self.area))

    def write(self, file: str, pos: int, data: bytes) -> None:
        super().write(file, pos, data)
        self._owned(file, pos, pos + len(data))

    def zero(self, file: str, start: int, end: int) -> None:
        super().zero(file, start, end)
        self._owned(file, start, end)

    def resize(self, file: str, size: int) -> None:
        super().resize(file, size)
        layer = layers.get(self.place(file))
        if layer is not None:
            layer.cut(size)

    def rename(self, old: str, new: str) -> None:
        source = self.place(old)
        super().rename(old, new)
        move_layers(source, self.place(new))

    def set_aside(self, file: str) -> str:
        source = self.place(file)
        name = super().set_aside(file)
        move_layers(source, f"{self.set_aside_root}/{name}")
        return name

    def _owned(self, file: str, start: int, end: int) -> None:
        layer = layers.get(self.place(file))
        if layer is not None:
            layer.own(start, end)

    def _own(self, place: ConfinedPlace) -> None:
        path = str(place)
        lower = os.path.realpath(path)
        status = os.stat(lower)  # noqa: PTH116 - names may be any bytes
        if not os.path.islink(path) or status.st_size <= COPIED_SIZE:  # noqa: PTH114
            super()._own(place)
            return
        part = self._own_part()
        fileops.create(part, status.st_size, 0o600)
        fileops.set_times(part, status.st_atime_ns, status.st_mtime_ns)
        fileops.rename(part, place)
        lay(path, lower, status.st_size)
