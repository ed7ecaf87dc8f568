"""Making a directory, and files next to it, appear whole or not at all.

The directory is built under a temporary name next to its place, made durable, and renamed. Where there is one
at that place already, the two change names in one step if the system can (renameat2), else in two.

    .NAME.<16 hex digits>.part   being built; locked (flock) by the process that builds it
    .NAME.<16 hex digits>.old    what was replaced, where names cannot be exchanged, for an instant

What a killed process left has no lock any more: the next one that builds at the same place removes it, and
puts back what was to be replaced.

Whose traits something new in a store gets: owner, group, permissions, ACLs and other attributes.

What takes a file's place gets all that this file had. What is new gets what the files next to it have,
without the attributes that are about one file's content; where there are none, what the directory above
passes on.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

from rocketfsck.common.outputs import open_through
from rocketfsck.errors import StoreError
from rocketfsck.writer.disk import confined, fileops
from rocketfsck.writer.disk.confined import ConfinedPlace, Root, Traits

_FILE_MODE = 0o644
_LOOKED_AT = 64
"""So many names of a directory are looked at for a file of the kind wanted."""


def model_of(replaced: ConfinedPlace | None, target: ConfinedPlace, directory: bool = False) -> Traits:
    """The traits of what will be at `target`, a file or a directory.

    `replaced` is where the thing is now that was there before, if anything was. Raises OSError.
    """
    if replaced is not None:
        if _is_kind(replaced, directory):
            return confined.traits_of(os.fspath(replaced))
        beside = _neighbour(replaced.parent, directory)
        if beside is not None:
            return beside
    above = target.parent
    while not fileops.is_directory(above):
        above = above.parent
    beside = _neighbour(above, directory) if above == target.parent else None
    return beside or _inherited(confined.traits_of(os.fspath(above)), directory)


def inherit_traits(built: ConfinedPlace, replaced: str, *, same_content: bool) -> None:
    """Let a directory that takes another one's place, and all in it, have the traits of what was there.

    What is new gets the traits of what would be next to it. Attributes that are about one file's content are
    kept with `same_content`. Raises OSError.
    """
    with confined.open_root(os.path.realpath(replaced)) as old:
        for folder, _, names in fileops.walk(built):
            _take_over(folder, _counterpart(folder, built, old), True, True)
            for name in names:
                _take_over(folder / name, _counterpart(folder / name, built, old), False, same_content)


def _counterpart(place: ConfinedPlace, built: ConfinedPlace, old: Root) -> ConfinedPlace:
    return old / str(place).removeprefix(str(built)).lstrip("/")


def _take_over(place: ConfinedPlace, before: ConfinedPlace, directory: bool, same_content: bool) -> None:
    wanted = model_of(before if fileops.exists(before) else None, before, directory)
    fileops.set_traits(place, wanted if same_content else wanted.for_new_file())


def _neighbour(above: ConfinedPlace, directory: bool) -> Traits | None:
    """The traits of another file, or directory, in a directory: of the last by name, which is the newest."""
    if not fileops.is_directory(above):
        return None
    for name in fileops.list_names(above)[: -_LOOKED_AT - 1 : -1]:
        if _is_kind(above / name, directory):
            return confined.traits_of(os.fspath(above / name)).for_new_file()
    return None


def _is_kind(place: ConfinedPlace, directory: bool) -> bool:
    wanted = stat.S_ISDIR if directory else stat.S_ISREG
    return fileops.exists(place) and wanted(fileops.status_of(place).st_mode)


def _inherited(above: Traits, directory: bool) -> Traits:
    """What a directory passes on to something new in it."""
    attributes = dict(above.for_new_file().attributes)
    passed_on = attributes.get(confined.DEFAULT_ACL)
    if directory:
        if passed_on is not None:
            attributes[confined.ACCESS_ACL] = passed_on
        return replace(above, attributes=attributes)
    if passed_on is None:
        return Traits(above.user, above.group, _FILE_MODE, {})
    mode = confined.mode_of_acl(passed_on) & 0o666
    return Traits(above.user, above.group, mode, {confined.ACCESS_ACL: passed_on})


_PART, _OLD = ".part", ".old"
_NAME_SIZE = 200
_TOKEN = re.compile(r"[0-9a-f]{16}")


def demand_free(target: Path) -> None:
    """Raise StoreError if something is where a new file or directory is to be."""
    if os.path.lexists(target):
        raise StoreError("exists, and rocketfsck does not overwrite it", path=str(target))


@contextmanager
def new_directory(target: Path, *, sync: bool) -> Iterator[Path]:
    """`building_directory` for a target that is not there yet. Raises StoreError for what fails."""
    demand_free(target)
    try:
        with building_directory(target, replace=False, sync=sync) as building:
            yield building
    except OSError as error:
        text = f"cannot be written: {error.strerror or error}"
        raise StoreError(text, path=str(error.filename or target)) from error


@contextmanager
def building_directory(target: Path, *, replace: bool, sync: bool) -> Iterator[Path]:
    """Yield a new directory next to `target` that takes its place when the block ends without an error.

    With an error nothing is left of it and `target` is as it was. The new directory is open for writing
    (`place_at`) as long as the block runs. Raises FileExistsError if `target` exists and `replace` is not
    set; OSError as the system gives it.
    """
    clear_leftovers(target)
    if not replace and os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    # The name is ours before the directory is there: a signal between the two must not leave it behind.
    stem = _stem(target) + secrets.token_hex(8)
    names = frozenset({stem + _PART, stem + _OLD, target.name})
    shelf = confined.open_root(_folder(target), only=names)
    building = shelf / (stem + _PART)
    try:
        fileops.make_directory(building)
        with confined.enter_root(building) as root:
            _lock(root.descriptor)
            yield Path(building)
            if sync:
                sync_tree(root)
            _publish(building, shelf / target.name, shelf / (stem + _OLD), replace=replace)
        if sync:
            fileops.sync(shelf.itself)
    finally:
        with suppress(OSError):
            fileops.remove_tree(building)
        shelf.close()


def _publish(building: ConfinedPlace, target: ConfinedPlace, aside: ConfinedPlace, *, replace: bool) -> None:
    if replace and fileops.exists(target):
        if not fileops.exchange(building, target):
            fileops.rename(target, aside)
            try:
                fileops.rename(building, target)
            except BaseException:
                fileops.rename(aside, target)
                raise
            fileops.remove_tree(aside)
        return
    # An empty directory made meanwhile would be replaced by a rename; it is not ours.
    if fileops.exists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    fileops.rename(building, target)


def clear_leftovers(target: Path) -> tuple[str, ...]:
    """Remove what a killed process left that built at this place; put back what it was to replace.

    Gives the names of what it removed. What a living process builds stays. Raises OSError.
    """
    removed = []
    for shelf, name in _leftovers(target):
        place = shelf / name
        if not fileops.is_directory(place):
            continue
        if name.endswith(_OLD) and not os.path.lexists(target):
            mine = confined.open_root(shelf.path, only=frozenset({name, target.name}))
            fileops.rename(mine / name, mine / target.name)
        else:
            fileops.remove_tree(place)
            removed.append(name)
    return tuple(removed)


class SideFile:
    """A text file that belongs to a store being built: `publish` it before the store gets its name.

    A file must not exist at its place; a device, a pipe or a descriptor is written through. Killed in
    between, `clear_side_file` takes the file back. Raises OSError.
    """

    def __init__(self, path: Path, encoding: str) -> None:
        self._path = path
        self._published = False
        self._part: ConfinedPlace | None = None
        try:
            descriptor = open_through(path)
            if descriptor is None:
                descriptor = self._begin()
            self.stream: IO[str] = os.fdopen(descriptor, "w", encoding=encoding, newline="\n")
        except BaseException:  # a signal: whoever asked for the file never gets to know of it
            self._clear()
            raise

    def _begin(self) -> int:
        """A new file under another name, open for writing."""
        part = f"{_stem(self._path)}{secrets.token_hex(8)}{_PART}"
        self._part = confined.open_root(_folder(self._path), only=frozenset({part, self._path.name})) / part
        descriptor = fileops.create_file(self._part)
        _lock(descriptor)
        return descriptor

    def complete(self, *, sync: bool) -> None:
        """Everything is written."""
        self.stream.flush()
        if sync and self._part is not None:
            os.fsync(self.stream.fileno())

    def publish(self) -> None:
        """Let the file have its name, too. The first name says until the end whose file this is."""
        if self._part is None:
            return
        shelf = self._part.root
        target = shelf / self._path.name
        try:
            fileops.link(self._part, target)
        except OSError as error:
            if error.errno not in fileops.NO_LINKS:
                raise
            if fileops.exists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error
            fileops.rename(self._part, target)
        self._published = True
        fileops.sync(shelf.itself)

    def close(self) -> None:
        """Nothing more is written."""
        with suppress(OSError):  # what could not be written is deleted anyway
            self.stream.close()

    def end(self, *, keep: bool) -> None:
        """The store has its name (`keep`), or will never have it: then nothing is left of the file."""
        self.close()
        if self._part is None:
            return
        shelf = self._part.root
        if self._published and not keep:
            fileops.unlink(shelf / self._path.name)
        self._clear()
        shelf.close()

    def _clear(self) -> None:
        if self._part is not None and fileops.exists(self._part):
            fileops.unlink(self._part)


def clear_side_file(path: Path, store: Path) -> None:
    """Take back a file that a killed process published for a store that never got its name. OSError."""
    for shelf, name in _leftovers(path):
        part = shelf / name
        if not fileops.is_file(part):
            continue
        mine = confined.open_root(shelf.path, only=frozenset({path.name}))
        final = mine / path.name
        ours = fileops.is_file(final) and os.path.samestat(fileops.status_of(part), fileops.status_of(final))
        if ours and not os.path.lexists(store):
            fileops.unlink(final)
        fileops.unlink(part)


def _stem(path: Path) -> str:
    return f".{path.name[:_NAME_SIZE]}."


def _folder(path: Path) -> str:
    return os.path.realpath(path.parent)


def _lock(descriptor: int) -> None:
    with suppress(OSError):  # a file system without such locks: then nothing ever counts as a leftover
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _leftovers(target: Path) -> list[tuple[Root, str]]:
    """The temporary names of a place that no living process holds, each with a root that has only this."""
    folder, stem = _folder(target), _stem(target)
    found = []
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(folder)):  # noqa: PTH208
            token, dot, kind = name.removeprefix(stem).partition(".")
            if name.startswith(stem) and _TOKEN.fullmatch(token) and dot + kind in (_PART, _OLD):
                shelf = confined.open_root(folder, only=frozenset({name}))
                if _is_free(shelf / name):
                    found.append((shelf, name))
    return found


def _is_free(place: ConfinedPlace) -> bool:
    if not (fileops.is_directory(place) or fileops.is_file(place)):
        return False
    with fileops.held(fileops.open_file(place, os.O_RDONLY | os.O_NONBLOCK)) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def sync_tree(root: Root) -> None:
    """Make every file and directory below durable."""
    for folder, _, names in fileops.walk(root.itself):
        for name in names:
            fileops.sync(folder / name)
        fileops.sync(folder)


def sync_path(path: Path) -> None:
    """Make a file, or a directory's names, durable. Raises OSError."""
    with fileops.held(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
        os.fsync(descriptor)
