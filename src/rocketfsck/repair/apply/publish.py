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
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from rocketfsck.errors import StoreError
from rocketfsck.repair.area.journal import Area, Directory, StagedChange
from rocketfsck.repair.area.manifests import side_of
from rocketfsck.store.inuse import PART
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace, Root, open_root, traits_of


def settle(tree: ConfinedPlace, shared: Collection[str]) -> None:
    """Make all files of a tree our own but those that may stay hard links, by their names in it.

    Which these are is for `repair.apply.undoing` to say. Raises OSError or StoreError.
    """
    for place, status in _linked(tree, shared):
        if status.st_nlink > 1:
            own(place)


def _linked(tree: ConfinedPlace, shared: Collection[str]) -> Iterator[tuple[ConfinedPlace, os.stat_result]]:
    """The regular files of a tree that are not in `shared`."""
    above = f"{tree}/"
    for folder, _, names in fileops.walk(tree):
        for name in names:
            place = folder / name
            status = fileops.status_of(place)
            if stat.S_ISREG(status.st_mode) and str(place).removeprefix(above) not in shared:
                yield place, status


def own(place: ConfinedPlace) -> None:
    """Let a file be a copy of its own. Raises OSError or StoreError."""
    part = place.beside(PART)
    if fileops.exists(part):
        fileops.unlink(part)
    fileops.copy(place, part)
    fileops.rename(part, place)


def settling_size(tree: ConfinedPlace, shared: Collection[str]) -> int:
    """Bytes on disk of the files that `settle` will copy. Raises OSError."""
    return sum(status.st_blocks * 512 for _, status in _linked(tree, shared) if status.st_nlink > 1)


def sync_tree(tree: ConfinedPlace) -> None:
    """Make every file that is our own, and every directory, durable. Raises OSError."""
    for folder, _, names in fileops.walk(tree):
        for name in names:
            status = fileops.status_of(folder / name)
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                fileops.sync(folder / name)
        fileops.sync(folder)


def standing(area: Area) -> str:
    """Beside: which store is in the store's place, "old" or "new"; "" if there is none, or no other.

    Raises StoreError where what is in the area cannot be recognised.
    """
    if area.journal.state == "applied":
        return "new"
    if not os.path.lexists(area.store):
        return ""
    for name in ("spare", "store"):
        if fileops.exists(area.place(name)):
            return "old" if _side(area, area.place(name)) == "new" else "new"
    return ""


def repaired(area: Area) -> str:
    """Beside: where the repaired store is: in the store's place, or in the area.

    Raises StoreError as `standing` does.
    """
    if standing(area) == "new":
        return area.store
    for name in ("spare", "store"):  # two renames of three were made, or one
        place = area.place(name)
        if fileops.exists(place) and _side(area, place) == "new":
            return str(place)
    return area.at("store")


def _side(area: Area, place: ConfinedPlace) -> str:
    """ "old" or "new": which store a directory of the area is. Raises StoreError if it is neither."""
    if not fileops.is_directory(place):
        raise StoreError("is not a directory: something changed the repair kept here", path=str(place))
    tells = area.journal.tells
    side = side_of(str(place), tells)
    if side or any(not tell.is_time for tell in tells):
        if not side:
            raise StoreError(
                "is neither the former store nor the repaired one: something changed it", path=str(place)
            )
        return side
    return "new"  # the repair changed no names, lengths or bytes: they are alike


def bring(area: Area, wanted: str) -> None:
    """Let the "old" or the "new" store be in the store's place, and the other one in the area.

    Raises StoreError if one of them is gone, OSError as the system gives it.
    """
    folder, name = os.path.split(area.store)
    above = open_root(folder, only=frozenset({name}))
    root, inner, spare = above / name, area.place("store"), area.place("spare")
    if fileops.exists(spare) and fileops.exists(root):  # interrupted before its last rename
        if fileops.exists(inner):
            raise StoreError(
                "was created again while a repair was interrupted; look for the other store", path=str(spare)
            )
        fileops.rename(spare, inner)
    if fileops.exists(spare):
        if _side(area, spare) == wanted:
            fileops.rename(spare, root)
        else:
            fileops.rename(inner, root)
            fileops.rename(spare, inner)
    elif not fileops.exists(inner):
        raise StoreError("is missing: the other store of this repair", path=str(inner))
    elif _side(area, inner) == wanted:
        if not fileops.exists(root):
            fileops.rename(inner, root)
        elif not fileops.exchange(inner, root):
            fileops.rename(root, spare)
            fileops.rename(inner, root)
            fileops.rename(spare, inner)
    elif not fileops.is_directory(root):
        raise StoreError("is missing", path=area.store)
    fileops.sync(above.itself)
    fileops.sync(area.root.itself)


