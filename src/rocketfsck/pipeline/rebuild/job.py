"""Consume queues, index files and checkpoint anew, as a job on any engine: the same bytes as `rebuild_store`.

    read      a task a commit log file: what it dispatches, into scratch files       `segment`
    number    the driver: prefix sums over the commit log files; which keys are in which index file
    write     a task an index file, a task a group of queues                         `index`, `queues`
    gather    the driver: names, one directory, the checkpoint

All of it is built in `.NAME.rebuilding` beside the target and appears by one rename. The driver holds
counters of each commit log file, and what it says of queues and index files in the end; nothing that grows
with the number of records.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from rocketfsck.engine import Engine
from rocketfsck.pipeline.rebuild.index import Indexing, build_index_part, plan_index, take_index
from rocketfsck.pipeline.rebuild.places import remove_tree
from rocketfsck.pipeline.rebuild.queues import Queueing, build_queue_part, plan_queues, take_queues
from rocketfsck.pipeline.rebuild.segment import (
    BUCKET_COUNT,
    Reading,
    SegmentRead,
    SegmentTask,
    read_segment,
)
from rocketfsck.progress import phase
from rocketfsck.repair.build.files import take_owner
from rocketfsck.repair.build.index import IndexBuilder, index_built
from rocketfsck.repair.build.model import IndexBuild, QueueBuild
from rocketfsck.repair.build.queues import QueueBuilder, batch_topics_of, queues_built
from rocketfsck.repair.build.resumable import resumable_directory
from rocketfsck.repair.build.run import (
    RebuildOptions,
    Rebuilt,
    check_options,
    inputs_of,
    write_checkpoint,
)
from rocketfsck.repair.build.walk import LogWalked, log_is_large
from rocketfsck.repair.log.edit import read_log_end
from rocketfsck.store.model import Store
from rocketfsck.store.reading import named_errors

Task = TypeVar("Task")
Result = TypeVar("Result")

PARTS = "parts"
SCRATCH = "scratch"


def rebuild_on(
    engine: Engine,
    store: Store,
    target: Path,
    options: RebuildOptions,
    *,
    scratch: Path | None = None,
) -> Rebuilt:
    """Build parts of a store into the new directory `target`, as `rebuild_store` would, on an engine.

    All workers must see the store, the directory that `target` is in and `scratch` under the same paths.
    `scratch` is an existing directory for what is put by in between, some 20 bytes a message and as many a
    key (default: beside the target). Of the options `jobs` and `save_seconds` mean nothing here. What an
    earlier run left that was killed is removed. Raises as `rebuild_store` does, and StoreError for a commit
    log that could not be listed in full.
    """
    check_options(store, options)
    target = target.absolute()
    inputs = {"on": "engine", **inputs_of(store, options)}
    with (
        resumable_directory(target, inputs, sync=options.sync) as work,
        _scratch_directory(work.path, target, scratch) as spills,
    ):
        built = _Job(engine, store, options, work.path, spills).run()
        take_owner(work.path, store.root, all_new=True)
        return built


@contextmanager
def _scratch_directory(building: Path, target: Path, scratch: Path | None) -> Iterator[Path]:
    """Yield an empty directory; of a run before nothing is left in it, and of this one nothing at the end."""
    path = building / SCRATCH
    if scratch is not None:
        place = hashlib.sha256(str(target).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        path = scratch.absolute() / f".{target.name[:200]}.{place}.rebuilding"
    with named_errors(path, "cannot be made"):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class _Job:
    """One run."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        options: RebuildOptions,
        root: Path,
        scratch: Path,
    ) -> None:
        self.engine = engine
        self.store = store
        self.options = options
        self.root = root
        self.scratch = str(scratch)
        self.compiled = log_is_large(store)
        self.parts = root / PARTS
        # What tasks are told of the store: nothing that they do not look at.
        self.slim = replace(store, queues=(), indexes=(), configs=(), others=(), strays=(), notes=())

    def run(self) -> Rebuilt:
        options, store = self.options, self.store
        walked, queues, index = LogWalked(), None, None
        self.parts.mkdir()
        if options.queues or options.index:
            builder = self._index_builder() if options.index else None
            segments = self._read(None if builder is None else builder.from_offset)
            walked = _walked(segments)
            if options.queues:
                queues = self._queues(segments, walked)
            if builder is not None:
                index = self._index(builder, segments, walked)
        remove_tree(self.parts)
        remove_tree(Path(self.scratch))
        if options.checkpoint:
            write_checkpoint(store, options, self.root, walked)
        return Rebuilt(
            queues,
            index,
            options.checkpoint,
            walked.record_count,
            walked.end_offset,
            tuple(walked.damaged_files),
            resumed=False,
        )

    def _index_builder(self) -> IndexBuilder:
        """One that writes nothing: it knows where the index begins, and what files are called."""
        return IndexBuilder(
            self.store,
            self.root / "index",
            from_offset=self.options.from_offset,
            only_missing=self.options.only_missing,
            time_zone=self.options.time_zone,
            compiled=False,
        )

    def _read(self, from_offset: int | None) -> list[SegmentRead]:
        """Every commit log file, in order."""
        options, files = self.options, self.store.commitlog.files
        slim = replace(self.slim, commitlog=replace(self.store.commitlog, files=()), ext_queues=())
        reading = Reading(
            slim, self.scratch, options.queues, options.index, options.wanted, from_offset, self.compiled
        )
        total = self.store.commitlog.size
        done, found = 0, []
        tasks = [SegmentTask(reading, number, file) for number, file in enumerate(files)]
        with phase("reading the commit log", total) as at:
            for task, segment in self._each(read_segment, tasks):
                found.append(segment)
                done += task.file.size
                at.at(done)
        return sorted(found, key=lambda segment: segment.number)

    def _queues(self, segments: Sequence[SegmentRead], walked: LogWalked) -> QueueBuild:
        store, options = self.store, self.options
        counts = sum((segment.unit_counts for segment in segments), np.zeros(BUCKET_COUNT, np.int64))
        batch_topics = batch_topics_of(store).union(*(segment.inner_topics for segment in segments))
        going_on, log_end = store.queues if options.only_missing else (), 0
        if going_on:
            end = read_log_end(store)
            log_end = 0 if end is None else end.end_offset
        queueing = Queueing(
            replace(self.slim, commitlog=replace(store.commitlog, files=()), ext_queues=store.ext_queues[:1]),
            self.scratch,
            str(self.parts),
            tuple(segment.number for segment in segments if segment.unit_counts.any()),
            options.wanted,
            batch_topics,
            log_end,
            self.compiled,
        )
        tasks = plan_queues(queueing, counts, self.engine.job_count, going_on)
        with phase("building the consume queues"):
            parts = [part for _, part in self._each(build_queue_part, tasks)]
        queues = take_queues(parts, self.root)
        return queues_built(
            queues,
            sum(part.record_count for part in parts),
            sum(part.refused_count for part in parts) + sum(segment.refused_count for segment in segments),
            QueueBuilder(store, self.root, None, frozenset(), compiled=False).has_ext,
            walked,
        )

    def _index(self, builder: IndexBuilder, segments: Sequence[SegmentRead], walked: LogWalked) -> IndexBuild:
        options = self.options
        goes_on = options.only_missing or options.from_offset is not None
        indexing = Indexing(
            replace(
                self.slim,
                commitlog=replace(self.store.commitlog, files=()),
                ext_queues=(),
                indexes=self.store.indexes if goes_on else (),
            ),
            self.scratch,
            str(self.parts),
            options.from_offset,
            options.only_missing,
            self.compiled,
        )
        tasks = plan_index(indexing, segments, builder.room_before, builder.file_room)
        with phase("building the index"):
            parts = [part for _, part in self._each(build_index_part, tasks)]
        files = take_index(builder, parts)
        return index_built(
            files,
            sum(segment.record_count for segment in segments),
            sum(segment.key_count for segment in segments),
            walked,
        )

    def _each(self, kernel: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        """All tasks with their results, in whatever order they end."""
        for outcome in self.engine.run(kernel, tasks):
            assert outcome.result is not None  # there is no deadline
            yield outcome.task, outcome.result


def _walked(segments: Sequence[SegmentRead]) -> LogWalked:
    """One walk over the log, put together from those over its files."""
    whole = LogWalked()
    for segment in segments:
        part = segment.walked
        whole.file_count += part.file_count
        whole.record_count += part.record_count
        whole.end_offset = part.end_offset or whole.end_offset
        if part.record_count:
            whole.last_offset, whole.last_timestamp = part.last_offset, part.last_timestamp
        whole.damaged_files += part.damaged_files
        whole.unfollowed_count += part.unfollowed_count
    return whole
