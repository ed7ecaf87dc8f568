"""The recovery of the commit log: where it begins, what it scans, where it cuts. Reference 6.2 to 6.5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rocketfsck.formats.checkpoint import Checkpoint
from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.dledger import ENTRY_HEADER_SIZE
from rocketfsck.formats.magic import MAGIC_V1, MAGIC_V2
from rocketfsck.query.start.databases import NO_MARKS, Marks, Matcher
from rocketfsck.query.start.load import LoadedFile
from rocketfsck.query.start.model import LogScan, Skipped
from rocketfsck.query.start.read import BrokerReading, Ending, Judged, LogWalker, Verdict, judge_record
from rocketfsck.reader.heads import HEAD_SIZE, RecordHead, decode_head
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.store.reading import FileReader

BatchHandler = Callable[[RecordBatch, LoadedFile], None]
HUGE_NOTE = "the record at {offset} claims more than 1 GiB: a broker without that much memory crashes here"


def read_first_record(file: LoadedFile, dialect: Dialect, pos: int = 0) -> RecordHead:
    """What a broker reads of a file's first record to find where to begin; zeros after the file's end."""
    with FileReader(file.path) as reader:
        data = reader.read_upto(pos, HEAD_SIZE).ljust(HEAD_SIZE, b"\0")
    return decode_head(data, knows_ipv6=dialect.ipv6_hosts)


def choose_start(
    files: Sequence[LoadedFile],
    dialect: Dialect,
    *,
    clean: bool,
    max_queue_offset: int,
    checkpoint: Checkpoint,
    index_safe: bool,
    file_limit: int | None = None,
    marks: Marks = NO_MARKS,
) -> int:
    """The number of the file that the recovery begins with; it looks at `file_limit` files, None: all.

    `marks` are those of databases; one of queues is used in place of `max_queue_offset` and checkpoint.
    """
    matcher = Matcher(marks, marks.extra_files)
    if marks.queues is not None:
        max_queue_offset = marks.queues
    if clean and dialect.clean_scan_start == "third last file":
        return max(len(files) - 3, 0)
    number = len(files) - 1
    if clean and dialect.clean_scan_start == "consumequeue":
        while number > 0 and files[number].start_offset > max_queue_offset:
            number -= 1
        return number
    least = 0 if file_limit is None else max(len(files) - file_limit, 0)
    while number > least:
        first = _first_to_match(files[number], dialect)
        if first is not None:
            if index_safe and first.store_timestamp > checkpoint.index_msg_timestamp:
                matches = False
            elif clean or marks.queues is not None:
                matches = first.physical_offset <= max_queue_offset
            else:
                matches = checkpoint.covers(
                    first.physical_offset, first.store_timestamp, dialect.recovery_mark, index_safe=index_safe
                )
            if matches and matcher.allows(first.physical_offset):
                return number
        number -= 1
    return least


def choose_data_file(
    files: Sequence[LoadedFile], dialect: Dialect, checkpoint: Checkpoint, *, index_safe: bool
) -> int:
    """As `choose_start` after an unclean stop, of DLedger's data files: isMmapFileMatchedRecover."""
    for number in range(len(files) - 1, 0, -1):
        first = read_first_record(files[number], dialect, ENTRY_HEADER_SIZE)
        known = first.magic_code == MAGIC_V1 and first.store_timestamp != 0
        place = first.physical_offset, first.store_timestamp
        if known and checkpoint.covers(*place, dialect.recovery_mark, index_safe=index_safe):
            return number
    return 0


def _first_to_match(file: LoadedFile, dialect: Dialect) -> RecordHead | None:
    """The first record of a file if a broker compares it with the checkpoint; None if it passes on."""
    if dialect.clean_scan_start == "first record":
        with FileReader(file.path) as reader:
            judged = judge_record(reader, 0, file.size, BrokerReading(dialect, check_crc=True))
        if judged.verdict is not Verdict.OK:
            return None
    first = read_first_record(file, dialect)
    known = first.magic_code == MAGIC_V1 or (dialect.v2_allowed and first.magic_code == MAGIC_V2)
    return first if known and first.store_timestamp != 0 else None


@dataclass(frozen=True, slots=True)
class RecoveredLog:
    """The scan, and what it leaves: the end of the log, and its notes."""

    scan: LogScan
    cut_offset: int
    notes: tuple[str, ...]


def recover_log(
    files: Sequence[LoadedFile],
    first: int,
    walker: LogWalker,
    handle: BatchHandler,
    *,
    takes_half: bool,
    start_pos: int = 0,
) -> RecoveredLog:
    """Scan from position `start_pos` of file number `first` on; the log ends where the scan does.

    `takes_half` is for the versions that go on behind a record of a wrong length: by its totalSize in their
    count, by its fields in their buffer.
    """
    number, read_size, notes = first, 0, []
    start_offset = files[first].start_offset + start_pos
    while True:
        file = files[number]
        pos, drift = start_pos, 0
        read_size -= pos
        start_pos = 0
        while True:
            with FileReader(file.path) as reader:
                ending = drain(walker, reader, pos, file.size, file, handle)
            judged = ending.judged
            if judged is not None and judged.huge:
                notes.append(HUGE_NOTE.format(offset=file.start_offset + ending.pos))
            if not (takes_half and judged and judged.verdict is Verdict.HALF and judged.size > 0):
                break
            drift += judged.size - judged.read_size
            pos = ending.pos + judged.read_size
        cut_offset = file.start_offset + ending.pos + drift
        is_blank = judged is not None and judged.verdict is Verdict.BLANK
        read_size += ending.pos
        if is_blank and number + 1 < len(files):
            number += 1
            continue
        stop = "blank" if is_blank else stop_name(judged)
        count = number - first + 1
        scan = LogScan(files[first].relative, start_offset, cut_offset, stop, count, read_size)
        return RecoveredLog(scan, cut_offset, tuple(notes))


