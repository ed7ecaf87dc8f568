"""Index entries that belong to a record but to none of its keys: damage, or a feature that is not known here.

An *odd* entry has a hash that none of its record's keys has. Where it took the place of a key's entry, it
is damage. Where nothing else is amiss, it is *regular*: the record starts where the entry points, every key
of the record has its entry as well, timeDiff is the record's. Damage of an index file does not leave that
behind, for entries follow each other without gaps: only the writer of the file can have put one more.

Criterion (ADR 0011): if at least LEAST_RECORDS records have regular odd entries, and at least
REGULAR_PERCENT of all records with odd entries have regular ones, in the same number, then these are one
finding, XR035, "unknown to this version". All other odd entries are errors, XR024. One record is enough where
a broker wrote to the store that is known to index more (`store.newer`). Reference 4.3 to 4.5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.arrays import Flags, Longs
from rocketfsck.scan.join.keyjoin import EntryCode, Mismatches
from rocketfsck.store.model import Store
from rocketfsck.store.newer import writes_more_entries
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.verify.index.oddentries import (
    KEY_BITS,
    Extras,
    OddEntries,
    extras_from_bytes,
    extras_of,
    pairs,
    rank_of,
    read_odd,
)
from rocketfsck.verify.index.places import entry_place
from rocketfsck.verify.log.rows import LogRows

LEAST_RECORDS = 8
"""Records that must have regular odd entries before these are called a feature."""
REGULAR_PERCENT = 90
"""How many of all records with odd entries must have them regular, and in the same number."""

MAX_KEPT = 1 << 16
"""Records with regular odd entries that are kept of a commit log file; further ones are counted."""
RUN_LIMIT = 1 << 14
"""Odd entries in a row that are looked at; a longer run is not a feature."""

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


class StrangeEntries:
    """Takes the mismatches of every batch; tells which of them are regular."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows: list[Longs] = []
        self._kept = 0
        self._further = 0
        self._odd = 0
        self.seen = 0

    def take(self, found: Mismatches, rows: LogRows) -> tuple[Flags, Longs]:
        """Which of the mismatches are regular odd entries; the rows of their records."""
        code = found.code
        is_odd = (code == EntryCode.HASH) | (code == EntryCode.EXTRA)
        self.seen += int(found.count[is_odd].sum())
        if not is_odd.any():
            return np.zeros(len(found), np.bool_), np.zeros(0, np.int64)
        chosen = np.flatnonzero(is_odd | (code == EntryCode.DUPLICATE))
        odd = read_odd(self._store, found, chosen, rows, RUN_LIMIT)
        extras = self._extras(found, odd, rows)
        real = ~odd.repeated
        number = np.concatenate((odd.number[real], odd.long))
        linked = np.concatenate((odd.row[real], found.row[odd.long]))
        record = np.unique(extras.row)
        self._odd += len(np.setdiff1d(odd.row[real], record))
        spoiled = np.zeros(len(found), np.bool_)
        has_extras = np.isin(linked, record)
        spoiled[number[~has_extras]] = True
        regular = np.zeros(len(found), np.bool_)
        regular[number[has_extras]] = True
        record = record[np.argsort(rank_of(record, np.concatenate((found.row[chosen], odd.row))))]
        kept = record[~np.isin(record, _spoil(spoiled, number, linked, record))]
        self._odd += len(record) - len(kept)
        self._keep(extras, kept, rows)
        return regular & ~spoiled, kept

    def _extras(self, found: Mismatches, odd: OddEntries, rows: LogRows) -> Extras:
        """Entries beyond those of the keys; none of records that have a key without an entry."""
        change = np.zeros(rows.count + 1, np.int64)
        missing = found.code == EntryCode.ENTRY_MISSING
        np.add.at(change, found.number[missing], 1)
        np.add.at(change, found.number_end[missing], -1)
        again = np.intersect1d(odd.row[~odd.repeated], np.flatnonzero(np.cumsum(change) > 0))
        extras, unmet = extras_of(found, odd)
        unmet = np.setdiff1d(unmet, again)
        if len(again):
            others, also_unmet = extras_from_bytes(self._store, rows, odd, again, RUN_LIMIT)
            extras = extras.only(~np.isin(extras.row, again)).beside(others)
            unmet = np.concatenate((unmet, also_unmet))
        bad = (odd.row[~odd.sound & ~odd.repeated], found.row[odd.long], unmet)
        return extras.only(~np.isin(extras.row, np.concatenate(bad)))

    def _keep(self, extras: Extras, records: Longs, rows: LogRows) -> None:
        """Write down a row for each of these records, as many as there is room for."""
        mine, first, count = np.unique(extras.row, return_index=True, return_counts=True)
        distinct = np.bincount(np.unique(pairs(extras.row, extras.key)) >> KEY_BITS, minlength=rows.count)
        at = np.searchsorted(mine, records)
        first, count = first[at], count[at]
        columns = (
            extras.index[first],
            extras.entry[first],
            rows.physical[records],
            distinct[records],
            count,
            extras.key[first],
        )
        table = np.stack(columns, axis=1)[: MAX_KEPT - self._kept]
        self._rows.append(table)
        self._kept += len(table)
        self._further += int(count[len(table) :].sum())

    def finish(self, total: int) -> Strange:
        """What came of it; `total` is how many odd entries the join has counted."""
        table = np.concatenate([np.zeros((0, WIDTH), np.int64), *self._rows])
        return Strange(table, self._further, max(total - self.seen, 0), self._odd)


def _spoil(spoiled: Flags, number: Longs, row: Longs, records: Longs) -> Longs:
    """The records of a run of entries that is reported as a whole, since another record of it is not regular.

    `spoiled` are the mismatches that are reported so; those of the records found are added. `number` and
    `row` link mismatches with records; `records` are taken in their order.
    """
    links = np.unique(np.stack((row, number)), axis=1)
    shared = np.bincount(links[1], minlength=len(spoiled)) > 1
    if not (shared & spoiled).any():
        return records[:0]
    several = np.isin(records, links[0][shared[links[1]]])
    found = []
    for record in records[several].tolist():
        low, high = np.searchsorted(links[0], (record, record + 1)).tolist()
        mismatches = links[1][low:high]
        if spoiled[mismatches].any():
            spoiled[mismatches] = True
            found.append(record)
    return np.array(found, np.int64)


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
        "keyed_record_count": keyed_count,
        "entries_per_record_count": int(usual),
        "file_count": len(np.unique(regular[:, INDEX])),
        "hash_count": len(np.unique(regular[:, HASH])),
        "hash": first[HASH],
        "first_file": store.indexes[first[INDEX]].relative,
        "first_entry": first[ENTRY],
        "first_physical_offset": first[OFFSET],
    }
    yield Finding(RuleName.UNKNOWN_ENTRIES, Where(file="index"), found)


def _error(store: Store, row: Sequence[int]) -> Finding:
    index, entry, offset, _, count, key_hash = row
    place = entry_place(store.indexes[index].relative, store.geometry.slot_count, entry, count, offset)
    return Finding(RuleName.ENTRY_KEY, place, {"hash": key_hash}, count=count)
