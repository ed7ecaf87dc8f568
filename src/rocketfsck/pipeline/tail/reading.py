"""The rows of one range of a live log, by the readers of the views `messages` and `damage`, as if nothing
else were there.

What comes after the range is still being written, and what comes before it was read before, so neither is
looked at: the file ends with the range, and a walk begins there that knows of nothing before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from rocketfsck.errors import StoreError
from rocketfsck.pipeline.sources import StoreSource
from rocketfsck.pipeline.tail import place
from rocketfsck.pipeline.tail.log import check_witness, leads_to, opened, seek_newer
from rocketfsck.pipeline.tail.walk import Reached, WalkBounds, walk_file
from rocketfsck.pipeline.views.messages import PartReader
from rocketfsck.pipeline.views.model import Part, WantedRows, ignores
from rocketfsck.pipeline.views.regions import DamageReader
from rocketfsck.pipeline.views.table import schema_of
from rocketfsck.pipeline.views.walking import PartWalk, WalkedPart
from rocketfsck.scan.log.large import read_large_record
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.log.resync import Ground
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.scan.options import LogItem, ScanOptions, Stop
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.threads.readahead import ReadAhead
from rocketfsck.store.model import MappedFile
from rocketfsck.store.reading import FileReader

if TYPE_CHECKING:
    import pyarrow as pa

# Where a stream begins in a log, and which bytes of which files lie between two places of it.


def place_at_offset(log: place.Log, offset: int) -> place.LogPlace:
    """The place of the first record at or after a physical offset.

    An offset outside the files stays as it is: whoever continues from there hears what is lost.
    """
    for file in place.list_files(log):
        if place.start_of(file) <= offset < place.end_of(file):
            return place.LogPlace(
                place.start_of(file) + _next_record(log, file, offset - place.start_of(file))
            )
    return place.LogPlace(offset)


def place_at_timestamp(log: place.Log, timestamp: int) -> place.LogPlace:
    """The place of the first record whose storeTimestamp is `timestamp` (ms) or later, else the log's end."""
    return seek_newer(log, place.list_files(log), timestamp - 1)


def _next_record(log: place.Log, file: MappedFile, pos: int) -> int:
    with FileReader(file.location) as reader:
        found = read_large_record(reader, pos, max(log.file_size, reader.size))
        if not isinstance(found, Stop) or found in (Stop.ZERO, Stop.BLANK):
            return pos
        with ReadAhead(reader, start=pos, threaded=False) as window:
            ground = Ground(reader, window, place.start_of(file), max(log.file_size, reader.size))
            carved = ground.carve(pos, place.start_of(file))
        return pos if carved is None else carved


def ranges_between(
    log: place.Log, start: place.LogPlace, end: place.LogPlace, *, fail_on_data_loss: bool = True
) -> list[place.FileRange]:
    """The bytes that were read to get from `start` to `end`, as ranges of one file each.

    Raises DataLossError where they are not there any more, or are others, unless that is accepted: then what
    is there. Raises StoreError when the log cannot be listed.
    """
    if start == end:
        return []
    files = place.list_files(log)
    try:
        check_witness(log, files, end)
    except place.DataLossError:
        if fail_on_data_loss:
            raise
    begin = start.offset if end.resumed_offset < 0 else end.resumed_offset
    found: list[place.FileRange] = []
    for file, limit in _with_limits(files):
        low, high = max(begin, place.start_of(file)), min(place.end_of(file), limit, end.offset)
        if low < high:
            found.append(place.FileRange(file, low - place.start_of(file), high - place.start_of(file)))
    if fail_on_data_loss:
        _demand_all(log, found, replace(start, offset=begin), end)
    return found


def split_range(log: place.Log, part: place.FileRange, size: int) -> list[place.FileRange]:
    """The range in pieces of about `size` bytes that begin with records; whole for a size of 0."""
    if not size or part.size <= size:
        return [part]
    found = []
    with opened(log, part.file) as walk:
        bounds = WalkBounds(until_offset=part.base_offset + part.end_pos, max_size=size)
        pos = part.start_pos
        while pos < part.end_pos:
            walked = walk_file(walk, Reached(pos), bounds)
            end = walked.reached.end_pos if walked.bounded and walked.reached.end_pos > pos else part.end_pos
            found.append(place.FileRange(part.file, pos, end))
            pos = end
    return found


