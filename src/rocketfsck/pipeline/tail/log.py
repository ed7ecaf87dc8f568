"""Following a live commit log: where its complete records end now, from a place where a reader was.

    place -> (lost?) -> settled files -> the file being written, up to the last complete record -> place

Nothing is kept between two looks but the place. A file is settled as soon as a later one begins with a
complete record; a BLANK is passed only then, since a broker that finds no later file when it starts writes
over it (reference 6.2). Files are opened read-only for each look, no lock is taken, no broker is asked.
Reference 1.2, 2.8, 6.

The files must grow in the order in which a broker writes them. `pipeline.tail.walk` says what is complete.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import numpy as np

from rocketfsck.errors import StoreError
from rocketfsck.pipeline.tail import place as logs
from rocketfsck.pipeline.tail import walk as walks
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.model import MappedFile
from rocketfsck.store.reading import FileReader

MAX_ATTEMPTS = 5
"""Looks at a log whose files vanish while they are looked at."""

UNBOUNDED = walks.WalkBounds()


def advance(
    log: logs.Log,
    place: logs.LogPlace,
    bounds: walks.WalkBounds = UNBOUNDED,
    *,
    fail_on_data_loss: bool = True,
) -> logs.LogPlace:
    """Where the complete records from `place` on end now, as far as the bounds allow; `place` if none came.

    Raises DataLossError where something is lost, unless that is accepted: then from where the log continues.
    Raises StoreError when files cannot be read.
    """
    at = replace(place, resumed_offset=logs.NOWHERE)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        files = logs.list_files(log)
        try:
            reached = advance_in(log, files, at, bounds)
            return place if replace(reached, resumed_offset=place.resumed_offset) == place else reached
        except logs.DataLossError as loss:
            if fail_on_data_loss:
                raise
            at = loss.place
        except StoreError:
            if attempt == MAX_ATTEMPTS or logs.list_files(log) == files:
                raise
    return at


def advance_in(
    log: logs.Log, files: Sequence[MappedFile], place: logs.LogPlace, bounds: walks.WalkBounds = UNBOUNDED
) -> logs.LogPlace:
    """`advance` in files that were listed; raises DataLossError."""
    if not files:
        if place.witness_offset >= 0:
            raise _cut(log, files, place, "the files of the log no longer exist")
        return place  # nothing was read, and nothing is there
    if place.offset < 0:
        place = replace(place, offset=logs.start_of(files[0]), resumed_offset=logs.start_of(files[0]))
    number, at = _find_file(log, files, place)
    last = _last_begun(log, files, number)
    begin, count = at.offset, 0
    for file, following in pairwise(files[number : last + 1]):
        left = bounds.less(at.offset - begin, count)
        if at.offset > begin and _is_used_up(left):
            break
        at, is_bounded, passed_count = _pass_file(log, file, following, at, left)
        count += passed_count
        if is_bounded:
            break
    else:
        left = bounds.less(at.offset - begin, count)
        if at.offset == begin or not _is_used_up(left):
            at = _walk_last(log, files[last], at, left)
    check_witness(log, files, place)
    return at


@contextmanager
def opened(log: logs.Log, file: MappedFile, *, settled: bool = True) -> Iterator[walks.FileWalk]:
    """A file of the log, open to be walked."""
    with FileReader(file.location) as reader:
        yield walks.FileWalk(reader, logs.start_of(file), log.options, settled, log.clock_step)


def _find_file(log: logs.Log, files: Sequence[MappedFile], place: logs.LogPlace) -> tuple[int, logs.LogPlace]:
    """The file that the place is in, and the place, moved up where only a file's end was before."""
    first = logs.start_of(files[0])
    if place.offset < first:
        begin = max(place.offset, place.clear_offset)
        if begin < first:
            raise logs.DataLossError(
                "expired",
                f"the log now begins at offset {first}: bytes {begin} to {first} were deleted before the "
                "stream read them",
                path=log.name,
                place=_resumed(place, first, lost_size=first - begin),
            )
        return 0, replace(place, offset=first)
    number = bisect_right(files, place.offset, key=logs.start_of) - 1
    if place.offset > logs.end_of(files[number]):
        if number + 1 == len(files):
            raise _cut(log, files, place, f"the log ends at offset {logs.end_of(files[-1])} at most")
        raise _missing(log, place, logs.start_of(files[number + 1]))
    return number, place


