"""The directory beside a store in which a repair is built and what it replaced is kept, and its journal.

    <STORE>.before-<id>/journal.json      what is going on here; see `Journal`
                        store/            the new store while it is built; the old one once it is published
                        outside/<n>/      the same of commitlog directories outside of the root
                        set-aside/        what was taken out of the store
                        before/<n>        in place: each file as it was
                        plan.json, result.json, ledger.json, manifests.json

A directory belongs to a store by its name and by the path in its journal. States follow each other so:

    building -> ready -> applied -> undoing -> undone -> (gone)
                               '-> final

"building" and "undone" can be thrown away. "ready" says that all is built, checked and synced: from then on
the store is changed, and what is here says how to finish that or to take it back. "final" is no way back: it
only keeps what must not be lost.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.repair import fileops
from rocketfsck.repair.manifests import list_files
from rocketfsck.repair.plan_json import from_members, parse_document, to_members
from rocketfsck.store.reading import os_error_text, read_whole

SCHEMA_VERSION = 1
MARK = ".before-"
JOURNAL = "journal.json"
STATES = ("building", "ready", "applied", "undoing", "undone", "final")
MODES = ("beside", "in-place")
_MAX_SIZE = 1 << 28
_PART = ".part"
_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}", re.ASCII)
_NAME_SIZE = 180
"""Bytes of the store's name that an area's name begins with."""


@dataclass(frozen=True, slots=True)
class Change:
    """In place: the file `path` gets the content of `staged`, or goes (None); it was `saved`, or not there.

    `path` is absolute, the others are relative to the area.
    """

    path: str
    staged: str | None
    saved: str | None


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory that a change in place makes, removes or touches, as it was or shall be."""

    path: str
    mode: int
    atime_ns: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Journal:
    """What must be known to finish an interrupted repair or to take it back.

    `outside` are the commitlog directories outside of the root. `old` and `new` name the root directories
    before and after (device and inode), "" where nothing is published yet. The rest is for repairs in place:
    files, directories made, removed, and the times of all that are touched.
    """

    schema_version: int
    state: str
    mode: str
    store: str
    plan_digest: str
    created_ns: int
    outside: tuple[str, ...] = ()
    old: str = ""
    new: str = ""
    changes: tuple[Change, ...] = ()
    made: tuple[Directory, ...] = ()
    removed: tuple[Directory, ...] = ()
    touched: tuple[Directory, ...] = ()


@dataclass(frozen=True, slots=True)
class Area:
    """A directory of a repair and its journal as last read or written."""

    path: Path
    journal: Journal

    def at(self, name: str) -> str:
        """The path of something in the area."""
        return f"{self.path}/{name}"

    def list_store(self) -> dict[str, str]:
        """The manifest of the store as it is now."""
        return list_files(self.journal.store, {path: path for path in self.journal.outside})

    def moved(self, state: str, **changes: Any) -> Area:
        """The area with its journal in another state, durably."""
        journal = replace(self.journal, state=state, **changes)
        write_file(self.at(JOURNAL), to_members(journal))
        return replace(self, journal=journal)


def real_root(root: Path | str) -> str:
    """The store's own path, symbolic links resolved; it need not exist."""
    return os.path.realpath(root)


def identity(path: str) -> str:
    """Which directory this is; "" where there is none."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return ""
    return f"{status.st_dev}:{status.st_ino}"


def make_area(
    root: str, work_dir: Path | None, mode: str, plan_digest: str, outside: tuple[str, ...]
) -> Area:
    """A new area for a store; raises OSError."""
    now = time.time_ns()
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now // 10**9))
    above = os.path.dirname(root) if work_dir is None else os.path.realpath(work_dir)  # noqa: PTH120
    path = f"{above}/{_short_name(root)}{MARK}{stamp}-{secrets.token_hex(3)}"
    fileops.make_directory(path, 0o700)  # what is kept may be for fewer eyes than its own mode says
    area = Area(Path(path), Journal(SCHEMA_VERSION, "building", mode, root, plan_digest, now, outside))
    try:
        return area.moved("building")
    except OSError:
        remove_tree(path)
        raise


def find_areas(root: str, work_dir: Path | None) -> list[Area]:
    """The areas of a store, oldest first. What was never begun is removed on the way.

    Raises StoreError for a directory that cannot be listed, or a journal that cannot be understood.
    """
    above = os.path.dirname(root) if work_dir is None else os.path.realpath(work_dir)  # noqa: PTH120
    try:
        names = sorted(os.listdir(above))  # noqa: PTH208
    except OSError as error:
        raise StoreError(f"cannot be listed: {os_error_text(error)}", path=above) from error
    found = []
    for name in names:
        path = f"{above}/{name}"
        start, mark, rest = name.rpartition(MARK)
        if start + mark != _short_name(root) + MARK or not _ID.fullmatch(rest):
            continue
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            continue
        if os.path.lexists(f"{path}/{JOURNAL}"):
            area = Area(Path(path), _read_journal(f"{path}/{JOURNAL}"))
            if area.journal.store == root:
                found.append(area)
        elif set(os.listdir(path)) <= {JOURNAL + _PART}:  # noqa: PTH208
            remove_tree(path)
    return sorted(found, key=lambda area: area.journal.created_ns)


def _short_name(root: str) -> str:
    return os.fsdecode(os.fsencode(os.path.basename(root))[:_NAME_SIZE])  # noqa: PTH119


def _read_journal(path: str) -> Journal:
    try:
        journal = from_members(Journal, parse_document(read_whole(path, _MAX_SIZE), path))
    except UsageError as error:
        raise StoreError(f"is no journal of a repair: {error}", path=path) from error
    assert isinstance(journal, Journal)
    if journal.schema_version != SCHEMA_VERSION or journal.state not in STATES or journal.mode not in MODES:
        raise StoreError("is the journal of another version of this program", path=path)
    inner = [name for change in journal.changes for name in (change.staged, change.saved) if name is not None]
    if any(name.startswith("/") or ".." in name.split("/") for name in inner):
        raise StoreError("is a journal that leads out of its directory", path=path)
    return journal


def write_file(path: str, document: Mapping[str, Any]) -> None:
    """Let a JSON file appear or change in one step, durably; raises OSError."""
    part = path + _PART
    if os.path.lexists(part):
        fileops.unlink(part)
    fileops.create(part, 0, 0o644)
    fileops.write(part, 0, (json.dumps(document, ensure_ascii=True, indent=1) + "\n").encode("ascii"))
    fileops.sync(part)
    fileops.rename(part, path)
    fileops.sync(os.path.dirname(path))  # noqa: PTH120


def read_file(path: str) -> Any:
    """What `write_file` wrote; raises StoreError."""
    try:
        return parse_document(read_whole(path, _MAX_SIZE), path)
    except UsageError as error:
        raise StoreError(str(error)) from error


def remove_tree(path: str, keep: Sequence[str] = ()) -> None:
    """Remove a directory and all below; its journal goes last. `keep` are names directly in it that stay.

    Symbolic links are removed, not followed. Raises OSError.
    """
    if not os.path.lexists(path):
        return
    with os.scandir(path) as entries:
        listed = sorted(entries, key=lambda entry: (entry.name == JOURNAL, entry.name))
    for entry in listed:
        if entry.name in keep:
            continue
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.path, 0o700)  # noqa: PTH101 - a directory copied without the right to write
            remove_tree(entry.path)
        else:
            fileops.unlink(entry.path)
    if not keep:
        fileops.remove_directory(path)