def _with_limits(files: Sequence[MappedFile]) -> list[tuple[MappedFile, int]]:
    """Each file with the offset that the next one begins at."""
    nexts = [place.start_of(following) for _, following in pairwise(files)]
    return list(zip(files, [*nexts, (1 << 63) - 1], strict=False))


def _demand_all(
    log: place.Log, found: Sequence[place.FileRange], start: place.LogPlace, end: place.LogPlace
) -> None:
    """Raise DataLossError where bytes between the places are in no range, but for what a BLANK stands for."""
    at, before = start.offset, None
    for part in (*found, None):
        low = end.offset if part is None else part.base_offset + part.start_pos
        if low > max(at, start.clear_offset):
            after_blank = before is not None and leads_to(log, before.file, before.base_offset, low)
            if not after_blank:
                raise place.DataLossError(
                    "expired" if before is None else "missing",
                    f"bytes {at} to {low} of the log were deleted after the batch was planned",
                    path=log.name,
                    place=end,
                )
        if part is not None:
            at, before = part.base_offset + part.end_pos, part


VIEWS = ("messages", "damage")
"""The views that can be followed."""


@dataclass(frozen=True, slots=True)
class TailPart:
    """One task: a part of a view, and what must still be true when it was read.

    `end` is the place that the whole batch leads to, of which the part is one range.
    """

    part: Part
    log: place.Log
    end: place.LogPlace


def parts_of(
    view: str, source: StoreSource, log: place.Log, ranges: list[place.FileRange], end: place.LogPlace
) -> list[TailPart]:
    """A part of the view for each range."""
    found = []
    for piece in ranges:
        file = piece.file
        item = LogItem(file.location, piece.base_offset, log.file_size, log.property_parser)
        part = Part(source, view, file.relative, piece.start_pos, piece.end_pos, piece.size, item)
        found.append(TailPart(part.of_file(file), log, end))
    return found


def read_tail(
    tail: TailPart, wanted: WantedRows, *, fail_on_data_loss: bool = True
) -> Iterator[pa.RecordBatch]:
    """The rows of a part, as batches of exactly the columns of the view.

    Raises DataLossError where the log was cut below the part's end while it was read. A file that is gone is
    a StoreError unless losses are accepted: then it is a row of the view `damage`. Bytes that are there and
    cannot be read are a StoreError, or such a row, where they are to be ignored.
    """
    part = tail.part
    reader = _READERS[part.view](part, wanted, schema_of(part.view, wanted))
    try:
        for batch in reader.batches():
            if batch.num_rows:
                yield batch
    except StoreError as error:
        is_lost = _is_gone(error)
        if fail_on_data_loss if is_lost else not ignores(wanted, error):
            raise
        if wanted.mode == "FAILFAST":
            raise
        if part.view == "damage":
            yield reader.unread_row(error)
    if fail_on_data_loss:
        check_witness(tail.log, place.list_files(tail.log), tail.end)


def _is_gone(error: StoreError) -> bool:
    """Whether bytes are gone, rather than kept from us: the file was deleted, or ends before them."""
    return isinstance(error.__cause__, FileNotFoundError) or error.__cause__ is None


class _RangeReader(PartReader):
    """Reads the messages of the part alone."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        part, item = self.part, self.item
        with FileReader(item.location) as reader:
            file_size = max(item.file_size, reader.size)
            options = ScanOptions(read_bodies=self.checks, property_parser=item.parser, file_size=file_size)
            reader.size = min(self.end, reader.size)
            reader.allocated_size = reader.size - part.start
            self.compiled = compiled_wanted(reader.allocated_size)
            alone = WalkedPart(part.start, part.start, item.base_offset, LiveScan(), QueueTable())
            self.walk = PartWalk(reader, item.base_offset, options, part.start, self.end, alone)
            for found in self.walk.items(live_only=False):
                yield from self.rows_of(found, reader)


class _DamageReader(_RangeReader, DamageReader):
    """Reads the damage of the part alone."""


_READERS = {"messages": _RangeReader, "damage": _DamageReader}
