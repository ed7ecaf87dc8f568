"""Builds consume queues, index, checkpoint and databases again, from the commit log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rocketfsck.commands import shared
from rocketfsck.commands.repairing import WorkDir
from rocketfsck.common.options import STORE, Argument, Option
from rocketfsck.common.wording import visible
from rocketfsck.errors import EXIT_CLEAN, EXIT_PROBLEMS, StoreError, UsageError

if TYPE_CHECKING:
    from rocketfsck.pipeline.fleet.records import RebuiltStores
    from rocketfsck.query.start.verdict import StartVerdict
    from rocketfsck.repair.build.run import RebuildOptions, Rebuilt
    from rocketfsck.repair.plan.model import Assumption
    from rocketfsck.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildCommand:
    """What of which stores is built again, and where."""

    what: Annotated[Literal["index", "consumequeue", "checkpoint", "rocksdbstore", "all"], Argument()]
    paths: Annotated[tuple[Path, ...], Argument(metavar="STORE…", kind=STORE, instead="stores_from")] = ()
    stores_from: Annotated[Path | None, shared.stores_from("Rebuild")] = None
    into: shared.Into
    topics: Annotated[
        tuple[str, ...], Option("Only this topic's queues; may be given several times.", names=("--topic",))
    ] = ()
    queue_ids: Annotated[
        tuple[int, ...], Option("Only these queueIds of the topics given.", names=("--queue",), metavar="ID")
    ] = ()
    from_offset: Annotated[
        int | None,
        Option(
            "Index only records from this physical offset on, after the index files that end before it.",
            metavar="OFFSET",
            least=0,
        ),
    ] = None
    only_missing_tail: Annotated[
        bool,
        Option("Continue where the store's own queues and index end; write only files that get additions."),
    ] = False
    time_zone: shared.TimeZone = "UTC"
    delay_levels: shared.DelayLevels = None
    workers: shared.Workers = field(default_factory=shared.Workers)
    work_dir: WorkDir = None
    no_sync: shared.NoSync = False
    stated: shared.StoreOptions = field(default_factory=shared.StoreOptions)

    @property
    def stores(self) -> shared.StoresWanted:
        return shared.StoresWanted(self.paths, self.stores_from)

    def options(self) -> RebuildOptions:
        """The options of the job. Raises UsageError for those that contradict."""
        from rocketfsck.repair.build.queuestates import WantedQueues
        from rocketfsck.repair.build.run import RebuildOptions

        self._demand_sense()
        wanted = None
        if self.topics:
            wanted = WantedQueues(frozenset(self.topics), frozenset(self.queue_ids) or None)
        return RebuildOptions(
            wanted=wanted,
            from_offset=self.from_offset,
            only_missing=self.only_missing_tail,
            time_zone=self.time_zone,
            sync=not self.no_sync,
        )

    def _demand_sense(self) -> None:
        if self.topics and self.what != "consumequeue":
            raise UsageError("--topic is for consumequeue")
        if self.queue_ids and not self.topics:
            raise UsageError("--queue needs --topic")
        if self.from_offset is not None and self.what != "index":
            raise UsageError("--from-offset is for index")
        if self.only_missing_tail and self.what in ("checkpoint", "rocksdbstore"):
            raise UsageError("--only-missing-tail is for index and consumequeue")
        is_local = self.workers.engine == "local"
        if is_local and self.work_dir is not None:
            raise UsageError("--work-dir needs --engine spark")
        if not is_local and self.what == "checkpoint":
            raise UsageError("a checkpoint alone needs no Spark: give --engine local")


@dataclass(frozen=True, slots=True)
class RebuildAnswer:
    """What was built of one store, the predicted starts with it, what it assumes, and warnings."""

    store: Store
    rebuilt: Rebuilt
    starts: tuple[StartVerdict, ...]
    assumptions: Sequence[Assumption]
    warnings: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        from rocketfsck.repair.build.run import has_problems

        refused = any(start.covered and not start.loads for start in self.starts)
        return EXIT_PROBLEMS if refused or has_problems(self.rebuilt) else EXIT_CLEAN


def rebuild(command: RebuildCommand) -> RebuildAnswer:
    """Rebuild what one store needs, in a new directory. Raises UsageError, StoreError."""
    from rocketfsck.repair.apply.judging import predict_rebuilt
    from rocketfsck.repair.build.run import options_for, rebuild_store, rows_in
    from rocketfsck.repair.plan.document import assumed_of
    from rocketfsck.store import open_store

    base = command.options()
    path, stated, into, work_dir = command.stores.find().only, command.stated, command.into, command.work_dir
    written = [place for place in (into, work_dir) if place is not None]
    for place in written:
        shared.refuse_inside(place, [path, *stated.commitlog_paths])
    store = open_store(path, **stated.facts, delay_levels=command.delay_levels)
    for place in written:
        shared.refuse_inside(place, store.commitlog.directories)  # a broker.conf may name some outside
    if not store.commitlog.files:
        raise StoreError("has no commit log files to build from", path=str(path))
    options = options_for(store, command.what, base)
    is_local = command.workers.engine == "local"
    if not is_local and (options.message_rows or (options.queues and rows_in(store) is not None)):
        raise UsageError("Spark cannot build a RocksDB: give --engine local")
    seen = [place.absolute() for place in (into.absolute().parent, work_dir) if place is not None]
    engine = command.workers.start([path, *stated.commitlog_paths, *seen], typed=[*command.paths, *written])
    if is_local:
        rebuilt = rebuild_store(store, into, options)
    else:
        from rocketfsck.pipeline.rebuild.job import rebuild_on

        rebuilt = rebuild_on(engine, store, into, options, scratch=work_dir)
    starts = predict_rebuilt(store, into, options)
    assumed = assumed_of(store, rebuilt)
    return RebuildAnswer(store, rebuilt, starts, assumed, tuple(_warnings(store, options, assumed)))


def _warnings(store: Store, options: RebuildOptions, assumed: Sequence[Assumption]) -> list[str]:
    from rocketfsck.store.elsewhere import index_note

    found = []
    if store.live.locked:
        found.append("A broker is running in the store: the result leaves out what it appends now.")
    newer = index_note(store) if options.index else None
    if newer is not None:
        found.append(f"warning: {newer}")
    for item in assumed:
        value, evidence = visible(str(item.value)), visible(item.evidence)
        found.append(f"warning: {item.name} {value} is assumed: {evidence}")
    if assumed:
        found.append("warning: --broker-conf FILE lets the broker's settings say which values are right")
    return found


def rebuild_fleet(command: RebuildCommand, places: Sequence[Path] | None = None) -> RebuiltStores:
    """Rebuild several stores, each in a directory of its own; `places` are the stores, where they were looked
    for already. Raises UsageError for options that are for one store, StoreError."""
    from rocketfsck.pipeline.fleet.rebuilding import rebuild_stores

    options = command.options()
    if command.work_dir is not None:
        raise UsageError("--work-dir is for the rebuild of one store")
    if command.stated.commitlog_paths:
        raise UsageError("--commitlog-path is for the rebuild of one store")
    if options.from_offset is not None:
        raise UsageError("--from-offset is for the rebuild of one store")
    found = command.stores.find().places if places is None else tuple(places)
    shared.refuse_inside(command.into, found)
    return rebuild_stores(
        found,
        command.into,
        command.what,
        options,
        shared.without_paths(command.workers.start(typed=[*command.paths, command.into])),
        facts={**command.stated.facts, "delay_levels": command.delay_levels},
    )
