"""What is wrong with the chains of an index file whose links are not those that its puts would have made.

The links are never followed to find out whether they are right: `scan.join.replay` puts the entries in order
and compares. Only chains that differ are walked here, and the walk has a limit. Reference 4.4, 4.7; fault
catalogue I3.

Entries that were put into an index file since an earlier check, without a look at those before them.

    slots as they are, without the new entries = slots as the earlier check left them

The new entries are taken back, the last one first: each of them must be the head of its slot, and leave there
the entry that its prevIndex names. The slots that come of that must have the digest that the earlier check
kept: then every slot, and every link of a new entry, is what puts in order make of them. Reference 4.4.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.dtypes import SLOT_DTYPE, Longs
from rocketfsck.reader.index import BLOCK_COUNT, Entries, IndexReader, walk_chain
from rocketfsck.scan.spans import among, distinct, group_bounds
from rocketfsck.verify.finding import Finding, Findings, Where
from rocketfsck.verify.index.entryfeed import entry_place, slot_place
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
    slots = np.zeros(reader.slot_count, np.int32)
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


MISMATCH_LIMIT = 1 << 16
"""Wrong links and heads that are classified one by one; more are counted."""
WALK_LIMIT = 200_000
"""Entries walked in damaged chains, all together."""
CHAIN_LIMIT = 10_000
"""Damaged chains that are walked."""


@dataclass(frozen=True, slots=True)
class BrokenLinks:
    """Entries whose prevIndex is not the expected one, and slots whose head is not. Columns of equal length.

    `further_count` entries and slots are wrong too and not listed.
    """

    entry: Longs
    previous: Longs
    expected: Longs
    entry_slot: Longs
    slot: Longs
    head: Longs
    expected_head: Longs
    further_count: int = 0

    @property
    def count(self) -> int:
        return len(self.entry) + len(self.slot) + self.further_count


def classify_links(reader: IndexReader, wrong: BrokenLinks, used: int) -> Findings:
    """One finding for every wrong link and head: what it leads to. `used` is the last entry in use."""
    inside = (wrong.previous > 0) & (wrong.previous <= used)
    leads_to = _slots_of(reader, wrong.previous, inside)
    for row in range(len(wrong.entry)):
        entry, previous = int(wrong.entry[row]), int(wrong.previous[row])
        slot, expected = int(wrong.entry_slot[row]), int(wrong.expected[row])
        found, right = {"value": previous}, {"value": expected}
        rule = RuleName.INDEX_CHAIN_SKIPS
        if previous == entry:
            rule = RuleName.INDEX_CHAIN_SELF_LOOP
        elif not 0 <= previous <= used:
            rule = RuleName.INDEX_CHAIN_OUT_OF_RANGE
            right["last_entry"] = used
        elif previous > entry:
            rule = RuleName.INDEX_CHAIN_NOT_DECREASING
        elif previous and int(leads_to[row]) != slot:
            rule = RuleName.INDEX_CHAIN_CROSS_LINK
            found["other_slot"] = int(leads_to[row])
        yield Finding(rule, _at(reader, entry, slot), found, right)
    yield from _classify_heads(reader, wrong, used)


def _classify_heads(reader: IndexReader, wrong: BrokenLinks, used: int) -> Findings:
    inside = (wrong.head > 0) & (wrong.head <= used)
    leads_to = _slots_of(reader, wrong.head, inside)
    for row in range(len(wrong.slot)):
        slot, head, expected = int(wrong.slot[row]), int(wrong.head[row]), int(wrong.expected_head[row])
        where = slot_place(reader.file.relative, slot)
        if not 0 <= head <= used:
            right = {"value": expected, "last_entry": used}
            yield Finding(RuleName.INDEX_SLOT_OUT_OF_RANGE, where, {"value": head}, right)
            continue
        if not head:
            reason = "the slot is empty"
        elif int(leads_to[row]) != slot:
            reason = f"that entry belongs to slot {int(leads_to[row])}"
        else:
            reason = "the slot skips its newer entries"
        yield Finding(RuleName.INDEX_SLOT_HEAD, where, {"value": head, "reason": reason}, {"value": expected})


def walk_damaged(reader: IndexReader, wrong: BrokenLinks, used: int) -> Findings:
    """Walk the chains that have a wrong link: circles, and entries that no chain reaches any more."""
    slots = distinct(np.concatenate((wrong.entry_slot, wrong.slot)))
    walked = slots[:CHAIN_LIMIT].tolist()
    reached: set[int] = set()
    steps = unfinished = 0
    for slot in walked:
        path: dict[int, int] = {}
        for entry in walk_chain(reader.newest(slot) or 0, used, reader.entry):
            if steps >= WALK_LIMIT:
                unfinished += 1
                break
            steps += 1
            path[entry.number] = len(path)
            if entry.previous in path and entry.previous != entry.number:
                found = {"value": entry.previous, "entry_count": len(path) - path[entry.previous]}
                yield Finding(RuleName.INDEX_CHAIN_CYCLE, _at(reader, entry.number, slot), found)
        reached.update(path)
    if unfinished or len(slots) > CHAIN_LIMIT or wrong.further_count:
        count = unfinished + max(len(slots) - CHAIN_LIMIT, 0)
        where = Where(reader.file.relative)
        yield Finding(RuleName.INDEX_CHAINS_NOT_WALKED, where, {"slot_count": count})
        return
    yield from _orphans(reader, slots, reached, used)


def _orphans(reader: IndexReader, slots: Longs, reached: set[int], used: int) -> Findings:
    """Entries of the damaged slots that were not reached, one finding a slot."""
    seen = np.fromiter(reached, np.int64, len(reached))
    seen.sort()
    count: dict[int, int] = {}
    first: dict[int, int] = {}
    for start in range(1, used + 1, BLOCK_COUNT):
        block = reader.entries(start, min(BLOCK_COUNT, used + 1 - start))
        of_slot = block["keyHash"].astype(np.int64) % reader.slot_count
        rows = np.flatnonzero(among(of_slot, slots))
        numbers = rows + start
        missed = ~among(numbers, seen)
        for number, slot in zip(numbers[missed].tolist(), of_slot[rows[missed]].tolist(), strict=True):
            count[slot] = count.get(slot, 0) + 1
            first.setdefault(slot, number)
    for slot, number in first.items():
        where, found = _at(reader, number, slot), {"entry_count": count[slot]}
        yield Finding(RuleName.INDEX_ENTRY_ORPHAN, where, found, count=count[slot])


def _at(reader: IndexReader, entry: int, slot: int) -> Where:
    return replace(entry_place(reader.file.relative, reader.slot_count, entry), slot=slot)


def _slots_of(reader: IndexReader, numbers: Longs, inside: NDArray[np.bool_]) -> Longs:
    """The slots that the entries `numbers` belong to, -1 where there is no such entry."""
    slots = np.full(len(numbers), -1, np.int64)
    if inside.any():
        slots[inside] = reader.gather(numbers[inside])["keyHash"].astype(np.int64) % reader.slot_count
    return slots
