"""Which database of a store has which families, and what is in them. Reference 3.9, 11.3 to 11.7.

consumequeue/, consumequeue_rocksdb/   default: units; offset: bounds
rocksdbstore/                          default: index; timer; trans
kvStore/                               popState
config/topics/, …, config/metadata/    first form of the configs
config/rdb/                            second form

Rows of the databases as values, by what their family holds.

A row whose key or value has not the form of its family raises FormatError; that it is odd is for others to
say.

Whether the files of a database are all there, by its own manifest: no RocksDB needed.
`formats.rocksfiles`.

    CURRENT      -> a manifest that is there and whole
    the manifest -> sst files that are there, of the length that it says
                 -> a WAL, at least the one that the database continues with

A WAL is gone through as long as it is small; RocksDB looks at the larger ones itself (`reading`, strict).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rocketfsck.common.wording import count_of
from rocketfsck.errors import FormatError
from rocketfsck.formats import rocks, rocksfiles
from rocketfsck.formats.config import decode_config
from rocketfsck.store.elsewhere import QUEUE_DATABASES
from rocketfsck.store.model import Other, OtherKind, Store, StoreFile
from rocketfsck.store.reading import read_whole

CURRENT = "CURRENT"
CURRENT_LIMIT = 4096
MANIFEST_LIMIT = 16 << 20
WAL_LIMIT = 8 << 20
"""A longer WAL is left to RocksDB: its CRC is too slow here."""


class Fault(StrEnum):
    """What is wrong with a file of a database."""

    MISSING = "missing"
    TORN = "torn"
    LENGTH = "length"
    NO_WAL = "no-wal"


@dataclass(frozen=True, slots=True)
class FileFault:
    """A fault of the file `name`. `pos` is where it begins; `expected` the length that the manifest says;
    `at_end` whether a WAL is only cut off, as a broker that is killed may leave it."""

    fault: Fault
    name: str
    detail: str
    size: int = 0
    pos: int | None = None
    expected: int | None = None
    at_end: bool = False


def file_faults(other: Other) -> Iterator[FileFault]:
    """Yield what is wrong with the files of a database. Raises StoreError if one cannot be read."""
    files = {file.name: file for file in other.files}
    if CURRENT not in files:
        yield FileFault(Fault.MISSING, CURRENT, "names the manifest")
        return
    try:
        name = rocksfiles.decode_current(read_whole(files[CURRENT].path, CURRENT_LIMIT))
    except FormatError as error:
        yield FileFault(Fault.TORN, CURRENT, str(error), files[CURRENT].size, 0)
        return
    if name not in files:
        yield FileFault(Fault.MISSING, name, "CURRENT names it")
        return
    if files[name].size > MANIFEST_LIMIT:
        return
    try:
        manifest = rocksfiles.decode_manifest(read_whole(files[name].path, MANIFEST_LIMIT))
    except FormatError as error:
        yield FileFault(Fault.TORN, name, str(error), files[name].size, error.offset)
        return
    yield from _tables(manifest, files)
    yield from _wals(manifest, files)


def _tables(manifest: rocksfiles.Manifest, files: Mapping[str, StoreFile]) -> Iterator[FileFault]:
    for name, table in sorted(rocksfiles.names_of(manifest).items()):
        if name not in files:
            family = manifest.families.get(table.family, "?")
            yield FileFault(Fault.MISSING, name, f"rows of the family {family}", expected=table.size)
        elif files[name].size != table.size:
            size = files[name].size
            yield FileFault(Fault.LENGTH, name, "", size, min(size, table.size), table.size)


def _wals(manifest: rocksfiles.Manifest, files: Mapping[str, StoreFile]) -> Iterator[FileFault]:
    numbers = {_number(name): file for name, file in files.items() if _number(name) is not None}
    newest = max((manifest.log_numbers.get(family, 0) for family in manifest.families), default=0)
    if not any(number is not None and number >= newest for number in numbers):
        name = f"{newest:06d}.log" if newest else "*.log"  # before the first flush no number is written down
        yield FileFault(Fault.NO_WAL, name, "the last writes were only in a WAL")
    for number, file in sorted(numbers.items(), key=lambda item: item[0] or 0):
        if number is not None and number >= manifest.log_number and file.size <= WAL_LIMIT:
            yield from _wal(file)


def _wal(file: StoreFile) -> Iterator[FileFault]:
    data = read_whole(file.path, WAL_LIMIT)
    try:
        for _ in rocksfiles.log_records(data):
            pass
    except FormatError as error:
        cut = isinstance(error, rocksfiles.CutOffError)
        yield FileFault(Fault.TORN, file.name, str(error), file.size, error.offset, at_end=cut)


def _number(name: str) -> int | None:
    stem, dot, end = name.partition(".")
    return int(stem) if dot and end == "log" and stem.isascii() and stem.isdigit() else None


# Rows that are not what their family has: the first of each family, and how many.


@dataclass(frozen=True, slots=True)
class OddRow:
    """A row that is not what its family has: `reason` says why, `key` is its key."""

    family: str
    key: bytes
    reason: str


@dataclass(slots=True)
class OddRows:
    """The odd rows of a database, by family."""

    first: dict[str, OddRow] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, family: str, key: bytes, reason: str) -> None:
        """Count a row, and keep it if it is the first of its family."""
        self.first.setdefault(family, OddRow(family, key, reason))
        self.counts[family] = self.counts.get(family, 0) + 1


DEFAULT = "default"
CONFIG_V2 = "config/rdb"
MESSAGE_DATABASE = "rocksdbstore"
"""Index, timers and prepared messages."""


class Content(StrEnum):
    """What the rows of a family are."""

    UNITS = "units"
    BOUNDS = "bounds"
    INDEX = "index"
    TIMER = "timer"
    TRANS = "trans"
    POP = "pop"
    TOPICS = "topics"
    GROUPS = "groups"
    FORBIDDEN = "forbidden"
    OFFSETS = "offsets"
    VERSION = "version"
    CONFIG = "config"
    UNKNOWN = "unknown"


_CONTENTS: Mapping[str, Mapping[str, Content]] = {
    **{name: {DEFAULT: Content.UNITS, "offset": Content.BOUNDS} for name in QUEUE_DATABASES},
    MESSAGE_DATABASE: {DEFAULT: Content.INDEX, "timer": Content.TIMER, "trans": Content.TRANS},
    "kvStore": {"popState": Content.POP},
    "config/topics": {DEFAULT: Content.TOPICS},
    "config/subscriptionGroups": {DEFAULT: Content.GROUPS, "forbidden": Content.FORBIDDEN},
    "config/consumerOffsets": {DEFAULT: Content.OFFSETS},
    "config/metadata": {
        "topic": Content.TOPICS,
        "subscriptionGroup": Content.GROUPS,
        "forbidden": Content.FORBIDDEN,
        "consumerOffset": Content.OFFSETS,
    },
    CONFIG_V2: {DEFAULT: Content.CONFIG},
}


def content_of(database: str, family: str) -> Content:
    """What the rows of a family of the database with that path below the root are."""
    known = _CONTENTS.get(database, {}).get(family)
    if known is None and database.startswith("config/") and family in rocks.VERSION_FAMILIES:
        return Content.VERSION
    return known or Content.UNKNOWN


def contents_of(database: str) -> frozenset[Content]:
    """All that the families of a database at that path may hold."""
    return frozenset(_CONTENTS.get(database, {"": Content.UNKNOWN}).values())


def is_known(database: str) -> bool:
    """Whether brokers have a database at that path below the root whose rows are read here."""
    return database in _CONTENTS


def databases_of(store: Store) -> Iterator[Other]:
    """The databases of a store that have files."""
    return (other for other in store.others if other.kind is OtherKind.ROCKSDB and other.files)


def database_at(store: Store, path: str) -> Other | None:
    """The database at a path below the root that has files."""
    return next((other for other in databases_of(store) if other.relative == path), None)


Values = dict[str, Any]


def decode_row(content: Content, key: bytes, value: bytes) -> tuple[str, Values]:
    """What a row is ("unit", "bound", "mark" …) and its fields; FormatError where it is something else."""
    return _DECODERS[content](key, value)


def _fixed(layout: Any, value: bytes) -> Values:
    if len(value) != layout.size:
        raise FormatError(
            f"value: {count_of(len(value), 'byte')}, but {layout.name} has {layout.size}", offset=0
        )
    found: Values = layout.parse(value)
    return found


def _unit(key: bytes, value: bytes) -> tuple[str, Values]:
    unit = rocks.decode_unit_key(key)
    place = {"topic": unit.topic, "queueId": unit.queue_id, "cqOffset": unit.cq_offset}
    return "unit", place | _fixed(rocks.ROCKS_UNIT, value)


def _bound(key: bytes, value: bytes) -> tuple[str, Values]:
    if key == rocks.DISPATCHED_KEY:
        return "mark", {"name": "dispatched", "phyOffset": rocks.decode_i64(value, "phyOffset")}
    bound = rocks.decode_bound_key(key)
    name = "max" if bound.is_max else "min"
    return "bound", {"topic": bound.topic, "queueId": bound.queue_id, "name": name} | _fixed(
        rocks.ROCKS_OFFSET, value
    )


def _marked(
    family: str, decode: Callable[[bytes, bytes], tuple[str, Values]]
) -> Callable[..., tuple[str, Values]]:
    def row(key: bytes, value: bytes) -> tuple[str, Values]:
        if key in rocks.MARKS[family]:
            return "mark", {"name": key.decode("ascii"), "number": rocks.decode_i64(value, "value")}
        return decode(key, value)

    return row


def _entry(key: bytes, value: bytes) -> tuple[str, Values]:
    entry = rocks.decode_index_key(key)
    return "entry", {
        "topic": entry.topic,
        "type": entry.type,
        "text": entry.text,
        "uniqKey": entry.unique_key,
        "phyOffset": entry.physical_offset,
        "hour": entry.hour,
        "storeTime": rocks.decode_i64(value, "storeTime"),
    }


def _timer(key: bytes, value: bytes) -> tuple[str, Values]:
    timer = rocks.decode_timer_key(key)
    return "timer", {"deliverTime": timer.deliver_time, "uniqKey": timer.unique_key} | _fixed(
        rocks.ROCKS_TIMER, value
    )


def _trans(key: bytes, value: bytes) -> tuple[str, Values]:
    trans = rocks.decode_trans_key(key)
    place = {"topic": trans.topic, "uniqKey": trans.unique_key, "phyOffset": trans.physical_offset}
    return "trans", place | _fixed(rocks.ROCKS_TRANS, value)


def _pop(key: bytes, value: bytes) -> tuple[str, Values]:
    pop = rocks.decode_pop_key(key)
    return "pop", {
        "visibleTime": pop.visible_time,
        "group": pop.group,
        "topic": pop.topic,
        "queueId": pop.queue_id,
        "queueOffset": pop.queue_offset,
        "content": decode_config(value),
    }


def _named(kind: str) -> Callable[[bytes, bytes], tuple[str, Values]]:
    return lambda key, value: (kind, {"name": key, "content": decode_config(value)})


def _config(key: bytes, value: bytes) -> tuple[str, Values]:
    found = rocks.decode_config_key(key)
    table = found.table.name.lower().replace("_", "-")
    if isinstance(found, rocks.OffsetKey):
        place = {"topic": found.topic, "group": found.group, "queueId": found.queue_id}
        return table, place | {"offset": rocks.decode_i64(value, "offset")}
    if found.name is None:
        return "version", {"name": table.encode(), "content": _fixed(rocks.ROCKS_DATA_VERSION, value)}
    return table, {"name": found.name, "content": decode_config(rocks.json_of(value))}


def _other(key: bytes, value: bytes) -> tuple[str, Values]:
    return "row", {"key": key, "value": value}


_DECODERS: Mapping[Content, Callable[[bytes, bytes], tuple[str, Values]]] = {
    Content.UNITS: _unit,
    Content.BOUNDS: _bound,
    Content.INDEX: _marked("default", _entry),
    Content.TIMER: _marked("timer", _timer),
    Content.TRANS: _marked("trans", _trans),
    Content.POP: _pop,
    Content.TOPICS: _named("topic"),
    Content.GROUPS: _named("subscription-group"),
    Content.FORBIDDEN: _named("forbidden"),
    Content.OFFSETS: _named("consumer-offset"),
    Content.VERSION: _named("version"),
    Content.CONFIG: _config,
    Content.UNKNOWN: _other,
}
