"""A commit log file from any position on, item by item, without a look at what is before it.

    file := item* ; item := record | region       `scan.log.tiling` has the same tiling, from the file's start

From the start of a record or region the tiling continues as it would in a walk over the whole file. Where
that is, the bytes themselves tell: a record knows its own physical offset. Whether a record is stale only a
walk over the file tells; here nobody says so. Reference 2.1, 2.8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rocketfsck.cli.dump.item import Item
from rocketfsck.cli.dump.kinds import shown_item
from rocketfsck.cli.dump.records import record_item, region_item
from rocketfsck.cli.dump.source import DumpFilter, DumpSource
from rocketfsck.formats.names import shown_name
from rocketfsck.progress import go_on
from rocketfsck.query.log import KEY_ROOM
from rocketfsck.reader.heads import head_at
from rocketfsck.scan.columns import RecordBatch, new_batch
from rocketfsck.scan.log.large import LargeRecord, append_large_record, read_large_record
from rocketfsck.scan.log.regions import Region
from rocketfsck.scan.log.resync import Ground
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.stops import Stop
from rocketfsck.scan.threads.readahead import ReadAhead
from rocketfsck.scan.views.messages import read_message

WINDOW_SIZE = 1 << 18
FRONT_SIZE = 1 << 12
FIRST_STEP = 1 << 16
MOST_STEP = 1 << 26
MOST_OFFSET = 1 << 62
MOST_GAPS = 1 << 12
BODY_LIMIT = 1 << 20
"""The checksum of a longer body is not compared: a record is to be shown at once."""


@dataclass(frozen=True, slots=True)
class Head:
    """Where something begins and ends: a record (`record`), or a region."""

    start: int
    end: int
    record: LargeRecord | None
    region: Region | None


class LogWalk:
    """One commit log file, whose own length is the truth, as for `dump`."""

    def __init__(self, source: DumpSource) -> None:
        self.source = source
        self.size = source.size
        self.options = ScanOptions(
            read_bodies=True,
            property_parser=source.property_parser,
            file_size=source.size,
        )
        self._batch: RecordBatch = new_batch(1, KEY_ROOM, KEY_ROOM)
        self._gaps: dict[int, int] = {}
        first = head_at(source.reader, 0)
        stated = -1 if first is None else first.physical_offset
        self._own_base = stated if 0 <= stated < MOST_OFFSET else source.start_offset

    def heads(self, pos: int, end: int | None = None) -> Iterator[Head]:
        """What begins at `pos`, where something does, and all after it that begins before `end`.

        Raises StoreError when bytes cannot be read.
        """
        limit = self.size if end is None else end
        file_size = self.options.file_size
        other_base, first = self._own_base, pos
        pos = self._gaps.get(pos, pos)
        while pos < limit:
            go_on()
            record = read_large_record(self.source.reader, pos, file_size)
            if not isinstance(record, Stop):
                yield Head(pos, pos + record.total_size, record, None)
                pos += record.total_size
                continue
            with self._window(0, self.size) as window:
                ground = Ground(self.source.reader, window, self.source.start_offset, file_size)
                regions = list(ground.between(pos, record, other_base))
            for region in regions[1:]:
                self._remember(region.start, pos)
            for region in regions:
                pos = region.end
                if first <= region.start < limit:
                    yield Head(region.start, region.end, None, region)

    def _remember(self, pos: int, gap: int) -> None:
        """What begins at `pos` is what it is because of what is between it and `gap`."""
        if len(self._gaps) >= MOST_GAPS:
            self._gaps.clear()
        self._gaps[pos] = gap

    def item(self, head: Head, wanted: DumpFilter) -> Item:
        """The item of a head, with its fields by the names that are shown."""
        if head.record is None:
            assert head.region is not None
            return shown_item(region_item(self.source, wanted, head.region), shown_name)
        self._batch.begin(0)
        taken = append_large_record(
            self.source.reader,
            head.record,
            self.source.start_offset,
            self.options.file_size,
            replace(self.options, read_bodies=head.record.body_size <= BODY_LIMIT),
            self._batch,
            QueueTable(),
        )
        assert taken  # the batch has room for more keys than a record can hold
        message = read_message(self.source.reader, self._batch, 0, self.options.property_parser, 0)
        return shown_item(record_item(self.source, wanted, message, stale=False), shown_name)

    def start_before(self, pos: int, back: int) -> int:
        """A position at which a record or BLANK begins, about `back` bytes before `pos` or further; or 0.

        What knows its own place is believed: only a body made to deceive has a record that does.
        """
        step = max(back, FIRST_STEP)
        low = pos
        while low > 0:
            high, low = low, max(low - step, 0)
            step = min(4 * step, MOST_STEP)
            if low == 0:
                return 0
            found = self.next_start(low, high)
            if found is not None:
                return found
        return 0

    def next_start(self, low: int, high: int) -> int | None:
        """The first position in `low:high` at which a record that knows its place, or a BLANK, begins."""
        end = min(high + FRONT_SIZE, self.size)
        with self._window(low, end) as window:
            ground = Ground(self.source.reader, window, self.source.start_offset, self.options.file_size)
            found = ground.carve(low, self._own_base)
        return found if found is not None and found < high else None

    def _window(self, start: int, end: int) -> ReadAhead:
        return ReadAhead(
            self.source.reader,
            buffer_size=WINDOW_SIZE,
            front_size=FRONT_SIZE,
            threaded=False,
            start=start,
            end=end,
        )
