"""Checks of one index file by itself: length, header, entries, slots and chains.

The entries are put in order, block by block, as the broker put them: that gives what every link and every
slot must be. `chains` follows the links, of chains that differ only. `check_log_file` compares entries with
records, where the records pass. Reference 4, 9.4.

Checks of an index file's header: against the file's length, its entries, and the log's times.

Reference 4.2, 4.4, 4.6, 9.4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of, fill_numbers
from rocketfsck.formats.dtypes import ENTRY_DTYPE, SLOT_DTYPE, Longs
from rocketfsck.formats.indexfile import ENTRY_SIZE, INDEX_HEADER_SIZE
from rocketfsck.progress import moved_by, moved_to
from rocketfsck.reader.index import BLOCK_COUNT, Entries, IndexReader
from rocketfsck.reader.records import LogReader
from rocketfsck.scan.join.replay import IndexReplay
from rocketfsck.scan.spans import find_span
from rocketfsck.verify.finding import Facts, Where
from rocketfsck.verify.index.chains import (
    MISMATCH_LIMIT,
    BrokenLinks,
    classify_links,
    new_entries,
    slots_digest,
    walk_damaged,
)
from rocketfsck.verify.index.crossindex import merge_index_files
from rocketfsck.verify.index.entryfeed import IndexExtent, entry_place, header_place
from rocketfsck.verify.tasks.task import (
    Checked,
    Collector,
    Context,
    IndexFacts,
    IndexFileTask,
    IndexKnown,
    TaskResult,
    add_rows,
)

CUT_OFF = "{first..last:entry} {count?is|are} cut off"
EMPTY = "{first..last:entry} {count?is|are} empty"


def ends_of(reader: IndexReader, used: int) -> tuple[int, int]:
    """The offsets that the first and the last entry in use point to; -1 without entries."""
    if not used:
        return -1, -1
    first, last = reader.entries(1, 1), reader.entries(used, 1)
    return int(first["phyOffset"][0]), int(last["phyOffset"][0])


class HeaderCheck:
    """The header of an index file. `settle` first: it says which entries are in use."""

    def __init__(self, context: Context, reader: IndexReader, collector: Collector) -> None:
        self.context = context
        self.reader = reader
        self.collector = collector
        self.relative = reader.file.relative
        self.used = reader.used_entry
        self.cut = False

    def settle(self) -> int:
        """Check the file's length and indexCount; the number of the last entry in use."""
        reader, header = self.reader, self.reader.header
        expected_size = self.context.store.geometry.index_file_size
        stated = header.entry_count
        if reader.size != expected_size:
            self.cut = reader.size < expected_size
            reason = "no used entry is cut off"
            lost = stated > reader.last_entry
            if lost:
                reason = fill_numbers(
                    CUT_OFF, first=reader.last_entry + 1, last=stated, count=stated - reader.last_entry
                )
            facts: Facts = {
                "size": reader.size,
                "reason": reason,
                "first_lost_entry": reader.last_entry + 1 if lost else None,
                "last_lost_entry": stated if lost else None,
            }
            where = Where(self.relative, min(reader.size, expected_size), expected_size)
            self.collector.find(RuleName.INDEX_LENGTH, where, facts, {"size": expected_size})
        doubt = None
        if header.index_count < 0 or stated >= reader.entry_count:
            doubt = f"outside 0 to {reader.entry_count}"
            self.used = max(reader.last_not_zero(1), 0)
        elif self.used:
            if not reader.any_byte(self.used):
                self.used = max(reader.last_not_zero_below(self.used), 0)
                doubt = fill_numbers(EMPTY, first=self.used + 1, last=stated, count=stated - self.used)
        elif not self.cut and reader.last_entry and reader.any_byte(1):
            self.used = max(reader.last_not_zero(1), 0)
            doubt = f"the file has {count_of(self.used, 'entry')}"
        if doubt is not None:
            where = header_place(self.relative, "indexCount")
            found: Facts = {"index_count": header.index_count, "reason": doubt}
            self.collector.find(RuleName.INDEX_HEADER_COUNT, where, found, {"index_count": self.used + 1})
        return self.used

    def values(self, used_slots: int) -> bool:
        """hashSlotCount in its three legal readings; begin and end of offsets and times.

        `used_slots` is in how many slots there are entries. Whether hashSlotCount can be right.
        """
        if not self.used:
            return False
        header, collector = self.reader.header, self.collector
        counted = used_slots <= header.hash_slot_count <= self.used
        if not self.cut and not counted:
            counts = {"hash_slot_count": header.hash_slot_count, "slot_count": used_slots}
            where = header_place(self.relative, "hashSlotCount")
            collector.find(RuleName.INDEX_SLOT_COUNT, where, {**counts, "entry_count": self.used})
        first, last = ends_of(self.reader, self.used)
        self._field("beginPhyOffset", header.begin_physical_offset, first)
        if not self.cut:
            self._field("endPhyOffset", header.end_physical_offset, last)
        with LogReader(self.context.store.commitlog) as log:
            begin, end = log.head(first), log.head(last)
        if begin is not None:
            self._field("beginTimestamp", header.begin_timestamp, begin.store_timestamp)
        if end is not None and not self.cut:
            self._field("endTimestamp", header.end_timestamp, end.store_timestamp)
        return counted and not self.cut

    def _field(self, name: str, found: int, expected: int) -> None:
        if found != expected:
            where = header_place(self.relative, name)
            self.collector.find(
                RuleName.INDEX_HEADER_RANGE, where, {"field": name, "value": found}, {"value": expected}
            )


