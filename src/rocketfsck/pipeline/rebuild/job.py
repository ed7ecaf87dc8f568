"""Rebuilds consume queues, index files and checkpoint as a job on any engine: the bytes of `rebuild_store`.

    read      a task a commit log file: what it dispatches, into scratch files       `segment`
    number    prefix sums over the commit log files; which keys are in which index file
    write     a task an index file, a task a group of queues                         `index`
    gather    names, one directory, the checkpoint

`make_parts` is all but the last; whoever runs it again with the same results of tasks gets the same, so that
workers may do what is not a task, too (`fleet.rebuilding`). All of it is built in `.NAME.rebuilding` next to
the target and appears by one rename. The driver holds counters of each commit log file, and what it says of
queues and index files in the end; nothing that grows with the number of records.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from rocketfsck.common.budget import within
from rocketfsck.engine import Engine
from rocketfsck.errors import StoreError
from rocketfsck.pipeline.rebuild import index as rebuild_index
from rocketfsck.pipeline.rebuild.places import Take, linked, publish, remove_tree
from rocketfsck.pipeline.rebuild.segment import Building, SegmentRead, SegmentTask, read_segment
from rocketfsck.progress import phase
from rocketfsck.repair.build.files import resumable_directory, take_owner
from rocketfsck.repair.build.index import IndexBuilder, index_built
from rocketfsck.repair.build.queues import QueueBuilder, queues_built
from rocketfsck.repair.build.run import RebuildOptions, Rebuilt, check_options, inputs_of, write_checkpoint
from rocketfsck.repair.build.walk import LogWalked, log_is_large
from rocketfsck.store.model import Store
from rocketfsck.store.reading import named_errors

Task = TypeVar("Task")
Result = TypeVar("Result")

PARTS = "parts"
SCRATCH = "scratch"


def rebuild_on(
    engine: Engine, store: Store, target: Path, options: RebuildOptions, *, scratch: Path | None = None
) -> Rebuilt:
    """Build parts of a store into the new directory `target`, as `rebuild_store` would, on an engine.

    All workers must see the store, the directory that `target` is in and `scratch` under the same paths.
    `scratch` is an existing directory for what is put by in between, some 20 bytes a message and as many a
    key (default: next to the target). The option `save_seconds` means nothing here. What an
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
        parts = work.path / PARTS
        parts.mkdir()
        made = make_parts(engine, Building(store, options, str(spills), str(parts)))
        built = gather(store, options, made, work.path, publish)
        remove_tree(parts)
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


@dataclass(frozen=True, slots=True)
class MadeParts:
    """What the tasks made: `segments` in the order of the log; None for what was not asked for."""

    segments: tuple[SegmentRead, ...] = ()
    queues: tuple[rebuild_index.QueuePart, ...] | None = None
    index: tuple[rebuild_index.IndexPart, ...] | None = None

    @property
    def walked(self) -> LogWalked:
        """One walk over the log, put together from those over its files."""
        whole = LogWalked()
        for segment in self.segments:
            part = segment.walked
            whole.file_count += part.file_count
            whole.record_count += part.record_count
            whole.end_offset = part.end_offset or whole.end_offset
            if part.record_count:
                whole.last_offset, whole.last_timestamp = part.last_offset, part.last_timestamp
            whole.damaged_files += part.damaged_files
            whole.unfollowed_count += part.unfollowed_count
        return whole


def make_parts(engine: Engine, building: Building) -> MadeParts:
    """Have the engine read the log and write the parts of the result.

    Raises StoreError, also one that a kernel returns.
    """
    if not (building.options.queues or building.options.index):
        return MadeParts()
    with within(compiled=log_is_large(building.store)):
        return _made(engine, building)


