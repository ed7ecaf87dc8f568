"""The options that several commands have, each declared once: which store, which engine, which masks.

Opens the store that a command names, or says which one was probably meant; keeps what is written out.

The options of commands that write stores, each declared once.

The options that say which messages are wanted, each declared once.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rocketfsck.common.options import READ_FILE, STORE, WRITE_FILE, Argument, Option, PathKind
from rocketfsck.common.outputs import STDOUT, limit_to
from rocketfsck.common.wording import visible
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.progress import phase

if TYPE_CHECKING:
    from rocketfsck.commands.masks import Masks
    from rocketfsck.engine import Engine
    from rocketfsck.pipeline.sources import StoreSource
    from rocketfsck.store import Store


SHOWN = 5


def open_named_store(command: str, path: Path, **stated: Any) -> Store:
    """The store at `path`, opened with what was `stated` of it (see `open_store`) for a command of this name.

    Raises UsageError for a part of a store, or a directory above one, with the command line that names the
    store; StoreError or UsageError as `open_store` does.
    """
    from rocketfsck.store import open_store
    from rocketfsck.store.meant import find_meant_stores

    meant = find_meant_stores(path)
    if meant:
        raise UsageError(_hint(command, path, meant))
    if path.is_file():
        line = shlex.join(["rocketfsck", "dump", str(path)])
        raise StoreError(f"is a file, not a store; `{line}` shows it", path=str(path))
    with phase("opening the store"):
        store = open_store(path, **stated)
    for directory in store.commitlog.directories:  # a broker.conf may name some outside
        limit_to(directory)
    return store


def resolved(path: Path) -> Path:
    """The path without symbolic links; of a link that leads to itself, the link."""
    try:
        return path.resolve()  # a URL has a way of its own
    except RuntimeError:
        return Path(os.path.realpath(path))


def _hint(command: str, path: Path, meant: tuple[Path, ...]) -> str:
    line = shlex.join(["rocketfsck", *command.split(), str(meant[0])])
    place = path.absolute()
    if place.is_relative_to(meant[0]):
        what = "file" if place.is_file() else "directory"
        return f"{path} is a {what} of the store {meant[0]}, not a store; did you mean `{line}`?"
    if len(meant) == 1:
        return f"{path} is not a store, but there is one in it; did you mean `{line}`?"
    names = ", ".join(str(store.relative_to(place)) for store in meant[:SHOWN])
    more = f" and {len(meant) - SHOWN} more" if len(meant) > SHOWN else ""
    return f"{path} is not a store, but there are {len(meant)} in it ({names}{more}); name one, like `{line}`"


def refuse_inside(path: Path | None, stores: Sequence[Path]) -> None:
    """Raise UsageError if `path` is one of the files or inside one of the directories that are read."""
    if path is None or path == STDOUT:
        return
    real = resolved(path)
    if any(real.is_relative_to(resolved(store)) for store in stores):
        raise UsageError(f"{visible(str(path))} is inside the store that is read; choose another place")


_INTO = "The new directory, which must not exist; it appears when complete."
_LOCAL = PathKind(local="what is written", written=True)

Into = Annotated[Path, Option(_INTO, metavar="DIR", kind=_LOCAL)]
IntoOrNone = Annotated[Path | None, Option(_INTO, metavar="DIR", kind=_LOCAL)]
IntoRemote = Annotated[Path, Option(_INTO, metavar="DIR", kind=PathKind(written=True))]
"""A URL will do, too."""
Seed = Annotated[
    int | None, Option("The same seed gives the same bytes, on any machine; default 0.", metavar="N")
]
NoSync = Annotated[bool, Option("Do not wait until the bytes are on the disk.")]
TimeZone = Annotated[
    str, Option("The broker's time zone: of the names of index files, and of deleteWhen.", shows_default=True)
]
StartOffset = Annotated[
    int | None,
    Option(
        "Offset of the first byte: of a commit log, or of a file that lost its name.",
        metavar="OFFSET",
        kind="size",
    ),
]
CommitlogFileSize = Annotated[int | None, Option("Size of a commit log file.", kind="size")]
ConsumequeueFileSize = Annotated[int | None, Option("Size of a consume queue file.", kind="size")]
SlotCount = Annotated[
    int | None, Option("Hash slots of an index file.", names=("--slots",), metavar="N", least=1)
]
EntryCount = Annotated[
    int | None, Option("Entries of an index file.", names=("--entries",), metavar="N", least=1)
]
Ledger = Annotated[
    Path | None,
    Option(
        "File that lists the source of every record; default: NAME.ledger.jsonl next to the store.",
        kind=WRITE_FILE,
    ),
]


PhysicalOffsets = Annotated[
    tuple[int, int] | None,
    Option("Only items that begin at these physical offsets.", names=("--physical-offset",), kind="range"),
]
Limit = Annotated[int | None, Option("Show at most N.", metavar="N", least=0)]


@dataclass(frozen=True, slots=True)
class WantedTimes:
    """Milliseconds since 1970: of the storeTimestamp; of messages that wait for a timer, when due."""

    begin: Annotated[
        int | None,
        Option(
            "Only from this time on: milliseconds, or a date and time, of UTC unless it names a zone.",
            kind="time",
        ),
    ] = None
    end: Annotated[int | None, Option("Only before this time.", kind="time")] = None


@dataclass(frozen=True, slots=True)
class WantedMessages:
    """What messages have in common; None is any."""

    topic: Annotated[str | None, Option("Only this topic.")] = None
    queue_id: Annotated[int | None, Option("Only this queueId.", names=("--queue",), metavar="ID")] = None
    tag: Annotated[str | None, Option("Only messages whose TAGS are this.")] = None
    key: Annotated[str | None, Option("Only messages with this key, among KEYS or as UNIQ_KEY.")] = None
    times: WantedTimes = field(default_factory=WantedTimes)


STORE_FILE = PathKind(dir_okay=False)

StorePlace = Annotated[Path, Argument(metavar="STORE", kind=STORE)]
"""An existing store, or the URL of one."""
DelayLevels = Annotated[
    str | None, Option("messageDelayLevel of the broker: '1s 5s 10s …'.", metavar="LEVELS")
]
AsBroker = Annotated[
    str | None,
    Option("Predict a broker of this version: its start, or its answer with its limits.", metavar="VERSION"),
]
"""Which broker is predicted, whoever wrote the store."""
BrokerConf = Annotated[
    Path | None,
    Option(
        "The broker's settings: file sizes, commit log paths, delay levels.", metavar="FILE", kind=STORE_FILE
    ),
]
BrokerVersion = Annotated[
    str | None,
    Option(
        "Version of the broker that wrote the store, like 4.9.8.", metavar="VERSION", shows_default="inferred"
    ),
]
"""Whose store it is; `AsBroker` is the broker that is predicted."""
BrokerNames = Annotated[
    tuple[str, ...],
    Option("The broker's name of each store, in their order.", names=("--broker-name",), metavar="NAME"),
]
StorageTexts = Annotated[
    tuple[str, ...],
    Option(
        "For URLs: an option for fsspec's file system, like endpoint_url=http://host:9000.",
        names=("--storage-option",),
        metavar="KEY=VALUE",
    ),
]
TableFormat = Annotated[
    Literal["parquet", "delta", "iceberg"],
    Option(
        "parquet: files. delta, iceberg: the same files as a table; needs the extra 'tables'.",
        shows_default=True,
    ),
]
CatalogProperties = Annotated[
    tuple[str, ...],
    Option(
        "A property of Iceberg's catalog, like uri=…; default: an SQLite file in the directory.",
        names=("--catalog",),
        metavar="NAME=VALUE",
    ),
]


def properties_of(texts: Sequence[str]) -> dict[str, str]:
    """What `--catalog` says. Raises UsageError for what is not NAME=VALUE."""
    return dict(_pair(text) for text in texts)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"a property of a catalog is NAME=VALUE, not {text!r}")
    return name, value


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What the user knows about a store and its bytes cannot tell.

    The command line sets the `storage_options` for all URLs of the process and leaves them out here.
    """

    broker_conf: BrokerConf = None
    broker_version: BrokerVersion = None
    commitlog_paths: Annotated[
        tuple[Path, ...],
        Option(
            "A commit log directory of another name or place; may be given several times.",
            names=("--commitlog-path",),
            kind=STORE,
        ),
    ] = ()
    storage_options: StorageTexts = ()

    @property
    def facts(self) -> dict[str, Any]:
        """The same as arguments of `open_store`."""
        from rocketfsck.store.places.urls import read_options

        storage = {"storage_options": read_options(self.storage_options)} if self.storage_options else {}
        return {
            "broker_conf": self.broker_conf,
            "version": self.broker_version,
            "commitlog_paths": self.commitlog_paths,
            **storage,
        }

    def open(self, command: str, path: Path, **more: Any) -> Store:
        """The store at `path`, for a command of this name, as `open_named_store` opens it."""
        return open_named_store(command, path, **self.facts | more)

    def sources(
        self, paths: Sequence[Path | str], brokers: Sequence[str], *, all_there: bool = True
    ) -> tuple[StoreSource, ...]:
        """The stores at `paths`, as `find_sources` finds them."""
        from rocketfsck.pipeline.sources import find_sources

        return find_sources(
            paths,
            brokers=brokers,
            version=self.broker_version,
            broker_confs=() if self.broker_conf is None else (self.broker_conf,),
            commitlog_paths=self.commitlog_paths,
            all_there=all_there,
        )