__all__ = ["check_index_file", "merge_index_files"]


@dataclass(frozen=True, slots=True)
class IndexResult(TaskResult):
    """What the check of one index file found.

    `known`, if the context keeps it, is what a later check may go on from. `least_new_offset` is the least
    offset of the entries behind those that an earlier check knows; -1 where the file was checked as a whole.
    """

    facts: tuple[IndexFacts, ...] = ()
    summary: IndexExtent | None = None
    known: IndexKnown | None = None
    least_new_offset: int = -1


def check_index_file(task: IndexFileTask) -> IndexResult:
    """Check `store.indexes[index]`, or what is new in it. Facts: one IndexFacts."""
    context = task.context
    with IndexReader(context.store.indexes[task.index], context.store.geometry) as reader:
        if task.known is not None and (longer := _extended(context, reader, task.known)) is not None:
            return longer
        collector = context.collector()
        header_check = HeaderCheck(context, reader, collector)
        used = header_check.settle()
        if context.level == "quick":
            extent = IndexExtent(used, *ends_of(reader, used))
            checked = Checked(1, min(INDEX_HEADER_SIZE, reader.size), entry_count=used)
            return IndexResult(collector.findings, collector.counts, checked, (_facts(reader),), extent)
        walk = _IndexWalk(context, reader, collector, used)
        extent = walk.whole(header_check)
        known = walk.known(extent) if context.keeps else None
        checked = Checked(1, reader.size, entry_count=used)
        return IndexResult(collector.findings, collector.counts, checked, (_facts(reader),), extent, known)


def _extended(context: Context, reader: IndexReader, known: IndexKnown) -> IndexResult | None:
    """The result of a file of which an earlier check knows the first entries; None where the others, or the
    slots, do not follow from them."""
    collector = context.collector()
    header_check = HeaderCheck(context, reader, collector)
    used = header_check.settle()
    walk = _IndexWalk(context, reader, collector, used)
    new = new_entries(reader, known, used)
    if new is None or not new.last_offset < walk.contiguous_end():
        return None
    counted = header_check.values(new.slot_count)
    expired = reader.find_offset(int(walk.log_starts[0]), used)
    if collector.counts or expired is None or (reader.last_entry and reader.any_byte(0)):
        return None
    walk.behind()
    extent = _extent(reader, used, (expired - 1, 0, 0, 0, 0, 0), new.slot_count, counted)
    kept = IndexKnown(used, new.last_offset, new.slot_count, new.slots_digest)
    checked = Checked(1, reader.size, entry_count=used)
    findings, counts = collector.findings, collector.counts
    return IndexResult(findings, counts, checked, (_facts(reader),), extent, kept, new.least_offset)


def _facts(reader: IndexReader) -> IndexFacts:
    header = reader.header
    return IndexFacts(
        file=reader.file.relative,
        begin_timestamp=header.begin_timestamp,
        end_timestamp=header.end_timestamp,
        begin_physical_offset=header.begin_physical_offset,
        end_physical_offset=header.end_physical_offset,
        hash_slot_count=header.hash_slot_count,
        index_count=header.index_count,
        full=header.index_count >= reader.entry_count,
    )


