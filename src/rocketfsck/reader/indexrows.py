"""The index rows that a broker puts into `rocksdbstore/` for the records of the log. Reference 11.3, 11.7.

    key    := hour(i64) @ topic @ type @ text @ uniqKey @ phyOffset(i64)      type U has no text
    value  := storeTime(i64)

IndexRocksDBStore#buildIndex    a row for each key, for the tags, and for the unique key
IndexRocksDBRecord              their bytes (`formats.rocks`)

A batch of records becomes one text of keys, put together from the columns of the scan: no record is looked
at alone unless its topic or keys are not UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats import dtypes, javatext, magic, rocks
from rocketfsck.scan.columns import KEY_TAGS, KEY_UNIQUE, KEY_WORD, RecordBatch
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.scan.options import PropertyParser, log_options
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.views.arrow import beyond_ascii, gather
from rocketfsck.scan.views.messages import Message, read_message
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader

CHUNK_SIZE = 8 << 20
"""Bytes of the log that are read at a time; a longer record is read from its topic on, alone."""
ROWS_SIZE = 16 << 20
"""Bytes of keys that are put together at a time."""

_TYPES = {KEY_WORD: rocks.TYPE_KEY, KEY_TAGS: rocks.TYPE_TAG, KEY_UNIQUE: rocks.TYPE_UNIQUE}
_CONSTANTS = b"".join(rocks.AT + kind + rocks.AT for _, kind in sorted(_TYPES.items()))
_TYPE_SIZE = 3
_LONG_SIZE = 8


@dataclass(frozen=True, slots=True)
class IndexRows:
    """Rows that a broker puts, in the order of the log: the keys in one text and where each begins (one
    number more than rows), of each row the storeTime (ms) that is its value, and the physical offset."""

    keys: bytes
    starts: dtypes.Longs
    store_timestamps: dtypes.Longs
    offsets: dtypes.Longs

    def pairs(self) -> Iterator[tuple[bytes, int, int]]:
        """Key, storeTime and physical offset of each row."""
        bounds = pairwise(self.starts.tolist())
        values = zip(bounds, self.store_timestamps.tolist(), self.offsets.tolist(), strict=True)
        for (start, end), time, offset in values:
            yield self.keys[start:end], time, offset


@dataclass(frozen=True, slots=True, eq=False)
class KeyedBatch:
    """Live records of a log file: columns, and where the file begins in the log. Good until the next."""

    reader: FileReader
    base_offset: int
    batch: RecordBatch
    table: QueueTable
    parser: PropertyParser
    compiled: bool

    @property
    def offsets(self) -> dtypes.Longs:
        """The physical offset at which each record stands."""
        found: dtypes.Longs = self.batch["pos"] + np.int64(self.base_offset)
        return found

    def of_topics(self, topics: frozenset[bytes]) -> NDArray[np.bool_]:
        """Which records may belong to these topics: all for whose topic the table has no room may."""
        known = np.array([name in topics for name, _ in self.table.names] + [True], np.bool_)
        found: NDArray[np.bool_] = known[self.batch["queue_index"]]
        return found

    def messages(self, rows: dtypes.Longs) -> Iterator[tuple[int, Message]]:
        """Physical offset and message, without its body, of some records."""
        for row in rows.tolist():
            message = read_message(self.reader, self.batch, row, self.parser, 0)
            yield self.base_offset + message.pos, message

    def topic(self, row: int) -> str:
        """The topic of a record."""
        number = int(self.batch["queue_index"][row])
        if number >= 0:
            return javatext.java_decode(self.table.names[number][0])
        size = int(self.batch["topic_size"][row])
        return javatext.java_decode(self.reader.read(int(self.batch["topic_pos"][row]), size))

    def index_rows(self) -> Iterator[IndexRows]:
        """The rows of all records, in bounded texts.

        A record without topic, unique key or storeTime has no rows, nor has the end of a rolled back
        transaction.
        """
        batch, count = self.batch, self.batch.record_count
        filled = batch["key_size"] > 0
        unique = np.full(count, -1, np.int64)
        found = np.flatnonzero(filled & (batch["key_kind"] == KEY_UNIQUE))
        unique[batch["key_record"][found]] = found
        wanted = (unique >= 0) & (batch["topic_size"] > 0) & (batch["store_timestamp"] > 0)
        wanted &= batch["sys_flag"] & magic.TRANSACTION_MASK != magic.TRANSACTION_ROLLBACK
        keys = np.flatnonzero(filled & wanted[batch["key_record"]])
        records = batch["key_record"][keys].astype(np.int64)
        ends = batch["pos"] + batch["total_size"]
        first = 0
        while first < len(keys):
            record = int(records[first])
            low = int(batch["pos"][record])
            last = max(int(np.searchsorted(ends, low + CHUNK_SIZE, side="right")), record + 1)
            alone = last == record + 1
            low = int(batch["topic_pos"][record]) if alone else low
            buffer = np.empty(int(ends[last - 1]) - low, np.uint8)
            self.reader.read_into(buffer.data, low)
            end = int(np.searchsorted(records, last))
            yield from self._rows(keys[first:end], records[first:end], unique, buffer, low)
            first = end

    def _rows(
        self, keys: dtypes.Longs, records: dtypes.Longs, unique: dtypes.Longs, buffer: dtypes.Bytes, low: int
    ) -> Iterator[IndexRows]:
        """The rows of these keys, whose records' bytes are in the buffer, which is from position `low` on."""
        batch = self.batch
        owners = unique[records]
        places = ("topic_pos", records), ("key_pos", keys), ("key_pos", owners)
        lengths = ("topic_size", records), ("key_size", keys), ("key_size", owners)

        def stacked(columns: tuple[tuple[str, dtypes.Longs], ...]) -> dtypes.Longs:
            return np.stack([batch[name][rows].astype(np.int64) for name, rows in columns], 1)

        starts, sizes = stacked(places), stacked(lengths)
        kinds = batch["key_kind"][keys].astype(np.int64)
        texts = Texts(buffer, starts - low, sizes, kinds)
        texts.make_readable(compiled=self.compiled)
        once = texts.first_of_each(records, batch["key_hash"][keys])
        if len(once) < len(keys):
            keys, records, texts = keys[once], records[once], texts.chosen(once)
        bounds = np.cumsum(texts.sizes.sum(axis=1) + 4 * _LONG_SIZE)
        first = 0
        while first < len(keys):
            before = int(bounds[first - 1]) if first else 0
            end = max(int(np.searchsorted(bounds, before + ROWS_SIZE, side="right")), first + 1)
            part = slice(first, end)
            times = batch["store_timestamp"][records[part]].astype(np.int64)
            offsets = self.offsets[records[part]]
            hours = times // rocks.HOUR_MS * rocks.HOUR_MS
            made, data = texts.put_together(part, hours, offsets, compiled=self.compiled)
            yield IndexRows(data, made, times, offsets)
            first = end


