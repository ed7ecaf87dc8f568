"""Index files as the dispatcher fills them. Reference 4.2 to 4.6.

The slots of the file being filled are in memory (4 bytes each, and only those pages that are used), its
entries are appended like a stream; the header goes in last. A file is full at `entry_count - 1` entries; the
next one inherits its end as begin and end, and its first entry's timeDiff is still counted from there.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from mmap import mmap
from pathlib import Path
from zoneinfo import ZoneInfo

from rocketfsck.formats import indexfile
from rocketfsck.formats.javatext import index_hash
from rocketfsck.formats.smallfiles import index_filename, index_filename_time
from rocketfsck.writer.commitlog import create_sparse, write_at
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import place_at
from rocketfsck.writer.options import WriteOptions

_CHUNK_SIZE = 1 << 16
_EMPTY = indexfile.IndexHeader()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_NAME_TIME = 253_402_128_000_000
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(slots=True)
class IndexFileState:
    """The file that takes puts. `header.index_count` is as on disk: 0 until the first put."""

    path: Path
    header: indexfile.IndexHeader
    slots: memoryview
    pending: bytearray = field(default_factory=bytearray)

    @property
    def next_entry(self) -> int:
        """Number of the entry that the next put writes."""
        return max(self.header.index_count, 1)


@dataclass(slots=True)
class IndexService:
    """All index files of the store: headers of the full ones, in order, and the one being filled."""

    directory: Path
    options: WriteOptions
    finished: list[tuple[str, indexfile.IndexHeader]] = field(default_factory=list)
    current: IndexFileState | None = None
    created_count: int = 0

    @property
    def slot_count(self) -> int:
        return self.options.geometry.slot_count

    @property
    def entry_count(self) -> int:
        return self.options.geometry.entry_count


def wall_clock_name(timestamp: int, zone: str, after: str | None) -> str:
    """The name of an index file created at this time (ms): later than the name `after`, as the broker loads
    index files in the order of their names."""
    # One day off either end leaves room for any zone.
    clamped = min(max(timestamp, 0), _LAST_NAME_TIME)
    local = (_EPOCH + timedelta(milliseconds=clamped)).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    before = None if after is None else index_filename_time(after)
    if before is not None and local <= before:
        local = before + _MILLISECOND
    return index_filename(local)


def new_slots(count: int) -> memoryview:
    """Zeroed 32-bit slots whose pages cost nothing until they are written."""
    return memoryview(mmap(-1, indexfile.SLOT_SIZE * count)).cast("i")


def _create(service: IndexService, store_timestamp: int) -> IndexFileState:
    options, count = service.options, service.created_count
    if count < len(options.index_names):
        name = options.index_names[count]
    else:
        now = store_timestamp if options.clock is None else options.clock(store_timestamp)
        last = service.finished[-1][0] if service.finished else None
        name = wall_clock_name(now, options.time_zone, last)
    fileops.make_directories(place_at(service.directory))
    path = service.directory / name
    create_sparse(path, indexfile.index_file_size(service.slot_count, service.entry_count))
    header = _EMPTY
    if service.finished:
        full = service.finished[-1][1]
        timestamp, offset = max(full.end_timestamp, 0), max(full.end_physical_offset, 0)
        header = indexfile.IndexHeader(timestamp, timestamp, offset, offset)
    service.created_count += 1
    return IndexFileState(path, header, new_slots(service.slot_count))


def fetch_file(
    service: IndexService, store_timestamp: int
) -> tuple[IndexFileState, indexfile.IndexHeader | None]:
    """The file that takes the next put, made where there is none or the last one is full.

    With it the header of the file that was full and is now finished, None if none was.
    """
    current = service.current
    if current is not None and current.header.index_count < service.entry_count:
        return current, None
    if current is not None:
        close_file(service)
    service.current = _create(service, store_timestamp)
    return service.current, None if current is None else service.finished[-1][1]


def put_key(
    service: IndexService, file: IndexFileState, key_hash: int, offset: int, store_timestamp: int
) -> None:
    """Put one key into a file that is not full: reference 4.4 step by step."""
    header, number = file.header, file.next_entry
    slot = indexfile.slot_of(key_hash, service.slot_count)
    previous = file.slots[slot]
    if not 0 < previous <= number:
        previous = 0
    file.pending += indexfile.ENTRY.build({
        "keyHash": key_hash,
        "phyOffset": offset,
        "timeDiff": indexfile.time_diff(store_timestamp, header.begin_timestamp),
        "prevIndex": previous,
    })  # fmt: skip
    file.slots[slot] = number
    counts = previous == 0 or service.options.dialect.counts_entries_in_hash_slot_count
    first = number == 1
    file.header = indexfile.IndexHeader(
        begin_timestamp=store_timestamp if first else header.begin_timestamp,
        end_timestamp=store_timestamp,
        begin_physical_offset=offset if first else header.begin_physical_offset,
        end_physical_offset=offset,
        hash_slot_count=header.hash_slot_count + counts,
        index_count=number + 1,
    )
    if len(file.pending) >= _CHUNK_SIZE:
        write_entries(service, file)


def index_record(
    service: IndexService, topic: str, keys: Iterable[str], offset: int, store_timestamp: int
) -> list[indexfile.IndexHeader]:
    """Put the keys of a record (no keys if it is not indexed: the file is made all the same).

    The headers of the files that were finished on the way.
    """
    file, full = fetch_file(service, store_timestamp)
    finished = [] if full is None else [full]
    if offset < file.header.end_physical_offset:
        return finished
    for key in keys:
        file, full = fetch_file(service, store_timestamp)
        finished += [] if full is None else [full]
        put_key(service, file, index_hash(topic, key), offset, store_timestamp)
    return finished


def write_entries(service: IndexService, file: IndexFileState) -> None:
    """Write the entries that are held back."""
    if file.pending:
        first = file.next_entry - len(file.pending) // indexfile.ENTRY_SIZE
        write_at(file.path, file.pending, indexfile.entry_pos(first, service.slot_count))
        file.pending.clear()


def _write_slots(file: IndexFileState) -> None:
    """The slots that are in use, big-endian; chunks of zeros stay holes."""
    step = _CHUNK_SIZE // indexfile.SLOT_SIZE
    for start in range(0, len(file.slots), step):
        part = file.slots[start : start + step]
        chunk = part.tobytes()
        if not chunk.strip(b"\0"):
            continue
        if sys.byteorder == "little":
            words = array("i", chunk)
            words.byteswap()
            chunk = words.tobytes()
        write_at(file.path, chunk, indexfile.slot_pos(start))


def close_file(service: IndexService, *, flushed: bool = True) -> None:
    """Write what is left of the current file; `flushed` as by a full file's or a 5.x shutdown's flush."""
    file = service.current
    if file is None:
        return
    if flushed:
        file.header = replace(file.header, index_count=file.next_entry)
    write_entries(service, file)
    _write_slots(file)
    write_at(file.path, indexfile.encode_header(file.header), 0)
    service.finished.append((file.path.name, file.header))
    service.current = None


def expire_index_files(service: IndexService, min_physical_offset: int) -> None:
    """Delete leading files that end before the log's beginning; never the last one."""
    headers = [header for _, header in service.finished]
    if service.current is not None:
        headers.append(service.current.header)
    if not headers or headers[0].end_physical_offset >= min_physical_offset:
        return
    for header in headers[:-1]:
        if header.end_physical_offset >= min_physical_offset:
            break
        name, _ = service.finished.pop(0)
        fileops.unlink(place_at(service.directory / name))


def drop_files_after(service: IndexService, timestamp: int) -> None:
    """Delete the files that end later than the checkpoint's index time, as a start after a kill does."""
    kept = []
    for name, header in service.finished:
        if header.end_timestamp > timestamp:
            fileops.unlink(place_at(service.directory / name))
        else:
            kept.append((name, header))
    service.finished = kept
    current = service.current
    if current is not None and current.header.end_timestamp > timestamp:
        fileops.unlink(place_at(current.path))
        service.current = None
