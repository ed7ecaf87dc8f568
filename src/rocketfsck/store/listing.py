"""Lists directories of a store: entries with their kinds and sizes, sorted by name. Facts, no judgement.

Symbolic links are followed, as the broker's JVM does; nothing here descends, so that links in a circle cannot
lead astray. A directory that cannot be read is one entry of kind UNREADABLE to its caller.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rocketfsck.errors import StoreError
from rocketfsck.formats.filename import filename_to_offset
from rocketfsck.formats.javatext import INT64_MAX
from rocketfsck.store.model import MappedFile, MappedFileQueue, StoreFile, Stray, StrayReason
from rocketfsck.store.places.entries import DirectoryEntry, EntryKind, list_local
from rocketfsck.store.places.locations import path_of
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.reading import os_error_text

if TYPE_CHECKING:
    from rocketfsck.store.places.remote import RemoteTree

MAX_STRAYS_PER_AREA = 10_000
"""More strays in one area are counted, not listed: a directory full of foreign files costs no memory."""

_File = TypeVar("_File", bound=StoreFile)


_STRAY_REASONS = {
    EntryKind.SPECIAL: StrayReason.SPECIAL,
    EntryKind.DANGLING: StrayReason.DANGLING,
    EntryKind.UNREADABLE: StrayReason.UNREADABLE,
    EntryKind.DIRECTORY: StrayReason.DIRECTORY,
}


def list_directory(path: str | os.PathLike[str]) -> list[DirectoryEntry]:
    """All entries, sorted by name; raises StoreError if `path` is not a directory that can be read."""
    if "://" in os.fspath(path) and is_remote(path):
        from rocketfsck.store.places.remote import list_remote

        return list_remote(os.fspath(path))
    return list_local(path)


def glob_remote(pattern: str) -> list[str]:
    """The directories whose URLs fit a pattern (`*`, `?`, `[`), by name. Raises StoreError."""
    from fnmatch import fnmatchcase

    scheme, _, rest = pattern.partition("://")
    authority, *names = rest.rstrip("/").split("/")
    found = [f"{scheme}://{authority}"]
    for name in names:
        if not set("*?[") & set(name):
            found = [f"{url}/{name}" for url in found]
            continue
        found = [
            f"{url}/{entry.name}"
            for url in found
            if path_of(url).is_dir()
            for entry in list_directory(url)
            if entry.kind is EntryKind.DIRECTORY and fnmatchcase(entry.name, name)
        ]
    return [url for url in found if path_of(url).is_dir()]


@dataclass(slots=True)
class Lister:
    """Lists the directories below one root and collects the strays that it meets on the way.

    `tree` has the listings of a root that is not on this machine.
    """

    root: str
    tree: RemoteTree | None = None
    strays: list[Stray] = field(default_factory=list)
    _stray_counts: dict[str, int] = field(default_factory=dict)

    def relative(self, path: str) -> str:
        """`path` below the root with `/`, "" for the root itself; as it is where it lies elsewhere."""
        if path == self.root:
            return ""
        prefix = self.root.rstrip(os.sep) + os.sep
        return path[len(prefix) :] if path.startswith(prefix) else path

    def entries(self, path: str | os.PathLike[str], area: str) -> list[DirectoryEntry]:
        """Entries of a directory; one that cannot be read gives none and becomes a stray."""
        try:
            return list_directory(path) if self.tree is None else self.tree.entries(os.fspath(path))
        except StoreError as error:
            name = os.fspath(path)
            detail = str(error.__cause__ and os_error_text(_cause(error)))
            self.stray(DirectoryEntry(Path(name).name, name, EntryKind.UNREADABLE, detail=detail), area)
            return []

    def stray(
        self, entry: DirectoryEntry, area: str, reason: StrayReason | None = None, detail: str = ""
    ) -> None:
        """Record an entry that is not part of the store; kind and name give the reason, if none is given."""
        count = self._stray_counts.get(area, 0) + 1
        self._stray_counts[area] = count
        if count > MAX_STRAYS_PER_AREA:
            return
        found = _STRAY_REASONS.get(entry.kind) if reason is None else reason
        self.strays.append(
            Stray(
                path_of(entry.path),
                self.relative(entry.path),
                found or file_stray_reason(entry.name),
                area,
                entry.size,
                detail or entry.detail,
            )
        )

    def finished_strays(self) -> tuple[Stray, ...]:
        """The strays by path; areas with more than are listed say how many more there are."""
        for area, count in sorted(self._stray_counts.items()):
            if count > MAX_STRAYS_PER_AREA:
                more = f"{count - MAX_STRAYS_PER_AREA:,} more in {area}, not listed"
                self.strays.append(Stray(path_of(self.root), "", StrayReason.MORE, area, 0, more))
        return tuple(sorted(self.strays, key=lambda stray: stray.relative))

    def file(self, entry: DirectoryEntry) -> StoreFile:
        return StoreFile(
            entry.path, self.relative(entry.path), entry.size, entry.mtime_ns, entry.allocated_size
        )

    def mapped_files(self, directory: str | os.PathLike[str], area: str) -> list[MappedFile]:
        """The files with mapped-file names of one directory, by name; everything else becomes a stray."""
        files = []
        prefix = self.relative(os.fspath(directory))
        prefix = prefix and prefix + "/"
        for entry in self.entries(directory, area):
            file = self.mapped_file(entry, prefix)
            if file is None:
                self.stray(entry, area)
            else:
                files.append(file)
        return files

    def mapped_file(self, entry: DirectoryEntry, prefix: str) -> MappedFile | None:
        """The entry as a file of a mapped file queue; None if it is not a file with such a name, or would end
        after the last offset that there is (2**63-1).

        `prefix` is the directory's relative path, followed by a `/`.
        """
        offset = filename_to_offset(entry.name) if entry.kind is EntryKind.FILE else None
        if offset is None or entry.size > INT64_MAX - offset:
            return None
        relative = prefix + entry.name
        return MappedFile(
            entry.path, relative, entry.size, entry.mtime_ns, entry.allocated_size, start_offset=offset
        )


def mapped_queue(locations: Iterable[str], file_size: int, files: Sequence[MappedFile]) -> MappedFileQueue:
    """A queue of the files of all directories, merged by name as MultiPathMappedFileQueue does."""
    places = tuple(locations)
    if len(places) > 1:
        files = sorted(files, key=lambda file: (file.start_offset or 0, file.relative))
    return MappedFileQueue(places, file_size, tuple(files))


def file_stray_reason(name: str) -> StrayReason:
    """Why a regular file with this name is a stray where files have names of another form."""
    if name.endswith(".tmp"):
        return StrayReason.TEMPORARY
    if name.endswith(".delete"):
        return StrayReason.DELETED
    return StrayReason.NAME


def _cause(error: StoreError) -> OSError | ValueError:
    cause = error.__cause__
    return cause if isinstance(cause, OSError | ValueError) else OSError(str(error))
