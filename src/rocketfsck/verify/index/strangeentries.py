"""Index entries that belong to a record but to none of its keys: damage, or a feature that is not known here.

An *odd* entry has a hash that none of its record's keys has. Where it took the place of a key's entry, it
is damage. Where nothing else is amiss, it is *regular*: the record starts where the entry points, every key
of the record has its entry as well, timeDiff is the record's. Damage of an index file does not leave that
behind, for entries follow each other without gaps: only the writer of the file can have put one more.

Criterion (ADR 0011): if at least LEAST_RECORDS records have regular odd entries, and at least
REGULAR_PERCENT of all records with odd entries have regular ones, in the same number, then these are one
finding, XR035, "unknown to this version". All other odd entries are errors, XR024. One record is enough where
a broker wrote to the store that is known to index more (`store.elsewhere`). Reference 4.3 to 4.5.

The odd entries of a batch as columns, and what is left of them once a record's keys have theirs.

An *odd* entry has a hash that none of its record's keys has (`strangeentries`). All work is done on columns
of a whole batch: a store whose broker indexes more than is known here has an odd entry for every record.
Reference 4.3 to 4.5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.dtypes import Flags, Longs
from rocketfsck.reader.index import IndexReader
from rocketfsck.scan.columns import KEY_TAGS
from rocketfsck.scan.join.keyjoin import EntryCode, Mismatches
from rocketfsck.store.elsewhere import writes_more_entries
from rocketfsck.store.model import Store
from rocketfsck.verify.finding import Finding, Findings, Where
from rocketfsck.verify.index.entryfeed import entry_place, split_number
from rocketfsck.verify.log.regions import LiveRows

LOOK_LIMIT = 1 << 18
"""Entries of one batch that are looked at: more can only be made by hand."""
MAX_TIME_DIFF = 0x7FFFFFFF
KEY_BITS = 32


@dataclass(frozen=True, slots=True)
class Extras:
    """Entries beyond those of their records' keys, in the order of the index: `row` of the record in the
    batch, `index` in `Store.indexes`, number of the entry, hash."""

    row: Longs
    index: Longs
    entry: Longs
    key: Longs

    def only(self, flags: Flags) -> Extras:
        """Those of them that are flagged."""
        return Extras(*(getattr(self, name)[flags] for name in Extras.__slots__))

    def beside(self, other: Extras) -> Extras:
        """These, and then the others."""
        both = ((getattr(self, name), getattr(other, name)) for name in Extras.__slots__)
        return Extras(*map(np.concatenate, both))


@dataclass(frozen=True, slots=True)
class OddEntries:
    """Odd and repeated entries of a batch, as columns with one value for each entry.

    `number` is the mismatch that an entry belongs to, `row` its record's row in the batch; `index`, `entry`
    and `key` are its place in `Store.indexes`, its number and its hash. `sound` entries start at their record
    and have its time; `repeated` ones are a key's, once more. `long` are the mismatches of too many entries
    to look at.
    """

    number: Longs
    row: Longs
    index: Longs
    entry: Longs
    key: Longs
    sound: Flags
    repeated: Flags
    long: Longs


def read_odd(store: Store, found: Mismatches, chosen: Longs, rows: LiveRows, run_limit: int) -> OddEntries:
    """Read the entries of these mismatches, file by file in the order in which the files appear.

    A mismatch of more than `run_limit` entries is not read; nor are those beyond LOOK_LIMIT.
    """
    width = found.number_end[chosen] - found.number[chosen]
    long = found.count[chosen] > run_limit
    long |= np.cumsum(np.where(long, 0, width)) > LOOK_LIMIT
    number, step = spread(chosen[~long], width[~long])
    index, entry = split_number(found.number[number] + step)
    order = np.argsort(rank_of(index, index), kind="stable")
    number, index, entry = number[order], index[order], entry[order]
    offset, key, begin, time_diff = (np.zeros(len(entry), np.int64) for _ in range(4))
    for file in np.unique(index).tolist():
        mine = index == file
        with IndexReader(store.indexes[file], store.geometry) as reader:
            entries = reader.gather(entry[mine])
            begin[mine] = reader.header.begin_timestamp
        offset[mine], key[mine], time_diff[mine] = (
            entries[name] for name in ("phyOffset", "keyHash", "timeDiff")
        )
    physical = rows.physical
    row = np.minimum(np.searchsorted(physical, offset), len(physical) - 1)
    lasted = rows["store_timestamp"][row].astype(np.int64) - begin
    wanted = np.clip(np.where(begin > 0, lasted, 0) // 1000, 0, MAX_TIME_DIFF)
    # the first entry is counted from another begin (IX023)
    sound = (physical[row] == offset) & ((time_diff == wanted) | (entry == 1)) & (key >= 0)
    repeated = found.code[number] == EntryCode.DUPLICATE
    return OddEntries(number, row, index, entry, key, sound, repeated, chosen[long])


def extras_of(found: Mismatches, odd: OddEntries) -> tuple[Extras, Longs]:
    """The odd entries that no key of their record claims; the rows of records with a key without an entry."""
    hashes = np.flatnonzero(found.code == EntryCode.HASH)
    wanted_row, wanted_key = found.row[hashes], found.expected[hashes]
    real = np.flatnonzero(~odd.repeated)
    left, unmet = difference(odd.row[real], odd.key[real], wanted_row, wanted_key)
    extra = np.zeros(len(odd.row), np.bool_)
    extra[real] = left
    again = np.isin(pairs(wanted_row, wanted_key), pairs(odd.row[odd.repeated], odd.key[odd.repeated]))
    return Extras(odd.row, odd.index, odd.entry, odd.key).only(extra), wanted_row[unmet & ~again]


def extras_from_bytes(
    store: Store, rows: LiveRows, odd: OddEntries, chosen: Longs, run_limit: int
) -> tuple[Extras, Longs]:
    """As `extras_of`, for the records `chosen` (rows in order): from all entries around theirs.

    A key that seems to have no entry may have it behind an odd one.
    """
    mine = np.isin(odd.row, chosen) & ~odd.repeated
    row, first_place = np.unique(odd.row[mine], return_index=True)
    index = odd.index[mine][first_place]
    at = np.searchsorted(row, odd.row[mine])
    least, most = np.full(len(row), np.iinfo(np.int64).max), np.zeros(len(row), np.int64)
    np.minimum.at(least, at, odd.entry[mine])
    np.maximum.at(most, at, odd.entry[mine])
    key_count = rows["key_count"][row].astype(np.int64)
    first, last = np.maximum(least - key_count, 1), most + key_count
    found = []
    for file in np.unique(index).tolist():
        with IndexReader(store.indexes[file], store.geometry) as reader:
            here = index == file
            end = np.minimum(last[here], reader.last_entry) + 1
            width = np.maximum(end - first[here], 0)
            width[width > run_limit] = 0
            width[np.cumsum(width) > LOOK_LIMIT] = 0
            record, step = spread(np.flatnonzero(here), width)
            entry = first[record] + step
            entries = reader.gather(entry)
        ours = entries["phyOffset"] == rows.physical[row[record]]
        key = entries["keyHash"][ours].astype(np.int64)
        found.append(np.stack((row[record[ours]], np.full(len(key), file), entry[ours], key)))
    columns = np.concatenate([np.zeros((4, 0), np.int64), *found], axis=1)
    keyed, step = spread(row, key_count)
    place = rows["key_start"][keyed] + step
    key = rows.batch["key_hash"][place].astype(np.int64)
    left, unmet = difference(columns[0], columns[3], keyed, key)
    unmet &= rows.batch["key_kind"][place] != KEY_TAGS  # an older broker indexes none
    return Extras(*columns[:, left]), keyed[unmet]


def spread(values: Longs, counts: Longs) -> tuple[Longs, Longs]:
    """Each value as often as its count says, and 0, 1, 2 … next to it."""
    ends = np.cumsum(counts)
    step = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
    return np.repeat(values, counts), step


def pairs(rows: Longs, keys: Longs) -> Longs:
    """A number for each pair of a row and a hash (32 bits)."""
    numbers: Longs = (rows << KEY_BITS) | (keys & ((1 << KEY_BITS) - 1))
    return numbers


def rank_of(values: Longs, sequence: Longs) -> Longs:
    """When each value comes first in `sequence`, which has all of them."""
    known, first = np.unique(sequence, return_index=True)
    ranks: Longs = first[np.searchsorted(known, values)]
    return ranks


def difference(rows: Longs, keys: Longs, wanted_rows: Longs, wanted_keys: Longs) -> tuple[Flags, Flags]:
    """Row by row, take wanted hashes from those that are there, one for one from the front.

    Says which hashes are left, and which wanted ones found none.
    """
    have, want = pairs(rows, keys), pairs(wanted_rows, wanted_keys)
    return _place(have) >= _count(want, have), _place(want) >= _count(have, want)


def _place(values: Longs) -> Longs:
    """How many equal values come before each."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    places = np.empty(len(values), np.int64)
    places[order] = np.arange(len(values)) - np.searchsorted(ordered, ordered)
    return places


