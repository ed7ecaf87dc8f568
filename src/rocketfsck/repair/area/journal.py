"""The directory next to a store in which a repair is built and what it replaced is kept, and its journal.

    <STORE>.before-<id>/journal.json      what is going on here; see `Journal`
                        store/            the new store while it is built; the old one once it is published
                        outside/<n>/      the same of commitlog directories outside of the root
                        set-aside/        what was taken out of the store
                        before/<n>        in place: each file as it was
                        plan.json, result.json, ledger.json, manifests.json
                        actions.jsonl         the log of this repair; see `repair.apply.results`

A directory belongs to a store by its name and place, and by what its journal says of the store's files: so a
store and its areas can be moved or copied together. States follow each other so:

    building -> ready -> applied -> undoing -> undone -> (gone)
                               '-> final

"building" and "undone" can be thrown away. "ready" says that all is built, checked and synced: from then on
the store is changed, and what is here says how to finish that or to take it back. "final" offers no way back:
it only keeps what must not be lost.

A journal names files of the store relative to directories that the user has named: the store is the first,
`outside` are the others. Whatever it says, nothing else can be reached by it (see `writer.disk.confined`).

Keeps brokers and other repairs away from a store while it is repaired.

A broker is kept away as it keeps another broker away: by a POSIX record lock on byte 0 of `lock` (reference
5.4). Other repairs by a lock on the directory above the store. A process that closes any descriptor of a
file loses its POSIX locks on it, so nothing may open the store's `lock` while it is held, or `renew` must be
called afterwards.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import shlex
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rocketfsck.common.documents import DocumentKind, convert, from_document, printable, to_document
from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.repair.area.manifests import Tell, list_files, share_of_same
from rocketfsck.store.inuse import AREA_ID, JOURNAL, MARK, JournalHead, Mode, State, area_prefix
from rocketfsck.store.reading import named_errors, os_error_text, read_document
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace, Root, enter_root, open_root

_BUSY = frozenset({errno.EACCES, errno.EAGAIN})
_MAX_LOCK_SIZE = 1 << 20


class StoreLock:
    """The record lock on byte 0 of a store's `lock`, or nothing where there is no such file."""

    def __init__(self, root: str) -> None:
        self.path = f"{root}/lock"
        self.descriptor = -1

    def take(self) -> None:
        """Take the lock. StoreError if a broker holds it, or the file cannot be opened for writing."""
        try:
            self.descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, IsADirectoryError):
            return  # no broker can hold what is not there, or is not a file
        except OSError as error:
            if error.errno == errno.ELOOP:
                return  # nor what leads to itself
            raise StoreError(f"cannot be opened: {os_error_text(error)}", path=self.path) from error
        if not stat.S_ISREG(os.fstat(self.descriptor).st_mode):
            self.release()
            return
        self.renew()

    def renew(self) -> None:
        """Take the lock once more, after something may have opened and closed the file."""
        if self.descriptor < 0:
            return
        try:
            fcntl.lockf(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            if error.errno in _BUSY:
                text = "a broker holds the lock of this store; stop it first"
                raise StoreError(text, path=self.path) from error
            raise StoreError(f"cannot be locked: {os_error_text(error)}", path=self.path) from error

    def content(self) -> bytes | None:
        """What is in the file, without another descriptor; None where there is none.

        Raises StoreError for a file so long that it cannot be a lock.
        """
        if self.descriptor < 0:
            return None
        if os.fstat(self.descriptor).st_size > _MAX_LOCK_SIZE:
            raise StoreError(
                f"has more than {count_of(_MAX_LOCK_SIZE, 'byte')}; move it away", path=self.path
            )
        return os.pread(self.descriptor, _MAX_LOCK_SIZE, 0)

    def release(self) -> None:
        """Give the lock back."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


@contextmanager
def only_repair(root: str) -> Iterator[None]:
    """Keep other repairs of stores in the same directory away; StoreError if there is one."""
    above = os.path.dirname(root)  # noqa: PTH120
    with named_errors(above, "cannot be opened"):
        descriptor = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lock_directory(descriptor, above, "repair")
        yield
    finally:
        os.close(descriptor)


def lock_directory(descriptor: int, path: str, what: str) -> bool:
    """Lock an open file for the work (`what`) in a directory; False on a file system without such locks.

    Raises StoreError where another such work is running.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StoreError(f"another {what} is running in this directory", path=path) from error
    except OSError:
        return False
    return True


SCHEMA_VERSION = 2
MANIFESTS = "manifests.json"
_PART = ".part"


@dataclass(frozen=True, slots=True)
class StagedChange:
    """In place: the file `path` gets the content of `staged`, or goes (None); it was `saved`, or not there.

    `path` is relative to the directory `base`: 0 is the store, others are `Journal.outside`. The other two
    are relative to the area.
    """

    base: int
    path: str
    staged: str | None
    saved: str | None


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory that a change in place makes, removes or touches, as it was or shall be.

    `base` and `path` as in `StagedChange`; the path of a base itself is "".
    """

    base: int
    path: str
    mode: int
    atime_ns: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Journal(JournalHead):
    """What must be known to finish an interrupted repair or to take it back.

    `store` is where the store was. `outside` are the directories outside of it that the user named, `logs`
    the commitlog paths among them by their number (from 1). `tells` are differences between the store of
    before and the repaired one, where they change places as a whole. The rest is for repairs in place:
    files, directories made, removed, and the times of all that are touched.
    """

    plan_digest: str
    created_ns: int
    outside: tuple[str, ...] = ()
    logs: Mapping[str, int] = field(default_factory=dict)
    tells: tuple[Tell, ...] = ()
    changes: tuple[StagedChange, ...] = ()
    made: tuple[Directory, ...] = ()
    removed: tuple[Directory, ...] = ()
    touched: tuple[Directory, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifests:
    """The files of a store by name before a repair and after it, each with what it was."""

    before: dict[str, str]
    after: dict[str, str]


@dataclass(frozen=True, slots=True)
class Area:
    """A directory of a repair and its journal as last read or written.

    `store` and `outside` are where the store and the directories outside of it are now, `root` is the area's
    handle, `shelf` that of the directory above it.
    """

    path: Path
    journal: Journal
    store: str
    outside: tuple[str, ...]
    root: Root
    shelf: Root

    def at(self, name: str) -> str:
        """The path of something in the area, for reading."""
        return f"{self.path}/{name}"

    def place(self, name: str) -> ConfinedPlace:
        """Something in the area, to be changed."""
        return self.root / name

    def open_bases(self) -> tuple[Root, ...]:
        """The directories that changes in place are relative to. Raises OSError."""
        return tuple(open_root(path) for path in (self.store, *self.outside))

    def list_store(self) -> dict[str, str]:
        """The manifest of the store as it is now."""
        logs = {name: self.outside[number - 1] for name, number in self.journal.logs.items()}
        return list_files(self.store, logs)

    def moved(self, state: State, **changes: Any) -> Area:
        """The area with its journal in another state, durably."""
        journal = replace(self.journal, state=state, **changes)
        write_file(self.place(JOURNAL), to_document(journal))
        return replace(self, journal=journal)

    def remove(self, keep: Sequence[str] = ()) -> None:
        """Remove the directory, or all in it but the names to keep; the journal goes last. Raises OSError."""
        fileops.remove_tree(self.shelf / self.path.name, keep, JOURNAL)

    def confirmed(self, named: Sequence[str]) -> Area:
        """The area with the directories outside of the store as the user has named them now.

        After a move they are taken in the order of the journal. Raises UsageError where one is not named.
        """
        then = self.journal.outside
        if set(then) <= set(named):
            return replace(self, outside=then)
        if len(then) == len(named):
            return replace(self, outside=tuple(named))
        missing = " ".join(f"--outside {shlex.quote(path)}" for path in then if path not in named)
        raise UsageError(
            "the repair changed files outside of the store, too; "
            f"name the directories where they are: {printable(missing)}"
        )


def real_root(root: Path | str) -> str:
    """The store's own path, symbolic links resolved; it need not exist. UsageError for what is not a path."""
    if "\0" in os.fspath(root):
        raise UsageError(f"{printable(os.fspath(root))} is not a path")
    return os.path.realpath(root)


def make_area(
    root: str,
    work_dir: Path | None,
    mode: Mode,
    plan_digest: str,
    outside: Sequence[str] = (),
    logs: Mapping[str, int] | None = None,
) -> Area:
    """A new area for a store; raises OSError."""
    now = time.time_ns()
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now // 10**9))
    above = _above(root, work_dir)
    name = f"{area_prefix(root)}{stamp}-{secrets.token_hex(3)}"
    shelf = open_root(above, only=frozenset({name}))
    journal = Journal(
        SCHEMA_VERSION, "building", mode, root, plan_digest, now, tuple(outside), dict(logs or {})
    )
    try:
        fileops.make_directory(shelf / name, 0o700)  # what is kept may be for fewer eyes than its mode says
        area = Area(Path(above, name), journal, root, tuple(outside), enter_root(shelf / name), shelf)
        fileops.sync(shelf.itself)  # a journal that could vanish with its directory would be none
        return area.moved("building")
    except FileExistsError:
        raise
    except BaseException:  # an error, or the user's wish to stop
        if fileops.exists(shelf / name):
            fileops.remove_tree(shelf / name)
        raise


def find_areas(root: str, work_dir: Path | None, *, tidy: bool = True) -> list[Area]:
    """The areas of a store, oldest first. What was never begun is removed on the way, if it is to be `tidy`.

    Raises StoreError for a directory that cannot be listed, or a journal that cannot be understood.
    """
    above = _above(root, work_dir)
    try:
        names = sorted(os.listdir(above))  # noqa: PTH208
    except OSError as error:
        raise StoreError(f"cannot be listed: {os_error_text(error)}", path=above) from error
    found = []
    for name in names:
        start, mark, rest = name.rpartition(MARK)
        if start + mark != area_prefix(root) or not AREA_ID.fullmatch(rest):
            continue
        shelf = open_root(above, only=frozenset({name}))
        if not fileops.is_directory(shelf / name):
            continue
        area_root = enter_root(shelf / name)
        if fileops.exists(area_root / JOURNAL):
            journal = _read_journal(f"{above}/{name}/{JOURNAL}")
            area = Area(Path(above, name), journal, root, journal.outside, area_root, shelf)
            if journal.store == root or _is_of(area):
                found.append(area)
        elif tidy and set(fileops.list_names(area_root.itself)) <= {JOURNAL + _PART}:
            fileops.remove_tree(shelf / name)
    return sorted(found, key=lambda area: area.journal.created_ns)


def _above(root: str, work_dir: Path | None) -> str:
    return os.path.dirname(root) if work_dir is None else os.path.realpath(work_dir)  # noqa: PTH120


def _is_of(area: Area) -> bool:
    """Whether an area that was made for a store elsewhere came here with that store."""
    then = area.journal.store
    if os.path.basename(then) != os.path.basename(area.store):  # noqa: PTH119
        return False
    if not os.path.lexists(area.at(MANIFESTS)):
        return False  # nothing was published: there is nothing to finish or to take back
    manifests = read_manifests(area)
    now = list_files(area.store)
    by_size = not os.path.lexists(then)  # a copy may have other times; what it was copied from is gone
    sides = (manifests.before, manifests.after)
    return any(share_of_same(side, now, by_size) >= 0.5 for side in sides)


def read_manifests(area: Area) -> Manifests:
    """What the store's files were before and after the repair. Raises StoreError."""
    path = area.at(MANIFESTS)
    try:
        manifests: Manifests = convert(Manifests, read_file(path, "manifest"))
    except ValueError as error:
        raise StoreError("is not a manifest of a repair", path=path) from error
    return manifests


def write_manifests(area: Area, manifests: Manifests) -> None:
    """Keep what the store's files were; raises OSError."""
    write_file(area.place(MANIFESTS), to_document(manifests))


def _read_journal(path: str) -> Journal:
    try:
        document = read_document(path, "journal")
        if isinstance(document, dict) and document.get("schema_version") != SCHEMA_VERSION:
            raise StoreError("is the journal of another version of this program", path=path)
        journal = from_document(Journal, document, "journal")
    except UsageError as error:
        raise StoreError(f"is not a journal of a repair: {error}", path=path) from error
    kept = [item for items in _directories(journal) for item in items]
    if not all(0 <= item.mode <= 0o7777 for item in kept):
        raise StoreError("is a journal with impossible permissions", path=path)
    numbers = {change.base for change in journal.changes}
    numbers |= {item.base for items in _directories(journal) for item in items}
    paths = (journal.store, *journal.outside, *journal.logs)
    if not all(text.startswith("/") and "\0" not in text for text in paths):
        raise StoreError("is a journal with impossible paths", path=path)
    names = [change.path for change in journal.changes]
    names += [
        name for change in journal.changes for name in (change.staged, change.saved) if name is not None
    ]
    names += [item.path for items in _directories(journal) for item in items if item.path]
    names += [tell.file for tell in journal.tells]
    if any(not 0 <= number <= len(journal.outside) for number in numbers):
        raise StoreError("is a journal that leads out of its directories", path=path)
    if any(not 0 < number <= len(journal.outside) for number in journal.logs.values()):
        raise StoreError("is a journal that leads out of its directories", path=path)
    if any(part in ("", ".", "..") or "\0" in part for name in names for part in name.split("/")):
        raise StoreError("is a journal that leads out of its directory", path=path)
    return journal


def _directories(journal: Journal) -> tuple[tuple[Directory, ...], ...]:
    return journal.made, journal.removed, journal.touched


def write_file(place: ConfinedPlace, document: Mapping[str, Any]) -> None:
    """Let a JSON file appear or change in one step, durably; raises OSError."""
    part = place.beside(_PART)
    if fileops.exists(part):
        fileops.unlink(part)
    fileops.create(part, 0, 0o644)
    fileops.write(part, 0, (json.dumps(document, ensure_ascii=True, indent=1) + "\n").encode("ascii"))
    fileops.sync(part)
    fileops.rename(part, place)
    fileops.sync(place.parent)


def read_file(path: str, kind: DocumentKind) -> Any:
    """What `write_file` wrote; raises StoreError."""
    try:
        return read_document(path, kind)
    except UsageError as error:
        raise StoreError(str(error)) from error