def recover_sound_log(
    files: Sequence[LoadedFile], first: int, start_pos: int, end_offset: int
) -> RecoveredLog:
    """What `recover_log` comes to where every record up to `end_offset` is known to be sound, and none
    follows."""
    start_offset = files[first].start_offset + start_pos
    last = max((number for number, file in enumerate(files) if file.start_offset < end_offset), default=first)
    full = end_offset == files[last].start_offset + files[last].size
    stop, count, size = "blank" if full else "invalid", max(last - first, 0) + 1, end_offset - start_offset
    scan = LogScan(files[first].relative, start_offset, end_offset, stop, count, max(size, 0))
    return RecoveredLog(scan, end_offset, ())


def drain(
    walker: LogWalker, reader: FileReader, pos: int, limit: int, file: LoadedFile, handle: BatchHandler
) -> Ending:
    """Walk a file and hand every batch over; why it ended."""
    walk = walker.walk(reader, pos, limit, file.start_offset)
    while True:
        try:
            batch = next(walk)
        except StopIteration as stop:
            ending: Ending = stop.value
            return ending
        handle(batch, file)


def stop_name(judged: Judged | None) -> str:
    """A word for why a scan ended."""
    return "end" if judged is None else judged.verdict.name.lower()


def truncate_files(files: list[LoadedFile], cut_offset: int) -> list[LoadedFile]:
    """The files that stay: those that begin beyond the cut go, the one that holds it ends there."""
    kept = []
    for file in files:
        if file.end_offset > cut_offset:
            if cut_offset < file.start_offset:
                continue
            file.wrote_pos = cut_offset % file.size
        kept.append(file)
    return kept


def find_file(files: Sequence[LoadedFile], offset: int) -> LoadedFile | None:
    """The file that an offset lies in, of those that have something there."""
    for file in files:
        if file.start_offset <= offset < file.end_offset:
            return file if offset >= 0 and offset % file.size < file.wrote_pos else None
    return None


@dataclass(frozen=True, slots=True)
class Reput:
    """Where the dispatcher is in the end, and the ranges that it passed over."""

    end_offset: int
    skipped: tuple[Skipped, ...]


def dispatch_log(
    files: Sequence[LoadedFile],
    start_offset: int,
    walker: LogWalker,
    handle: BatchHandler,
    *,
    skips: bool,
    end_offset: int | None = None,
) -> Reput:
    """The dispatcher from `start_offset` to the end of the log, without body CRCs. Reference 6.5.

    `skips`: the dispatcher continues after what it cannot read, as that of a master does. `end_offset` is how
    far the broker lets it read, None for the end of the log. After a record of a wrong length its count
    advances by the record's totalSize and its buffer by the record's fields: from then on the count is not
    where it reads.
    """
    max_offset = files[-1].start_offset + files[-1].wrote_pos if files else 0
    if end_offset is not None:
        max_offset = min(max_offset, end_offset)
    skipped: list[Skipped] = []
    offset = start_offset
    before = start_offset - 1
    while offset < max_offset:
        if offset <= before:
            why = "the dispatcher returns to an offset that it has already read"
            skipped.append(Skipped(offset, max_offset, why, stuck=True))
            break
        before = offset
        file = find_file(files, offset)
        if file is None:
            skipped.append(Skipped(offset, max_offset, "no file holds this offset", stuck=True))
            break
        pos, half_size, half_read_size, ending = offset % file.size, 0, 0, None
        limit = min(file.wrote_pos, max_offset - file.start_offset)
        with FileReader(file.path) as reader:
            while ending is None:
                found = drain(walker, reader, pos, limit, file, handle)
                judged = found.judged
                if judged is not None and judged.verdict is Verdict.HALF and judged.size > 0:
                    half_size += judged.size
                    half_read_size += judged.read_size
                    pos = found.pos + judged.read_size
                    continue
                ending = found
        end = file.start_offset + limit
        if ending.judged is not None and ending.judged.verdict is Verdict.BLANK:
            count = file.start_offset + ending.pos + half_size - half_read_size
            offset = count + file.size - count % file.size
        else:
            if ending.judged is not None:
                stuck = not skips
                bad = file.start_offset + ending.pos
                skipped.append(Skipped(bad, max_offset if stuck else end, stop_name(ending.judged), stuck))
                if stuck:
                    break
            offset = end + half_size
            if half_size:
                skipped.append(Skipped(end, offset, "the dispatcher counts further than it reads"))
    return Reput(offset, tuple(skipped))