def _pass_file(
    log: logs.Log, file: MappedFile, following: MappedFile, at: logs.LogPlace, bounds: walks.WalkBounds
) -> tuple[logs.LogPlace, bool, int]:
    """On through a file that is settled, to the next one if the bounds allow: whether they end the walk, and
    how many records were counted."""
    target = logs.start_of(following)
    blank = at.clear_offset >= target or logs.end_of(file) >= target
    if not blank and not leads_to(log, file, at.offset, target):
        if at.offset == logs.end_of(file):
            raise _missing(log, at, target)
        target = logs.end_of(file)
    allowed = bounds.until_offset is None or target <= bounds.until_offset
    fits = bounds.max_size is None or target - at.offset <= bounds.max_size
    count = 0
    if bounds.max_count is not None or not allowed or not fits:
        with opened(log, file) as walk:
            start = walks.Reached(at.offset - logs.start_of(file), newest_timestamp=at.newest_timestamp)
            walked = walks.walk_file(walk, start, bounds)
            if walked.bounded or not allowed:
                return _place(walk, at, walked), True, 0
            count = walked.reached.count
    at = replace(at, offset=target)
    if target < logs.start_of(following):
        return at, True, 0
    with opened(log, following) as walk:
        timestamp = walks.complete_timestamp(walk, 0)
        if timestamp is not None:
            at = replace(
                at,
                witness_offset=target,
                witness_crc=walks.witness_of(walk.reader, 0),
                newest_timestamp=max(at.newest_timestamp, timestamp),
                clear_offset=logs.NOWHERE,
            )
    return at, False, count


def _walk_last(log: logs.Log, file: MappedFile, at: logs.LogPlace, bounds: walks.WalkBounds) -> logs.LogPlace:
    with opened(log, file, settled=False) as walk:
        start = walks.Reached(at.offset - logs.start_of(file), newest_timestamp=at.newest_timestamp)
        return _place(walk, at, walks.walk_file(walk, start, bounds))


def _place(walk: walks.FileWalk, before: logs.LogPlace, walked: walks.WalkedTail) -> logs.LogPlace:
    reached, base = walked.reached, walk.base_offset
    place = replace(
        before,
        offset=base + reached.end_pos,
        newest_timestamp=reached.newest_timestamp,
        clear_offset=base + walked.blank_end if walked.blank_end >= 0 else logs.NOWHERE,
    )
    if reached.last_pos < 0:
        return place
    crc = walks.witness_of(walk.reader, reached.last_pos)
    return replace(place, witness_offset=base + reached.last_pos, witness_crc=crc)


def check_witness(log: logs.Log, files: Sequence[MappedFile], place: logs.LogPlace) -> None:
    """Raise DataLossError where the record that the place remembers is no more what it was.

    One whose file was deleted from the front says nothing.
    """
    if place.witness_offset < 0 or not files or place.witness_offset < logs.start_of(files[0]):
        return
    file = files[bisect_right(files, place.witness_offset, key=logs.start_of) - 1]
    crc = None
    if place.witness_offset < logs.end_of(file):
        with FileReader(file.location) as reader:
            crc = walks.witness_of(reader, place.witness_offset - logs.start_of(file))
    if crc != place.witness_crc:
        where = place.witness_offset
        raise _cut(log, files, place, f"the record at offset {where} changed after the stream read it")


