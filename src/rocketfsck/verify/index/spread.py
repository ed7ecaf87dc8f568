"""How the keys of an index file spread over its slots, and when its name says that it was made. Notes only.

    hashes shared by different keys    IX025      a query gives messages that do not have the key
    slots used, against chance         IX026      n keys that hash well use S (1 - e^(-n/S)) of S slots
    the longest chain, its hottest key IX027      a query for it walks the whole chain
    the name's time                    IX028      local time of the broker, whose zone nobody knows

Small files are looked at whole, of larger ones evenly spaced pieces of 65,536 entries and slots: some
milliseconds a file. Reference 4.1 to 4.3, 4.6, 9.4 I16; fault classes I5, I9, I11.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.indexfile import expected_used_slots, slot_pos
from rocketfsck.formats.javatext import index_hash
from rocketfsck.reader.index import IndexReader
from rocketfsck.reader.records import LogReader
from rocketfsck.store.model import IndexFile
from rocketfsck.verify.finding import Facts, Finding, Where
from rocketfsck.verify.index.places import entry_place, slot_place
from rocketfsck.verify.tasks.facts import IndexFacts
from rocketfsck.verify.tasks.task import Context, TaskResult

SAMPLE_COUNT = 1 << 16
PIECE_COUNT = 1 << 12
LEAST_ENTRIES = 1000
"""With fewer entries chance alone leaves slots unused."""
USED_SHARE = 0.5
"""Fewer used slots than this share of what chance gives are skewed; repeated keys alone seldom do it."""
LEAST_CHAIN = 64
CHAIN_FACTOR = 16
"""A chain is long with 64 entries and 16 times the mean: with any usual load chance makes none."""
LOOK_LIMIT = 256
"""Shared hashes of a file whose records are read for their keys."""

HOUR = 3_600_000
WEST, EAST = 12 * HOUR, 14 * HOUR
"""The furthest that local time is behind and ahead of UTC."""
SLACK = HOUR
"""Milliseconds that clocks may differ and a put may wait."""

Columns = NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Sample:
    """Entries of a file by number, with what they hold; `share` of all entries in use are among them."""

    number: Longs
    key_hash: Longs
    offset: Longs
    share: float

    def chain_count(self, sampled_count: int) -> int:
        """How many entries a chain has of which so many are in the sample."""
        return round(sampled_count / self.share)


def check_spread(context: Context, indexes: Sequence[TaskResult | None]) -> Iterator[Finding]:
    """Notes on every index file that was checked. A file that cannot be read has said so elsewhere."""
    for file, result in zip(context.store.indexes, indexes, strict=True):
        if result is None:
            continue
        if result.summary.notes is not None:
            yield from result.summary.notes
            continue
        with suppress(StoreError):
            yield from spread_notes(context, file, result.summary)


def spread_notes(context: Context, file: IndexFile, extent: Any) -> tuple[Finding, ...]:
    """Notes on the keys of an index file, whose `IndexExtent` is `extent`. Raises StoreError."""
    if extent.entry_count < 2:
        return ()
    with LogReader(context.store.commitlog) as log:
        return tuple(_spread(context, file, extent, log))


def _spread(context: Context, file: IndexFile, extent: Any, log: LogReader) -> Iterator[Finding]:
    used = int(extent.entry_count)
    with IndexReader(file, context.store.geometry) as reader:
        slot_count = reader.slot_count
        used_count, whole = (extent.slot_count, True) if extent.slot_count else _used_slots(reader)
        sample = _entries(reader, used)
    expected_count = expected_used_slots(slot_count, used)
    if used >= LEAST_ENTRIES and used_count < USED_SHARE * expected_count:
        facts: Facts = {
            "used_count": used_count,
            "how": "" if whole else "about ",
            "slot_count": slot_count,
            "entry_count": used,
        }
        where = Where(file=file.relative, start=slot_pos(0), end=slot_pos(slot_count))
        yield Finding(RuleName.INDEX_SLOTS_SKEWED, where, facts, {"used_count": expected_count})
    if not len(sample.number):
        return
    parser = context.store.dialect.property_parser
    yield from _long_chain(file, sample, slot_count, used, log, parser)
    yield from _shared(file, sample, slot_count, log, parser)


def _used_slots(reader: IndexReader) -> tuple[int, bool]:
    """How many slots are not zero, and whether all were counted."""
    found = looked = 0
    slot_count = reader.slot_count
    for first, count in _pieces(0, slot_count):
        found += int(np.count_nonzero(reader.slots(first, count)))
        looked += count
    return round(found / looked * slot_count), looked == slot_count


def _entries(reader: IndexReader, used: int) -> _Sample:
    numbers, columns, looked = [], [], 0
    for first, count in _pieces(1, used):
        entries = reader.entries(first, count)
        numbers.append(np.arange(first, first + count))
        columns.append(entries)
        looked += count
    joined: Columns = np.concatenate(columns)
    number: Longs = np.concatenate(numbers).astype(np.int64)
    sound = np.flatnonzero(joined["keyHash"] >= 0)
    return _Sample(
        number[sound],
        joined["keyHash"][sound].astype(np.int64),
        joined["phyOffset"][sound].astype(np.int64),
        looked / used,
    )


def _pieces(start: int, total: int) -> Iterator[tuple[int, int]]:
    """The ranges (first, count) of `total` things from `start` on that are looked at."""
    if total <= SAMPLE_COUNT:
        yield start, total
        return
    pieces = SAMPLE_COUNT // PIECE_COUNT
    for piece in range(pieces):
        yield start + piece * (total - PIECE_COUNT) // (pieces - 1), PIECE_COUNT


def _long_chain(
    file: IndexFile, sample: _Sample, slot_count: int, used: int, log: LogReader, parser: Any
) -> Iterator[Finding]:
    slots, counts = np.unique(sample.key_hash % slot_count, return_counts=True)
    most = int(np.argmax(counts))
    sampled_count = int(counts[most])
    length = sample.chain_count(sampled_count)
    if sampled_count < LEAST_CHAIN or length < CHAIN_FACTOR * max(1.0, used / slot_count):
        return
    slot = int(slots[most])
    hashes, hash_counts = np.unique(sample.key_hash[sample.key_hash % slot_count == slot], return_counts=True)
    hottest = int(np.argmax(hash_counts))
    key_hash = int(hashes[hottest])
    row = int(np.flatnonzero(sample.key_hash == key_hash)[0])
    found: Facts = {
        "entry_count": length,
        "how": "" if sample.share == 1 else "about ",
        "hash": key_hash,
        "hash_entry_count": sample.chain_count(int(hash_counts[hottest])),
        "key": next(iter(_keys(log, int(sample.offset[row]), key_hash, parser)), "not known"),
    }
    where = slot_place(file.relative, slot)
    yield Finding(RuleName.INDEX_CHAIN_LONG, where, found, {"entry_count": f"{used / slot_count:.1f}"})


def _shared(
    file: IndexFile, sample: _Sample, slot_count: int, log: LogReader, parser: Any
) -> Iterator[Finding]:
    """Different keys with one hash, among the hashes that several entries have.

    The first and the last entry of a hash are compared: the keys of one hash are seldom more than two.
    """
    order = np.argsort(sample.key_hash, kind="stable")
    hashes = sample.key_hash[order]
    bounds = np.flatnonzero(np.concatenate(([True], hashes[1:] != hashes[:-1], [True])))
    several = np.flatnonzero(np.diff(bounds) > 1)
    looked = shared = 0
    first_entry, first_hash, pair = 0, 0, ("", "")
    for group in several[:: max(1, -(-len(several) // LOOK_LIMIT))].tolist():
        first, last = int(order[bounds[group]]), int(order[bounds[group + 1] - 1])
        key_hash = int(sample.key_hash[first])
        one = _keys(log, int(sample.offset[first]), key_hash, parser)
        two = _keys(log, int(sample.offset[last]), key_hash, parser)
        looked += bool(one and two)
        different = sorted((one | two) - (one & two))
        if one and two and different:
            shared += 1
            if shared == 1:
                first_entry, first_hash = int(sample.number[last]), key_hash
                pair = different[0], (sorted((one | two) - {different[0]}) or [""])[0]
    if not shared:
        return
    facts: Facts = {
        "shared_count": shared,
        "looked_count": looked,
        "hash": first_hash,
        "key": pair[0],
        "other_key": pair[1],
        "distinct_count": len(bounds) - 1,
    }
    where = entry_place(file.relative, slot_count, first_entry)
    yield Finding(RuleName.INDEX_HASH_SHARED, where, facts)


def _keys(log: LogReader, offset: int, key_hash: int, parser: Any) -> set[str]:
    """The keys (`topic#key`) of the record at `offset` that have this hash; none without a record."""
    found = log.index_keys(offset, parser)
    if found is None:
        return set()
    topic, keys = found
    return {f"{topic}#{key}" for key in keys if index_hash(topic, key) == key_hash}


def check_names(context: Context, indexes: Sequence[TaskResult | None]) -> Iterator[Finding]:
    """Names whose time is not about that of what is in the files: one finding for neighbours that are alike.

    A file is made when its first entry is put, which is not before the file in front of it was full.
    """
    facts = [_entries_of(result) for result in indexes]
    odd: list[tuple[int, str]] = []
    for number, (file, own) in enumerate(zip(context.store.indexes, facts, strict=True)):
        if own is None or file.created is None or min(own.begin_timestamp, own.end_timestamp) <= 0:
            continue
        before = facts[number - 1] if number else None
        name_timestamp = round(file.created.replace(tzinfo=UTC).timestamp() * 1000)
        earliest = own.begin_timestamp if before is None else min(before.end_timestamp, own.begin_timestamp)
        if name_timestamp > max(own.begin_timestamp, own.end_timestamp) + EAST + SLACK:
            odd.append((number, "later"))
        elif name_timestamp < earliest - WEST - SLACK:
            odd.append((number, "earlier"))
    for (side, _), group in groupby(enumerate(odd), key=lambda item: (item[1][1], item[1][0] - item[0])):
        numbers = [number for _, (number, _) in group]
        file, own = context.store.indexes[numbers[0]], facts[numbers[0]]
        assert own is not None
        assert file.created is not None
        found: Facts = {
            "name_datetime": file.created.isoformat(sep=" ", timespec="seconds"),
            "side": side,
            "begin_timestamp": own.begin_timestamp,
            "end_timestamp": own.end_timestamp,
        }
        yield Finding(
            RuleName.INDEX_NAME_TIME, Where(file=file.relative, start=0, end=16), found, count=len(numbers)
        )


def _entries_of(result: TaskResult | None) -> IndexFacts | None:
    """The facts of an index file that has entries."""
    if result is None or not result.summary.entry_count:
        return None
    facts = result.facts[0]
    assert isinstance(facts, IndexFacts)
    return facts
