"""Says what there is at a path, without a scan; what a scan of the log counts, where that is wanted.

Counts the messages of stores, one by one and all together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rocketfsck.commands import shared
from rocketfsck.common.documents import FLAT, LEFT_OUT
from rocketfsck.common.options import STORE, Argument, Option
from rocketfsck.common.rows import SCHEMA_VERSION
from rocketfsck.errors import EXIT_CLEAN, EXIT_OPERATIONAL, UsageError

if TYPE_CHECKING:
    from rocketfsck.pipeline.statistics import ClusterStatistics
    from rocketfsck.query.info.model import FileInfo, StoreInfo
    from rocketfsck.query.info.statistics import StatisticsInfo

Part = Literal["total", "broker", "topic", "queue", "day", "topic-day", "key"]


@dataclass(frozen=True, slots=True)
class CountCommand:
    """Whose messages are counted, and by what."""

    paths: Annotated[tuple[Path, ...], Argument(metavar="STORE…", kind=STORE, instead="stores_from")] = ()
    stores_from: Annotated[Path | None, shared.stores_from("Count")] = None
    by: Annotated[
        tuple[Part, ...], Option("Only these tables; may be given several times. Default: all.")
    ] = ()
    key_count: Annotated[
        int,
        Option(
            "The N most frequent keys, too; reads the logs twice.",
            names=("--keys",),
            metavar="N",
            least=0,
            shows_default=True,
        ),
    ] = 0
    brokers: shared.BrokerNames = ()
    workers: shared.Workers = field(default_factory=shared.Workers)
    stated: shared.StoreOptions = field(default_factory=shared.StoreOptions)


@dataclass(frozen=True, slots=True)
class CountAnswer:
    """The counts, and the stores that could not be read."""

    statistics: ClusterStatistics

    @property
    def exit_code(self) -> int:
        return EXIT_OPERATIONAL if self.statistics.failed else EXIT_CLEAN


def count(options: CountCommand) -> CountAnswer:
    """Count. Of several stores, one that cannot be read is named, and the others are counted.

    Raises UsageError, and StoreError for a single store that cannot be read.
    """
    from rocketfsck.pipeline.fleet.counting import count_stores

    stated, keys = options.stated, options.key_count
    found = shared.StoresWanted(options.paths, options.stores_from).find()
    sources = stated.sources(found.places, options.brokers, all_there=not found.is_many)
    engine = options.workers.start([*options.paths, *stated.commitlog_paths])
    if found.is_many:
        engine = shared.without_paths(engine)
    return CountAnswer(count_stores(sources, engine=engine, key_count=keys, is_one=not found.is_many))


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoCommand:
    """Which store or file is looked at, and whether the log is read through."""

    path: Annotated[Path, Argument(metavar="PATH", kind=STORE)]
    stats: Annotated[
        bool,
        Option(
            "Count the messages, too, by topic, queue and day, and the index's chains: reads the log through."
        ),
    ] = False
    stated: shared.StoreOptions = field(default_factory=shared.StoreOptions)
    masking: shared.Masking = field(default_factory=shared.Masking)


@dataclass(frozen=True, slots=True)
class InfoAnswer:
    """What there is, as the document of `info`."""

    schema_version: int
    kind: Literal["rocketfsck.info.store", "rocketfsck.info.file"]
    info: StoreInfo | FileInfo = field(metadata=FLAT)
    statistics: StatisticsInfo | None = field(default=None, metadata=LEFT_OUT)


def info(options: InfoCommand) -> InfoAnswer:
    """Look at a store or a file. Raises UsageError, also where a file is to be counted, and StoreError."""
    from rocketfsck.query.info.store import file_info, store_info

    is_store = options.path.is_dir()
    if options.stats and not is_store:
        raise UsageError("--stats counts what is in a store, not in a file.")
    masks = options.masking.masks()
    if not is_store:
        found = file_info(options.path)
        return InfoAnswer(SCHEMA_VERSION, "rocketfsck.info.file", masks.of(found) if masks else found)
    store = options.stated.open("info", options.path)
    if masks is not None:
        masks.learn_store(store)
    shown, statistics = store_info(store), None
    if options.stats:
        from rocketfsck.query.info.statistics import statistics_info

        statistics = statistics_info(store)
    if masks is not None:
        shown, statistics = masks.of(shown), masks.of(statistics)
    return InfoAnswer(SCHEMA_VERSION, "rocketfsck.info.store", shown, statistics)
