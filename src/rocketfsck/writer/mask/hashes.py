"""Tag codes and key hashes computed again from pseudonyms.

Both copies of a log file are scanned, so that a hash of the store is paired with that of the copy, whatever
the dialect treats as a key. A hash that no record has, or not the record that a unit or an entry points to,
goes through a keyed permutation: what did not fit before does not fit afterwards.

Index files with other hashes: entries stay where they are, and their chains are laid again.

The entries are put again, in order, into the slots of their new hashes. A head or link that was not the one
that the puts make is wrong in the copy, too, in the same way as far as the new chains have room for it. No
slot keeps its number: where a slot has no entry, what it holds goes to an empty one by chance.

Consume queues, their extensions and timer logs with other tag codes and hashes of topics.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from rocketfsck.formats import consumequeue, dtypes, indexfile, javatext, timer
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.writer.mask.moved import rows_of
from rocketfsck.writer.mask.names import SYSTEM_NAMES, HashPermutation, Pseudonyms

_MIX = np.uint64(0x9E3779B97F4A7C15)
_KINDS = 4
_NOTHING: dtypes.Longs = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class FileHashes:
    """Hashes in a log file: by physical offset those of tags, by place and kind those of keys.

    `store_timestamp` (ms) belongs to `offset`.
    """

    offset: dtypes.Longs
    store_timestamp: dtypes.Longs
    code: dtypes.Longs
    key_place: dtypes.Longs
    key_offset: dtypes.Longs
    key_hash: dtypes.Longs


def file_hashes(batches: Iterable[object], start_offset: int) -> FileHashes:
    """The hashes of the records that a scan gives; `start_offset` is the file's (bytes)."""
    columns: list[tuple[dtypes.Longs, ...]] = [(_NOTHING,) * 6]
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

    _parts: list[tuple[dtypes.Longs, dtypes.Longs, dtypes.Longs]] = field(default_factory=list)

    def add(self, offset: dtypes.Longs, old: dtypes.Longs, new: dtypes.Longs) -> None:
        """Columns of equal length."""
        self._parts.append((offset, old, new))

    def find(self, offset: dtypes.Longs, old: dtypes.Longs) -> tuple[dtypes.Longs, dtypes.Longs]:
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

    def by_hash(self) -> tuple[dtypes.Longs, dtypes.Longs]:
        """Every old hash once, ascending, and what it became where it was first."""
        if not self._parts:
            return _NOTHING, _NOTHING
        old, new = (np.concatenate([part[column] for part in self._parts]) for column in (1, 2))
        values, first = np.unique(old, return_index=True)
        return values, new[first]


def _mixed(offset: dtypes.Longs, value: dtypes.Longs) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
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
        self._codes: tuple[dtypes.Longs, dtypes.Longs] | None = None

    def learn(self, old: FileHashes, new: FileHashes) -> None:
        """A log file before and after it was masked."""
        _, before, after = np.intersect1d(old.offset, new.offset, return_indices=True)
        self._tags.add(old.offset[before], old.code[before], new.code[after])
        _, before, after = np.intersect1d(old.key_place, new.key_place, return_indices=True)
        self._keys.add(old.key_offset[before], old.key_hash[before], new.key_hash[after])
        self._codes = None

    def codes(self, codes: dtypes.Longs, offset: dtypes.Longs | None = None) -> dtypes.Longs:
        """Tag codes of the records at these physical offsets (None: unknown); times and addresses stay."""
        made = codes.copy()
        is_hash = np.flatnonzero((codes >= javatext.INT32_MIN) & (codes <= javatext.INT32_MAX) & (codes != 0))
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

    def key_hashes(self, hashes: dtypes.Longs, offset: dtypes.Longs) -> dtypes.Longs:
        """Hashes of index entries of the records at these physical offsets."""
        made = self._permutation.key_hashes(hashes)
        rows, found = self._keys.find(offset, hashes)
        made[rows] = found
        return made

    def name_hashes(self, hashes: dtypes.Longs, names: dict[str, str]) -> dtypes.Longs:
        """Java hashes of names alone; `names` are known ones and their pseudonyms."""
        became = {javatext.java_hash(name): javatext.java_hash(mask) for name, mask in names.items()}
        became |= {javatext.java_hash(name): javatext.java_hash(name) for name in SYSTEM_NAMES}
        made = self._permutation.codes(hashes)
        for row, value in enumerate(hashes.tolist()):
            made[row] = became.get(value, int(made[row]))
        return made


