"""Counts the messages of stores, one by one and all together."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rocketfsck.commands.shared import (
    BrokerNames,
    StoreOptions,
    StoresWanted,
    Workers,
    stores_from,
    without_paths,
)
from rocketfsck.common.options import STORE, Argument, Option
from rocketfsck.errors import EXIT_CLEAN, EXIT_OPERATIONAL

if TYPE_CHECKING:
    from rocketfsck.pipeline.statistics import ClusterStatistics

Part = Literal["total", "broker", "topic", "queue", "day", "topic-day", "key"]


@dataclass(frozen=True, slots=True)
class CountCommand:
    """Whose messages are counted, and by what."""

    paths: Annotated[tuple[Path, ...], Argument(metavar="STORE…", kind=STORE, instead="stores_from")] = ()
    stores_from: Annotated[Path | None, stores_from("Count")] = None
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
    brokers: BrokerNames = ()
    workers: Workers = field(default_factory=Workers)
    stated: StoreOptions = field(default_factory=StoreOptions)


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
    found = StoresWanted(options.paths, options.stores_from).find()
    sources = stated.sources(found.places, options.brokers, all_there=not found.is_many)
    engine = options.workers.start([*options.paths, *stated.commitlog_paths])
    if found.is_many:
        engine = without_paths(engine)
    return CountAnswer(count_stores(sources, engine=engine, key_count=keys, is_one=not found.is_many))
