"""Makes a tree that reads like a store: hard links to its files, directories of its own.

A symbolic link to a file or directory out of the store is followed; what it leads to is in the tree as
if it were in the store. Others stay links. Owners, permissions, attributes and times of directories are those
of the store's.
"""

from __future__ import annotations

import os

from rocketfsck.errors import StoreError
from rocketfsck.repair.area.following import holds_store_files, is_followed
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace
from rocketfsck.writer.disk.traits import traits_of

_MAX_DEPTH = 64


class Cloner:
    """Makes a tree. `links` takes the names of links that were followed, `pins` those that stay links.

    With `borrow` the tree has symbolic links to files where it can have no hard links.
    """

    def __init__(self, links: list[str], pins: dict[str, str], borrow: bool) -> None:
        self._links = links
        self._pins = pins
        self._borrow = borrow

    def directory(
        self,
        source: str,
        target: ConfinedPlace,
        name: str,
        near: tuple[str, ...],
        without: frozenset[str],
        depth: int = 0,
        *,
        linked: bool = False,
    ) -> None:
        """Clone a directory. `near` are real paths into which, and above which, no link is followed.

        `linked` is whether a link led here: then only what can hold files of the store is cloned.
        """
        status = os.stat(source)  # noqa: PTH116
        if depth > _MAX_DEPTH:
            raise StoreError("directories are nested too deep", path=source)
        with os.scandir(source) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        fileops.make_directory(target, 0o700)
        for entry in listed:
            if entry.name not in without:
                inner = f"{name}/{entry.name}" if name else entry.name
                self._entry(entry, target / entry.name, inner, near, depth, linked)
        fileops.set_traits(target, traits_of(source))
        fileops.set_times(target, status.st_atime_ns, status.st_mtime_ns)

    def _entry(
        self,
        entry: os.DirEntry[str],
        target: ConfinedPlace,
        name: str,
        near: tuple[str, ...],
        depth: int,
        linked: bool,
    ) -> None:
        # not what the entry says: for a link that leads to itself it raises
        is_directory = os.path.isdir(entry.path)  # noqa: PTH112 - names may be any bytes
        is_plain = is_directory or os.path.isfile(entry.path)  # noqa: PTH113
        if entry.is_symlink():
            is_special = os.path.exists(entry.path) and not is_plain  # noqa: PTH110
            if is_special or not is_followed(entry.path, name, near):
                fileops.symlink(os.readlink(entry.path), target)  # noqa: PTH115
                if is_plain:
                    self._pins.setdefault(name, "is a symbolic link: a repair leaves links alone")
                return
            self._links.append(name)
            near, linked = (*near, os.path.realpath(entry.path)), True
        if is_directory:
            if not linked or holds_store_files(entry.path, name):
                self.directory(entry.path, target, name, near, frozenset(), depth + 1, linked=linked)
        else:
            self._share(os.path.realpath(entry.path), target)

    def _share(self, source: str, target: ConfinedPlace) -> None:
        try:
            fileops.link(source, target)
        except OSError as error:
            if error.errno not in fileops.NO_LINKS:
                raise
            if self._borrow:
                fileops.symlink(source, target)
            else:
                fileops.copy(source, target)