def _default_engine() -> Literal["local", "spark"]:
    # as `engine.session.is_submitted` has it; a check without Spark need not import that
    return "spark" if "PYSPARK_GATEWAY_PORT" in os.environ else "local"


def spark_setting(text: str) -> str:
    """A setting of Spark. Raises ValueError for anything else."""
    if not text.startswith("spark.") or "=" not in text:
        raise ValueError(f"{text!r} is not of the form spark.name=value")
    return text


@dataclass(frozen=True, slots=True)
class Workers:
    """Where the work is done: on threads of this process, or on Spark."""

    engine: Annotated[
        Literal["local", "spark"],
        Option(
            "local: threads of this process. spark: a Spark session, on this machine or a cluster.",
            shows_default="local; under spark-submit: spark",
        ),
    ] = field(default_factory=_default_engine)
    master: Annotated[
        str | None,
        Option(
            "Spark's master, like spark://host:7077; default: embedded, on all cores of this machine.",
            metavar="URL",
        ),
    ] = None
    spark_conf: Annotated[
        tuple[str, ...],
        Option(
            "A setting of Spark, like spark.executor.memory=4g; may be given several times.",
            metavar="NAME=VALUE",
            parse=spark_setting,
        ),
    ] = ()

    def start(
        self, paths: Sequence[Path] = (), *, into: Path | None = None, typed: Sequence[Path] = ()
    ) -> Engine:
        """The engine; `paths` are what every executor of a cluster must see.

        Executors write below the parent of `into`, which they must see as well; messages name `into` itself.
        `typed` is what the user wrote, where `paths` are what it stands for: for a cluster neither may be
        relative. Raises UsageError where options contradict, or Spark is not there.
        """
        if self.engine == "local":
            for option, given in (("--master", self.master is not None), ("--spark-conf", self.spark_conf)):
                if given:
                    raise UsageError(f"{option} needs --engine spark")
            from rocketfsck.engine import LocalEngine

            return LocalEngine()
        from rocketfsck.common.budget import current
        from rocketfsck.engine.session import is_embedded, is_submitted

        cores = current().jobs
        if cores is not None and (self.master is not None or is_submitted()):
            raise UsageError("--jobs is for this machine: on a cluster the master has the cores")
        from rocketfsck.engine.spark import SparkEngine, open_session

        url = self.master if self.master is not None or is_submitted() else f"local[{cores or '*'}]"
        named = (*typed, *paths, *(() if into is None else (into,)))
        if url is not None and url != "local" and not url.startswith("local["):
            _demand_absolute(named)  # before a session starts
        session = open_session(url, conf=dict(_pair(text) for text in self.spark_conf))
        if not is_embedded(session):
            _demand_absolute(named)
        seen = (*paths, *(() if into is None else (into.parent,)))
        return SparkEngine(session, paths=tuple(map(os.fspath, seen)))


