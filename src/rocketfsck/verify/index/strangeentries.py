"""Index entries that belong to a record but to none of its keys: damage, or a feature that is not known here.

An *odd* entry has a hash that none of its record's keys has. Where it took the place of a key's entry, it
is damage. Where nothing else is amiss, it is *regular*: the record starts where the entry points, every key
of the record has its entry as well, timeDiff is the record's. Damage of an index file does not leave that
behind, for entries follow each other without gaps: only the writer of the file can have put one more.

Criterion (ADR 0011): if at least LEAST_RECORDS records have regular odd entries, and at least
REGULAR_PERCENT of all records with odd entries have regular ones, in the same number, then these are one
finding, XR035, "unknown to this version". All other odd entries are errors, XR024. One record is enough where
a broker was at work that is known to index more (`store.newer`). Reference 4.3 to 4.5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from rocketfsck.formats.arrays import Longs
from rocketfsck.reader.index import IndexReader
from rocketfsck.rulenames import RuleName
from rocketfsck.scan.join.keyjoin import EntryCode, Mismatches
from rocketfsck.store.model import Store
from rocketfsck.store.newer import writes_more_entries
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.verify.index.entryfeed import split_number
from rocketfsck.verify.index.places import entry_place
from rocketfsck.verify.log.rows import LogRows

LEAST_RECORDS = 8
"""Records that must have regular odd entries before these are called a feature."""
REGULAR_PERCENT = 90
"""How many of all records with odd entries must have them regular, and in the same number."""

MAX_KEPT = 1 << 16
"""Records with regular odd entries that are kept of a commit log file; further ones are counted."""
RUN_LIMIT = 1 << 14
"""Odd entries in a row that are looked at; a longer run is no feature."""

MAX_TIME_DIFF = 0x7FFFFFFF
INDEX, ENTRY, OFFSET, DISTINCT, COUNT, HASH = range(6)
WIDTH = 6


@dataclass(frozen=True, slots=True)
class Strange:
    """What a commit log file's records say of odd entries.

    `rows`, one for each record with regular ones: place in `Store.indexes`, first odd entry, the record's
    physical offset, number of different hashes, number of entries, hash of the first. `further_count` counts
    regular entries without a row, `unseen_count` odd ones that nobody looked at: they were too many.
    `odd_count` records have odd entries that are not regular.
    """

    rows: Longs
    further_count: int = 0
    unseen_count: int = 0
    odd_count: int = 0


@dataclass(slots=True)
class _Record:
    """The odd entries of one record: hashes with their index, entry number; and what its keys still miss."""

    found: list[tuple[int, int, int]] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)
    missed: list[int] = field(default_factory=list)
    mismatches: set[int] = field(default_factory=set)
    sound: bool = True
    missing: bool = False

    def extras(self) -> list[tuple[int, int, int]]:
        """The entries beyond those of the keys; none if a key has no entry at all."""
        rest = list(self.found)
        for wanted in self.missed:
            at = next((at for at, (key_hash, _, _) in enumerate(rest) if key_hash == wanted), None)
            if at is not None:
                del rest[at]
            elif wanted not in self.repeated:
                return []
        return rest if self.sound else []


class StrangeEntries:
    """Takes the mismatches of every batch; tells which of them are regular."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows: list[tuple[int, ...]] = []
        self._further = 0
        self._odd = 0
        self.seen = 0

    def take(self, found: Mismatches, rows: LogRows) -> tuple[frozenset[int], tuple[int, ...]]:
        """The numbers of the mismatches that are regular odd entries; the rows of their records."""
        code = found.code
        odd = np.flatnonzero((code == EntryCode.HASH) | (code == EntryCode.EXTRA))
        self.seen += int(found.count[odd].sum())
        if not len(odd):
            return frozenset(), ()
        records = self._records(found, rows)
        regular: set[int] = set()
        spoiled: set[int] = set()
        kept: list[tuple[int, _Record, tuple[int, ...]]] = []
        for row, record in records.items():
            extras = self._again(record, rows, row) if record.missing and record.found else record.extras()
            if not extras:
                spoiled |= record.mismatches
                self._odd += bool(record.found)
                continue
            regular |= record.mismatches
            key_hash, index, entry = extras[0]
            distinct = len({item[0] for item in extras})
            values = (index, entry, int(rows.physical[row]), distinct, len(extras), key_hash)
            kept.append((row, record, values))
        sound_rows = []
        for row, record, row_values in kept:
            if record.mismatches & spoiled:  # a run of entries that is told as a whole
                spoiled |= record.mismatches
                self._odd += 1
                continue
            sound_rows.append(row)
            if len(self._rows) < MAX_KEPT:
                self._rows.append(row_values)
            else:
                self._further += row_values[COUNT]
        return frozenset(regular - spoiled), tuple(sound_rows)

    def _again(self, record: _Record, rows: LogRows, row: int) -> list[tuple[int, int, int]]:
        """As `_Record.extras`, from the bytes: a key that seems to be missing may be behind an odd entry."""
        batch, index = rows.batch, record.found[0][1]
        start, count = int(batch["key_start"][row]), int(batch["key_count"][row])
        numbers = [entry for _, _, entry in record.found]
        with IndexReader(self._store.indexes[index], self._store.geometry) as reader:
            first = max(min(numbers) - count, 1)
            last = min(max(numbers) + count, reader.last_entry)
            block = (
                reader.entries(first, last - first + 1) if last - first < RUN_LIMIT else reader.entries(1, 0)
            )
        keys = Counter(batch["key_hash"][start : start + count].tolist())
        mine = block["phyOffset"] == rows.physical[row]
        extras = []
        for at in np.flatnonzero(mine).tolist():
            key_hash = int(block["keyHash"][at])
            if keys[key_hash]:
                keys[key_hash] -= 1
            else:
                extras.append((key_hash, index, first + at))
        return extras if record.sound and not any(keys.values()) else []

    def finish(self, total: int) -> Strange:
        """What came of it; `total` is how many odd entries the join has counted."""
        table = np.array(self._rows, np.int64).reshape(-1, WIDTH)
        return Strange(table, self._further, max(total - self.seen, 0), self._odd)

    def _records(self, found: Mismatches, rows: LogRows) -> dict[int, _Record]:
        """The odd, repeated and missing entries of the batch, by the record's row."""
        records: dict[int, _Record] = {}
        missing = np.zeros(rows.count + 1, np.int64)
        wanted: dict[int, list[tuple[int, int]]] = {}  # index file: entries with their mismatch
        code, count = found.code.tolist(), found.count.tolist()
        first, end, at = found.number.tolist(), found.number_end.tolist(), found.row.tolist()
        for number, kind in enumerate(code):
            if kind == EntryCode.ENTRY_MISSING:
                missing[first[number]] += 1
                missing[end[number]] -= 1
            elif kind in (EntryCode.HASH, EntryCode.EXTRA, EntryCode.DUPLICATE):
                record = records.setdefault(at[number], _Record())
                if kind == EntryCode.HASH:
                    record.missed.append(int(found.expected[number]))
                if count[number] > RUN_LIMIT:
                    record.sound = False
                    record.mismatches.add(number)
                    continue
                index, entry = split_number(first[number])
                wanted.setdefault(index, []).extend(
                    (entry + step, number) for step in range(end[number] - first[number])
                )
        physical = rows.physical
        for index, pairs in wanted.items():
            self._read(index, pairs, code, rows, physical, records)
        misses = np.cumsum(missing) > 0
        for row, record in records.items():
            record.missing = bool(misses[row])
        return records

    def _read(
        self,
        index: int,
        pairs: Sequence[tuple[int, int]],
        code: Sequence[int],
        rows: LogRows,
        physical: Longs,
        records: dict[int, _Record],
    ) -> None:
        """Put entries of an index file to their records."""
        numbers = np.array([entry for entry, _ in pairs], np.int64)
        with IndexReader(self._store.indexes[index], self._store.geometry) as reader:
            entries = reader.gather(numbers)
            begin = reader.header.begin_timestamp
        offset = entries["phyOffset"].astype(np.int64)
        row = np.minimum(np.searchsorted(physical, offset), len(physical) - 1)
        lasted = rows["store_timestamp"][row].astype(np.int64) - begin
        wanted = np.clip(np.where(begin > 0, lasted, 0) // 1000, 0, MAX_TIME_DIFF)
        # the first entry is counted from another begin (IX023)
        in_time = (entries["timeDiff"] == wanted) | (numbers == 1)
        sound = (physical[row] == offset) & in_time & (entries["keyHash"] >= 0)
        hashes = entries["keyHash"].astype(np.int64).tolist()
        for (entry, number), place, key_hash, good in zip(
            pairs, row.tolist(), hashes, sound.tolist(), strict=True
        ):
            record = records.setdefault(place, _Record())
            if code[number] == EntryCode.DUPLICATE:
                record.repeated.append(key_hash)
                continue
            record.found.append((key_hash, index, entry))
            record.mismatches.add(number)
            record.sound &= good


def judge_strange(store: Store, results: Sequence[Strange], keyed_count: int) -> Iterator[Finding]:
    """One finding on all regular odd entries of the index if the criterion holds, else an error for each.

    `results` are those of all commit log files; `keyed_count` the records with keys in them.
    """
    rows = np.concatenate([np.zeros((0, WIDTH), np.int64), *(result.rows for result in results)])
    unseen = sum(result.unseen_count for result in results)
    if not len(rows):
        if unseen:
            yield Finding(RuleName.ENTRY_KEY, Where(file="index"), {"further_count": unseen}, count=unseen)
        return
    ((usual, agreeing),) = Counter(rows[:, DISTINCT].tolist()).most_common(1)
    odd = sum(result.odd_count for result in results)
    least = 1 if writes_more_entries(store) else LEAST_RECORDS
    if agreeing < least or 100 * agreeing < REGULAR_PERCENT * (len(rows) + odd):
        yield from (_error(store, row) for row in rows.tolist())
        if unseen:
            yield Finding(RuleName.ENTRY_KEY, Where(file="index"), {"further_count": unseen}, count=unseen)
        return
    regular = rows[rows[:, DISTINCT] == usual]
    yield from (_error(store, row) for row in rows[rows[:, DISTINCT] != usual].tolist())
    first = regular[np.lexsort((regular[:, ENTRY], regular[:, INDEX]))][0].tolist()
    further = unseen + sum(result.further_count for result in results)
    found = {
        "entry_count": int(regular[:, COUNT].sum()) + further,
        "record_count": len(regular),
        "keyed_count": keyed_count,
        "each": int(usual),
        "file_count": len(np.unique(regular[:, INDEX])),
        "hash_count": len(np.unique(regular[:, HASH])),
        "hash": first[HASH],
        "first_file": store.indexes[first[INDEX]].relative,
        "first_entry": first[ENTRY],
        "first_offset": first[OFFSET],
    }
    yield Finding(RuleName.UNKNOWN_ENTRIES, Where(file="index"), found)


def _error(store: Store, row: Sequence[int]) -> Finding:
    index, entry, offset, _, count, key_hash = row
    place = entry_place(store.indexes[index].relative, store.geometry.slot_count, entry, count, offset)
    return Finding(RuleName.ENTRY_KEY, place, {"hash": key_hash}, count=count)
