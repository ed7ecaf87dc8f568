"""The walk over a part of a log file: batches of records, and damage, each where it begins.

A part is a range of file positions; what begins in it is its own. What comes before a record says what
the record is, and whether it is live, so the walk of a part begins with the file, or continues one that came
from there, and passes over the records in front of the part by their frames: parts are the
file, exactly, whatever is in it.

Walks of commit log files that a process ended, for the part of the same file that it reads next.

What a record is, and whether it is live, depends on all records in front of it: no part can prove by itself
that what looks like a record is not inside of a body. So a part walks the frames from the file's start on, or
from where this process has walked to: a state that was copied at the end of a batch gives the batches that a
whole walk has from there on. A process that reads all parts of a file walks it once, several processes once
each. States are kept in memory alone, and only for the very bytes: the file is the same, and unchanged.

Rows of a batch with the bytes that they point at: what columns of text and bodies are gathered from.

The bytes of some MiB are read in one piece; a row that is longer is alone in its chunk. What several columns
are made of is made once.

Columns of the view `messages` that are made of more than a number of the record.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.ma
import pyarrow as pa
from numpy.typing import NDArray

from rocketfsck.formats import dtypes, javatext, magic
from rocketfsck.pipeline.views import model
from rocketfsck.scan.columns import KEY_WORD, Fault, PropertyPairs, RecordBatch, fault_name
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.log.resync import Reason, Region, RegionKind
from rocketfsck.scan.options import PropertyParser, ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.threads.pieces import PIECE_SIZE
from rocketfsck.scan.views.arrow import LogBatch, gather, splitter
from rocketfsck.store.places.urls import Location
from rocketfsck.store.reading import FileReader

CHUNK_SIZE = 8 << 20

Rows = NDArray[np.intp]


class Chunk:
    """The rows `rows` (ascending) of a batch; `bodies` and `text` as in `chunks_of`."""

    def __init__(
        self, log: LogBatch, rows: Rows, parser: PropertyParser, *, compiled: bool, bodies: int, text: bool
    ) -> None:
        self.log = log
        self.rows = rows
        self.parser: PropertyParser = parser
        self.max_body_size = bodies
        self._compiled = compiled
        self._split = splitter(compiled)
        self._low, self._buffer = self._read() if bodies or text else (0, np.empty(0, np.uint8))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A record column's values in these rows."""
        values: NDArray[Any] = self.log.batch[name][self.rows]
        return values

    def bytes_of(self, starts: dtypes.Longs, sizes: dtypes.Longs) -> tuple[dtypes.Words, dtypes.Bytes]:
        """Ranges of file positions side by side."""
        return self._gather(self._buffer, starts - self._low, sizes)

    def _gather(
        self, buffer: dtypes.Bytes, starts: NDArray[Any], sizes: NDArray[Any]
    ) -> tuple[dtypes.Words, dtypes.Bytes]:
        longs = starts.astype(np.int64), sizes.astype(np.int64)
        return gather(buffer, *longs, compiled=self._compiled)

    @cached_property
    def has_body(self) -> NDArray[np.bool_]:
        """Whether the body is short enough to be read."""
        wanted: NDArray[np.bool_] = self["body_size"] <= self.max_body_size
        return wanted

    @cached_property
    def has_properties(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self["properties_size"] > 0
        return found

    @cached_property
    def properties(self) -> tuple[dtypes.Words, dtypes.Bytes]:
        """The properties' bytes, as on disk."""
        sizes = np.maximum(self["properties_size"], 0).astype(np.int64)
        return self.bytes_of(self["properties_pos"], sizes)

    @cached_property
    def readable(self) -> tuple[dtypes.Words, dtypes.Bytes]:
        """The properties in valid UTF-8."""
        return model.readable(*self.properties)

    @cached_property
    def pairs(self) -> PropertyPairs:
        offsets, data = self.readable
        return self._split(data, offsets, self.parser)

    def named(self, name: bytes) -> pa.Array:
        """The value of one property in every row; null without it."""
        pairs = self.pairs
        _, data = self.readable
        same = np.flatnonzero(pairs.name_size == len(name))
        places = pairs.name_start[same][:, None] + np.arange(len(name))
        same = same[(data[places] == np.frombuffer(name, np.uint8)).all(axis=1)]
        record = np.searchsorted(pairs.starts, same, side="right") - 1
        value_offsets, values = self._gather(data, pairs.value_start[same], pairs.value_size[same])
        place = np.full(len(self), -1, np.int64)
        place[record] = np.arange(len(same))
        return model.texts(value_offsets, values).take(pa.array(place, mask=place < 0))

    def property_map(self, kind: pa.DataType) -> pa.Array:
        """All properties as maps; null where the record has none at all."""
        pairs, (_, data) = self.pairs, self.readable
        names = self._gather(data, pairs.name_start, pairs.name_size)
        values = self._gather(data, pairs.value_start, pairs.value_size)
        items = pa.StructArray.from_arrays(
            [model.texts(*names), model.texts(*values)], fields=[kind.key_field, kind.item_field]
        )
        return model.lists(kind, pairs.starts, items, self.has_properties)

    def key_words(self, kind: pa.DataType) -> pa.Array:
        """The words of KEYS."""
        record, found = self._keys(self.log.batch["key_kind"] == KEY_WORD)
        starts = np.searchsorted(record, np.append(self.rows, self.log.batch.record_count)).astype(np.int32)
        return model.lists(kind, starts, model.texts(*self._key_bytes(found)))

    def _keys(self, wanted: NDArray[np.bool_]) -> tuple[NDArray[Any], Rows]:
        """Key rows of these records, and the record of each."""
        batch = self.log.batch
        is_chosen = np.zeros(batch.record_count, np.bool_)
        is_chosen[self.rows] = True
        found = np.flatnonzero(wanted & is_chosen[batch["key_record"]])
        return batch["key_record"][found], found

    def _key_bytes(self, found: Rows) -> tuple[dtypes.Words, dtypes.Bytes]:
        batch = self.log.batch
        return self.bytes_of(batch["key_pos"][found], batch["key_size"][found].astype(np.int64))

    def _read(self) -> tuple[int, dtypes.Bytes]:
        """The bytes from the first row's to the last row's end, without a body that is left out at an end."""
        low = int(self["pos"][0])
        high = int(self["pos"][-1]) + int(self["total_size"][-1])
        if len(self) == 1 and not self.has_body[0]:
            low = int(self["topic_pos"][0])
        buffer = np.empty(high - low, np.uint8)
        self.log.reader.read_into(buffer.data, low)
        return low, buffer


def chunks_of(
    log: LogBatch, rows: Rows, parser: PropertyParser, *, compiled: bool, bodies: int, text: bool
) -> Iterator[Chunk]:
    """The rows in chunks of bounded size, in order. `bodies`: the largest body that is read, 0 for none."""
    if not len(rows):
        return
    if not bodies and not text:
        yield Chunk(log, rows, parser, compiled=compiled, bodies=0, text=False)
        return
    starts = log.batch["pos"][rows]
    ends = starts + log.batch["total_size"][rows]
    at = 0
    while at < len(rows):
        last = int(np.searchsorted(ends, starts[at] + CHUNK_SIZE, side="right"))
        last = max(last, at + 1)
        yield Chunk(log, rows[at:last], parser, compiled=compiled, bodies=bodies, text=text)
        at = last


def topic_of(chunk: Chunk) -> pa.Array:
    """The topic; that of records for which the table has no room is read with them."""
    names = [javatext.java_decode(name) for name, _ in chunk.log.table.names]
    rows = chunk["queue_index"]
    if (rows < 0).any():
        return model.texts(*chunk.bytes_of(chunk["topic_pos"], chunk["topic_size"].astype(np.int64)))
    used, place = np.unique(rows, return_inverse=True)
    texts = pa.array([names[row] if row >= 0 else None for row in used.tolist()], pa.string())
    return texts.take(pa.array(place.reshape(-1).astype(np.int32)))


def _host(column: str) -> Callable[[Chunk, pa.DataType], pa.Array]:
    def host(chunk: Chunk, kind: pa.DataType) -> pa.Array:  # noqa: ARG001

        made: pa.Array = getattr(chunk.log, column)()
        return made.dictionary_decode().take(pa.array(chunk.rows))

    return host


def _transaction(chunk: Chunk, kind: pa.DataType) -> pa.Array:  # noqa: ARG001
    return model.chosen(
        (chunk["sys_flag"] & magic.TRANSACTION_MASK) >> 2, list(magic.TRANSACTION_NAMES.values())
    )


def _compression(chunk: Chunk, kind: pa.DataType) -> pa.Array:  # noqa: ARG001
    flags = chunk["sys_flag"]
    code = np.where(flags & magic.COMPRESSED, (flags >> 8) & 7, 8)
    return model.chosen(
        code, [magic.COMPRESSION_NAMES.get(number, f"type {number}") for number in range(8)] + [None]
    )


def _faults(chunk: Chunk, kind: pa.DataType) -> pa.Array:
    """Names of the Fault bits; few different sets, so each is made once."""
    sets, place = np.unique(chunk["faults"], return_inverse=True)
    made = [[fault_name(bit) for bit in Fault if bits & bit] for bits in sets.tolist()]
    return pa.array(made, kind).take(pa.array(place.reshape(-1).astype(np.int32)))


def _body(chunk: Chunk, kind: pa.DataType) -> pa.Array:  # noqa: ARG001
    sizes = np.where(chunk.has_body, np.maximum(chunk["body_size"], 0), 0).astype(np.int64)
    starts = np.where(chunk.has_body, chunk["body_pos"], chunk["topic_pos"])
    return model.binary(*chunk.bytes_of(starts, sizes), chunk.has_body)


COLUMNS: dict[str, Callable[[Chunk, pa.DataType], pa.Array]] = {
    "topic": lambda chunk, _: topic_of(chunk),
    "tags": lambda chunk, _: chunk.named(b"TAGS"),
    "unique_key": lambda chunk, _: chunk.named(b"UNIQ_KEY"),
    "keys": lambda chunk, kind: chunk.key_words(kind),
    "properties": lambda chunk, kind: chunk.property_map(kind),
    "properties_bytes": lambda chunk, _: model.binary(*chunk.properties),
    "born_host": _host("born_address"),
    "store_host": _host("store_address"),
    "transaction": _transaction,
    "compression": _compression,
    "faults": _faults,
    "body": _body,
}


FILE_COUNT = 8
WALK_COUNT = 4
"""Walks that are kept of one file: as many as threads may read it at once, about."""

MAX_NAME_SIZE = 1 << 22
"""Bytes of names of queues in a walk that is kept."""


@dataclass(frozen=True, slots=True)
class WalkedPart:
    """A walk that ended with a batch, at the file position `pos`, what it found live, and its queues.

    `record_pos` is where the last record of the batch begins, `base` what its records counted their
    physicalOffset from.
    """

    record_pos: int
    pos: int
    base: int
    live: LiveScan
    table: QueueTable


def identity(reader: FileReader, base_offset: int, options: ScanOptions) -> Hashable | None:
    """What two walks must agree in for one to continue the other; None where none may.

    The records of DLedger's files lie in entries, whose ends a batch does not tell.
    """
    if options.in_entries:
        return None
    how = (base_offset, options.property_parser, options.file_size, options.index_tags)
    if reader.fileno() < 0:
        etag = reader.path.etag if isinstance(reader.path, Location) else ""
        return (str(reader.path), etag, reader.size, reader.mtime_ns, how) if etag else None
    status = os.fstat(reader.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, how


class Continuations:
    """What walks of this process left; each is given to one walk at a time. Safe to use by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._walks: OrderedDict[Hashable, list[WalkedPart]] = OrderedDict()

    def take(self, name: Hashable, pos: int) -> WalkedPart | None:
        """The walk of this file that came nearest to the position from the front, if there is one.

        The last record that it met may reach over the position: what begins from there on is after that.
        """
        with self._lock:
            walks = self._walks.get(name, [])
            known = [walk for walk in walks if walk.record_pos < pos]
            if not known:
                return None
            found = max(known, key=lambda walk: walk.pos)
            walks.remove(found)
            return found

    def keep(self, name: Hashable, walk: WalkedPart) -> None:
        """Let the next walk of the file have it."""
        if int(walk.table.counts[1]) > MAX_NAME_SIZE:
            return
        with self._lock:
            walks = self._walks.setdefault(name, [])
            walks.append(walk)
            walks.sort(key=lambda one: one.pos)
            del walks[:-WALK_COUNT]
            self._walks.move_to_end(name)
            while len(self._walks) > FILE_COUNT:
                self._walks.popitem(last=False)

    def forget(self) -> None:
        """Keep none of those so far."""
        with self._lock:
            self._walks.clear()


continuations = Continuations()


def _in_child() -> None:
    """The lock may have been held when the process was forked."""
    global continuations
    continuations = Continuations()


os.register_at_fork(after_in_child=_in_child)


DAMAGE = frozenset({RegionKind.MALFORMED, RegionKind.DAMAGED, RegionKind.TORN})
"""Regions that hold no record where one should be."""


NEAR_SIZE = PIECE_SIZE
"""Bytes in front of the end of a part in which its walk is kept: batches are no longer than that."""


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """File positions that hold no record where one should be, and why; `is_live`: in front of live records.

    Zeros between records are damage, those after the last are not.
    """

    start: int
    end: int
    kind: str
    reason: str
    is_live: bool = True


class PartWalk:
    """One walk; `live_end` is where the live records end, as far as it is known by now.

    `known` is a walk of the same file, by the same options, that this one continues; `walked` is what the
    next one can continue, of this walk or the known one.
    """

    __slots__ = (
        "_from", "_live", "_pending", "base_offset", "end", "options", "reader", "start", "table", "walked",
    )  # fmt: skip

    def __init__(
        self,
        reader: FileReader,
        base_offset: int,
        options: ScanOptions,
        start: int,
        end: int,
        known: WalkedPart | None = None,
    ) -> None:
        self.reader = reader
        self.base_offset = base_offset
        self.options = options
        self.start = start
        self.end = end
        self.walked = known
        self._from = (0, None) if known is None else (known.pos, known.base)
        self.table = QueueTable() if known is None else known.table
        self._live = LiveScan() if known is None else known.live.copy()
        self._pending: list[Region] = []

    @property
    def live_end(self) -> int:
        """Records that begin before this position are live."""
        stale_pos = self._live.stale_pos
        return (1 << 63) - 1 if stale_pos is None else stale_pos

    def items(self, *, live_only: bool) -> Iterator[RecordBatch | DamagedRange]:
        """Yield batches that hold records of the part, maybe others with them, and the part's damage.

        Batches are reused. Raises StoreError when bytes cannot be read.
        """
        found = self._live.walk(
            self.reader,
            self.base_offset,
            self.options,
            self.table,
            past_end=not live_only,
            start=self._from[0],
            start_base=self._from[1],
        )
        for item in found:
            if isinstance(item, Region):
                if item.kind is RegionKind.BLANK:
                    yield from self._settle(in_front=True)
                if item.start < self.end and (item.kind in DAMAGE or item.kind is RegionKind.ZERO):
                    self._pending.append(item)
                elif item.start >= self.end and not self._pending:
                    return
                if item.reason is Reason.BLANK_SIZE and item.kind is RegionKind.BLANK:
                    yield from self._own(item)
                continue
            first, last = int(item["pos"][0]), int(item["pos"][-1])
            last_end = last + int(item["total_size"][-1])
            yield from self._settle(in_front=first < self.live_end)
            if first >= self.end:
                return
            self._keep(item)
            if last >= self.start:
                yield item
            if last_end >= self.end:
                return
        if live_only:
            self._pending = [region for region in self._pending if region.start < self.live_end]
        yield from self._settle(in_front=False)

    def _keep(self, batch: RecordBatch) -> None:
        """Copy the state at the end of a batch that is one of the last of the part."""
        last = batch.record_count - 1
        pos = int(batch["pos"][last])
        end = pos + int(batch["total_size"][last])
        if self._live.stale_pos is None and pos < self.end < end + NEAR_SIZE:
            base = int(batch["physical_offset"][last]) - pos
            self.walked = WalkedPart(pos, end, base, self._live.copy(), self.table)

    def _settle(self, *, in_front: bool) -> Iterator[DamagedRange]:
        """What was met since the last record is damage, zeros too if live records come after them."""
        for region in self._pending:
            if region.kind in DAMAGE or in_front:
                yield from self._own(region)
        self._pending = []

    def _own(self, region: Region) -> Iterator[DamagedRange]:
        if self.start <= region.start < self.end:
            is_live = region.start < self.live_end
            yield DamagedRange(region.start, region.end, region.kind.value, region.reason.value, is_live)