def _demand_absolute(paths: Sequence[Path]) -> None:
    """Raise UsageError for a relative path, which means something else to executors."""
    for path in paths:
        if "://" not in os.fspath(path) and not path.is_absolute():
            raise UsageError(f"{path}: executors run elsewhere, so give the absolute path: {path.absolute()}")


@dataclass(frozen=True, slots=True)
class Masking:
    """Whether names and bodies are masked, and by which key."""

    mask: Annotated[
        bool, Option("For sharing: masks for names, tags, keys, properties, bodies and addresses.")
    ] = False
    mask_key: Annotated[
        Path | None,
        Option(
            "Mask with this key (16 to 4,096 random bytes), so that all runs have the same masks.",
            metavar="FILE",
            kind=PathKind(use="file", dir_okay=False, exists=True),
        ),
    ] = None

    @property
    def is_wanted(self) -> bool:
        return self.mask or self.mask_key is not None

    def masks(self) -> Masks | None:
        """New masks, None where nothing is masked. Raises UsageError for a key of an odd size."""
        if not self.is_wanted:
            return None
        from rocketfsck.commands.masks import Masks, read_key

        return Masks() if self.mask_key is None else Masks(read_key(self.mask_key))


def stores_from(verb: str) -> Option:
    """`--stores-from`, for a command that does what `verb` says."""
    text = f"{verb} the stores that this file lists, too, one path on each line; -: standard input."
    return Option(text, metavar="FILE", kind=READ_FILE)


