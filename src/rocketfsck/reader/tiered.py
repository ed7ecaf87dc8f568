"""Tiered storage as its parts belong together: what the metadata says, queues, index files. Reference 1.10.

config/tieredStoreMetadata.json    every segment with its size and times; the number of each topic
COMMIT_LOG + CONSUME_QUEUE         one `TieredQueue`: its own log, and units that point into it
INDEX, tiered_index_file/          items that point into the logs of all queues
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.errors import FormatError
from rocketfsck.formats import config, dtypes, javatext, magic, tiered
from rocketfsck.reader.configs import CONFIG_LIMIT
from rocketfsck.reader.units import StreamReader
from rocketfsck.store.model import MappedFileQueue, OtherKind, Store, StoreFile
from rocketfsck.store.others import segment_place
from rocketfsck.store.reading import FileReader, read_whole

METADATA = "config/tieredStoreMetadata.json"
MAX_METADATA_SIZE = CONFIG_LIMIT
DELETED = 2
"""The `status` of a segment that waits for its file to be deleted (5.1.x, 5.2.0)."""
SLOT_SETTING, ITEM_SETTING = "tieredStoreIndexFileMaxHashSlotNum", "tieredStoreIndexFileMaxIndexNum"
DEFAULT_SLOTS = 5_000_000

_TABLES = ("commitLogFileSegmentTable", "consumeQueueFileSegmentTable", "indexFileSegmentTable")
_NUMBERS = ("type", "baseOffset", "status", "size", "beginTimestamp", "endTimestamp")
_NO_FILES = MappedFileQueue((), 0, ())


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """What the metadata says of a segment: bytes and ms. `path` is broker/topic/queueId."""

    path: str
    type_name: str
    base_offset: int
    status: int
    size: int
    begin_timestamp: int
    end_timestamp: int


@dataclass(frozen=True, slots=True)
class TieredMetadata:
    """`tieredStoreMetadata.json`: segments by (path, type) in order of their offsets, topics by number.

    `odd` are rows whose own fields contradict their place in the table, as text.
    """

    segments: Mapping[tuple[str, str], tuple[SegmentRow, ...]]
    topic_ids: Mapping[int, str]
    odd: tuple[str, ...] = ()


def decode_metadata(data: bytes) -> TieredMetadata:
    """The metadata in a file's bytes. Raises FormatError for what a broker does not load."""
    value = config.decode_config(data)
    if not isinstance(value, Mapping):
        raise FormatError("tieredStoreMetadata.json is not an object", offset=0)
    segments: dict[tuple[str, str], tuple[SegmentRow, ...]] = {}
    odd: list[str] = []
    for type_number, (table, type_name) in enumerate(zip(_TABLES, tiered.SEGMENT_TYPES, strict=True)):
        for path, rows in _table(value, table).items():
            found = []
            for key, row in _table({path: rows}, path).items():
                numbers = {name: _number(row, name, f"{table}.{path}.{key}") for name in _NUMBERS}
                base = key if isinstance(key, int) else javatext.parse_int64(str(key))
                if (row.get("path"), numbers["type"], numbers["baseOffset"]) != (path, type_number, base):
                    odd.append(f"{table}.{path}.{key} has the path, type or baseOffset of another segment")
                if numbers["size"] < 0 or numbers["baseOffset"] < 0:
                    odd.append(f"{table}.{path}.{key} has a negative size or baseOffset")
                    continue
                stated = (numbers[name] for name in _NUMBERS if name != "type")
                found.append(SegmentRow(str(path), type_name, *stated))
            segments[str(path), type_name] = tuple(sorted(found, key=lambda row: row.base_offset))
    topics: dict[int, str] = {}
    for name, row in _table(value, "topicMetadataTable").items():
        number = _number(row, "topicId", f"topicMetadataTable.{name}")
        if number in topics:
            odd.append(f"topicMetadataTable.{name} has the topicId {number} of {topics[number]}")
        topics[number] = str(name)
    return TieredMetadata(segments, topics, tuple(odd))


def _table(value: Mapping[Any, Any], name: Any) -> Mapping[Any, Any]:
    table = value.get(name, {})
    if not isinstance(table, Mapping):
        raise FormatError(f"tieredStoreMetadata.json: {str(name)[:80]} is not an object", offset=0)
    return table


def _number(row: Any, name: str, place: str) -> int:
    value = row.get(name, 0) if isinstance(row, Mapping) else None
    if type(value) is not int or not javatext.INT64_MIN <= value <= javatext.INT64_MAX:
        raise FormatError(f"tieredStoreMetadata.json: {place[:200]}: {name} is not a number", offset=0)
    return value


def metadata_files(store: Store) -> tuple[StoreFile, ...]:
    """The metadata and its backup, in the order in which a broker tries them."""
    names = (METADATA, f"{METADATA}.bak")
    return tuple(file for name in names for file in store.configs if file.relative == name)


def read_metadata(store: Store) -> TieredMetadata | None:
    """What a broker goes by: the file, else its .bak; None where neither can be used. Raises StoreError."""
    for file in metadata_files(store):
        try:
            return decode_metadata(read_whole(file.path, MAX_METADATA_SIZE))
        except FormatError:
            continue
    return None


