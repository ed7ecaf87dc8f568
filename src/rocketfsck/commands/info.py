"""Says what there is at a path, without a scan; what a scan of the log counts, where that is wanted."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rocketfsck.commands.shared import Masking, StoreOptions
from rocketfsck.common.documents import FLAT, LEFT_OUT
from rocketfsck.common.options import STORE, Argument, Option
from rocketfsck.common.rows import SCHEMA_VERSION
from rocketfsck.errors import UsageError

if TYPE_CHECKING:
    from rocketfsck.query.info.model import FileInfo, StoreInfo
    from rocketfsck.query.info.statistics import StatisticsInfo


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
    stated: StoreOptions = field(default_factory=StoreOptions)
    masking: Masking = field(default_factory=Masking)


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
