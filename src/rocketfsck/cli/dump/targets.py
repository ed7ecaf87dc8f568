"""From a path to the files to dump: one file, a directory of a store, or a store.

A file is recognised by where it is and what it is called (`store.identify_file`), or --kind says it. A
directory inside a store stands for the store's files in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocketfsck.cli.dump.item import DATABASE, KINDS, DumpSource, fits, is_database
from rocketfsck.commands.shared import StoreOptions, resolved
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.tiered import is_cluster_directory
from rocketfsck.store.circumstances import read_settings
from rocketfsck.store.logpaths import without_entries
from rocketfsck.store.reading import FileReader, named_errors

if TYPE_CHECKING:
    from rocketfsck.store import Store
    from rocketfsck.store.model import MappedFile, Other, StoreFile

ALL = "all"
ROOT_NAMES = ("commitlog", "consumequeue", "batchconsumequeue", "index", "config")
PART_NAMES = (
    "consumequeue_ext",
    "consumequeue_rocksdb",
    "rocksdbstore",
    "kvStore",
    "timerlog",
    "compaction",
    "tiered_index_file",
)
"""Further directories of a store, which do not make one by themselves."""

KIND_OF_FILE = {
    "consumequeue_ext": "consumequeue-ext",
    "abort": "text",
    "lock": "text",
    "unknown": "raw",
    "broker-identity": "text",
    "compaction-log": "commitlog",
    "compaction-cq": "batchconsumequeue",
    "compaction-checkpoint": "config",
    "tiered-log": "commitlog",
    "tiered-queue": "consumequeue",
    "tiered-index-segment": "tiered-index",
}
"""Kinds of `store.FileKind` whose dump has another name."""

KIND_OF_OTHER = {
    "timerwheel": "timerwheel",
    "timerlog": "timerlog",
    "timercheck": "timercheck",
    "epoch": "epoch",
    "broker-identity": "text",
    "abort-backup": "text",
    "settings": "text",
    "dledger-data": "dledger-data",
    "dledger-index": "dledger-index",
    "compaction-log": "commitlog",
    "compaction-cq": "batchconsumequeue",
    "compaction-checkpoint": "config",
    "tiered-log": "commitlog",
    "tiered-queue": "consumequeue",
    "tiered-index": "tiered-index",
    "tiered-index-segment": "tiered-index",
}
"""Kinds of `store.OtherKind` and how they are dumped, but for databases."""


@dataclass(frozen=True, slots=True)
class Target:
    """One file to dump. `store` is there if a directory was asked for, and was opened as a store.

    `how` says how the kind of a single file is known; `slot_count` and `entry_count` are an index file's.
    With `database` the rows of that database are dumped, and `path` is its directory. `in_entries`: the
    records are the bodies of DLedger's entries.
    """

    path: Path
    name: str
    kind: str
    start_offset: int = 0
    topic: str | None = None
    queue_id: int | None = None
    store: Store | None = None
    how: str = ""
    slot_count: int | None = None
    entry_count: int | None = None
    database: Other | None = None
    in_entries: bool = False

    @property
    def opened_path(self) -> Path:
        """The file that is opened; of a database the first."""
        return self.path if self.database is None else self.database.files[0].path

    def source(self, reader: FileReader) -> DumpSource:
        """The open file."""
        return DumpSource(
            reader, self.name, self.start_offset, self.topic, self.queue_id, self.store, "scan",
            self.slot_count, self.entry_count, self.database, in_entries=self.in_entries,
        )  # fmt: skip


def _index_geometry(broker_conf: Path | None) -> tuple[int | None, int | None]:
    """Slots and entries of an index file as the broker's settings give them. Raises StoreError."""
    if broker_conf is None:
        return None, None
    from rocketfsck.store.geometry import read_geometry

    given = read_geometry(read_settings(broker_conf), {}, ())
    slots = given.slot_count if given.source("slot_count") == "given" else None
    return slots, given.entry_count if given.source("entry_count") == "given" else None


def find_targets(
    path: Path, kind: str | None, stated: StoreOptions, *, index_shaped: bool = False
) -> list[Target]:
    """The files to dump, in the order of the store; none where it has none of `kind`. `index_shaped`: the
    number of slots or entries was given, which only an index file has. Raises StoreError or UsageError.
    """
    from rocketfsck.store import open_store

    if not path.is_dir():
        if kind is not None and (kind == ALL or is_database(kind)):
            raise UsageError(f"--kind {kind} is for a store or a directory in one")
        return [file_target(path, kind, stated, index_shaped)]
    base = resolved(path)
    root = store_root(base)
    if root is None:
        return _loose_files(path, kind, stated, index_shaped)
    wanted = kind or ("commitlog" if root == base else ALL)
    store = open_store(path if root == base else root, **stated.facts)
    targets = [
        target
        for target in store_targets(store, whole_log=wanted != ALL)
        if (wanted == ALL or fits(target.kind, wanted))
        and (root == base or resolved(target.path).is_relative_to(base))
    ]
    if not targets and kind in (None, ALL):
        what = "file" if wanted == ALL else KINDS[wanted][0]
        raise StoreError(f"there is no {what} in it that can be dumped", path=str(path))
    return targets


