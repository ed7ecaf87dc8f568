"""Rebuilding parts of a store into a new directory, in one pass over the log, resumable and whole at its end.

The state is saved behind a commit log file when SAVE_SECONDS have gone by: what queues and index have in
memory is written out, and what they know is kept as JSON. A later run with the same inputs reads on from
there; every byte that it writes twice is the same.

What a rebuilding is asked for by one word, and what is wrong with what came out.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rocketfsck._version import __version__
from rocketfsck.errors import UsageError
from rocketfsck.formats.checkpoint import encode_checkpoint
from rocketfsck.query.start.databases import database_path, kind_of_queues
from rocketfsck.repair.build import databases
from rocketfsck.repair.build import files as build_files
from rocketfsck.repair.build.index import IndexBuilder, index_build
from rocketfsck.repair.build.queues import QueueBuilder, batch_topics_of, queue_build, writes_ext
from rocketfsck.repair.build.queuestates import WantedQueues
from rocketfsck.repair.build.walk import LogWalked, walk_log
from rocketfsck.repair.log import LogEnd
from rocketfsck.store.areas import Lister, demand_listed, list_indexes
from rocketfsck.store.elsewhere import has_log_elsewhere
from rocketfsck.store.model import Store

SAVE_SECONDS = 5.0
CHECKPOINT_FILE_SIZE = 4096


@dataclass(frozen=True, slots=True)
class RebuildOptions:
    """What to rebuild: consume queues (all, or those `wanted`), index (from an offset on), checkpoint,
    `message_rows` (the RocksDB of messages).

    `only_missing`: queues and index continue after what the store has of them, as the broker's dispatcher
    would; only files to which something is added are made. `time_zone` is that of the names of index files.
    """

    queues: bool = False
    index: bool = False
    checkpoint: bool = False
    message_rows: bool = False
    wanted: WantedQueues | None = None
    from_offset: int | None = None
    only_missing: bool = False
    time_zone: str = "UTC"
    sync: bool = True
    save_seconds: float = SAVE_SECONDS


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was rebuilt, and how many records the log has; `resumed`: a part of it by a run before."""

    queues: build_files.QueueBuild | None
    index: build_files.IndexBuild | None
    checkpoint: bool
    record_count: int
    log_end_offset: int
    damaged_files: tuple[str, ...]
    resumed: bool
    message_rows: databases.MessageRows | None = None


def rebuild_store(store: Store, target: Path, options: RebuildOptions) -> Rebuilt:
    """Build parts of a store into the new directory `target`; the store itself is only read.

    Raises UsageError for options that make no sense and a target that exists, StoreError where the log
    cannot be read or something cannot be written: then `target` is not there.
    """
    check_options(store, options)
    with build_files.resumable_directory(target, inputs_of(store, options), sync=options.sync) as work:
        built = _Rebuilding(store, options, work).run()
        build_files.take_owner(work.path, store.root, all_new=True)
        return built


