"""Checks of an index file's header: against the file's length, its entries, and the log's times.

Reference 4.2, 4.4, 4.6, 9.4.
"""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of, fill_numbers
from rocketfsck.reader.index import IndexReader
from rocketfsck.reader.records import LogReader
from rocketfsck.verify.finding import Facts, Where
from rocketfsck.verify.index.places import header_place
from rocketfsck.verify.tasks.task import Collector, Context

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
            self.collector.find(
                RuleName.INDEX_LENGTH,
                Where(file=self.relative, start=min(reader.size, expected_size), end=expected_size),
                {
                    "size": reader.size,
                    "reason": reason,
                    "first_lost_entry": reader.last_entry + 1 if lost else None,
                    "last_lost_entry": stated if lost else None,
                },
                {"size": expected_size},
            )
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
            collector.find(
                RuleName.INDEX_SLOT_COUNT,
                header_place(self.relative, "hashSlotCount"),
                {
                    "hash_slot_count": header.hash_slot_count,
                    "slot_count": used_slots,
                    "entry_count": self.used,
                },
            )
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