def no_target_text(path: Path, kind: str) -> str:
    """That a directory has nothing of this kind, as a notice."""
    what = "RocksDB" if kind == DATABASE else KINDS[kind][0]
    return f"{path} has no {what}"


def store_root(directory: Path) -> Path | None:
    """`directory`, or the nearest one above it that is a store with it inside; None if there is none."""
    if directory.name not in ROOT_NAMES and any((directory / name).is_dir() for name in ROOT_NAMES):
        return directory
    for above in directory.parents:
        parts = directory.relative_to(above).parts
        if _is_store_part(parts[0]) and above.name not in ROOT_NAMES:
            return above
        if any(map(is_cluster_directory, parts[:2])) and any((above / name).is_dir() for name in ROOT_NAMES):
            return above
    return None


def _is_store_part(name: str) -> bool:
    return name in (*ROOT_NAMES, *PART_NAMES) or name.startswith("dledger-")


def _loose_files(directory: Path, kind: str | None, stated: StoreOptions, index_shaped: bool) -> list[Target]:
    with named_errors(directory, "cannot be listed"):
        files = sorted(entry for entry in directory.iterdir() if entry.is_file())
    if not files:
        raise StoreError("is neither a store nor part of one, and has no files", path=str(directory))
    asked = None if kind == ALL else kind
    return [file_target(file, asked, stated, index_shaped) for file in files]


def file_target(path: Path, kind: str | None, stated: StoreOptions, index_shaped: bool) -> Target:
    """A file on its own, recognised, or treated as the `kind` that the user says it is."""
    from rocketfsck.store import identify_file

    found = identify_file(path)
    known = kind or KIND_OF_FILE.get(found.kind, str(found.kind))
    if kind is None and known == "raw" and index_shaped:
        known = "index"
    slot_count, entry_count = _index_geometry(stated.broker_conf) if known == "index" else (None, None)
    return Target(
        path,
        str(path),
        known,
        found.start_offset or 0,
        found.topic,
        found.queue_id,
        how=f"as --kind says: {kind}" if kind else found.how,
        slot_count=found.slot_count if slot_count is None else slot_count,
        entry_count=found.entry_count if entry_count is None else entry_count,
    )


def store_targets(store: Store, *, whole_log: bool = False) -> Iterator[Target]:
    """Every file of a store that can be dumped.

    `whole_log`: the files of DLedger that continue the commit log are part of it, and their records are
    shown; they are shown as entries all the same, where the data files of DLedger are asked for.
    """

    def mapped(
        files: tuple[MappedFile, ...], kind: str, topic: str | None = None, queue_id: int | None = None
    ) -> Iterator[Target]:
        for file in files:
            place = (file.path, file.relative, kind, file.start_offset or 0, topic, queue_id, store)
            yield Target(*place, in_entries=file.in_entries)

    def single(file: StoreFile | None, kind: str) -> Iterator[Target]:
        if file is not None:
            yield Target(file.path, file.relative, kind, store=store)

    log = store if whole_log else without_entries(store)
    yield from mapped(log.commitlog.files, "commitlog")
    for queue in store.queues:
        kind = "consumequeue" if queue.kind == "file" else "batchconsumequeue"
        yield from mapped(queue.files, kind, queue.topic, queue.queue_id)
    for ext in store.ext_queues:
        yield from mapped(ext.files, "consumequeue-ext", ext.topic, ext.queue_id)
    for index in store.indexes:
        yield from single(index, "index")
    yield from single(store.checkpoint, "checkpoint")
    yield from single(store.abort, "text")
    yield from single(store.lock, "text")
    for config in store.configs:
        yield from single(config, "config")
    for other in store.others:
        other_kind = KIND_OF_OTHER.get(other.kind)
        if other_kind is None:
            yield from _database_targets(other, store)
            continue
        if other.mapped_files is not None:
            yield from mapped(other.mapped_files.files, other_kind, other.topic, other.queue_id)
        else:
            for file in other.files:
                yield from single(file, other_kind)


def _database_targets(other: Other, store: Store) -> Iterator[Target]:
    """A database: a target for each kind of rows that it has."""
    if other.kind != "rocksdb" or not other.files:
        return
    from rocketfsck.cli.dump.databases import CONTENTS
    from rocketfsck.store.rocks.families import contents_of

    for kind, contents in CONTENTS.items():
        if contents & contents_of(other.relative):
            yield Target(other.path, other.relative, kind, store=store, database=other)
