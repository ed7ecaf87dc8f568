"""The columns that a scan fills: one row a record, one row an index key, one row a further dispatch.

Reused batches of plain NumPy arrays in native byte order. Both scanners, `scan.plain.records` (the oracle,
and the quick path for small files) and `scan.compiled.records`, fill the same columns with the same values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats import dtypes, magic, record
from rocketfsck.formats.columns import NUMBERS


@dataclass(frozen=True, slots=True)
class PropertyPairs:
    """Properties of many records: pair i belongs to record r where `starts[r] <= i < starts[r + 1]`.

    Names and values are ranges of the bytes that were taken apart; a record has each name once, with the
    value of the last of its name, at the place of the first.
    """

    starts: dtypes.Words
    name_start: dtypes.Words
    name_size: dtypes.Words
    value_start: dtypes.Words
    value_size: dtypes.Words


def _numbers(after: str, before: str) -> dict[str, str]:
    """The integers of a record's layout between two of its fields, in its order."""
    names = [field.name for field in record.RECORD_HEADER.fields]
    between = names[names.index(after) + 1 if after else 0 : names.index(before)]
    kinds = {column.field: column for column in NUMBERS}
    return {kinds[name].attribute: kinds[name].kind for name in between}


RECORD_DTYPES: dict[str, str] = {
    "pos": "i8",  # position of the record's first byte in its file
    **_numbers("", "bornHost"),  # physical_offset is the field's value, not where the record was found
    **_numbers("bornHost", "storeHost"),
    "born_host": "i8",  # IPv4: address << 32 | port; IPv6: FNV-1a 64 of the 20 bytes
    "store_host": "i8",
    **_numbers("storeHost", "bodyLength"),
    "body_pos": "i8",  # position of the body in the file
    "body_size": "i4",  # as on disk (may be negative)
    "topic_size": "i4",
    "topic_pos": "i8",
    "properties_size": "i4",  # as on disk (may be negative)
    "properties_pos": "i8",
    "tags_code": "i8",  # sign-extended Java hash of TAGS, 0 without; never the delivery time
    "delay_level": "i4",  # DELAY as parsed by Integer.parseInt, 0 without
    "queue_index": "i4",  # row of (topic, queueId) in the QueueTable
    "batch_size": "i4",  # INNER_NUM of an inner batch, else 1
    "inner_base": "i8",  # INNER_BASE of an inner batch, else queue_offset
    "key_start": "i8",  # first row in the key columns
    "key_count": "i4",
    "faults": "i4",  # Fault bits
    "traits": "i4",  # Trait bits
}

KEY_DTYPES: dict[str, str] = {
    "key_hash": "i4",  # abs(Java hash of topic#key, of topic#T#tags for tags), abs(-2**31) = 0
    "key_record": "i4",  # row of the record in the batch
    "key_pos": "i8",  # position of the key's bytes in the file
    "key_size": "i4",
    "key_kind": "i1",  # KEY_UNIQUE, KEY_WORD or KEY_TAGS
}

DISPATCH_DTYPES: dict[str, str] = {
    "dispatch_record": "i4",  # row of the record in the batch
    "dispatch_queue": "i4",  # row in the QueueTable of a further queue that a multi-dispatch record lists
    "dispatch_offset": "i8",  # its queueOffset there
}

Rows = Sequence[tuple[int, ...]]

PAGE_SIZE = 4096
LINE_SIZE = 64

KEY_UNIQUE = 0
KEY_WORD = 1
KEY_TAGS = 2


class Fault(IntFlag):
    """What is wrong inside a record whose frame is sound; the scan continues."""

    BODY_CRC = 1 << 0  # bodySize > 0 and the CRC differs (only when bodies are read)
    BODY_CRC_NEGATIVE = 1 << 1  # the stored bodyCRC is negative
    PHYSICAL_OFFSET = 1 << 2  # physicalOffset != base + pos
    SYS_FLAG = 1 << 3  # bits outside 0x7FF
    COMPRESSION_TYPE = 1 << 4  # type > 3, or a type without the compressed bit
    PORT = 1 << 5  # a host's port outside 0..65535
    QUEUE_ID = 1 << 6  # negative
    QUEUE_OFFSET = 1 << 7  # negative
    PREPARED_OFFSET = 1 << 8  # negative
    BODY_SIZE = 1 << 9  # negative (readers take it as 0)
    PROPERTIES_SIZE = 1 << 10  # negative (readers take it as 0)
    TOPIC_EMPTY = 1 << 11
    TOPIC_CHARSET = 1 << 12  # a byte no path or terminal can take: 0x00-0x1F, 0x7F, '/'; or not UTF-8
    TOPIC_SIZE = 1 << 13  # V2 above 255
    PROPERTY_NUL = 1 << 14  # NULs at the properties' end, 8 in a row, or without a shape (torn)
    PROPERTY_SHAPE = 1 << 15  # the split and the scan parser would see different pairs, or drop one
    PROPERTY_CRC = 1 << 16  # __CRC32# is there and differs (only when bodies are read)
    DELAY = 1 << 17  # DELAY in SCHEDULE_TOPIC_XXXX is not an int32
    INNER_BATCH = 1 << 18  # INNER_NUM / INNER_BASE do not parse, or INNER_BASE != queueOffset
    END_OF_FILE = 1 << 19  # the record ends later than fileSize - 8
    TOPIC_UTF8 = 1 << 20  # not valid UTF-8
    MULTI_DISPATCH = 1 << 21  # lists of queues and offsets of different lengths, or an offset is not an int64