def _extent(
    reader: IndexReader,
    used: int,
    counts: tuple[int, int, int, int, int, int],
    slot_count: int,
    counted: bool,
) -> IndexExtent:
    """The extent of a file with `used` entries; `counts` count those that point to no commit log file."""
    first_time = int(reader.entries(1, 1)["timeDiff"][0]) if used else -1
    return IndexExtent(used, *ends_of(reader, used), *counts, slot_count if counted else 0, first_time)


class _IndexWalk:
    """One pass over one index file. `used` is the number of the last entry in use."""

    def __init__(self, context: Context, reader: IndexReader, collector: Collector, used: int) -> None:
        self.context = context
        self.reader = reader
        self.collector = collector
        self.relative = reader.file.relative
        self.used = used
        self.slot_count, self.slots_digest = 0, ""
        files = [file for file in context.store.commitlog.files if file.start_offset is not None]
        starts = np.array([file.start_offset for file in files], np.int64)
        self.log_starts: Longs = starts
        self.log_ends: Longs = starts + np.array([file.size for file in files], np.int64)

    def whole(self, header_check: HeaderCheck) -> IndexExtent:
        """Go through all entries and slots."""
        slot_count = self.reader.slot_count
        if self.reader.last_entry and self.reader.any_byte(0):
            self.collector.find(RuleName.INDEX_ENTRY_ZERO, entry_place(self.relative, slot_count, 0))
        table_size = slot_count if self.used else max(self.reader.held_slot_count, 1)
        replay = IndexReplay(table_size, entry_count=self.used, limit=MISMATCH_LIMIT)
        counts = self._walk(replay)
        self._slots(replay)
        self.slot_count = int(np.count_nonzero(replay.heads))
        counted = header_check.values(self.slot_count)
        self.behind()
        if self.context.keeps:
            self.slots_digest = slots_digest(replay.heads)
        return _extent(self.reader, self.used, counts.values(), self.slot_count, counted)

    def known(self, extent: IndexExtent) -> IndexKnown | None:
        """What a later check may go on from: entries that are all sound and point into the log."""
        odd = self.collector.counts.keys() - {RuleName.INDEX_ENTRY_BEHIND_COUNT}
        if odd or not self.used or extent.missing_count or extent.beyond_count:
            return None
        return IndexKnown(self.used, extent.last_offset, self.slot_count, self.slots_digest)

    def contiguous_end(self) -> int:
        """Where the commit log ends, if no file is missing in it; else -1."""
        starts, ends = self.log_starts, self.log_ends
        return int(ends[-1]) if len(starts) and bool((starts[1:] == ends[:-1]).all()) else -1

    def _walk(self, replay: IndexReplay) -> _Pointing:
        """Put all entries in use, and look where they point."""
        counts = _Pointing()
        for number, data in self.reader.blocks(1, self.used):
            replay.put(data, number)
            moved_to(data.size + ENTRY_SIZE * number)
            flags, least, most = replay.take_facts()
            if flags:
                counts.flagged.append((number, data.size // ENTRY_SIZE))
            if not self._inside(least, most):
                self._pointing(number, data.view(ENTRY_DTYPE)["phyOffset"].astype(np.int64), counts)
        self._tell_entries(counts.flagged)
        return counts

    def _tell_entries(self, flagged: list[tuple[int, int]]) -> None:
        """Rules on single entries where some are flagged, in blocks that are the same whoever walked."""
        numbers = {
            number
            for first, count in flagged
            for number in range((first - 1) // BLOCK_COUNT, (first + count - 2) // BLOCK_COUNT + 1)
        }
        for number in sorted(numbers):
            first = 1 + number * BLOCK_COUNT
            before = self._offset_of(first - 1) if number else -1
            count = min(BLOCK_COUNT, self.used + 1 - first)
            self._entries(first, self.reader.entries(first, count), before)

    def _offset_of(self, entry: int) -> int:
        return int(self.reader.entries(entry, 1)["phyOffset"][0])

    def _inside(self, least: int, most: int) -> bool:
        """Whether no offset from `least` to `most` lies outside the commitlog files."""
        starts, ends = self.log_starts, self.log_ends
        if not len(starts) or least < starts[0] or most >= ends[-1]:
            return False
        return bool((starts[1:] == ends[:-1]).all())

    def _entries(self, first: int, block: Entries, before: int) -> None:
        """Rules on single entries of a block; `before` is the offset of the entry in front of it."""
        offset = block["phyOffset"].astype(np.int64)
        in_front = np.concatenate(([before], offset[:-1]))
        key_hash, time = block["keyHash"], block["timeDiff"]

        def place(row: int) -> Where:
            return entry_place(self.relative, self.reader.slot_count, first + row, 1, int(offset[row]))

        for rule, wrong, name, column in (
            (RuleName.INDEX_ENTRY_HASH, key_hash < 0, "value", key_hash),
            (RuleName.INDEX_ENTRY_TIME_NEGATIVE, time < 0, "value", time),
            (RuleName.INDEX_ENTRY_ORDER, offset < in_front, "previous_physical_offset", in_front),
        ):
            rows = np.flatnonzero(wrong)
            add_rows(self.collector, rule, self.relative, rows, place, {name: column}, {})

    def _pointing(self, first: int, offset: Longs, counts: _Pointing) -> None:
        if not len(self.log_starts):
            return
        nowhere = find_span(offset, self.log_starts, self.log_ends) < 0
        if not nowhere.any():
            return
        low, high = self.log_starts[0], self.log_ends[-1]
        counts.add("expired", first, offset, nowhere & (offset < low))
        counts.add("missing", first, offset, nowhere & (offset >= low) & (offset < high))
        counts.add("beyond", first, offset, nowhere & (offset >= high))

    def _slots(self, replay: IndexReplay) -> None:
        """Compare the slots with the replay's heads, and say what is wrong with chains that differ."""
        reader, heads, links = self.reader, replay.heads, replay.wrong_links()
        numbers: list[Longs] = []
        values: list[Longs] = []
        reach = self._reach()
        for first, data in reader.slot_blocks():
            moved_by(data.size)
            if replay.first_wrong_slot(data, first) < 0:
                continue
            found = data.view(SLOT_DTYPE).astype(np.int64)
            wrong = found != heads[first : first + len(found)]
            wrong &= (found <= self.used) | (found > reach)
            rows = np.flatnonzero(wrong)
            if len(rows):
                numbers.append(rows + first)
                values.append(found[rows])
        if not numbers and not replay.wrong_count:
            return
        none = np.zeros(0, np.int64)
        slot = np.concatenate([none, *numbers])
        room = slot[:MISMATCH_LIMIT]
        wrong_links = BrokenLinks(
            entry=links.entry,
            previous=links.previous,
            expected=links.expected,
            entry_slot=links.slot,
            slot=room,
            head=np.concatenate([none, *values])[:MISMATCH_LIMIT],
            expected_head=heads[room].astype(np.int64),
            further_count=links.further_count + len(slot) - len(room),
        )
        self.collector.extend(classify_links(reader, wrong_links, self.used))
        self.collector.extend(walk_damaged(reader, wrong_links, self.used))

    def _reach(self) -> int:
        """The last entry that a slot may hold for a reason reported elsewhere: cut off, emptied, or put
        without the header knowing."""
        reader = self.reader
        stated = min(reader.header.entry_count, reader.entry_count - 1)
        return max(stated, reader.last_not_zero(self.used + 1)) if self.used < reader.last_entry else stated

    def behind(self) -> None:
        """Entries behind indexCount that are not zero."""
        first = max(self.used, self.reader.header.entry_count) + 1
        if first > self.reader.last_entry:
            return
        last = self.reader.last_not_zero(first)
        if last >= first:
            count = last - first + 1
            where = entry_place(self.reader.file.relative, self.reader.slot_count, first, count)
            self.collector.find(RuleName.INDEX_ENTRY_BEHIND_COUNT, where, {"entry_count": count}, count=1)


class _Pointing:
    """Counts entries that point to where no commitlog file is; and keeps the blocks to be looked at again."""

    def __init__(self) -> None:
        self.count: dict[str, int] = {}
        self.first: dict[str, tuple[int, int]] = {}
        self.flagged: list[tuple[int, int]] = []  # blocks with an EntryFlag: first entry, how many

    def add(self, name: str, first: int, offset: Longs, flags: NDArray[np.bool_]) -> None:
        rows = np.flatnonzero(flags)
        if len(rows):
            self.count[name] = self.count.get(name, 0) + len(rows)
            self.first.setdefault(name, (first + int(rows[0]), int(offset[rows[0]])))

    def values(self) -> tuple[int, int, int, int, int, int]:
        """The fields of an IndexExtent after its ends."""
        missing, beyond = self.first.get("missing", (0, 0)), self.first.get("beyond", (0, 0))
        expired, count, further = (self.count.get(name, 0) for name in ("expired", "missing", "beyond"))
        return expired, count, missing[0], further, *beyond