def perform(area: Area) -> None:
    """In place: make every change. Raises StoreError or OSError."""
    journal, bases = area.journal, area.open_bases()
    for change in journal.changes:
        if change.staged is None:
            _put(area, _at(bases, change), None)
    for directory in journal.removed:
        if fileops.is_directory(_at(bases, directory)):
            fileops.remove_directory(_at(bases, directory))
    for directory in journal.made:
        place = _at(bases, directory)
        if not fileops.is_directory(place):
            fileops.make_directory(place, 0o700)
            traits = traits_of(str(place.parent)).for_new_file()
            fileops.set_traits(place, replace(traits, mode=directory.mode))
    for change in journal.changes:
        if change.staged is not None:
            _put(area, _at(bases, change), change.staged)
    _sync_touched(area, bases)


def take_back(area: Area) -> None:
    """In place: undo every change. Raises StoreError or OSError."""
    journal, bases = area.journal, area.open_bases()
    for change in reversed(journal.changes):
        if change.staged is not None:
            _put(area, _at(bases, change), change.saved)
    for directory in reversed(journal.made):
        if fileops.is_directory(_at(bases, directory)):
            fileops.remove_directory(_at(bases, directory))
    for directory in reversed(journal.removed):
        if not fileops.is_directory(_at(bases, directory)):
            fileops.make_directory(_at(bases, directory), 0o755)
    for change in reversed(journal.changes):
        if change.staged is None:
            _put(area, _at(bases, change), change.saved)
    for directory in (*journal.removed, *journal.touched):
        place = _at(bases, directory)
        fileops.set_mode(place, directory.mode)
        fileops.set_times(place, directory.atime_ns, directory.mtime_ns)
    _sync_touched(area, bases)


def _at(bases: Sequence[Root], item: StagedChange | Directory) -> ConfinedPlace:
    return bases[item.base] / item.path if item.path else bases[item.base].itself


def _sync_touched(area: Area, bases: Sequence[Root]) -> None:
    for directory in (*area.journal.made, *area.journal.removed, *area.journal.touched):
        if fileops.is_directory(_at(bases, directory)):
            fileops.sync(_at(bases, directory))


def _put(area: Area, place: ConfinedPlace, name: str | None) -> None:
    """Let a place be what the area has under `name`, or nothing."""
    part = place.beside(PART)
    if fileops.exists(part):
        fileops.unlink(part)
    if name is None:
        # After an interruption a directory may be here already that takes the place of a file.
        if fileops.exists(place) and not fileops.is_directory(place):
            fileops.unlink(place)
        return
    source = area.place(name)
    if fileops.exists(place) and os.path.samestat(fileops.status_of(place), fileops.status_of(source)):
        return  # a rename of one name of a file to another of its names does nothing
    second_name(source, part)
    fileops.rename(part, place)


def second_name(source: ConfinedPlace, target: ConfinedPlace) -> None:
    """A hard link, or where there can be none a durable copy. StoreError or OSError."""
    try:
        fileops.link(source, target)
    except OSError as error:
        if error.errno not in fileops.NO_LINKS:
            raise
        mode = fileops.status_of(source).st_mode
        if stat.S_ISLNK(mode):
            fileops.symlink(os.readlink(source), target)  # noqa: PTH115
        elif stat.S_ISREG(mode):
            fileops.copy(source, target)
            fileops.sync(target)
        else:
            raise


def save_before(area: Area, bases: Sequence[Root], changes: Iterable[StagedChange]) -> None:
    """Keep every file that will be replaced, durably. Raises StoreError or OSError."""
    fileops.make_directory(area.place("before"), 0o755)
    for change in changes:
        if change.saved is not None:
            second_name(_at(bases, change), area.place(change.saved))
    fileops.sync(area.place("before"))
