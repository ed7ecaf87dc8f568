"""Records of results: that a directory is a result of ours, and what it was built from.

    DIR/.rebuilt/NAME.INODE.json    the record of DIR/NAME, whose inode stays when it is renamed

A record is on the disk before its result has its name, so no kill leaves a result without one. A record whose
directory never got its name, or is gone, means nothing and is removed by the next run. A result counts if
nothing in it has changed, and if the same command would build it again: same store, options and version.

The directory that a fleet's rebuild fills: who works in it, and what killed runs left there.

    DIR/.rebuilt/lock    locked (flock) by the driver for as long as it works in DIR
    DIR/.RUN_ID/         where workers build; gone at the end

Whoever has the lock knows that every other `.RUN_ID` is one of a killed driver. The workers of that driver
may live on for a moment, so the directory is renamed before anything else: no path below it leads anywhere
then, and nothing that the workers build gets a name.

What came of a rebuilding of many stores, as values.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from rocketfsck._version import __version__
from rocketfsck.common.documents import LIMITS, from_document, json_text, parse_text, printable, to_document
from rocketfsck.errors import Outcome, StoreError, UsageError
from rocketfsck.pipeline.rebuild.places import remove_tree
from rocketfsck.repair.area.journal import lock_directory
from rocketfsck.repair.build.files import boot_id
from rocketfsck.repair.build.run import RebuildOptions, What, inputs_of
from rocketfsck.store.model import Store, StoreFile
from rocketfsck.store.places.urls import Location
from rocketfsck.store.reading import named_errors, read_whole
from rocketfsck.verify.since.state import prove_file
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace, Root, open_root

REBUILT_KIND: Final = "rocketfsck.rebuild.stores"
RebuiltState = Literal["failed", "damaged", "rebuilt"]
ORDER: tuple[RebuiltState, ...] = ("failed", "damaged", "rebuilt")
"""Worst first. `damaged`: the log is damaged, or a broker would not start with the result."""


@dataclass(frozen=True, slots=True)
class RebuiltRow:
    """What came of one store. `into` is the result's directory, None where there is none.

    `may_start`: whether every version that may have written the store starts with the result; None where
    only parts were rebuilt. `record_count` are those of the log. `assumed` are values that neither the store
    nor the options show, by name. `error` says why nothing was built. `taken_over_from` is the run that built
    the result, where that was an earlier one: the other columns are those of a run that built it itself.
    """

    run_id: str
    broker: str
    root: str
    state: RebuiltState
    exit_code: int
    into: str | None = None
    version: str | None = None
    may_start: bool | None = None
    queue_count: int | None = None
    unit_count: int | None = None
    index_file_count: int | None = None
    entry_count: int | None = None
    record_count: int | None = None
    damaged_file_count: int | None = None
    assumed: str | None = None
    error: str | None = None
    taken_over_from: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RebuiltStores:
    """What came of a rebuilding of many stores, and its document. `rows` are in the order in which the stores
    were named.

    `exit_code` are the exit statuses of all stores, or-ed; `state_counts` has the states that some store is
    in, the worst first. `removed_runs` are killed runs whose unfinished work was removed.
    """

    schema_version: Literal[1]
    kind: Literal["rocketfsck.rebuild.stores"]
    run_id: str
    tool_version: str
    what: str
    into: str
    seconds: float
    exit_code: int
    outcome: Outcome
    store_count: int
    state_counts: Mapping[RebuiltState, int]
    removed_runs: tuple[str, ...]
    rows: tuple[RebuiltRow, ...]

    @property
    def stores(self) -> tuple[RebuiltRow, ...]:
        """The rows."""
        return self.rows


KIND: Literal["rocketfsck.rebuild.record"] = "rocketfsck.rebuild.record"
RECORDS = ".rebuilt"
"""The directory of the records, next to the results."""
SUFFIX = ".json"
_PART = "record.json"
_NAME_SIZE = 200


@dataclass(frozen=True, slots=True)
class Sources:
    """What a result was built from, as digests: of all files of the store, of options and settings.

    `store_digest` is None where the file system of a store does not say whether a file has changed.
    """

    store_digest: str | None
    options_digest: str


@dataclass(frozen=True, slots=True)
class RebuildRecord:
    """The result `name`, whose directory has this inode. `result_digest` is that of its files.

    `boot_id`: the result may not be on the disk, and counts as long as this start of the machine lasts.
    """

    kind: Literal["rocketfsck.rebuild.record"]
    schema_version: Literal[1]
    tool_version: str
    name: str
    inode: int
    boot_id: str | None
    sources: Sources
    result_digest: str
    row: RebuiltRow
    digest: str = ""


def sources_of(store: Store, what: What, options: RebuildOptions) -> Sources:
    """The digests of what a result is built from. Raises StoreError where a file cannot be read."""
    inputs = inputs_of(store, options)
    del inputs["files"], inputs["kept"], inputs["tool"]
    settings = {
        "what": what,
        "settings": dict(store.settings.values),
        "geometry": dict(store.geometry.sources),
        "versions": [str(version) for version in store.dialect_evidence.possible],
        "given": [store.dialect_evidence.given, store.delay_levels_source],
    }
    text = json.dumps([inputs, settings], sort_keys=True, default=str)
    return Sources(_store_digest(store), _digest(text))


def _store_digest(store: Store) -> str | None:
    """Of every file, as it was when the store was opened; of the commit log files also samples of bytes."""
    logs = {file.location for file in store.commitlog.files}
    found: list[object] = []
    for file in sorted({*store.all_files(), *store.commitlog.files}, key=lambda file: file.location):
        known = _known_by(file, is_log=file.location in logs)
        if known is None:
            return None
        found.append([file.relative, file.size, file.mtime_ns, known])
    strays = sorted([stray.relative, str(stray.reason), stray.size] for stray in store.strays)
    return _digest(json.dumps([found, strays, sorted(store.directories)]))


def _known_by(file: StoreFile, *, is_log: bool) -> str | None:
    """What else tells a file from one of the same name, size and time; None where nothing tells them."""
    if isinstance(file.location, Location):
        return file.location.etag or ("" if file.mtime_ns else None)
    if not is_log:
        return ""
    proof = prove_file(file, 0, file.size, is_sealed=True)
    return f"{proof.inode} {proof.sample_digest}"


def digest_of(folder: Path) -> str:
    """Of names, sizes, times and inodes of all files below a directory. Raises OSError."""
    return _digest(json.dumps(sorted(_listed(os.fspath(folder), ""))))


def _listed(folder: str, prefix: str) -> Iterator[tuple[str, int, int, int]]:
    """Directories have their names only: making one durable, or its owner known, changes their times."""
    with os.scandir(folder) as entries:
        for entry in entries:
            name = f"{prefix}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                yield f"{name}/", 0, 0, 0
                yield from _listed(entry.path, f"{name}/")
            else:
                status = entry.stat(follow_symlinks=False)
                size = status.st_size if stat.S_ISREG(status.st_mode) else -1
                yield name, size, status.st_mtime_ns, status.st_ino


def make_record(row: RebuiltRow, sources: Sources, target: Path, built: Path, *, sync: bool) -> RebuildRecord:
    """The record of what is at `built` and will be `target`. Raises StoreError."""
    with named_errors(built, "cannot be read"):
        record = RebuildRecord(
            kind=KIND,
            schema_version=1,
            tool_version=__version__,
            name=target.name,
            inode=built.lstat().st_ino,
            boot_id=None if sync else boot_id() or "",
            sources=sources,
            result_digest=digest_of(built),
            row=row,
        )
    return replace(record, digest=_own_digest(record))


def publish_recorded(record: RebuildRecord, built: Path, target: Path, *, sync: bool) -> None:
    """Keep the record, then let `built` (below a directory next to `target`) be `target`.

    The same result of another attempt of this run is as good. Raises StoreError where something else has the
    name meanwhile, or a run that came after has taken this one for dead.
    """
    name = _record_name(record.name, record.inode)
    inner = built.relative_to(target.parent).as_posix()
    only = frozenset({RECORDS, inner.partition("/")[0], target.name})
    with (
        named_errors(target, "cannot be named"),
        open_root(os.path.realpath(target.parent), only=only) as root,
    ):
        part, kept = root / f"{inner.rpartition('/')[0]}/{_PART}", root / f"{RECORDS}/{name}"
        fileops.write_new(part, json_text(to_document(record)).encode("ascii"))
        if sync:
            fileops.sync(part)
        fileops.rename(part, kept)
        if sync:
            fileops.sync(kept.parent)
        if not _named(root / inner, root / target.name):
            fileops.unlink(kept)
            other = read_record(target)
            if other is None or other.row.run_id != record.row.run_id:
                raise StoreError(
                    "was created by another program during the work; the result is lost", path=str(target)
                )
        if sync:
            fileops.sync(root.itself)


def _named(built: ConfinedPlace, target: ConfinedPlace) -> bool:
    """Give a directory its name; False if something has it. An empty directory would be replaced: it is not
    ours."""
    if fileops.exists(target):
        return False
    try:
        fileops.rename(built, target)
    except OSError:
        if fileops.exists(target):
            return False
        raise
    return True


def read_record(target: Path) -> RebuildRecord | None:
    """The record of a directory; None where no run of rocketfsck put this directory there. StoreError."""
    try:
        status = target.lstat()
        if not stat.S_ISDIR(status.st_mode):
            return None
        path = target.parent / RECORDS / _record_name(target.name, status.st_ino)
        if not path.exists():
            return None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot be read: {error.strerror}", path=str(target)) from error
    try:
        data = read_whole(path, LIMITS["rebuild record"])
        record = from_document(RebuildRecord, parse_text(data, str(path)), "record")
    except UsageError:
        return None
    same = (record.name, record.inode) == (target.name, status.st_ino)
    return record if same and record.digest == _own_digest(record) else None


def demand_same(record: RebuildRecord, target: Path, store: Store, sources: Sources) -> None:
    """Raise StoreError unless a result is whole, unchanged, and what would be built now."""
    with named_errors(target, "cannot be read"):
        result = digest_of(target)
    then, now = record.sources, sources
    reasons = (
        (record.tool_version == __version__, f"rocketfsck {printable(record.tool_version)} built it"),
        (record.row.root == str(store.root), f"the store of that run is {printable(record.row.root)}"),
        (
            None is not then.store_digest == now.store_digest,
            "the store has changed since, or its file system does not say whether it has",
        ),
        (then.options_digest == now.options_digest, "options or settings were others"),
        (record.result_digest == result, "something in it has changed since"),
        (
            record.boot_id is None or record.boot_id == boot_id(),
            "the machine has restarted since, and --no-sync leaves open what was on the disk",
        ),
    )
    wrong = next((text for holds, text in reasons if not holds), None)
    if wrong is not None:
        run = printable(record.row.run_id)
        raise StoreError(
            f"is a result of run {run}, but {wrong}: move it away to build it again", path=str(target)
        )


def clear_records(folder: Path) -> None:
    """Remove records whose results never got their names, or are gone. Raises OSError.

    Only for who holds the directory: else they may be those of results that get their names right now.
    """
    inodes = {str(path.lstat().st_ino) for path in folder.iterdir()}
    with open_root(os.path.realpath(folder), only=frozenset({RECORDS})) as root:
        for name in fileops.list_names(root / RECORDS):
            inode = name.removesuffix(SUFFIX).rpartition(".")[2]
            if name.endswith(SUFFIX) and inode.isdigit() and inode not in inodes:
                fileops.unlink(root / f"{RECORDS}/{name}")


def _record_name(name: str, inode: int) -> str:
    return f"{os.fsdecode(os.fsencode(name)[:_NAME_SIZE])}.{inode}{SUFFIX}"


def _own_digest(record: RebuildRecord) -> str:
    return _digest(json_text(to_document(replace(record, digest=""))))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()


LOCK = "lock"
_RUN = re.compile(r"\.\d{8}T\d{6}Z-\d{3}[0-9a-f]{6}")
"""The directory of a run (`fleet.run.make_run_id`)."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where workers build, and the names of the killed runs whose work was removed."""

    path: Path
    removed_runs: tuple[str, ...]


