"""Rebuilds parts of many stores in one job, each into a directory of its own: DIR/NAME.

    DIR/.RUN_ID/NAME.ATTEMPT/built    where a worker builds; gone at the end               `records`
    DIR/.RUN_ID/NUMBER/               scratch files and parts of a large store; gone when the store is built
    DIR/.rebuilt/NAME.INODE.json      what a result was built from; stays                  `records`
    DIR/NAME                          the result, which appears whole by one rename

Run again after a kill, or with more stores, a rebuild takes over the results that are there: the worker that
would build a store shows that its result is the same.

A small store is built by one worker. A large one is built in parts (`pipeline.rebuild`), with the parts of
all others; workers plan them and put them together. All workers must see DIR and the stores under the same
paths.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

from rocketfsck._version import __version__
from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.errors import EXIT_CLEAN, EXIT_PROBLEMS, StoreError, UsageError, outcome_of
from rocketfsck.pipeline.fleet import records
from rocketfsck.pipeline.fleet.run import failure_of, make_run_id, open_meant
from rocketfsck.pipeline.fleet.stages import FILE_WEIGHT, PassingEngine, run_jobs, work_on
from rocketfsck.pipeline.rebuild.index import IndexTask
from rocketfsck.pipeline.rebuild.job import PARTS, SCRATCH, MadeParts, PartTask, make_parts, put_together
from rocketfsck.pipeline.rebuild.places import attempt_directory
from rocketfsck.pipeline.rebuild.segment import Building, SegmentTask
from rocketfsck.pipeline.sources import broker_name, find_places
from rocketfsck.progress import phase
from rocketfsck.repair.apply.judging import predict_rebuilt
from rocketfsck.repair.build import run
from rocketfsck.repair.plan.document import assumed_of
from rocketfsck.store.model import MappedFile, Store

UNIT_WEIGHT = 40
"""Bytes of a unit, and of the dispatch that it is made from, about."""


@dataclass(frozen=True, slots=True)
class RebuildJob:
    """The rebuilding of one store into `into`. `shelf` is where attempts are built, `bench` is for parts."""

    place: Path
    into: Path
    shelf: str
    bench: str
    run_id: str
    what: run.What
    options: run.RebuildOptions
    facts: Mapping[str, Any] = field(default_factory=dict)

    def open(self) -> Store:
        """The store. Raises StoreError and UsageError."""
        with work_on(self.place, "rebuild", "rebuilt"):
            return open_meant(self.place, self.facts)

    def work(self, store: Store, engine: Engine) -> records.RebuiltRow:
        """Build, and give the result its name. Raises StoreError and UsageError."""
        assert isinstance(engine, PassingEngine)
        with work_on(self.place, "rebuild", "rebuilt"):
            options = self.chosen(store)
            if os.path.lexists(self.into):
                return self._taken_over(store, options)
            weight = sum(map(_weight, store.commitlog.files))
            rows = options.message_rows or (options.queues and run.rows_in(store) is not None)
            is_whole = weight <= engine.whole_weight or rows  # no engine builds a RocksDB in parts
            made = None if is_whole else self._made(store, engine, options)
            with attempt_directory(self.shelf, self.into.name[:200]) as folder:
                built = folder / "built"
                if made is None:
                    rebuilt = run.rebuild_store(store, built, options)
                else:
                    rebuilt = put_together(store, built, options, made)
                row = self.row(store, options, rebuilt, built)
                sources = records.sources_of(store, self.what, options)
                record = records.make_record(row, sources, self.into, built, sync=options.sync)
                records.publish_recorded(record, built, self.into, sync=options.sync)
            return row

    def _taken_over(self, store: Store, options: run.RebuildOptions) -> records.RebuiltRow:
        """The row of a result that is there. Raises StoreError for one that would not be built like this."""
        record = records.read_record(self.into)
        if record is None:
            raise StoreError("exists, and rocketfsck does not overwrite it", path=str(self.into))
        row = record.row
        if row.run_id == self.run_id:  # an attempt whose worker died after it
            return row
        records.demand_same(record, self.into, store, records.sources_of(store, self.what, options))
        return replace(row, run_id=self.run_id, into=str(self.into), taken_over_from=row.run_id)

    def _made(self, store: Store, engine: PassingEngine, options: run.RebuildOptions) -> MadeParts:
        run.check_options(store, options)
        bench = Path(self.bench)
        for path in (bench, bench / SCRATCH, bench / PARTS):  # never the shelf: a killed run's is taken away
            path.mkdir(exist_ok=True)
        return make_parts(engine, Building(store, options, str(bench / SCRATCH), str(bench / PARTS)))

    def chosen(self, store: Store) -> run.RebuildOptions:
        """What is built of this store. Raises StoreError for a store without a log."""
        if not store.commitlog.files:
            raise StoreError("has no commit log files to build from", path=str(self.place))
        return run.options_for(store, self.what, self.options)

    def row(
        self, store: Store, options: run.RebuildOptions, rebuilt: run.Rebuilt, built: Path
    ) -> records.RebuiltRow:
        """What is said of a result, which is at `built` now."""
        starts = predict_rebuilt(store, built, options)
        may_start = all(start.loads for start in starts if start.covered) if starts else None
        queues, index = rebuilt.queues, rebuilt.index
        bad = run.has_problems(rebuilt) or may_start is False
        root = str(store.root)
        return records.RebuiltRow(
            run_id=self.run_id,
            broker=broker_name(root, None),
            root=root,
            state="damaged" if bad else "rebuilt",
            exit_code=EXIT_PROBLEMS if bad else EXIT_CLEAN,
            into=str(self.into),
            version=str(store.dialect.version),
            may_start=may_start,
            queue_count=None if queues is None else len(queues.queues),
            unit_count=None if queues is None else queues.unit_count,
            index_file_count=None if index is None else len(index.files),
            entry_count=None if index is None else index.entry_count,
            record_count=rebuilt.record_count,
            damaged_file_count=len(rebuilt.damaged_files),
            assumed=", ".join(f"{item.name} {item.value}" for item in assumed_of(store, rebuilt)) or None,
        )

    def weigh(self, task: SegmentTask | PartTask) -> int:
        """Bytes that a task reads of the log, or writes, and something for every file and queue."""
        if isinstance(task, SegmentTask):
            return _weight(task.file)
        if isinstance(task, IndexTask):
            return task.building.store.geometry.index_file_size + FILE_WEIGHT
        return UNIT_WEIGHT * task.unit_count + FILE_WEIGHT * task.queue_count

    def name(self, task: SegmentTask | PartTask) -> str:
        """The commit log file of a task, or what it builds."""
        if isinstance(task, SegmentTask):
            return task.file.relative
        return "index" if isinstance(task, IndexTask) else "consumequeue"

    def failed(self, error: Exception) -> records.RebuiltRow:
        """The row of a store of which nothing was built."""
        return records.RebuiltRow(run_id=self.run_id, **failure_of(self.place, error))


def _weight(file: MappedFile) -> int:
    return file.data_size + FILE_WEIGHT


def rebuild_stores(
    paths: Sequence[Path | str],
    into: Path,
    what: run.What = "all",
    options: run.RebuildOptions | None = None,
    engine: Engine | None = None,
    *,
    facts: Mapping[str, Any] | None = None,
) -> records.RebuiltStores:
    """Rebuild `what` of the stores at `paths` (which may have wildcards), each into `into`/NAME.

    NAME is that of the store's directory, or of the one above where that is `store`. Of `options` count the
    settings, not the parts. A store of which nothing can be built is a row with its error. A result of an
    earlier run is taken over if it is what would be built now, else the row has an error, too.

    Raises UsageError, before anything is built, for two stores of one name, and a directory with the name of
    a result that no run put there; StoreError where `into` cannot be made, or
    another run works in it.
    """
    options = options or run.RebuildOptions()
    engine = engine or LocalEngine()
    started, run_id = time.monotonic(), make_run_id(time.time())
    into = into.absolute()
    places = find_places(paths)
    targets = _targets(places, into)
    rows: dict[int, records.RebuiltRow] = {}
    with records.run_shelf(into, run_id) as shelf:
        path = shelf.path
        jobs = [
            RebuildJob(place, target, str(path), str(path / str(number)), run_id, what, options, facts or {})
            for number, (place, target) in enumerate(zip(places, targets, strict=True))
        ]
        with phase("rebuilding the stores", len(jobs), "files") as at:
            for number, row, seconds in run_jobs(engine, jobs):
                shutil.rmtree(jobs[number].bench, ignore_errors=True)
                rows[number] = replace(row, seconds=round(seconds, 3))
                at.at(len(rows))
    counts = Counter(row.state for row in rows.values())
    exit_code = reduce(or_, (row.exit_code for row in rows.values()), EXIT_CLEAN)
    return records.RebuiltStores(
        schema_version=1,
        kind=records.REBUILT_KIND,
        run_id=run_id,
        tool_version=__version__,
        what=what,
        into=str(into),
        seconds=round(time.monotonic() - started, 3),
        exit_code=exit_code,
        outcome=outcome_of(exit_code),
        store_count=len(jobs),
        state_counts={state: counts[state] for state in records.ORDER if counts[state]},
        removed_runs=shelf.removed_runs,
        rows=tuple(rows[number] for number in range(len(jobs))),
    )


def _targets(places: Sequence[Path], into: Path) -> list[Path]:
    """The directory of each store's result. Raises UsageError where two are one, or one is not ours."""
    first: dict[str, Path] = {}
    for place in places:
        name = broker_name(str(place), None)
        if name in ("", ".", "..", records.RECORDS) or "/" in name:
            raise UsageError(f"{place}: has no name for a directory")
        if name in first:
            raise UsageError(
                f"the stores {first[name]} and {place} would both be rebuilt in {into / name}: "
                "give each a run of its own"
            )
        first[name] = place
    targets = [into / name for name in first]
    for target in targets:
        if os.path.lexists(target) and records.read_record(target) is None:
            raise UsageError(f"{target} exists, and rocketfsck does not overwrite it")
    return targets