@dataclass(frozen=True, slots=True)
class TieredQueue:
    """The segments of one queue: its log, and its units. `directory` is relative to the store's root."""

    path: str
    broker: str
    topic: str
    queue_id: int
    directory: str
    log: MappedFileQueue = _NO_FILES
    units: MappedFileQueue = _NO_FILES


def tiered_queues(store: Store) -> tuple[TieredQueue, ...]:
    """The queues in tiered storage, of all brokers, by path."""
    found: dict[str, TieredQueue] = {}
    for other in store.others:
        if other.kind not in (OtherKind.TIERED_LOG, OtherKind.TIERED_QUEUE) or other.mapped_files is None:
            continue
        place, directory = segment_place(other), other.relative.rpartition("/")[0]
        names = (place.path, place.broker, other.topic or "", other.queue_id or 0, directory)
        queue = found.get(directory) or TieredQueue(*names)
        is_log = other.kind is OtherKind.TIERED_LOG
        log, units = (other.mapped_files, queue.units) if is_log else (queue.log, other.mapped_files)
        found[directory] = TieredQueue(*names, log, units)
    return tuple(queue for _, queue in sorted(found.items()))


def heads_at(log: StreamReader, places: dtypes.Longs) -> tuple[dtypes.Longs, NDArray[Any]]:
    """The places of the records that units or items name, and their heads: zeros where no log is.

    Brokers up to 5.2.0 name the place of the coda in front of a segment's first record.
    """
    heads = log.gather(places, dtypes.RECORD_HEAD_DTYPE)
    coda = (heads["magicCode"] == magic.MAGIC_BLANK) & (heads["totalSize"] == tiered.TIERED_CODA.size)
    if not coda.any():
        return places, heads
    moved = np.where(coda, places + tiered.TIERED_CODA.size, places)
    return moved, log.gather(moved, dtypes.RECORD_HEAD_DTYPE)


@dataclass(frozen=True, slots=True)
class TieredIndexHeader:
    """The header of an index file, its shape, and whether its items are compacted."""

    values: Mapping[str, int] = field(default_factory=dict)
    shape: tiered.IndexShape | None = None
    compacted: bool = True


def read_segment_header(reader: FileReader) -> TieredIndexHeader:
    """The header of an index segment; no shape where its numbers do not fit its length."""
    data = reader.read_upto(0, tiered.TIERED_INDEX_HEADER.size)
    if len(data) < tiered.TIERED_INDEX_HEADER.size:
        return TieredIndexHeader()
    values = tiered.TIERED_INDEX_HEADER.parse(data)
    shape = tiered.compacted_shape(reader.size, values["slotCount"], values["indexCount"])
    return TieredIndexHeader(values, shape)


def read_local_header(store: Store, reader: FileReader) -> TieredIndexHeader:
    """The header of a file in `tiered_index_file/`. The file's length does not tell the number of slots:
    settings do, else the segments that were made of files before it, else the default where that fits."""
    data = reader.read_upto(0, tiered.TIERED_INDEX_HEADER.size)
    if len(data) < tiered.TIERED_INDEX_HEADER.size:
        return TieredIndexHeader(compacted=False)
    values = tiered.TIERED_INDEX_HEADER.parse(data)
    old = is_old_local(reader.path.rpartition("/")[2])
    first_item, tail = (0, tiered.OLD_LOCAL_TAIL_SIZE) if old else (1, 0)
    for slots in _slot_counts(store):
        shape = tiered.IndexShape(slots, values["indexCount"], tiered.TIERED_INDEX_ITEM.size, old, first_item)
        rest = (reader.size - tail - shape.items_start) % tiered.TIERED_INDEX_ITEM.size
        is_whole = rest == 0 and reader.size <= tiered.MAX_INDEX_SIZE
        counted = values["indexCount"] >= 0 and values["slotCount"] <= (0 if old else slots)
        if is_whole and counted and shape.end <= reader.size - tail:
            return TieredIndexHeader(values, shape, compacted=False)
    return TieredIndexHeader(values, compacted=False)


def is_old_local(name: str) -> bool:
    """Whether 5.1.x gives a file in `tiered_index_file/` this name."""
    return name in tiered.OLD_LOCAL_NAMES


def _slot_counts(store: Store) -> Iterator[int]:
    stated = javatext.parse_int64(store.settings.get(SLOT_SETTING) or "")
    if stated is not None and stated > 0:
        yield stated
        return
    for other in store.others:
        for file in other.files if other.kind is OtherKind.TIERED_SEGMENT_INDEX else ():
            with FileReader(file.location) as reader:
                shape = read_segment_header(reader).shape
            if shape is not None:
                yield shape.slot_count
                break
    yield DEFAULT_SLOTS


def local_indexes(store: Store) -> tuple[StoreFile, ...]:
    """The files of `tiered_index_file/` that a broker loads: their names are numbers."""

    def is_loaded(name: str) -> bool:
        return name.isascii() and name.isdecimal() and name != tiered.OLD_LOCAL_COMPACTING

    others = (other.files for other in store.others if other.kind is OtherKind.TIERED_INDEX)
    return tuple(file for files in others for file in files if is_loaded(file.name))