_SLOT_COUNT_AT = slice(32, 36)


@dataclass(frozen=True, slots=True)
class EntryChains:
    """Of each entry its slot and the entry put before it there (0: none); of each slot the newest entry.

    Entry 0 is not in use.
    """

    slot: dtypes.Longs
    previous: dtypes.Longs
    head: dtypes.Longs


def chains_of(key_hash: dtypes.Longs, slot_count: int, last: int) -> EntryChains:
    """The chains that putting the entries makes; the slots hold no entry beyond `last`."""
    slot = key_hash % slot_count
    order = 1 + np.argsort(slot[1:], kind="stable")
    same = slot[order[1:]] == slot[order[:-1]]
    previous, head = np.zeros(len(slot), np.int64), np.zeros(slot_count, np.int64)
    previous[order[1:][same]] = order[:-1][same]
    head[slot[1 : last + 1]] = np.arange(1, last + 1)  # of equal slots the last one stays
    return EntryChains(slot, previous, head)


def mask_index(
    data: bytearray, *, slot_count: int, counts_entries: bool, masks: HashMasks, seed: int
) -> None:
    """Change the hashes of an index file in place, and what follows from them.

    `counts_entries`: hashSlotCount in the header counts entries, not slots. `seed` chooses empty slots.
    """
    room = min(max(len(data) - indexfile.INDEX_HEADER_SIZE, 0) // indexfile.SLOT_SIZE, slot_count)
    if not room:
        return
    slots = np.frombuffer(data, dtypes.SLOT_DTYPE, room, indexfile.INDEX_HEADER_SIZE)
    start = indexfile.entry_pos(0, slot_count)
    entries = rows_of(data, dtypes.ENTRY_DTYPE, start)
    filled = np.flatnonzero(entries["phyOffset"] | entries["keyHash"] | entries["prevIndex"])
    entries = entries[: int(filled[-1]) + 1 if len(filled) else 1]
    old = entries["keyHash"].astype(np.int64)
    new = masks.key_hashes(old, entries["phyOffset"].astype(np.int64))
    used = min(indexfile.decode_header(data).entry_count, max(len(old) - 1, 0))
    stored = slots.astype(np.int64)
    last = _newest_put(old, slot_count, stored, used)
    before, after = chains_of(old, slot_count, last), chains_of(new, slot_count, last)
    random = np.random.default_rng(seed)
    entries["prevIndex"] = _links(entries["prevIndex"].astype(np.int64), before, after)
    entries["keyHash"] = new
    slots[:] = _heads(stored, before, after, random)
    used_slots = [len(np.unique(chains.slot[1 : used + 1])) for chains in (before, after)]
    data[_SLOT_COUNT_AT] = _slot_count(data, used_slots[0], used_slots[1], used, counts_entries)


def _newest_put(key_hash: dtypes.Longs, slot_count: int, stored: dtypes.Longs, used: int) -> int:
    """Whether the slots know the entries beyond the header's count, too: what more of them agree with."""
    limits = {used, max(len(key_hash) - 1, 0)}

    def agreed(last: int) -> int:
        return int((chains_of(key_hash, slot_count, last).head[: len(stored)] == stored).sum())

    return max(sorted(limits), key=agreed)


def _links(stored: dtypes.Longs, before: EntryChains, after: EntryChains) -> dtypes.Longs:
    made = after.previous.copy()
    if len(made):
        made[0] = stored[0]
    for entry in np.flatnonzero(stored != before.previous).tolist():
        if entry:
            made[entry] = _wrong(int(stored[entry]), entry, before, after, int(before.slot[entry]))
    return made


def _wrong(value: int, entry: int, before: EntryChains, after: EntryChains, slot: int) -> int:
    """A wrong link: one that skipped entries of its chain, or led back, does so in the new one if it can."""
    if not 0 < value < len(before.slot) or before.slot[value] != slot or value == entry:
        return value
    if value > entry:
        newest = int(after.head[after.slot[entry]])
        return newest if newest > entry else value
    return int(after.previous[after.previous[entry]])


def _heads(
    stored: dtypes.Longs, before: EntryChains, after: EntryChains, random: np.random.Generator
) -> dtypes.Longs:
    made = after.head[: len(stored)].copy()
    wrong = np.flatnonzero(stored != before.head[: len(stored)])
    empty = random.permutation(np.flatnonzero(made == 0))
    taken = 0
    for slot in wrong.tolist():
        newest, value = int(before.head[slot]), int(stored[slot])
        if newest and int(after.slot[newest]) < len(made):
            place = int(after.slot[newest])
            top = int(after.head[place])
            skips = 0 < value < len(before.slot) and before.slot[value] == slot
            made[place] = int(after.previous[top]) if skips else value
        elif taken < len(empty):
            made[empty[taken]] = value
            taken += 1
    return made


def _slot_count(data: bytearray, old: int, new: int, used: int, counts_entries: bool) -> bytes:
    """hashSlotCount: as wrong as it was, and as right."""
    stored = indexfile.decode_header(data).hash_slot_count
    if stored == used and (old != used or counts_entries):
        made = stored
    elif old <= stored <= used:
        made = min(stored - old + new, used)
    else:
        made = stored if stored > used else min(max(stored - old + new, -(1 << 31)), (1 << 31) - 1)
    return made.to_bytes(4, "big", signed=True)


_LOW_WORD = (1 << 63) - 1
_CODE = slice(2, 10)


def mask_units(
    data: bytearray, dtype: dtypes.Dtype, masks: HashMasks, *, in_log: bool = True
) -> dtypes.Longs:
    """Change the tag codes of consume queue units in place; the byte offsets of ext units that they name.

    `in_log`: the units' offsets are those of the commit log.
    """
    units = rows_of(data, dtype)
    codes, offset = units["tagsCode"].astype(np.int64), units["offset"].astype(np.int64)
    units["tagsCode"] = masks.codes(codes, offset if in_log else None)
    addresses = codes[codes < -(1 << 31)]
    return addresses & _LOW_WORD


def mask_ext(data: bytearray, places: Iterable[int], masks: HashMasks, names: Pseudonyms) -> set[int]:
    """Change the tag codes of ext units in place, empty their bit maps; all that is not a unit becomes noise.

    `places` are positions of units in the file, in addition to those that follow one another from its
    beginning. Returns the positions of all of them. The zeros of a bit map, too, say which groups a message
    was for: noise that keeps them would tell that.
    """
    before, least = bytes(data), consumequeue.EXT_UNIT_MIN_SIZE
    end = len(before.rstrip(b"\0"))
    data[:end] = names.noise(b"\1" * end)
    seen: set[int] = set()
    for first in (0, *places):
        place = first
        while 0 <= place <= len(before) - least and place not in seen:
            seen.add(place)
            head = before[place : place + least]
            if head.startswith(consumequeue.EXT_END_MARK):
                break
            size = int.from_bytes(head[:2], "big", signed=True)
            if size < least:
                data[place : place + 2] = head[:2]
                break
            code = int.from_bytes(head[_CODE], "big", signed=True)
            made = int(masks.codes(np.array([code], np.int64))[0])
            data[place : place + least] = head
            data[place + 2 : place + 10] = made.to_bytes(8, "big", signed=True)
            data[place + least : place + size] = bytes(min(place + size, len(before)) - place - least)
            place += size
        if 0 <= place < len(before) and before[place : place + 2] == consumequeue.EXT_END_MARK:
            data[place : place + 2] = consumequeue.EXT_END_MARK
    return seen


def mask_timer_log(data: bytearray, masks: HashMasks, names: Pseudonyms) -> None:
    """Change the hashes of topics in the units of a timer log in place."""
    units = rows_of(data, dtypes.TIMER_UNIT_DTYPE)
    rows = np.flatnonzero(units["size"] == timer.TIMER_LOG_UNIT_SIZE)
    hashes = units["hashCodeOfRealTopic"][rows].astype(np.int64)
    units["hashCodeOfRealTopic"][rows] = masks.name_hashes(hashes, names.known())
