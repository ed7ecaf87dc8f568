"""Opens a store directory read-only: lists it, works out geometry and dialect, tests the lock. No judgement.

Also opens a directory of commitlog files alone, as it is when somebody copied only that.

What is not a store, whatever it holds: an empty mount point, another program's files, config alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocketfsck.common.wording import count_of
from rocketfsck.errors import NoStoreError, StoreError, demand_lasting
from rocketfsck.formats.smallfiles import filename_to_offset
from rocketfsck.formats.timer import DEFAULT_DELAY_LEVELS_TEXT
from rocketfsck.store import areas, model
from rocketfsck.store.circumstances import Evidence, Geometry, LogPlaces, Settings, Source, read_settings
from rocketfsck.store.dialect.infer import infer_dialect
from rocketfsck.store.dialect.sampling import Samples, sample_commitlog
from rocketfsck.store.geometry import read_geometry
from rocketfsck.store.inuse import notes_of, read_live_state, unfinished_repair
from rocketfsck.store.logpaths import commitlog_places, dledger_files, with_dledger
from rocketfsck.store.others import KNOWN_DIRECTORIES, list_base, list_other, named_base
from rocketfsck.store.places.entries import DirectoryEntry, EntryKind
from rocketfsck.store.places.locations import locate, path_of
from rocketfsck.store.places.urls import NO_OPTIONS, is_remote, options_for

if TYPE_CHECKING:
    from rocketfsck.store.places.remote import RemoteTree


def refuse_no_store(store: model.Store) -> None:
    """Raise NoStoreError for a directory without any part of a store: an empty one, another program's, a
    directory of stores. Config files and databases of settings alone are not a store: a broker that ever
    started has at least `checkpoint` or `abort` next to them, so the messages are on a disk that is not
    mounted."""
    parts = (
        store.commitlog.files,
        store.queues,
        store.ext_queues,
        store.indexes,
        [other for other in store.others if not _is_of_config(other.relative)],
        [stray for stray in store.strays if stray.area not in ("root", "config")],
    )
    if any(parts) or store.checkpoint is not None or store.abort is not None:
        return  # what else is in the directory of a store is for a check to judge
    if store.configs or store.others:
        said = "the directory has only config files"
    elif store.directories:
        said = f"there are no files in {', '.join(sorted(store.directories))}"
    elif store.strays:
        said = f"the directory has {count_of(len(store.strays), 'other entry')}"
    else:
        said = "nothing is there"
    text = f"no RocketMQ store is here: {said}; is a disk not mounted?"
    raise NoStoreError(text, path=os.fspath(store.root))


def _is_of_config(relative: str) -> bool:
    return relative.split("/", 1)[0] == "config"


DIRECTORIES = areas.QUEUE_AREAS | {"commitlog", "index", "config"}
SINGLE_FILES = frozenset({"checkpoint", "abort", "lock"})

_QUEUE_AREAS: tuple[tuple[str, model.QueueKind], ...] = (
    ("consumequeue", "file"),
    ("batchconsumequeue", "batch"),
)
_MAX_PEEKED = 64
_NOT_LOGS = DIRECTORIES | KNOWN_DIRECTORIES


@dataclass(slots=True)
class _Parts:
    """What was listed, before sizes are known."""

    singles: dict[str, model.StoreFile] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)
    commitlog: list[model.MappedFile] = field(default_factory=list)
    queues: dict[model.QueueKind, list[areas.QueueFiles]] = field(default_factory=dict)
    ext_queues: list[areas.QueueFiles] = field(default_factory=list)
    indexes: tuple[model.IndexFile, ...] = ()
    configs: tuple[model.StoreFile, ...] = ()
    others: list[model.Other] = field(default_factory=list)
    unknown: list[DirectoryEntry] = field(default_factory=list)


def open_store(
    root: Path | str,
    *,
    broker_conf: Path | str | None = None,
    version: str | None = None,
    commitlog_paths: Sequence[Path | str] = (),
    delay_levels: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Mapping[str, str] | None = None,
) -> model.Store:
    """The store below `root`, a directory or a URL (`store.places.locations`), read-only.

    `broker_conf` gives the settings (file sizes, commitlog paths, delay levels); `version` the broker's
    version, where the bytes need not tell it; `commitlog_paths` all directories of the commitlog, instead of
    those in the settings or `<root>/commitlog`; `delay_levels` the text of `messageDelayLevel`;
    `storage_options` what fsspec is given for the URLs among these; `settings` single settings of the broker
    by their names in broker.conf, which go over those of `broker_conf`.

    Raises NoStoreError if nothing of a store is there; StoreError if `root` is not a directory that can be
    listed, a given commitlog path is not a directory, or the broker.conf cannot be read; UsageError for an
    unknown version, or a URL that cannot be served. What is wrong *inside* the store raises nothing.
    """
    base = areas.absolute_path(locate(root, storage_options))
    stated = model.StatedOptions(
        None if broker_conf is None else locate(broker_conf, storage_options),
        version,
        tuple(locate(path, storage_options) for path in commitlog_paths),
        delay_levels,
        options_for(os.fspath(base)) if is_remote(base) else NO_OPTIONS,
        tuple((settings or {}).items()),
    )
    return _open_store(base, stated)


def reopen_store(store: model.Store) -> model.Store:
    """The same store as it is now. Raises as `open_store` does."""
    return _open_store(store.root, store.stated)


def _open_store(base: Path, stated: model.StatedOptions) -> model.Store:
    opened_timestamp = int(time.time() * 1000)
    entries = areas.list_directory(base)
    repair = unfinished_repair(base)
    settings = Settings() if stated.broker_conf is None else read_settings(stated.broker_conf)
    if stated.settings:
        settings = replace(settings, values={**settings.values, **dict(stated.settings)})
    lister = areas.Lister(os.fspath(base), _tree(base))
    places = commitlog_places(lister, entries, settings, stated.commitlog_paths, _NOT_LOGS)
    if not stated.commitlog_paths and _is_commitlog(entries):
        why = "the directory has mapped files, but no other part of a store"
        places = LogPlaces((base,), (Evidence("the directory is a commitlog", why),))
        entries = []
    directories = places.directories
    tiered = named_base(base, settings)
    parts = _list_parts(lister, entries, directories, tiered)
    geometry = _geometry(settings, parts, numbered := areas.short_named(lister, directories))
    ext_queues = _ext_queues(parts, geometry)
    queues = _queues(parts, geometry, ext_queues)
    log = areas.mapped_queue(map(os.fspath, directories), geometry.commitlog_file_size, parts.commitlog)
    commitlog, joined = with_dledger(areas.with_short_names(log, numbered, lister), parts.others, settings)
    levels, levels_source = _delay_levels(settings, stated.delay_levels)
    found = Samples(
        sample=sample_commitlog(commitlog.files, parts.indexes, geometry.slot_count),
        queues=queues,
        ext_queues=ext_queues,
        indexes=parts.indexes,
        geometry=geometry,
        checkpoint=parts.singles.get("checkpoint"),
        abort=parts.singles.get("abort"),
        lock=parts.singles.get("lock"),
        configs=parts.configs,
        others=parts.others,
    )
    store = model.Store(
        root=base,
        geometry=geometry,
        dialect_evidence=infer_dialect(found, stated.version),
        commitlog=commitlog,
        queues=queues,
        ext_queues=ext_queues,
        indexes=parts.indexes,
        checkpoint=found.checkpoint,
        abort=found.abort,
        lock=found.lock,
        configs=parts.configs,
        others=tuple(parts.others),
        strays=lister.finished_strays(),
        live=read_live_state(base / "lock"),
        settings=settings,
        delay_levels=levels,
        delay_levels_source=levels_source,
        notes=(*places.notes, *joined, *notes_of(repair)),
        stated=stated,
        log_places=places,
        directories=frozenset(parts.directories),
        repair=repair,
        opened_timestamp=opened_timestamp,
    )
    refuse_no_store(store)
    return store


def _tree(base: Path) -> RemoteTree | None:
    if not is_remote(base):
        return None
    from rocketfsck.store.places.remote import RemoteTree

    return RemoteTree(os.fspath(base))


def _is_commitlog(entries: Sequence[DirectoryEntry]) -> bool:
    """Whether the entries are those of a commitlog directory rather than of a store."""
    if any(entry.name in DIRECTORIES or entry.name in SINGLE_FILES for entry in entries):
        return False
    files = (entry.name for entry in entries if entry.kind is EntryKind.FILE)
    return any(filename_to_offset(name) is not None for name in files)


def _list_parts(
    lister: areas.Lister, entries: Sequence[DirectoryEntry], directories: Sequence[Path], tiered: Path | None
) -> _Parts:
    parts = _Parts()
    if tiered is not None:
        parts.others += list_base(lister, os.fspath(tiered))
    parts.commitlog = areas.list_commitlog(lister, directories)
    commitlogs = {os.fspath(directory) for directory in directories}
    for entry in entries:
        if entry.name in DIRECTORIES and entry.kind is EntryKind.DIRECTORY:
            parts.directories.add(entry.name)
        elif entry.name in DIRECTORIES:
            lister.stray(entry, "root", model.StrayReason.FILE if entry.kind is EntryKind.FILE else None)
        elif entry.name in SINGLE_FILES and entry.kind is EntryKind.FILE:
            parts.singles[entry.name] = lister.file(entry)
        elif entry.path not in commitlogs and entry.path != os.fspath(tiered or ""):
            found = list_other(lister, entry)
            if found is None:
                _stray_at_root(lister, entry)
            else:
                parts.others += found
    if "commitlog" in parts.directories and f"{lister.root.rstrip(os.sep)}/commitlog" not in commitlogs:
        _list_unused_commitlog(lister)
    for area, kind in _QUEUE_AREAS:
        if area in parts.directories:
            parts.queues[kind], databases = areas.list_queues(lister, area)
            parts.others += databases
    if "consumequeue_ext" in parts.directories:
        parts.ext_queues, _ = areas.list_queues(lister, "consumequeue_ext")
    if "index" in parts.directories:
        parts.indexes = areas.list_indexes(lister)
    if "config" in parts.directories:
        parts.configs, others = areas.list_configs(lister)
        parts.others += others
    return parts


def _stray_at_root(lister: areas.Lister, entry: DirectoryEntry) -> None:
    if entry.kind is EntryKind.DIRECTORY and entry.name not in SINGLE_FILES:
        detail = "holds mapped files" if _holds_mapped_files(entry) else ""
        lister.stray(entry, "root", model.StrayReason.UNKNOWN, detail)
    elif entry.kind is EntryKind.FILE:
        lister.stray(entry, "root", areas.unknown_reason(entry.name))
    else:
        lister.stray(entry, "root")


def _holds_mapped_files(directory: DirectoryEntry) -> bool:
    """Whether a directory looks like a commitlog path that no setting names. Looks at a few names only."""
    if is_remote(directory.path):
        return any(filename_to_offset(name) is not None for name in _remote_names(directory.path))
    try:
        with os.scandir(directory.path) as found:
            return any(filename_to_offset(entry.name) is not None for entry in islice(found, _MAX_PEEKED))
    except OSError as error:
        demand_lasting(error)
        return False


def _remote_names(directory: str) -> list[str]:
    try:
        return [entry.name for entry in areas.list_directory(directory)[:_MAX_PEEKED]]
    except StoreError:
        return []


def _list_unused_commitlog(lister: areas.Lister) -> None:
    """`commitlog/` in the root of a store whose commitlog is said to be elsewhere."""
    for entry in lister.entries(path_of(lister.root) / "commitlog", "commitlog"):
        lister.stray(entry, "commitlog", model.StrayReason.UNKNOWN, "the commitlog is in another directory")


def _geometry(settings: Settings, parts: _Parts, numbered: Sequence[model.MappedFile]) -> Geometry:
    """Sizes. Where no file of the log has a name of 20 digits, the files `numbered` show theirs."""
    streams: dict[str, list[Sequence[model.MappedFile]]] = {
        "commitlog_file_size": [parts.commitlog or dledger_files(parts.others) or numbered],
        "consumequeue_file_size": [queue.files for queue in parts.queues.get("file", ())],
        "batch_file_size": [queue.files for queue in parts.queues.get("batch", ())],
        "ext_file_size": [queue.files for queue in parts.ext_queues],
        "timerlog_file_size": [
            other.mapped_files.files
            for other in parts.others
            if other.kind is model.OtherKind.TIMER_LOG and other.mapped_files is not None
        ],
    }
    return read_geometry(settings, streams, parts.indexes)


def _ext_queues(parts: _Parts, geometry: Geometry) -> tuple[model.ExtQueue, ...]:
    owners = {(queue.topic, queue.queue_id) for queue in parts.queues.get("file", ())}
    return tuple(
        model.ExtQueue(
            queue.topic,
            queue.queue_id,
            areas.mapped_queue([queue.location], geometry.ext_file_size, queue.files),
            (queue.topic, queue.queue_id) not in owners,
        )
        for queue in parts.ext_queues
    )


def _queues(
    parts: _Parts, geometry: Geometry, ext_queues: Sequence[model.ExtQueue]
) -> tuple[model.ConsumeQueue, ...]:
    ext = {(queue.topic, queue.queue_id): queue.mapped_files for queue in ext_queues}
    sizes = {"file": geometry.consumequeue_file_size, "batch": geometry.batch_file_size}
    return tuple(
        model.ConsumeQueue(
            queue.topic,
            queue.queue_id,
            kind,
            areas.mapped_queue([queue.location], sizes[kind], queue.files),
            ext.get((queue.topic, queue.queue_id)) if kind == "file" else None,
        )
        for _, kind in _QUEUE_AREAS
        for queue in parts.queues.get(kind, ())
    )


def _delay_levels(settings: Settings, given: str | None) -> tuple[str, Source]:
    text = given if given is not None else settings.get("messageDelayLevel")
    return (DEFAULT_DELAY_LEVELS_TEXT, "default") if text is None else (text, "given")