def check_options(store: Store, options: RebuildOptions) -> None:
    """Raises UsageError for options that make no sense, or not for this store, and StoreError for a commit
    log
    that could not be listed in full: nothing may be built from a part of it unseen."""
    demand_listed(store, {"commitlog"})
    if options.queues:
        _check_rows(store, options)
    if options.message_rows and not store.dialect.message_database:
        raise UsageError(f"brokers of version {store.dialect.version} have no RocksDB of messages")
    if has_log_elsewhere(store):
        raise UsageError("the store has DLedger data files, and no sign says whether its log is in them")
    if options.only_missing and options.queues and writes_ext(store):
        raise UsageError(
            "queues with consumequeue_ext do not show which tail is missing: rebuild whole queues"
        )
    if options.only_missing and options.from_offset is not None:
        raise UsageError("choose one: a first offset, or only the missing tail")
    try:
        ZoneInfo(options.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(f"{options.time_zone!r} is not a time zone like Asia/Shanghai") from error


def rows_in(store: Store) -> str | None:
    """The path below the root of the RocksDB that the store's consume queues are rows of, alone or besides
    files (rocksdbCQDoubleWriteEnable); None: files alone."""
    if kind_of_queues(store, store.settings, store.dialect) == "files":
        return None
    return database_path(store, store.settings, store.dialect)


def _check_rows(store: Store, options: RebuildOptions) -> None:
    """Raises UsageError for what cannot be done with consume queues in RocksDB."""
    if rows_in(store) is not None and (options.wanted is not None or options.only_missing):
        raise UsageError(
            "consume queues in RocksDB can only be rebuilt as a whole: their database says how far it is"
        )


def inputs_of(store: Store, options: RebuildOptions) -> build_files.State:
    """All that determines the result, apart from the bytes of files that do not change."""
    files = [(file.location, file.size, file.mtime_ns) for file in store.commitlog.files]
    kept: list[object] = []
    if options.only_missing or options.from_offset is not None:
        parts = [*store.indexes, *(file for queue in store.queues for file in queue.files)]
        kept = [(file.location, file.size, file.mtime_ns) for file in parts]
    wanted = options.wanted
    geometry = {name: value for name, value in asdict(store.geometry).items() if isinstance(value, int)}
    given = asdict(replace(options, wanted=None, sync=True, save_seconds=0.0))
    return {
        "tool": __version__,
        "files": files,
        "kept": kept,
        "indexes": [file.name for file in store.indexes],
        "version": str(store.dialect.version),
        "geometry": geometry,
        "delay_levels": store.delay_levels,
        "batch_topics": sorted(batch_topics_of(store)),
        "ext": writes_ext(store),
        "rows": rows_in(store),
        "wanted": None if wanted is None else [sorted(wanted.topics), sorted(wanted.queue_ids or ())],
        "options": given,
    }


class _Rebuilding:
    """One run."""

    def __init__(
        self,
        store: Store,
        options: RebuildOptions,
        work: build_files.ResumableDirectory,
    ) -> None:
        self.store = store
        self.options = options
        self.work = work
        self.batch_topics = batch_topics_of(store)
        self.saved_at = time.monotonic()
        self.saves = True
        self.queues: QueueBuilder | None = None
        self.index: IndexBuilder | None = None
        self.rows: databases.RowBuilder | None = None

    def run(self) -> Rebuilt:
        """Build everything. A database is not saved on the way: a run that was killed begins again."""
        database = rows_in(self.store) if self.options.queues else None
        self.saves = database is None and not self.options.message_rows
        if database is None:
            return self._run(None)
        store = self.store
        built = None
        if kind_of_queues(store, store.settings, store.dialect) == "both":
            built = self._run(None)
        # Only a broker with enableLmq gives a record numbers in light queues: the log shows the setting.
        light = store.settings.flag("enableLmq", True)
        with databases.row_writer(self.work.path / database, light=light) as self.rows:
            if built is None:
                return self._run(database)
            rows = databases.rows_built(self.rows, self._walk(LogWalked(), None), database)
        queues = built.queues
        return built if queues is None else replace(built, queues=databases.beside_files(queues, rows))

    def _run(self, database: str | None) -> Rebuilt:
        state = self.work.state
        walked = LogWalked()
        if state is not None:
            walked = LogWalked(**state["walked"])
            self.batch_topics = frozenset(state["batch_topics"])
        if self.options.queues and self.rows is None:
            self._new_queues(None if state is None else state["queues"])
        if self.options.index:
            self._new_index(None if state is None else state["index"])
        walked = self._walk(walked, self.index)
        if self.rows is not None and database is not None:
            queues: build_files.QueueBuild | None = databases.rows_built(self.rows, walked, database)
        else:
            queues = self._finish_queues(walked)
        index = None
        if self.index is not None:
            self.work.forget()
            index = index_build(self.index, walked)
        if self.options.checkpoint:
            newest = None if self.queues is None else self.queues.newest_offset
            write_checkpoint(self.store, self.options, self.work.path, walked, newest)
        rows = databases.build_message_rows(self.store, self.work.path) if self.options.message_rows else None
        return Rebuilt(
            queues,
            index,
            self.options.checkpoint,
            walked.record_count,
            walked.end_offset,
            tuple(walked.damaged_files),
            state is not None,
            rows,
        )

    def _new_queues(self, state: build_files.State | None) -> None:
        self.queues = QueueBuilder(
            self.store,
            self.work.path,
            self.options.wanted,
            self.batch_topics,
        )
        if state is not None:
            self.queues.load(state)
        elif self.options.only_missing:
            self.queues.go_on_behind(self.store)

    def _new_index(self, state: build_files.State | None) -> None:
        options = self.options
        self.index = IndexBuilder(
            self.store,
            self.work.path / "index",
            from_offset=options.from_offset,
            only_missing=options.only_missing,
            time_zone=options.time_zone,
            state=state,
        )

    def _walk(self, walked: LogWalked, index: IndexBuilder | None) -> LogWalked:
        units = self.queues if self.rows is None else self.rows
        if units is None and index is None and not self.options.message_rows:
            return walked
        return walk_log(
            self.store,
            units=units,
            keys=index,
            walked=walked,
            after_file=self._save,
        )

    def _finish_queues(self, walked: LogWalked) -> build_files.QueueBuild | None:
        """What the queues became; after another pass where the log shows batch queues that nobody knew of."""
        while self.queues is not None:
            found = self.queues.found_batch_topics - self.batch_topics  # of a plain queue that is there
            if not found:
                return queue_build(self.queues, walked)
            self.batch_topics |= found
            self.queues.forget()
            self._new_queues(None)
            self.saves = False  # the index has all of the log already
            self._walk(LogWalked(), None)
        return None

    def _save(self, walked: LogWalked) -> None:
        """Keep the state, when it is time to."""
        last = walked.file_count >= len(self.store.commitlog.files)
        if last or not self.saves or time.monotonic() - self.saved_at < self.options.save_seconds:
            return
        self.work.save({
            "walked": asdict(walked),
            "batch_topics": sorted(self.batch_topics),
            "queues": None if self.queues is None else self.queues.save(),
            "index": None if self.index is None else self.index.save(),
        })  # fmt: skip
        self.saved_at = time.monotonic()


def write_checkpoint(
    store: Store, options: RebuildOptions, root: Path, walked: LogWalked, newest_offset: int | None
) -> None:
    """Write the checkpoint of the store, with what was built below `root`, next to that.

    `newest_offset` is the physical offset of the newest record with a unit in the queues that were built, -1
    for none; None where no files of queues were built. Queues and index files that stay as they are in the
    store count as well. Raises StoreError.
    """
    end = None
    if walked.record_count:
        end = LogEnd(walked.last_offset, walked.end_offset, walked.last_timestamp)
    if newest_offset is not None and (options.only_missing or options.wanted is not None):
        kept = build_files.last_in_queues(store, end)
        newest_offset = max(newest_offset, -1 if kept is None else kept.physical_offset)
    if options.index:
        built = list_indexes(Lister(os.fspath(root)))
        if options.only_missing or options.from_offset is not None:
            names = {file.name: file for file in (*store.indexes, *built)}
            built = tuple(names[name] for name in sorted(names))
        store = replace(store, indexes=built)
    data = encode_checkpoint(build_files.build_checkpoint(store, end, newest_offset=newest_offset))
    build_files.write_part(root / "checkpoint", data, 0, CHECKPOINT_FILE_SIZE, None)


What = Literal["index", "consumequeue", "checkpoint", "rocksdbstore", "all"]


def options_for(store: Store, what: What, options: RebuildOptions) -> RebuildOptions:
    """`options` with the parts that the word names: `all` goes by the settings of the store's broker."""
    return replace(
        options,
        queues=what in ("consumequeue", "all"),
        index=what == "index" or (what == "all" and store.settings.flag("messageIndexEnable", True)),
        checkpoint=what in ("checkpoint", "all"),
        message_rows=what == "rocksdbstore" or (what == "all" and _has_index_rows(store)),
    )


def _has_index_rows(store: Store) -> bool:
    """Whether the settings say that the broker keeps an index in RocksDB."""
    return store.dialect.message_database and store.settings.flag("indexRocksDBEnable", False)


def has_problems(rebuilt: Rebuilt) -> bool:
    """Whether the log is damaged, or has records that the result has no place for."""
    queues = rebuilt.queues
    return bool(
        rebuilt.damaged_files
        or (rebuilt.message_rows is not None and rebuilt.message_rows.lost)
        or (queues is not None and (queues.refused_count or any(map(is_odd, queues.queues))))
    )


def is_odd(queue: build_files.BuiltQueue) -> bool:
    """Whether records of a queue have no unit, or units are not at their records' queue offsets."""
    return bool(queue.duplicate_count or queue.misplaced_count or queue.gap_count)
