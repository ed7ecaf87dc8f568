"""Tag codes and key hashes computed again from pseudonyms.

Both copies of a log file are scanned, so that a hash of the store is paired with that of the copy, whatever
the dialect treats as a key. A hash that no record has, or not the record that a unit or an entry points to,
goes through a keyed permutation: what did not fit before does not fit afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.javatext import INT32_MAX, INT32_MIN, java_hash
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.writer.mask.names import SYSTEM_NAMES
from rocketfsck.writer.mask.permute import HashPermutation

_MIX = np.uint64(0x9E3779B97F4A7C15)
_KINDS = 4
_NOTHING: Longs = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class FileHashes:
    """Hashes in a log file: by physical offset those of tags, by place and kind those of keys.

    `store_timestamp` (ms) belongs to `offset`.
    """

    offset: Longs
    store_timestamp: Longs
    code: Longs
    key_place: Longs
    key_offset: Longs
    key_hash: Longs


def file_hashes(batches: Iterable[object], start_offset: int) -> FileHashes:
    """The hashes of the records that a scan gives; `start_offset` is the file's (bytes)."""
    columns: list[tuple[Longs, ...]] = [(_NOTHING,) * 6]
    for batch in batches:
        if not isinstance(batch, RecordBatch):
            continue
        offset = batch["pos"].astype(np.int64) + start_offset
        place = batch["key_pos"].astype(np.int64) * _KINDS + batch["key_kind"]
        code, of_keys = batch["tags_code"].astype(np.int64), offset[batch["key_record"]]
        time = batch["store_timestamp"].astype(np.int64)
        columns.append((offset, time, code, place, of_keys, batch["key_hash"].astype(np.int64)))
    return FileHashes(*(np.concatenate(parts) for parts in zip(*columns, strict=True)))


@dataclass(slots=True)
class HashPairs:
    """What the hash `old` at a physical offset became: `add` pairs, then look for them."""

    _parts: list[tuple[Longs, Longs, Longs]] = field(default_factory=list)

    def add(self, offset: Longs, old: Longs, new: Longs) -> None:
        """Columns of equal length."""
        self._parts.append((offset, old, new))

    def find(self, offset: Longs, old: Longs) -> tuple[Longs, Longs]:
        """Of the rows that are known their numbers, and what their hashes became."""
        self._parts = self._parts or [(_NOTHING,) * 3]
        if len(self._parts) > 1 or not self._is_sorted:
            joined = [np.concatenate(parts) for parts in zip(*self._parts, strict=True)]
            order = np.argsort(_mixed(joined[0], joined[1]), kind="stable")
            self._parts = [(joined[0][order], joined[1][order], joined[2][order])]
        known, before, after = self._parts[0]
        if not len(known):
            return _NOTHING, _NOTHING
        places = np.searchsorted(_mixed(known, before), _mixed(offset, old))
        places = np.minimum(places, len(known) - 1)
        rows = np.flatnonzero((known[places] == offset) & (before[places] == old))
        return rows, after[places[rows]]

    @property
    def _is_sorted(self) -> bool:
        mixed = _mixed(self._parts[0][0], self._parts[0][1])
        return bool((mixed[1:] >= mixed[:-1]).all())

    def by_hash(self) -> tuple[Longs, Longs]:
        """Every old hash once, ascending, and what it became where it was first."""
        if not self._parts:
            return _NOTHING, _NOTHING
        old, new = (np.concatenate([part[column] for part in self._parts]) for column in (1, 2))
        values, first = np.unique(old, return_index=True)
        return values, new[first]


def _mixed(offset: Longs, value: Longs) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    made: np.ndarray[tuple[int], np.dtype[np.uint64]] = (offset.astype(np.uint64) * _MIX) ^ (
        value.astype(np.uint64) * (_MIX << np.uint64(1) | np.uint64(1))
    )
    return made


class HashMasks:
    """What hashes become in one masked copy."""

    __slots__ = ("_codes", "_keys", "_permutation", "_tags")

    def __init__(self, secret: bytes) -> None:
        self._permutation = HashPermutation(secret)
        self._tags, self._keys = HashPairs(), HashPairs()
        self._codes: tuple[Longs, Longs] | None = None

    def learn(self, old: FileHashes, new: FileHashes) -> None:
        """A log file before and after it was masked."""
        _, before, after = np.intersect1d(old.offset, new.offset, return_indices=True)
        self._tags.add(old.offset[before], old.code[before], new.code[after])
        _, before, after = np.intersect1d(old.key_place, new.key_place, return_indices=True)
        self._keys.add(old.key_offset[before], old.key_hash[before], new.key_hash[after])
        self._codes = None

    def codes(self, codes: Longs, offset: Longs | None = None) -> Longs:
        """Tag codes of the records at these physical offsets (None: unknown); times and addresses stay."""
        made = codes.copy()
        is_hash = np.flatnonzero((codes >= INT32_MIN) & (codes <= INT32_MAX) & (codes != 0))
        values = codes[is_hash]
        made[is_hash] = self._permutation.codes(values)
        if self._codes is None:
            self._codes = self._tags.by_hash()
        known, became = self._codes
        if len(known):
            places = np.minimum(np.searchsorted(known, values), len(known) - 1)
            rows = np.flatnonzero(known[places] == values)
            made[is_hash[rows]] = became[places[rows]]
        if offset is not None:
            rows, found = self._tags.find(offset[is_hash], values)
            made[is_hash[rows]] = found
        return made

    def key_hashes(self, hashes: Longs, offset: Longs) -> Longs:
        """Hashes of index entries of the records at these physical offsets."""
        made = self._permutation.key_hashes(hashes)
        rows, found = self._keys.find(offset, hashes)
        made[rows] = found
        return made

    def name_hashes(self, hashes: Longs, names: dict[str, str]) -> Longs:
        """Java hashes of names alone; `names` are known ones and their pseudonyms."""
        became = {java_hash(name): java_hash(mask) for name, mask in names.items()}
        became |= {java_hash(name): java_hash(name) for name in SYSTEM_NAMES}
        made = self._permutation.codes(hashes)
        for row, value in enumerate(hashes.tolist()):
            made[row] = became.get(value, int(made[row]))
        return made