def leads_to(log: logs.Log, file: MappedFile, offset: int, target: int) -> bool:
    """Whether a file that is too short ends in a BLANK that leads to `target`: a copy that left zeros out.

    `offset` is a record in the file to look from.
    """
    with opened(log, file) as walk:
        walked = walks.walk_file(walk, walks.Reached(max(offset - logs.start_of(file), 0)), UNBOUNDED)
        return walked.blank_end >= 0 and logs.start_of(file) + walked.blank_end == target


def _last_begun(log: logs.Log, files: Sequence[MappedFile], least: int) -> int:
    """The number of the last file that begins with a complete record; `least` if none after that does."""
    for number in range(len(files) - 1, least, -1):
        if _first_record(log, files[number]) is not None:
            return number
    return least


def latest_place(log: logs.Log) -> logs.LogPlace:
    """The place after the last complete record now."""
    files = logs.list_files(log)
    if not files:
        return logs.BEGINNING
    last = files[_last_begun(log, files, 0)]
    return _walk_last(log, last, logs.LogPlace(logs.start_of(last)), UNBOUNDED)


def seek_newer(log: logs.Log, files: Sequence[MappedFile], timestamp: int) -> logs.LogPlace:
    """The place of the first record stored later than `timestamp` (ms), else the log's end.

    By the first record of each file, so the log's times must rise, as a broker's do.
    """
    if not files:
        return logs.BEGINNING
    number = 0
    for n in range(len(files) - 1, -1, -1):
        first = _first_record(log, files[n])
        if first is not None and first <= timestamp:
            number = n
            break
    for file in files[number:]:
        with FileReader(file.location) as reader:
            table = QueueTable()
            for found in scan_log_file(reader, logs.start_of(file), log.options, table):
                if isinstance(found, RecordBatch):
                    newer = np.flatnonzero(found["store_timestamp"] > timestamp)
                    if len(newer):
                        pos = int(found["pos"][newer[0]])
                        offset = logs.start_of(file) + pos
                        return logs.LogPlace(offset, offset, walks.witness_of(reader, pos))
    return _walk_last(log, files[number], logs.LogPlace(logs.start_of(files[number])), UNBOUNDED)


def _first_record(log: logs.Log, file: MappedFile) -> int | None:
    """The storeTimestamp of the complete record that the file begins with; None without one."""
    with opened(log, file) as walk:
        return walks.complete_timestamp(walk, 0)


def _is_used_up(bounds: walks.WalkBounds) -> bool:
    return any(left is not None and left <= 0 for left in (bounds.max_size, bounds.max_count))


def _resumed(place: logs.LogPlace, offset: int, *, lost_size: int = 0, cut_count: int = 0) -> logs.LogPlace:
    return replace(
        place,
        offset=offset,
        resumed_offset=offset,
        lost_size=place.lost_size + lost_size,
        cut_count=place.cut_count + cut_count,
        clear_offset=logs.NOWHERE,
    )


def _missing(log: logs.Log, place: logs.LogPlace, target: int) -> logs.DataLossError:
    return logs.DataLossError(
        "missing",
        f"bytes {place.offset} to {target} of the log are missing, although the log continues after them",
        path=log.name,
        place=_resumed(place, target, lost_size=target - place.offset),
    )


def _cut(log: logs.Log, files: Sequence[MappedFile], place: logs.LogPlace, why: str) -> logs.DataLossError:
    found = seek_newer(log, files, place.newest_timestamp)
    newest = max(place.newest_timestamp, found.newest_timestamp)
    resumed = replace(
        _resumed(place, found.offset, cut_count=1),
        witness_offset=found.witness_offset,
        witness_crc=found.witness_crc,
        newest_timestamp=newest,
    )
    return logs.DataLossError(
        "cut",
        f"{why}, but records up to offset {place.offset} were read: the log was cut, "
        f"and continues at offset {max(found.offset, 0)} with what was stored since",
        path=log.name,
        place=resumed,
    )