def fault_name(fault: Fault) -> str:
    """A fault as users see it."""
    return str(fault.name).lower().replace("_", "-")


class Trait(IntFlag):
    """What kind of record this is, beyond its columns."""

    MULTI_DISPATCH = 1 << 0  # INNER_MULTI_DISPATCH and INNER_MULTI_QUEUE_OFFSET present
    INNER_BATCH = 1 << 1  # INNER_NUM and INNER_BASE both present
    PROPERTY_CRC = 1 << 2  # __CRC32# present
    TRAILING_SEPARATOR = 1 << 3  # non-empty properties end in 0x02
    SCHEDULE_TOPIC = 1 << 4  # topic is SCHEDULE_TOPIC_XXXX
    DELAY = 1 << 5  # DELAY present
    HAS_UNIQUE_KEY = 1 << 6
    HAS_KEYS = 1 << 7
    HAS_PROPERTIES = 1 << 8  # propertiesLength > 0


@dataclass(frozen=True, slots=True, weakref_slot=True)
class RecordBatch:
    """Columns of up to `capacity` records; `counts[0]` rows are filled, `counts[1]` key rows.

    `counts[2]` numbers the run of records that the rows belong to (a batch never holds two), `counts[3]` are
    the dispatch rows: the further queues of multi-dispatch records (reference 2.13). The arrays are never
    replaced: compiled code keeps their addresses.
    """

    records: dict[str, NDArray[Any]]
    keys: dict[str, NDArray[Any]]
    dispatches: dict[str, NDArray[Any]]
    counts: NDArray[np.int64]

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The filled part of a record, key or dispatch column, as a view."""
        if name in self.records:
            return self.records[name][: int(self.counts[0])]
        if name in self.keys:
            return self.keys[name][: int(self.counts[1])]
        return self.dispatches[name][: int(self.counts[3])]

    def begin(self, run: int) -> None:
        """Empty the batch; what follows belongs to this run."""
        self.counts[:] = (0, 0, run, 0)

    def append(self, rows: Rows, keys: Rows, dispatches: Rows) -> None:
        """Append rows, for which there is room; each has its values in the order of the columns."""
        added = ((0, self.records, rows), (1, self.keys, keys), (3, self.dispatches, dispatches))
        for place, columns, given in added:
            first = int(self.counts[place])
            for column, values in zip(columns.values(), zip(*given, strict=True), strict=False):
                column[first : first + len(given)] = values
            self.counts[place] = first + len(given)

    def cut(self, row: int) -> None:
        """Leave the records from `row` on out."""
        if row < self.record_count:
            key_count = int(self.records["key_start"][row])
            dispatch_count = int(np.searchsorted(self["dispatch_record"], row))
            self.counts[:] = (row, key_count, self.run, dispatch_count)

    @property
    def capacities(self) -> tuple[int, int, int]:
        """How many rows of records, keys and dispatches there is room for."""
        groups = self.records["pos"], self.keys["key_hash"], self.dispatches["dispatch_record"]
        return len(groups[0]), len(groups[1]), len(groups[2])

    @property
    def record_count(self) -> int:
        return int(self.counts[0])

    @property
    def key_count(self) -> int:
        return int(self.counts[1])

    @property
    def run(self) -> int:
        return int(self.counts[2])


RECORD_CAPACITY, KEY_CAPACITY, DISPATCH_CAPACITY = 16384, 262144, 32768


def new_batch(
    record_capacity: int = RECORD_CAPACITY,
    key_capacity: int = KEY_CAPACITY,
    dispatch_capacity: int = DISPATCH_CAPACITY,
) -> RecordBatch:
    """An empty batch; a record with more keys or further queues than fit ends the batch before it."""
    tables = (RECORD_DTYPES, KEY_DTYPES, DISPATCH_DTYPES)
    groups = tuple(zip(tables, (record_capacity, key_capacity, dispatch_capacity), strict=True))
    arrays = iter(_spread([(kind, count) for kinds, count in groups for kind in kinds.values()]))
    records, keys, dispatches = ({name: next(arrays) for name in kinds} for kinds, _ in groups)
    return RecordBatch(records, keys, dispatches, np.zeros(4, np.int64))


def batch_for(size: int) -> RecordBatch:
    """An empty batch with room for all that `size` bytes of a log can hold, at most the usual room.

    Of a tiny file, the zeros of a whole batch would take longer than its records.
    """
    records = min(RECORD_CAPACITY, size // magic.MIN_RECORD_SIZE + 1)
    return new_batch(records, min(KEY_CAPACITY, size + 1), min(DISPATCH_CAPACITY, size + 1))


def _spread(columns: list[tuple[str, int]]) -> list[NDArray[Any]]:
    """Zeros of these types and lengths, each a cache line further behind a page's start than the one before.

    A scan goes through all columns side by side. Arrays that begin at the same place of their pages, as large
    ones do, would want the same few lines of the processor's cache (a third more time for small records).
    """
    sizes = [np.dtype(kind).itemsize * count for kind, count in columns]
    strides = [-(-(size + PAGE_SIZE) // PAGE_SIZE) * PAGE_SIZE for size in sizes]
    block = np.zeros(sum(strides) + PAGE_SIZE, np.uint8)
    page = -block.ctypes.data % PAGE_SIZE
    arrays = []
    for index, ((kind, _), size, stride) in enumerate(zip(columns, sizes, strides, strict=True)):
        start = page + index * LINE_SIZE % PAGE_SIZE
        arrays.append(block[start : start + size].view(kind))
        page += stride
    return arrays
