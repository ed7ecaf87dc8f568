"""Where a stream begins in a log, and which bytes of which files lie between two places of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from rocketfsck.pipeline.tail.log import check_witness, leads_to, seek_newer
from rocketfsck.pipeline.tail.place import (
    DataLossError,
    Log,
    Place,
    Range,
    end_of,
    list_files,
    start_of,
)
from rocketfsck.pipeline.tail.record import FileWalk
from rocketfsck.pipeline.tail.walk import Bounds, Reached, walk_file
from rocketfsck.scan.log.large import read_large_record
from rocketfsck.scan.log.resync import Ground
from rocketfsck.scan.stops import Stop
from rocketfsck.scan.threads.readahead import ReadAhead
from rocketfsck.store.model import MappedFile
from rocketfsck.store.reading import FileReader


def place_at_offset(log: Log, offset: int) -> Place:
    """The place of the first record at or after a physical offset.

    An offset outside the files stays as it is: whoever continues from there hears what is lost.
    """
    for file in list_files(log):
        if start_of(file) <= offset < end_of(file):
            return Place(start_of(file) + _next_record(log, file, offset - start_of(file)))
    return Place(offset)


def place_at_timestamp(log: Log, timestamp: int) -> Place:
    """The place of the first record whose storeTimestamp is `timestamp` (ms) or later, else the log's end."""
    return seek_newer(log, list_files(log), timestamp - 1)


def _next_record(log: Log, file: MappedFile, pos: int) -> int:
    with FileReader(file.location) as reader:
        found = read_large_record(reader, pos, max(log.file_size, reader.size))
        if not isinstance(found, Stop) or found in (Stop.ZERO, Stop.BLANK):
            return pos
        with ReadAhead(reader, start=pos, threaded=False) as window:
            ground = Ground(reader, window, start_of(file), max(log.file_size, reader.size))
            carved = ground.carve(pos, start_of(file))
        return pos if carved is None else carved


def ranges_between(log: Log, start: Place, end: Place, *, fail_on_data_loss: bool = True) -> list[Range]:
    """The bytes that were read to get from `start` to `end`, as ranges of one file each.

    Raises DataLossError where they are not there any more, or are others, unless that is accepted: then what
    is there. Raises StoreError when the log cannot be listed.
    """
    if start == end:
        return []
    files = list_files(log)
    try:
        check_witness(log, files, end)
    except DataLossError:
        if fail_on_data_loss:
            raise
    begin = start.offset if end.resumed_offset < 0 else end.resumed_offset
    found: list[Range] = []
    for file, limit in _with_limits(files):
        low, high = max(begin, start_of(file)), min(end_of(file), limit, end.offset)
        if low < high:
            found.append(Range(file, low - start_of(file), high - start_of(file)))
    if fail_on_data_loss:
        _demand_all(log, found, replace(start, offset=begin), end)
    return found


def split_range(log: Log, part: Range, size: int) -> list[Range]:
    """The range in pieces of about `size` bytes that begin with records; whole for a size of 0."""
    if not size or part.size <= size:
        return [part]
    found = []
    with FileReader(part.file.location) as reader:
        walk = FileWalk(reader, part.base_offset, log.options, True, log.clock_step)
        bounds = Bounds(until_offset=part.base_offset + part.end_pos, max_size=size)
        pos = part.start_pos
        while pos < part.end_pos:
            walked = walk_file(walk, Reached(pos), bounds)
            end = walked.reached.end_pos if walked.bounded and walked.reached.end_pos > pos else part.end_pos
            found.append(Range(part.file, pos, end))
            pos = end
    return found


def _with_limits(files: Sequence[MappedFile]) -> list[tuple[MappedFile, int]]:
    """Each file with the offset that the next one begins at."""
    nexts = [start_of(following) for _, following in pairwise(files)]
    return list(zip(files, [*nexts, (1 << 63) - 1], strict=False))


def _demand_all(log: Log, found: Sequence[Range], start: Place, end: Place) -> None:
    """Raise DataLossError where bytes between the places are in no range, but for what a BLANK stands for."""
    at, before = start.offset, None
    for part in (*found, None):
        low = end.offset if part is None else part.base_offset + part.start_pos
        if low > max(at, start.clear_offset):
            behind_blank = before is not None and leads_to(log, before.file, before.base_offset, low)
            if not behind_blank:
                raise DataLossError(
                    "expired" if before is None else "missing",
                    f"bytes {at} to {low} of the log were deleted after the batch was planned",
                    path=log.name,
                    place=end,
                )
        if part is not None:
            at, before = part.base_offset + part.end_pos, part