def _count(among: Longs, values: Longs) -> Longs:
    """How often each value is among these."""
    ordered = np.sort(among)
    counts: Longs = np.searchsorted(ordered, values, "right") - np.searchsorted(ordered, values)
    return counts


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

    def take(self, found: Mismatches, rows: LiveRows) -> tuple[Flags, Longs]:
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

    def _extras(self, found: Mismatches, odd: OddEntries, rows: LiveRows) -> Extras:
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

    def _keep(self, extras: Extras, records: Longs, rows: LiveRows) -> None:
        """Write down a row for each of these records, as many as there is room for."""
        mine, first, count = np.unique(extras.row, return_index=True, return_counts=True)
        distinct = np.bincount(np.unique(pairs(extras.row, extras.key)) >> KEY_BITS, minlength=rows.count)
        at = np.searchsorted(mine, records)
        first, count = first[at], count[at]
        index, entry, key = extras.index[first], extras.entry[first], extras.key[first]
        columns = (index, entry, rows.physical[records], distinct[records], count, key)
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


def judge_strange(store: Store, results: Sequence[Strange], keyed_count: int) -> Findings:
    """One finding on all regular odd entries of the index if the criterion holds, else an error for each.

    `results` are those of all commit log files; `keyed_count` the records with keys in them.
    """
    rows = np.concatenate([np.zeros((0, WIDTH), np.int64), *(result.rows for result in results)])
    unseen = sum(result.unseen_count for result in results)
    usual, agreeing = next(iter(Counter(rows[:, DISTINCT].tolist()).most_common(1)), (0, 0))
    odd = sum(result.odd_count for result in results)
    least = 1 if writes_more_entries(store) else LEAST_RECORDS
    if agreeing < least or 100 * agreeing < REGULAR_PERCENT * (len(rows) + odd):
        yield from (_error(store, row) for row in rows.tolist())
        if unseen:
            yield Finding(RuleName.ENTRY_KEY, Where("index"), {"further_count": unseen}, count=unseen)
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
    yield Finding(RuleName.UNKNOWN_ENTRIES, Where("index"), found)


def _error(store: Store, row: Sequence[int]) -> Finding:
    index, entry, offset, _, count, key_hash = row
    place = entry_place(store.indexes[index].relative, store.geometry.slot_count, entry, count, offset)
    return Finding(RuleName.ENTRY_KEY, place, {"hash": key_hash}, count=count)