@dataclass(slots=True, eq=False)
class Texts:
    """Topic, text and unique key of rows: where they are in `buffer`, as a broker writes them again."""

    buffer: dtypes.Bytes
    starts: dtypes.Longs
    sizes: dtypes.Longs
    kinds: dtypes.Longs

    def chosen(self, rows: dtypes.Longs) -> Texts:
        """Those rows alone."""
        return Texts(self.buffer, self.starts[rows], self.sizes[rows], self.kinds[rows])

    def first_of_each(self, records: dtypes.Longs, hashes: NDArray[np.int32]) -> dtypes.Longs:
        """The rows without those whose record has that key already: a broker puts it once."""
        owned = records << 32 | hashes.astype(np.int64) & 0xFFFFFFFF
        _, groups, counts = np.unique(owned, return_inverse=True, return_counts=True)
        again = counts[groups.reshape(-1)] > 1
        met = set()
        for row in np.flatnonzero(again).tolist():
            start = int(self.starts[row, 1])
            text = self.buffer[start : start + int(self.sizes[row, 1])].tobytes()
            key = int(records[row]), int(self.kinds[row]), text
            again[row] = key in met
            met.add(key)
        return np.flatnonzero(~again)

    def make_readable(self, *, compiled: bool) -> None:
        """Put what a broker makes of texts that are not UTF-8 behind the buffer, and lead there."""
        buffer = self.buffer
        ranges = self.starts.reshape(-1), self.sizes.reshape(-1)
        odd = np.argwhere(beyond_ascii(buffer, *ranges, compiled=compiled).reshape(self.starts.shape))
        further: dict[bytes, int] = {}
        size = len(buffer)
        for row, column in odd.tolist():
            start = int(self.starts[row, column])
            text = buffer[start : start + int(self.sizes[row, column])].tobytes()
            again = javatext.java_decode(text).encode("utf-8", "replace")
            if again != text:
                if again not in further:
                    further[again] = size
                    size += len(again)
                self.starts[row, column], self.sizes[row, column] = further[again], len(again)
        if further:
            self.buffer = np.concatenate([buffer, np.frombuffer(b"".join(further), np.uint8)])

    def put_together(
        self, part: slice, hours: dtypes.Longs, offsets: dtypes.Longs, *, compiled: bool
    ) -> tuple[dtypes.Longs, bytes]:
        """Where each key begins, and all keys, of these rows."""
        starts, sizes, kinds = self.starts[part], self.sizes[part], self.kinds[part]
        count, text_end = len(starts), len(self.buffer)
        numbers = np.stack([hours, offsets], 1).astype(">i8")
        constants, longs = np.frombuffer(_CONSTANTS, np.uint8), numbers.view(np.uint8).reshape(-1)
        both = np.concatenate([self.buffer, constants, longs])
        place = text_end + len(_CONSTANTS) + 2 * _LONG_SIZE * np.arange(count)
        has_text = (kinds != KEY_UNIQUE).astype(np.int64)
        at, one = np.full(count, text_end), np.ones(count, np.int64)
        long = np.full(count, _LONG_SIZE)
        pieces = (
            (place, long),
            (at, one),
            (starts[:, 0], sizes[:, 0]),
            (text_end + _TYPE_SIZE * kinds, np.full(count, _TYPE_SIZE)),
            (starts[:, 1], sizes[:, 1] * has_text),
            (at, has_text),
            (starts[:, 2], sizes[:, 2]),
            (at, one),
            (place + _LONG_SIZE, long),
        )
        ranges = [np.stack(columns, 1).reshape(-1) for columns in zip(*pieces, strict=True)]
        made, data = gather(both, *ranges, compiled=compiled)
        return made[:: len(pieces)].astype(np.int64), data.tobytes()


def log_batches(store: Store) -> Iterator[KeyedBatch]:
    """The live records of the log, file by file, with all their keys.

    Raises StoreError where the log cannot be read.
    """
    compiled = compiled_wanted(store.commitlog.size)
    for file in store.commitlog.files:
        with FileReader(file.path) as reader:
            options = replace(log_options(store, file, read_bodies=False), index_tags=True)
            base, table = file.start_offset or 0, QueueTable()
            for batch in LiveScan().batches(reader, base, options, table):
                yield KeyedBatch(reader, base, batch, table, options.property_parser, compiled=compiled)
