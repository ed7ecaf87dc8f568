"""An index file: header, hash slots, index entries. Reference 4.1 to 4.4.

    file   := header[40] slot[4] * S entry[20] * N
    header := beginTimestamp endTimestamp beginPhyOffset endPhyOffset hashSlotCount indexCount
    slot   := number of the newest entry of the chain, 0 = none
    entry  := keyHash phyOffset timeDiff prevIndex

Entry 0 is never used; entries 1 .. indexCount-1 are. The file does not say S and N: they come from the
broker's settings or must be found from the length and the bytes (`store.index_geometry`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from rocketfsck.formats.javatext import INT32_MAX, int64, truncated_quotient
from rocketfsck.formats.layout import I32, I64, Buffer, Layout, declare, field, fields_of, values_of

DEFAULT_SLOT_COUNT = 5_000_000
DEFAULT_ENTRY_COUNT = 20_000_000

SLOT: Layout = declare(
    "index_slot",
    "Hash slot",
    "4.1",
    field("newestIndex", I32, "entries", "number of the newest entry of the chain, 0 = none"),
)
SLOT_SIZE = SLOT.size


@dataclass(frozen=True, slots=True)
class IndexHeader:
    """The 40 bytes at the start of an index file."""

    begin_timestamp: Annotated[
        int, field("beginTimestamp", I64, "ms", "storeTimestamp of the first put, or inherited")
    ] = 0
    end_timestamp: Annotated[int, field("endTimestamp", I64, "ms", "storeTimestamp of the last put")] = 0
    begin_physical_offset: Annotated[
        int, field("beginPhyOffset", I64, "bytes", "commitlog offset of the first put, or inherited")
    ] = 0
    end_physical_offset: Annotated[
        int, field("endPhyOffset", I64, "bytes", "commitlog offset of the last put")
    ] = 0
    hash_slot_count: Annotated[
        int, field("hashSlotCount", I32, "", "puts (up to 4.7.0) or used slots (4.7.1+)")
    ] = 0
    index_count: Annotated[
        int, field("indexCount", I32, "entries", "number of the next entry; 0 and 1 both mean empty")
    ] = 0

    @property
    def entry_count(self) -> int:
        """Entries in use: the broker takes a stored count of 0 or less as 1, and entry 0 is never used."""
        return max(self.index_count, 1) - 1


HEADER: Layout = declare("index_header", "Index file header", "4.1", *fields_of(IndexHeader))
INDEX_HEADER_SIZE = HEADER.size


@dataclass(frozen=True, slots=True)
class Entry:
    """An index entry and its `number` in the file; `previous` is that of the one before it in its chain."""

    number: int
    key_hash: Annotated[int, field("keyHash", I32, "", "absolute Java hash of topic#key, 0 .. 2**31-1")]
    physical_offset: Annotated[int, field("phyOffset", I64, "bytes", "commitlog offset of the record")]
    time_diff: Annotated[
        int, field("timeDiff", I32, "s", "storeTimestamp minus beginTimestamp, in seconds, rounded down")
    ]
    previous: Annotated[int, field("prevIndex", I32, "entries", "previous entry of the same slot, 0 = none")]


ENTRY: Layout = declare("index_entry", "Index entry", "4.1", *fields_of(Entry))
ENTRY_SIZE = ENTRY.size


def decode_header(data: Buffer, pos: int = 0) -> IndexHeader:
    """The header at `pos`; FormatError if fewer than 40 bytes are there."""
    return IndexHeader(*HEADER.parse(data, pos).values())


def encode_header(header: IndexHeader) -> bytes:
    """The 40 bytes of a header."""
    return HEADER.build(values_of(header))


def index_file_size(slot_count: int = DEFAULT_SLOT_COUNT, entry_count: int = DEFAULT_ENTRY_COUNT) -> int:
    """The exact length in bytes of an index file of this geometry."""
    return INDEX_HEADER_SIZE + SLOT_SIZE * slot_count + ENTRY_SIZE * entry_count


def slot_of(key_hash: int, slot_count: int) -> int:
    """The slot whose chain holds entries of this hash."""
    return key_hash % slot_count


def slot_pos(slot: int) -> int:
    """Position of a slot in the file."""
    return INDEX_HEADER_SIZE + SLOT_SIZE * slot


def entry_pos(entry: int, slot_count: int) -> int:
    """Position of an index entry in the file."""
    return INDEX_HEADER_SIZE + SLOT_SIZE * slot_count + ENTRY_SIZE * entry


def expected_used_slots(slot_count: int, entry_count: int) -> int:
    """How many slots chance puts so many entries into, if every hash is another one."""
    return round(-slot_count * math.expm1(-entry_count / slot_count))


def time_diff(store_timestamp: int, begin_timestamp: int) -> int:
    """The timeDiff (seconds) that a put writes while the header still holds `begin_timestamp` (ms)."""
    if begin_timestamp <= 0:
        return 0
    seconds = truncated_quotient(int64(store_timestamp - begin_timestamp), 1000)
    return min(max(seconds, 0), INT32_MAX)
