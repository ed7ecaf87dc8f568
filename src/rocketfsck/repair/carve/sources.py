"""What is carved: files as they are named, and the files below directories.

In a directory that holds a commit log, what the broker derives from it (consume queues, index, config …) is
left out: no records are in there. Symbolic links inside directories are not followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.filename import filename_to_offset
from rocketfsck.store.listing import list_directory
from rocketfsck.store.places.entries import EntryKind
from rocketfsck.store.places.locations import path_of
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.reading import os_error_text

LOG_DIRECTORY = "commitlog"

DERIVED_NAMES = frozenset({
    "abort", "abort.bak", "batchconsumequeue", "checkpoint", "config", "consumequeue", "consumequeue_ext",
    "index", "lock", "timerlog", "timerwheel",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to be carved. `base_offset` is the physical offset that its name says, None if it says none."""

    path: Path
    size: int
    base_offset: int | None


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that is not carved, and why."""

    path: Path
    reason: str


def list_sources(paths: Iterable[Path]) -> tuple[list[SourceFile], list[SkippedFile]]:
    """The files to carve, in order, and those below the paths that are not.

    A file that is named twice (or by two hard links) is carved once. Raises UsageError without paths and
    StoreError for a path that is neither a regular file nor a directory or cannot be listed.
    """
    files: list[SourceFile] = []
    skipped: list[SkippedFile] = []
    seen: set[tuple[int, int]] = set()
    given = list(paths)
    if not given:
        raise UsageError("name files or directories to carve")
    for path in given:
        if is_remote(path):
            files += _remote_sources(path, skipped)
            continue
        try:
            mode = path.stat().st_mode
        except (OSError, ValueError) as error:
            raise StoreError(f"cannot be opened: {os_error_text(error)}", path=str(path)) from error
        entries = _below(path, skipped) if stat.S_ISDIR(mode) else [path]
        for entry in entries:
            status = entry.stat()
            if not stat.S_ISREG(status.st_mode):
                if entry == path:
                    raise StoreError("is neither a regular file nor a directory", path=str(path))
                skipped.append(SkippedFile(entry, "not a regular file"))
                continue
            identity = (status.st_dev, status.st_ino)
            if identity in seen:
                skipped.append(SkippedFile(entry, "the same file as another"))
                continue
            seen.add(identity)
            files.append(SourceFile(entry, status.st_size, filename_to_offset(entry.name)))
    return files, skipped


def _remote_sources(path: Path, skipped: list[SkippedFile]) -> Iterator[SourceFile]:
    """A remote file, or those below a remote directory in the order of a directory of this machine."""
    if path.is_file():
        yield SourceFile(path, path.stat().st_size, filename_to_offset(path.name))
        return
    waiting = [os.fspath(path)]
    while waiting:
        entries = list_directory(waiting.pop())
        inner = [entry for entry in entries if entry.kind is EntryKind.DIRECTORY]
        is_store = any(entry.name == LOG_DIRECTORY for entry in inner)
        for entry in [entry for entry in entries if entry.kind is not EntryKind.DIRECTORY] + inner:
            if is_store and entry.name in DERIVED_NAMES:
                skipped.append(SkippedFile(path_of(entry.path), "derived from the commit log"))
            elif entry.kind is EntryKind.FILE:
                yield SourceFile(path_of(entry.path), entry.size, filename_to_offset(entry.name))
            elif entry.kind is not EntryKind.DIRECTORY:
                skipped.append(SkippedFile(path_of(entry.path), "not a regular file"))
        waiting += [entry.path for entry in reversed(inner) if not (is_store and entry.name in DERIVED_NAMES)]


def _below(directory: Path, skipped: list[SkippedFile]) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise StoreError(f"cannot be listed: {os_error_text(error)}", path=os.fspath(error.filename))

    for folder, directories, names in os.walk(directory, onerror=fail):
        is_store = LOG_DIRECTORY in directories
        directories.sort()
        for name in sorted(names) + directories:
            path = Path(folder, name)
            if is_store and name in DERIVED_NAMES:
                skipped.append(SkippedFile(path, "derived from the commit log"))
            elif path.is_symlink():
                skipped.append(SkippedFile(path, "a symbolic link"))
            elif name in names:
                yield path
        if is_store:
            directories[:] = [name for name in directories if name not in DERIVED_NAMES]
