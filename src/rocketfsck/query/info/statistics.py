"""What `info --stats` adds: the messages of a store counted, and how the index's keys are spread.

How an index file's keys spread over its hash slots: chain lengths, and the key that fills the longest one.

What a query by key costs is the length of its slot's chain (reference 4.7). Entries are read in blocks, and
no link is followed: what a slot's chain must hold follows from the hashes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.documents import FLAT, LEFT_OUT
from rocketfsck.errors import StoreError
from rocketfsck.formats.indexfile import ENTRY_SIZE, expected_used_slots
from rocketfsck.formats.javatext import index_hash
from rocketfsck.query.counts import LogStatistics, QueueTally, Tally, count_log
from rocketfsck.reader.index import Entries, IndexReader
from rocketfsck.reader.records import LogReader
from rocketfsck.scan.spans import distinct
from rocketfsck.store.model import IndexFile, Store

_BLOCK_COUNT = 1 << 18


@dataclass(frozen=True, slots=True)
class HotKey:
    """The hash that most entries of the longest chain have; `topic` and `key` if a record tells them."""

    key_hash: int
    entry_count: int
    topic: str | None
    key: str | None


@dataclass(frozen=True, slots=True)
class Chains:
    """How many slots have chains of `from_` to `to` entries."""

    from_: int
    to: int
    slot_count: int


@dataclass(frozen=True, slots=True)
class IndexSkew:
    """The chains of one index file.

    `chain_lengths` are by powers of two. `expected_used_slot_count` is how many slots would be in use if the
    hashes were spread evenly. `hot_key` is None where no entry is in use.
    """

    slot_count: int
    entry_count: int
    used_slot_count: int
    expected_used_slot_count: int
    longest_chain: int
    longest_chain_slot: int
    chain_lengths: tuple[Chains, ...]
    hot_key: HotKey | None


def measure_skew(store: Store, file: IndexFile) -> IndexSkew:
    """Read the entries of an index file through. Raises StoreError if it cannot be read, or is too short."""
    with IndexReader(file, store.geometry) as reader:
        if not reader.has_header:
            raise StoreError("is too short for an index file", path=file.location)
        slot_count, used = reader.slot_count, reader.used_entry
        chains = np.zeros(slot_count if used else 1, np.int32)
        for block in _blocks(reader):
            slots = _slots(block, slot_count)
            np.add.at(chains, slots[slots >= 0], 1)
        longest_slot = int(chains.argmax())
        longest = int(chains[longest_slot])
        hot = _hot_key(store, reader, longest_slot) if longest else None
    used_slots = int(np.count_nonzero(chains))
    counts = slot_count, used, used_slots, expected_used_slots(slot_count, used)
    return IndexSkew(*counts, longest, longest_slot, tuple(_histogram(chains)), hot)


def _blocks(reader: IndexReader) -> Iterator[Entries]:
    """The entries in use; a block is good until the next."""
    end = reader.used_entry + 1
    room = np.empty(ENTRY_SIZE * min(_BLOCK_COUNT, end), np.uint8)
    for first in range(1, end, _BLOCK_COUNT):
        yield reader.entries(first, min(_BLOCK_COUNT, end - first), room)


def _slots(block: Entries, slot_count: int) -> NDArray[np.int64]:
    """The slot of every entry; -1 for a negative hash, which no broker writes."""
    hashes = block["keyHash"].astype(np.int64)
    return np.where(hashes < 0, -1, hashes % slot_count)


def _histogram(chains: NDArray[np.int32]) -> Iterator[Chains]:
    low = 1
    longest = int(chains.max())
    while low <= longest:
        high = min(2 * low - 1, longest)
        yield Chains(low, high, int(np.count_nonzero((chains >= low) & (chains <= high))))
        low *= 2


def _hot_key(store: Store, reader: IndexReader, slot: int) -> HotKey:
    counts: dict[int, int] = {}
    offsets: dict[int, int] = {}
    for block in _blocks(reader):
        rows = np.flatnonzero(_slots(block, reader.slot_count) == slot)
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
    with LogReader(store.commitlog) as log:
        topic, keys = log.index_keys(physical_offset, store.dialect.property_parser) or (None, [])
    for key in keys:
        if topic is not None and index_hash(topic, key) == key_hash:
            return topic, key
    return None, None


@dataclass(frozen=True, slots=True)
class TopicTallyInfo:
    """The messages of one topic."""

    topic: str
    tally: Tally = field(metadata=FLAT)


@dataclass(frozen=True, slots=True)
class DayTallyInfo:
    """The messages of one day (UTC); of None those whose time has no date."""

    day: str | None
    tally: Tally = field(metadata=FLAT)


@dataclass(frozen=True, slots=True)
class RetentionInfo:
    """What a broker would delete at `now_timestamp` (ms) as too old."""

    reserved_hours: int
    reserved_source: Literal["given", "default"]
    now_timestamp: int
    expired_file_count: int
    expired_byte_count: int


@dataclass(frozen=True, slots=True)
class SkewInfo:
    """The chains of an index file."""

    file: str
    skew: IndexSkew | None = field(default=None, metadata=FLAT)
    error: str | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True)
class StatisticsInfo:
    """The counted messages; the parts are those of `LogStatistics`."""

    total: Tally | None
    topics: tuple[TopicTallyInfo, ...]
    queues: tuple[QueueTally, ...]
    days: tuple[DayTallyInfo, ...]
    uncounted_queues: int
    retention: RetentionInfo
    indexes: tuple[SkewInfo, ...]


def statistics_info(store: Store, *, now_timestamp: int | None = None) -> StatisticsInfo:
    """Count what is in a store. `now_timestamp` (ms) is what retention is judged by; default: now.

    Raises StoreError when the log cannot be read.
    """
    log = count_log(store)
    now = int(time.time() * 1000) if now_timestamp is None else now_timestamp
    return StatisticsInfo(
        total=log.total,
        topics=tuple(TopicTallyInfo(topic, tally) for topic, tally in log.topics.items()),
        queues=log.queues,
        days=tuple(DayTallyInfo(day or None, tally) for day, tally in log.days),
        uncounted_queues=log.uncounted_queues,
        retention=_retention(log, now),
        indexes=tuple(_skew(store, file) for file in store.indexes),
    )


def _retention(log: LogStatistics, now: int) -> RetentionInfo:
    expired = log.expired_files(now)
    source: Literal["given", "default"] = "given" if log.reserved_known else "default"
    return RetentionInfo(log.reserved_hours, source, now, len(expired), sum(file.size for file in expired))


def _skew(store: Store, file: IndexFile) -> SkewInfo:
    try:
        return SkewInfo(file.relative, measure_skew(store, file))
    except StoreError as error:
        return SkewInfo(file.relative, error=str(error))