def _made(engine: Engine, building: Building) -> MadeParts:
    store, options = building.store, building.options
    builder = _index_builder(store, options, Path(building.parts)) if options.index else None
    shared = _shared(building, None if builder is None else builder.from_offset)
    reads = [SegmentTask(shared, number, file) for number, file in enumerate(store.commitlog.files)]
    done, segments = 0, []
    with phase("reading the commit log", store.commitlog.size) as at:
        for task, segment in _each(engine, read_segment, reads):
            segments.append(segment)
            done += task.file.size
            at.at(done)
    segments.sort(key=lambda segment: segment.number)
    tasks: list[PartTask] = []
    if options.queues:
        tasks += rebuild_index.plan_queues(shared, store, segments, engine.job_count)
    if builder is not None:
        tasks += rebuild_index.plan_index(shared, builder, segments)
    with phase("building queues and index"):
        parts = [part for _, part in _each(engine, build_part, tasks)]
    queues = tuple(part for part in parts if isinstance(part, rebuild_index.QueuePart))
    index = tuple(part for part in parts if isinstance(part, rebuild_index.IndexPart))
    return MadeParts(tuple(segments), queues if options.queues else None, index if options.index else None)


def _shared(building: Building, first_offset: int | None) -> Building:
    """What tasks get of a store: only what they look at."""
    store, options = building.store, building.options
    continues = options.index and (options.only_missing or options.from_offset is not None)
    slim = replace(
        store,
        commitlog=replace(store.commitlog, files=()),
        queues=(),
        ext_queues=store.ext_queues[:1],
        indexes=store.indexes if continues else (),
        configs=(),
        others=(),
        strays=(),
        notes=(),
    )
    return replace(building, store=slim, first_offset=first_offset)


PartTask = rebuild_index.QueueTask | rebuild_index.IndexTask


def build_part(task: PartTask) -> rebuild_index.QueuePart | rebuild_index.IndexPart:
    """Kernel: some queues, or an index file. Raises StoreError."""
    return (
        rebuild_index.build_queue_part(task)
        if isinstance(task, rebuild_index.QueueTask)
        else rebuild_index.build_index_part(task)
    )


def gather(store: Store, options: RebuildOptions, made: MadeParts, root: Path, take: Take) -> Rebuilt:
    """Put the parts together below `root`, each by `take`, and write the checkpoint. Raises StoreError."""
    queues, index, walked = None, None, made.walked
    if made.queues is not None:
        queues = queues_built(
            rebuild_index.take_queues(made.queues, root, take),
            sum(part.record_count for part in made.queues),
            sum(part.refused_count for part in made.queues)
            + sum(segment.refused_count for segment in made.segments),
            QueueBuilder(store, root, None, frozenset()).has_ext,
            walked,
        )
    if made.index is not None:
        index = index_built(
            rebuild_index.take_index(_index_builder(store, options, root), made.index, take),
            sum(segment.record_count for segment in made.segments),
            sum(segment.key_count for segment in made.segments),
            walked,
        )
    if options.checkpoint:
        newest = None
        if made.queues is not None:
            newest = max((part.newest_offset for part in made.queues), default=-1)
        write_checkpoint(store, options, root, walked, newest)
    return Rebuilt(
        queues,
        index,
        options.checkpoint,
        walked.record_count,
        walked.end_offset,
        tuple(walked.damaged_files),
        resumed=False,
    )


def put_together(store: Store, target: Path, options: RebuildOptions, made: MadeParts) -> Rebuilt:
    """The new directory `target` from parts, which stay: others may do the same, each with its own target.

    Raises UsageError for a target that exists, and StoreError.
    """
    inputs = {"on": "parts", **inputs_of(store, options)}
    with resumable_directory(target, inputs, sync=options.sync) as work:
        built = gather(store, options, made, work.path, linked)
        take_owner(work.path, store.root, all_new=True)
        return built


def _index_builder(store: Store, options: RebuildOptions, root: Path) -> IndexBuilder:
    """One that writes nothing: it knows where the index begins, and what files are called."""
    return IndexBuilder(
        store,
        root / "index",
        from_offset=options.from_offset,
        only_missing=options.only_missing,
        time_zone=options.time_zone,
    )


def _each(
    engine: Engine, kernel: Callable[[Task], Result], tasks: Sequence[Task]
) -> Iterator[tuple[Task, Result]]:
    """All tasks with their results, in whatever order they end."""
    for outcome in engine.run(kernel, tasks):
        if isinstance(outcome.result, StoreError):
            raise outcome.result
        assert outcome.result is not None  # there is no deadline
        yield outcome.task, outcome.result