@dataclass(frozen=True, slots=True)
class StoresFound:
    """The stores that are meant, and whether an answer about several is wanted, of however many."""

    places: tuple[Path, ...]
    is_many: bool

    @property
    def only(self) -> Path:
        """The one store, where one is named."""
        return self.places[0]


@dataclass(frozen=True, slots=True)
class StoresWanted:
    """The stores that are named, by paths and by the file of a list."""

    paths: tuple[Path, ...]
    stores_from: Path | None = None

    def named(self) -> tuple[Path | str, ...]:
        """All paths and patterns, those of the list, too. Raises as `read_list` does."""
        from rocketfsck.pipeline.sources import read_list

        return (*self.paths, *(() if self.stores_from is None else read_list(self.stores_from)))

    def find(self) -> StoresFound:
        """The stores (`pipeline.sources.find_places`). Of one path there are many where it is a pattern or a
        directory of stores, not where it is a store or has one as `store`. Raises UsageError, StoreError.
        """
        from rocketfsck.pipeline.sources import find_places, is_pattern

        places = find_places(self.named())
        if self.stores_from is not None or len(self.paths) != 1 or is_pattern(self.paths[0]):
            return StoresFound(places, is_many=True)
        [path] = self.paths
        place = path.absolute()
        if places == (place,):
            return StoresFound((path,), is_many=False)
        return StoresFound(places, is_many=places != (place / "store",))


def without_paths(engine: Engine) -> Engine:
    """The engine, which need not look for the stores first: a store that a worker cannot see has a row."""
    from rocketfsck.engine import LocalEngine

    return engine if isinstance(engine, LocalEngine) else replace(engine, paths=())  # type: ignore[type-var]
