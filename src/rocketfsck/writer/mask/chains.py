"""Index files with other hashes: entries stay where they are, and their chains are laid again.

The entries are put again, in order, into the slots of their new hashes. A head or link that was not the one
that the puts make is wrong in the copy, too, in the same way as far as the new chains have room for it. No
slot keeps its number: where a slot has no entry, what it holds goes to an empty one by chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.dtypes import ENTRY_DTYPE, SLOT_DTYPE
from rocketfsck.formats.indexfile import ENTRY_SIZE, INDEX_HEADER_SIZE, SLOT_SIZE, decode_header, entry_pos
from rocketfsck.writer.mask.hashes import HashMasks

_SLOT_COUNT_AT = slice(32, 36)


@dataclass(frozen=True, slots=True)
class EntryChains:
    """Of each entry its slot and the entry put before it there (0: none); of each slot the newest entry.

    Entry 0 is not in use.
    """

    slot: Longs
    previous: Longs
    head: Longs


def chains_of(key_hash: Longs, slot_count: int, last: int) -> EntryChains:
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
    room = min(max(len(data) - INDEX_HEADER_SIZE, 0) // SLOT_SIZE, slot_count)
    if not room:
        return
    slots = np.frombuffer(data, SLOT_DTYPE, room, INDEX_HEADER_SIZE)
    start = entry_pos(0, slot_count)
    count = max(len(data) - start, 0) // ENTRY_SIZE
    entries = np.frombuffer(data, ENTRY_DTYPE, count, start) if count else np.zeros(0, ENTRY_DTYPE)
    filled = np.flatnonzero(
        (entries["phyOffset"] != 0) | (entries["keyHash"] != 0) | (entries["prevIndex"] != 0)
    )
    entries = entries[: int(filled[-1]) + 1 if len(filled) else min(count, 1)]
    old = entries["keyHash"].astype(np.int64)
    new = masks.key_hashes(old, entries["phyOffset"].astype(np.int64))
    used = min(decode_header(data).entry_count, max(len(old) - 1, 0))
    stored = slots.astype(np.int64)
    last = _newest_put(old, slot_count, stored, used)
    before, after = chains_of(old, slot_count, last), chains_of(new, slot_count, last)
    random = np.random.default_rng(seed)
    entries["prevIndex"] = _links(entries["prevIndex"].astype(np.int64), before, after)
    entries["keyHash"] = new
    slots[:] = _heads(stored, before, after, random)
    used_slots = [len(np.unique(chains.slot[1 : used + 1])) for chains in (before, after)]
    data[_SLOT_COUNT_AT] = _slot_count(data, used_slots[0], used_slots[1], used, counts_entries)


def _newest_put(key_hash: Longs, slot_count: int, stored: Longs, used: int) -> int:
    """Whether the slots know the entries beyond the header's count, too: what more of them agree with."""
    limits = {used, max(len(key_hash) - 1, 0)}
    agreed = {
        last: int((chains_of(key_hash, slot_count, last).head[: len(stored)] == stored).sum())
        for last in sorted(limits)
    }
    return max(agreed, key=agreed.__getitem__)


def _links(stored: Longs, before: EntryChains, after: EntryChains) -> Longs:
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


def _heads(stored: Longs, before: EntryChains, after: EntryChains, random: np.random.Generator) -> Longs:
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
    stored = decode_header(data).hash_slot_count
    if stored == used and (old != used or counts_entries):
        made = stored
    elif old <= stored <= used:
        made = min(stored - old + new, used)
    else:
        made = stored if stored > used else min(max(stored - old + new, -(1 << 31)), (1 << 31) - 1)
    return made.to_bytes(4, "big", signed=True)
