"""Entries that were put into an index file since an earlier check, without a look at those before them.

    slots as they are, without the new entries = slots as the earlier check left them

The new entries are taken back, the last one first: each of them must be the head of its slot, and leave there
the entry that its prevIndex names. The slots that come of that must have the digest that the earlier check
kept: then every slot, and every link of a new entry, is what puts in order make of them. Reference 4.4.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.dtypes import SLOT_DTYPE
from rocketfsck.reader.index import Entries, IndexReader
from rocketfsck.scan.spans import group_bounds
from rocketfsck.verify.tasks.task import IndexKnown

NO_OFFSET = (1 << 63) - 1
MAX_NEW = 1 << 22
"""New entries that are taken back in memory; a file with more is gone through as a whole."""


@dataclass(frozen=True, slots=True)
class NewEntries:
    """What the entries after those of an `IndexKnown` make of a file.

    The entries point to `least_offset` and beyond; NO_OFFSET where there are none.
    """

    least_offset: int
    last_offset: int
    slot_count: int
    slots_digest: str


def slots_digest(heads: NDArray[Any]) -> str:
    """Hex digest of the newest entry of every slot."""
    return hashlib.blake2b(np.ascontiguousarray(heads, SLOT_DTYPE).data, digest_size=16).hexdigest()


def new_entries(reader: IndexReader, known: IndexKnown, used: int) -> NewEntries | None:
    """What is new in a file with `used` entries; None where it does not follow from what is known.

    Offsets must rise, hashes and times be 0 or more. A broker that is putting entries meanwhile has them in
    slots before its header counts them: those are taken back, too.
    """
    if known.is_unchanged and used == known.used:
        return NewEntries(NO_OFFSET, known.last_offset, known.slot_count, known.slots_digest)
    slots = _all_slots(reader)
    top = max(used, int(slots.max(initial=0)))
    if not known.used <= used <= top <= reader.last_entry or top - known.used > MAX_NEW:
        return None
    entries = reader.entries(known.used + 1, top - known.used)
    put = entries[: used - known.used]
    offset = put["phyOffset"].astype(np.int64)
    rises = not len(offset) or (offset[0] >= known.last_offset and bool((np.diff(offset) >= 0).all()))
    if not rises or (entries["keyHash"] < 0).any() or (put["timeDiff"] < 0).any():
        return None
    if not _take_back(slots, entries, known.used + 1) or slots_digest(slots) != known.slots_digest:
        return None
    slot_count = known.slot_count
    if len(put):
        slot = put["keyHash"].astype(np.int64) % len(slots)
        slot_count += len(np.unique(slot[slots[slot] == 0]))
        slots[slot] = np.arange(known.used + 1, used + 1)  # of equal places the last one counts
    least, last = (int(offset[0]), int(offset[-1])) if len(offset) else (NO_OFFSET, known.last_offset)
    return NewEntries(least, last, slot_count, slots_digest(slots))


def _all_slots(reader: IndexReader) -> NDArray[np.int32]:
    slots = np.empty(reader.slot_count, np.int32)
    for first, data in reader.slot_blocks():
        block = data.view(SLOT_DTYPE)
        slots[first : first + len(block)] = block
    return slots


def _take_back(slots: NDArray[np.int32], entries: Entries, first: int) -> bool:
    """Make the slots what they were before these entries, the first of which is number `first`.

    False where an entry is not what a slot or a later entry leads to.
    """
    if not len(entries):
        return True
    slot = entries["keyHash"].astype(np.int64) % len(slots)
    order = np.argsort(slot, kind="stable")
    number, previous = order + first, entries["prevIndex"][order].astype(np.int64)
    bounds = group_bounds(slot[order])
    begins, lasts = bounds[:-1], bounds[1:] - 1
    inner = np.ones(len(order), np.bool_)
    inner[begins] = False
    follows = np.flatnonzero(inner)
    if (previous[follows] != number[follows - 1]).any():
        return False
    places = slot[order[begins]]
    if (slots[places] != number[lasts]).any():
        return False
    slots[places] = previous[begins]
    return True
