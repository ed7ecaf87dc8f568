"""How an index file's keys spread over its hash slots: chain lengths, and the key that fills the longest one.

What a query by key costs is the length of its slot's chain (reference 4.7). Entries are read in blocks, and
no link is followed: what a slot's chain must hold follows from the hashes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats.indexfile import (
    ENTRY,
    ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    SLOT_SIZE,
    decode_header,
)
from rocketfsck.formats.javatext import index_hash, java_decode
from rocketfsck.formats.magic import MIN_RECORD_SIZE
from rocketfsck.formats.properties import KEYS, UNIQ_KEY, parse_properties, split_keys
from rocketfsck.formats.record import decode_record
from rocketfsck.scan.sorting import distinct
from rocketfsck.store.model import IndexFile, Store
from rocketfsck.store.reading import FileReader

_BLOCK_COUNT = 1 << 18
_RECORD_LIMIT = 16 << 20
_ENTRY_DTYPE = ENTRY.dtype()


@dataclass(frozen=True, slots=True)
class HotKey:
    """The hash that most entries of the longest chain have; `topic` and `key` if a record tells them."""

    key_hash: int
    entry_count: int
    topic: str | None
    key: str | None


@dataclass(frozen=True, slots=True)
class IndexSkew:
    """The chains of one index file.

    `lengths` are (shortest, longest, number of slots) with chains of that length, by powers of two.
    `expected_used` is how many slots would be in use if the hashes were spread evenly. `hot` is None where
    no entry is in use.
    """

    file: str
    slot_count: int
    entry_count: int
    used_slot_count: int
    expected_used: int
    longest: int
    longest_slot: int
    lengths: tuple[tuple[int, int, int], ...]
    hot: HotKey | None


def measure_skew(store: Store, file: IndexFile) -> IndexSkew:
    """Read the entries of an index file through. Raises StoreError if it cannot be read, or is too short."""
    slot_count = store.geometry.slot_count
    with FileReader(file.location) as reader:
        used = _used_entries(store, reader)
        chains = np.zeros(slot_count, np.int32)
        for block in _blocks(reader, slot_count, used):
            slots = _slots(block, slot_count)
            np.add.at(chains, slots[slots >= 0], 1)
        longest_slot = int(chains.argmax())
        longest = int(chains[longest_slot])
        hot = _hot_key(store, reader, slot_count, used, longest_slot) if longest else None
    used_slots = int(np.count_nonzero(chains))
    return IndexSkew(
        file.relative,
        slot_count,
        used,
        used_slots,
        round(slot_count * -math.expm1(-used / slot_count)),
        longest,
        longest_slot,
        tuple(_histogram(chains)),
        hot,
    )


def _used_entries(store: Store, reader: FileReader) -> int:
    """How many entries are in use by the header, within what the file can hold."""
    if reader.size < INDEX_HEADER_SIZE:
        raise StoreError("is too short for an index file", path=reader.path)
    header = decode_header(reader.read(0, INDEX_HEADER_SIZE))
    entries_pos = INDEX_HEADER_SIZE + SLOT_SIZE * store.geometry.slot_count
    room = max((reader.size - entries_pos) // ENTRY_SIZE, 0)
    return max(min(header.index_count, room) - 1, 0)


def _blocks(reader: FileReader, slot_count: int, used: int) -> Iterator[NDArray[np.void]]:
    """The entries in use, in one array that is used again for every block."""
    entries = np.empty(min(_BLOCK_COUNT, used), _ENTRY_DTYPE)
    first_pos = INDEX_HEADER_SIZE + SLOT_SIZE * slot_count + ENTRY_SIZE
    for start in range(0, used, _BLOCK_COUNT):
        block = entries[: min(_BLOCK_COUNT, used - start)]
        reader.read_into(block.view(np.uint8).data, first_pos + ENTRY_SIZE * start)
        yield block


def _slots(block: NDArray[np.void], slot_count: int) -> NDArray[np.int64]:
    """The slot of every entry; -1 for a negative hash, which no broker writes."""
    hashes = block["keyHash"].astype(np.int64)
    return np.where(hashes < 0, -1, hashes % slot_count)


def _histogram(chains: NDArray[np.int32]) -> Iterator[tuple[int, int, int]]:
    low = 1
    longest = int(chains.max())
    while low <= longest:
        high = min(2 * low - 1, longest)
        yield low, high, int(np.count_nonzero((chains >= low) & (chains <= high)))
        low *= 2


def _hot_key(store: Store, reader: FileReader, slot_count: int, used: int, slot: int) -> HotKey:
    counts: dict[int, int] = {}
    offsets: dict[int, int] = {}
    for block in _blocks(reader, slot_count, used):
        rows = np.flatnonzero(_slots(block, slot_count) == slot)
        hashes, offset = block["keyHash"][rows].astype(np.int32), block["phyOffset"][rows]
        for value in distinct(hashes).tolist():
            hits = hashes == value
            counts[value] = counts.get(value, 0) + int(np.count_nonzero(hits))
            offsets[value] = int(offset[hits][-1])
    hottest = max(counts, key=lambda value: (counts[value], -value))
    topic, key = _key_of(store, offsets[hottest], hottest)
    return HotKey(hottest, counts[hottest], topic, key)


def _key_of(store: Store, physical_offset: int, key_hash: int) -> tuple[str | None, str | None]:
    """The topic and the key with this hash of the record at an offset; (None, None) where there is none."""
    for file in store.commitlog.files:
        pos = physical_offset - (file.start_offset or 0)
        if not 0 <= pos <= file.size - MIN_RECORD_SIZE:
            continue
        try:
            with FileReader(file.location) as reader:
                size = int.from_bytes(reader.read(pos, 4), "big", signed=True)
                if not MIN_RECORD_SIZE <= size <= min(_RECORD_LIMIT, reader.size - pos):
                    continue
                record = decode_record(reader.read(pos, size))
        except (StoreError, FormatError):
            continue
        topic = java_decode(record.topic)
        properties = parse_properties(record.properties, store.dialect.property_parser) or {}
        for key in (properties.get(UNIQ_KEY), *split_keys(properties.get(KEYS, ""))):
            if key is not None and index_hash(topic, key) == key_hash:
                return topic, key
    return None, None
