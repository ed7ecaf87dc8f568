"""How the keys of an index file spread over its slots, and when its name says that it was made. Notes only.

    hashes shared by different keys    IX025      a query gives messages that do not have the key
    slots used, against chance         IX026      n keys that hash well use S (1 - e^(-n/S)) of S slots
    the longest chain, its hottest key IX027      a query for it walks the whole chain
    the name's time                    IX028      local time of the broker, whose zone nobody knows

Small files are looked at whole, of larger ones evenly spaced pieces of 65,536 entries and slots: some
milliseconds a file. Reference 4.1 to 4.3, 4.6, 9.4 I16; fault classes I5, I9, I11.

What only its neighbours tell of an index file: the timeDiff of its first entry, and its hashSlotCount.

    timeDiff of entry 1    0 in a file that nothing was indexed before; else counted from the end of the
                           full file in front, whatever that is                           IX023, IX031
    hashSlotCount          entries up to 4.7.0, used slots from 4.7.1 on. Brokers are upgraded once: files
                           that count entries, one at most that was begun so and continued by the other
                           kind, then files that count slots                              IX029, IX030

Both are proven only where nothing else is amiss: the files are whole, and every record in between is indexed.
Reference 4.2, 4.4, 4.6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from enum import Enum
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.formats import dtypes, indexfile, javatext
from rocketfsck.reader.index import IndexReader
from rocketfsck.reader.records import LogReader
from rocketfsck.store.elsewhere import has_log_elsewhere
from rocketfsck.store.model import IndexFile
from rocketfsck.verify.finding import Facts, Finding, Findings, Where
from rocketfsck.verify.index.entryfeed import IndexExtent, entry_place, header_place, index_facts, slot_place
from rocketfsck.verify.tasks.task import Context, IndexFacts, Results, TaskResult


class Count(Enum):
    """What a hashSlotCount counts, by the entries and slots of its file."""

    ENTRIES = "entries"
    BOTH = "first entries, then slots"
    SLOTS = "slots"
    EITHER = "entries or slots: no two entries share a slot"


def check_neighbours(context: Context, indexes: Results, logs: Results) -> Findings:
    """Findings from the results of all index and commit log tasks, both in store order."""
    yield from _first_times(context, indexes, logs)
    yield from _slot_counts(indexes)


def _first_times(context: Context, indexes: Results, logs: Results) -> Findings:
    for number, result in enumerate(indexes):
        if result is None or not result.summary.entry_count or result.summary.first_time < 0:
            continue
        facts, extent = index_facts(result), result.summary
        found = extent.first_time
        if number == 0:
            if found and not _has_wrong_range(result) and _is_first_of_all(context, extent, logs):
                yield _wrong_time(context, facts, found, 0, "no earlier entry exists")
            continue
        before = indexes[number - 1]
        if before is None or not index_facts(before).full:
            continue
        expected = indexfile.time_diff(facts.begin_timestamp, index_facts(before).end_timestamp)
        if found == expected:
            continue
        sound = not _has_wrong_range(before) and not _has_wrong_range(result)
        start, end = before.summary.last_offset, extent.first_offset
        if sound and _is_all_indexed(start, end, logs) and not _is_another_between(start, end, indexes):
            reason = "the difference counts from the end of the previous file"
            yield _wrong_time(context, facts, found, expected, reason)
        elif found:
            where = entry_place(facts.file, context.store.geometry.slot_count, 1)
            yield Finding(RuleName.INDEX_FIRST_TIME, where, {"value": found}, {"value": expected})


def _wrong_time(context: Context, facts: IndexFacts, found: int, expected: int, reason: str) -> Finding:
    where = entry_place(facts.file, context.store.geometry.slot_count, 1)
    values: Facts = {"value": found, "reason": reason}
    return Finding(RuleName.INDEX_FIRST_TIME_WRONG, where, values, {"value": expected})


def _has_wrong_range(result: TaskResult) -> bool:
    return any(finding.rule == RuleName.INDEX_HEADER_RANGE for finding in result.findings)


def _is_first_of_all(context: Context, extent: IndexExtent, logs: Results) -> bool:
    """Whether an index file begins with the first record that was ever put into an index."""
    if has_log_elsewhere(context.store) or not logs or logs[0] is None or logs[0].summary.start_offset:
        return False
    keyed = [log.summary.entries.first_keyed if log is not None else 0 for log in logs]
    return min((offset for offset in keyed if offset >= 0), default=-1) == extent.first_offset


def _is_all_indexed(start: int, end: int, logs: Results) -> bool:
    """Whether every record of the log from one offset to another is there, and has its entries."""
    if not logs or logs[0] is None or not logs[0].summary.start_offset <= start <= end:
        return False
    for log in logs:
        if log is None:
            return False
        runs = log.summary.entries.unindexed
        if len(runs) and bool(np.any((runs[:, 0] < end) & (runs[:, 1] > start))):
            return False
    return True


def _is_another_between(start: int, end: int, indexes: Results) -> bool:
    """Whether some index file may have entries of records from one offset to another."""
    return any(
        result is None or (result.summary.first_offset < end and result.summary.last_offset > start)
        for result in indexes
        if result is None or result.summary.entry_count
    )


def _slot_counts(indexes: Results) -> Findings:
    whole = [result for result in indexes if result is not None and result.summary.slot_count > 0]
    counts = [_kind(index_facts(result).hash_slot_count, result.summary) for result in whole]
    change = _upgrade(counts)
    for number, (result, count) in enumerate(zip(whole, counts, strict=True)):
        fits = _fits(count, number, change)
        if fits and count is not Count.BOTH:
            continue
        rule = RuleName.INDEX_SLOT_COUNT_MIXED if fits else RuleName.INDEX_SLOT_COUNT_KIND
        extent, facts = result.summary, index_facts(result)
        held = {"slot_count": extent.slot_count, "entry_count": extent.entry_count}
        found = {"hash_slot_count": facts.hash_slot_count, **held}
        yield Finding(rule, header_place(facts.file, "hashSlotCount"), found)


def _kind(value: int, extent: IndexExtent) -> Count:
    if extent.slot_count == extent.entry_count:
        return Count.EITHER
    return {extent.slot_count: Count.SLOTS, extent.entry_count: Count.ENTRIES}.get(value, Count.BOTH)


def _fits(count: Count, number: int, change: int) -> bool:
    """Whether a file counts as those of its place do if brokers were upgraded before file `change`."""
    if count is Count.BOTH:
        return number == change - 1
    return count is Count.EITHER or (count is Count.SLOTS) == (number >= change)


def _upgrade(counts: Sequence[Count]) -> int:
    """The first file of brokers that count slots: so that most files fit; the least number of several."""
    total = len(counts)
    wrong = sum(count in (Count.ENTRIES, Count.BOTH) for count in counts)
    best = (wrong, 0)
    for change in range(1, total + 1):
        last, before = counts[change - 1], counts[change - 2] if change > 1 else Count.EITHER
        wrong += (last is Count.SLOTS) - (last is Count.ENTRIES) - (last is Count.BOTH)
        wrong += before is Count.BOTH  # it is not the last one any more
        best = min(best, (wrong, change))
    return best[1]


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

    number: dtypes.Longs
    key_hash: dtypes.Longs
    offset: dtypes.Longs
    share: float

    def chain_count(self, sampled_count: int) -> int:
        """How many entries a chain has of which so many are in the sample."""
        return round(sampled_count / self.share)


def check_spread(context: Context, indexes: Results) -> Findings:
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


def _spread(context: Context, file: IndexFile, extent: Any, log: LogReader) -> Findings:
    used = int(extent.entry_count)
    with IndexReader(file, context.store.geometry) as reader:
        slot_count = reader.slot_count
        used_count, whole = (extent.slot_count, True) if extent.slot_count else _used_slots(reader)
        sample = _entries(reader, used)
    expected_count = indexfile.expected_used_slots(slot_count, used)
    if used >= LEAST_ENTRIES and used_count < USED_SHARE * expected_count:
        facts: Facts = {
            "used_count": used_count,
            "how": "" if whole else "about ",
            "slot_count": slot_count,
            "entry_count": used,
        }
        where = Where(file.relative, indexfile.slot_pos(0), indexfile.slot_pos(slot_count))
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
    number: dtypes.Longs = np.concatenate(numbers).astype(np.int64)
    sound = np.flatnonzero(joined["keyHash"] >= 0)
    hashes, offsets = (joined[name][sound].astype(np.int64) for name in ("keyHash", "phyOffset"))
    return _Sample(number[sound], hashes, offsets, looked / used)


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
) -> Findings:
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


def _shared(file: IndexFile, sample: _Sample, slot_count: int, log: LogReader, parser: Any) -> Findings:
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
    yield Finding(RuleName.INDEX_HASH_SHARED, entry_place(file.relative, slot_count, first_entry), facts)


def _keys(log: LogReader, offset: int, key_hash: int, parser: Any) -> set[str]:
    """The keys (`topic#key`) of the record at `offset` that have this hash; none without a record."""
    found = log.index_keys(offset, parser)
    if found is None:
        return set()
    topic, keys = found
    return {f"{topic}#{key}" for key in keys if javatext.index_hash(topic, key) == key_hash}


def check_names(context: Context, indexes: Results) -> Findings:
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
        yield Finding(RuleName.INDEX_NAME_TIME, Where(file.relative, 0, 16), found, count=len(numbers))


def _entries_of(result: TaskResult | None) -> IndexFacts | None:
    """The facts of an index file that has entries."""
    return None if result is None or not result.summary.entry_count else index_facts(result)