@contextmanager
def run_shelf(into: Path, run_id: str) -> Iterator[Shelf]:
    """The directory of a run's unfinished work in `into`, which is made if need be; gone at the end.

    Raises StoreError if another run works in `into`, or something cannot be made or removed.
    """
    with _locked(into) as is_locked:
        with named_errors(into, "cannot be made"):
            left = _runs_in(into)
            if left and not is_locked:
                raise StoreError(
                    "may belong to a rebuild that is running, because the file system has no locks: "
                    "remove the directory if no rebuild is running",
                    path=str(into / left[0]),
                )
            name = f".{run_id}"
            with open_root(os.path.realpath(into), only=frozenset({name, *left})) as root:
                fileops.make_directory(root / name)
                _remove_runs(root, name, left)
            clear_records(into)
        try:
            yield Shelf(into / name, tuple(run.removeprefix(".") for run in left))
        finally:
            with named_errors(into / name, "cannot be removed"):
                remove_tree(into / name)


def _runs_in(into: Path) -> list[str]:
    """The names of the directories of other runs, sorted."""
    return sorted(
        path.name
        for path in into.iterdir()
        if _RUN.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
    )


def _remove_runs(root: Root, name: str, left: list[str]) -> None:
    for run in left:
        fileops.rename(root / run, root / f"{name}/{run}")
    for run in left:
        remove_tree(Path(root / f"{name}/{run}"))


@contextmanager
def _locked(into: Path) -> Iterator[bool]:
    """Make a directory, and hold its lock; False where its file system has no locks. Raises StoreError."""
    with named_errors(into, "cannot be made"):
        fileops.open_directory(into).close()
        with open_root(os.path.realpath(into), only=frozenset({RECORDS})) as root:
            fileops.make_directories(root / RECORDS)
            descriptor = fileops.open_file(root / f"{RECORDS}/{LOCK}", os.O_RDWR | os.O_CREAT)
    try:
        yield lock_directory(descriptor, str(into), "rebuild")
    finally:
        os.close(descriptor)
