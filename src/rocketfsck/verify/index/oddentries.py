"""The odd entries of a batch as columns, and what is left of them once a record's keys have theirs.

An *odd* entry has a hash that none of its record's keys has (`strangeentries`). All work is done on columns
of a whole batch: a store whose broker indexes more than is known here has an odd entry for every record.
Reference 4.3 to 4.5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rocketfsck.formats.arrays import Flags, Longs
from rocketfsck.reader.index import IndexReader
from rocketfsck.scan.columns import KEY_TAGS
from rocketfsck.scan.join.keyjoin import EntryCode, Mismatches
from rocketfsck.store.model import Store
from rocketfsck.verify.index.entryfeed import split_number
from rocketfsck.verify.log.rows import LogRows

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
        return Extras(self.row[flags], self.index[flags], self.entry[flags], self.key[flags])

    def beside(self, other: Extras) -> Extras:
        """These, and then the others."""
        both = (
            (self.row, other.row),
            (self.index, other.index),
            (self.entry, other.entry),
            (self.key, other.key),
        )
        return Extras(*(np.concatenate(pair) for pair in both))


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


def read_odd(store: Store, found: Mismatches, chosen: Longs, rows: LogRows, run_limit: int) -> OddEntries:
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
    store: Store, rows: LogRows, odd: OddEntries, chosen: Longs, run_limit: int
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
