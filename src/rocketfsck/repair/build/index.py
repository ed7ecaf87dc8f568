"""Index files from the commit log alone, as the broker's dispatcher would write them. Reference 4.2 to 4.6.

A record makes the broker look for a file that is not full before anything is known of its keys; so a last
file may be empty. A file that follows a full one begins with that one's end, and its first entry's timeDiff
is still counted from there. What the log does not tell: files' names (the clock when they were made), entries
of records that have expired, and what starts of the broker indexed twice or not at all.

Memory: that of the walk, 4 bytes a slot, and 1 MiB of entries.

An index file whose links, slots and header are made again from its own entries. Reference 4.1, 4.4.

For a file whose entries are sound and whose chains are not: hashes, offsets and timeDiffs stay as they are.

Parts of index files: the headers that a store has, names, slots from entries, slots into a file.

Reference 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError
from rocketfsck.formats import indexfile
from rocketfsck.formats.dtypes import ENTRY_DTYPE, Bytes
from rocketfsck.progress import phase
from rocketfsck.reader.heads import head_of
from rocketfsck.reader.index import IndexReader, readable_headers
from rocketfsck.repair.build import files as build_files
from rocketfsck.repair.build.walk import LogWalked, log_is_large, walk_log
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.scan.units import KeyRows, link_entries, put_entries, rows_from
from rocketfsck.store.model import IndexFile, Store
from rocketfsck.store.reading import FileReader, named_errors
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import place_at

PIECE_COUNT = 1 << 20
SLOT_PIECE_COUNT = 1 << 14


def names_by_begin(files: Sequence[IndexFile]) -> dict[int, str]:
    """What the store calls the files that begin at an offset, where only one does."""
    found: dict[int, list[str]] = {}
    for file, header in readable_headers(files):
        if file.created is not None and header.entry_count:
            found.setdefault(header.begin_physical_offset, []).append(file.name)
    return {offset: names[0] for offset, names in found.items() if len(names) == 1}


class FileNames:
    """Names for index files, one after the other.

    As `given`, in order; else what the store calls the file that begins with the same record, where that is
    later than the name before; else the clock's when it was made, in `time_zone`. `last` is the name before.
    """

    def __init__(
        self, files: Sequence[IndexFile], time_zone: str, given: Sequence[str] | None = None
    ) -> None:
        self.last: str | None = None
        self._time_zone = time_zone
        self._given = None if given is None else list(given)
        self._known = names_by_begin(files) if given is None else {}

    def name(self, number: int, begin_physical_offset: int, created_timestamp: int) -> str:
        """The name of the file with this number, that follows `last`."""
        if self._given is not None and number < len(self._given):
            return self._given[number]
        known = self._known.get(begin_physical_offset)
        if known is not None and (self.last is None or known > self.last):
            return known
        from rocketfsck.writer.indexfile import wall_clock_name

        return wall_clock_name(created_timestamp, self._time_zone, self.last)


def slots_of_entries(path: Path, slot_count: int, count: int) -> NDArray[np.int32]:
    """The slots that the first `count` entries of an index file lead to: of each the newest entry."""
    slots = np.zeros(slot_count, np.int32)
    with FileReader(path) as reader:
        for first in range(1, count + 1, PIECE_COUNT):
            size = min(PIECE_COUNT, count + 1 - first)
            data = reader.read(indexfile.entry_pos(first, slot_count), size * indexfile.ENTRY_SIZE)
            hashes = np.frombuffer(data, ENTRY_DTYPE)["keyHash"].astype(np.int64)
            # of equal slots the last assignment counts
            slots[hashes % slot_count] = np.arange(first, first + size, dtype=np.int32)
    return slots


def write_slots(path: Path, slots: NDArray[np.int32], file_size: int) -> None:
    """Write the slots of an index file; chunks of zeros stay holes."""
    step = SLOT_PIECE_COUNT
    for start in range(0, len(slots), step):
        chunk = slots[start : start + step]
        if chunk.any():
            data = chunk.astype(">i4").tobytes()
            build_files.write_part(
                path, data, indexfile.INDEX_HEADER_SIZE + indexfile.SLOT_SIZE * start, file_size, None
            )


RELINKED_COUNT = 1 << 16


def relink_index_file(store: Store, file: IndexFile, target: Path) -> build_files.BuiltIndexFile:
    """Write at `target` the index file with links, slots and header as puts of its entries leave them.

    Entries count up to the header's indexCount, or, where that cannot be, up to the last that is not zero.
    The header's times come from the records that its first and last entries point at, else from the header
    that is there. Raises StoreError if the file is shorter than its geometry, holds a negative hash, or
    something cannot be read or written.
    """
    with build_files.opened(target) as root:
        return _relink(store, file, Path(root) / target.name)


def _relink(store: Store, file: IndexFile, target: Path) -> build_files.BuiltIndexFile:
    geometry = store.geometry
    size = indexfile.index_file_size(geometry.slot_count, geometry.entry_count)
    with IndexReader(file, geometry) as reader:
        if reader.size < indexfile.entry_pos(1, geometry.slot_count):
            raise StoreError(
                f"has {count_of(reader.size, 'byte')}, too few for its slots", path=file.location
            )
        header, count = reader.header, _entry_count(reader)
        build_files.write_part(target, b"", 0, size, None)
        slots = np.zeros(geometry.slot_count, np.int32)
        compiled, used = compiled_wanted(file.allocated_size), 0
        first = last = None
        for number in range(1, count + 1, RELINKED_COUNT):
            entries = reader.entries(number, min(RELINKED_COUNT, count + 1 - number))
            if (entries["keyHash"] < 0).any():
                wrong = number + int(np.flatnonzero(entries["keyHash"] < 0)[0])
                raise StoreError(f"entry {wrong} has a negative hash", path=file.location)
            hashes = entries["keyHash"].astype(np.int32)
            previous, empty = link_entries(hashes, number, slots, compiled=compiled)
            entries["prevIndex"] = previous
            used += empty
            build_files.write_part(
                target, entries.tobytes(), indexfile.entry_pos(number, geometry.slot_count), size, None
            )
            first = entries[0] if first is None else first
            last = entries[-1]
    new = indexfile.IndexHeader(index_count=1 if store.dialect.abort_has_pid else 0)
    if first is not None and last is not None:
        begin, end = int(first["phyOffset"]), int(last["phyOffset"])
        begin_timestamp = store_timestamp_at(store, begin, header.begin_timestamp)
        end_timestamp = store_timestamp_at(store, end, header.end_timestamp)
        used = count if store.dialect.counts_entries_in_hash_slot_count else used
        new = indexfile.IndexHeader(begin_timestamp, end_timestamp, begin, end, used, count + 1)
    write_slots(target, slots, size)
    build_files.write_part(target, indexfile.encode_header(new), 0, size, None)
    if count:
        build_files.set_time(target, new.end_timestamp)
    return _as_built(target.name, new)


def _as_built(name: str, header: indexfile.IndexHeader) -> build_files.BuiltIndexFile:
    """What is said of a file with this header."""
    return build_files.BuiltIndexFile(
        name,
        header.entry_count,
        header.begin_physical_offset,
        header.end_physical_offset,
        header.begin_timestamp,
        header.end_timestamp,
    )


def _entry_count(reader: IndexReader) -> int:
    stated, room = reader.header.index_count - 1, reader.last_entry
    if 0 < stated <= room and reader.any_byte(stated) and not (stated < room and reader.any_byte(stated + 1)):
        return stated
    return reader.last_not_zero(1)


def store_timestamp_at(store: Store, offset: int, default: int) -> int:
    """The storeTimestamp of the record at a physical offset; the default if there is none."""
    try:
        head = head_of(store.commitlog, offset)
    except StoreError:
        return default
    return default if head is None else head.store_timestamp


CHUNK_SIZE = 1 << 20
EMPTY = indexfile.IndexHeader()


@dataclass(slots=True)
class _Filling:
    """The file that takes puts. `header.index_count` is as on disk: 0 until the first put."""

    path: Path
    header: indexfile.IndexHeader
    slots: NDArray[np.int32]
    created_timestamp: int
    name: str | None = None
    buffer: Bytes = field(default_factory=lambda: np.empty(CHUNK_SIZE, np.uint8))
    used: int = 0
    """Bytes of the last entries, in `buffer`, that are not written yet."""

    @property
    def next_entry(self) -> int:
        return max(self.header.index_count, 1)


class IndexBuilder:
    """Takes the keys of the log and writes index files into `directory`, from `from_offset` on."""

    def __init__(
        self,
        store: Store,
        directory: Path,
        *,
        from_offset: int | None = None,
        names: Sequence[str] | None = None,
        time_zone: str = "UTC",
        only_missing: bool = False,
        state: dict[str, Any] | None = None,
    ) -> None:
        self.store = store
        self.directory = directory
        self.slot_count, self.entry_count = store.geometry.slot_count, store.geometry.entry_count
        self._compiled = log_is_large(store)
        self.from_offset = from_offset
        self.files: list[build_files.BuiltIndexFile] = []
        self.record_count = self.entry_total = 0
        self.names = FileNames(store.indexes, time_zone, names)
        self._end = EMPTY  # header of the full file before
        self._current: _Filling | None = None
        self._before: tuple[IndexFile, indexfile.IndexHeader] | None = None
        if only_missing:
            headers = [header for _, header in readable_headers(store.indexes)]
            self.from_offset = headers[-1].end_physical_offset + 1 if headers else None
        if self.from_offset is not None:
            self._go_on_before(self.from_offset)
        if state is not None:
            self._load(state)

    def save(self) -> dict[str, Any]:
        """Write everything; the state as JSON values, to be given to a new builder."""
        current = self._current
        if current is not None:
            self._write_entries(current)  # which tell its slots
        return {
            "files": [asdict(file) for file in self.files],
            "records": self.record_count,
            "entries": self.entry_total,
            "last_name": self.names.last,
            "end": asdict(self._end),
            "is_before": self._before is not None,
            "current": None
            if current is None
            else [asdict(current.header), current.created_timestamp, current.name],
        }

    def _load(self, state: dict[str, Any]) -> None:
        self.files = [build_files.BuiltIndexFile(**file) for file in state["files"]]
        self.record_count, self.entry_total = state["records"], state["entries"]
        self.names.last, self._end = state["last_name"], indexfile.IndexHeader(**state["end"])
        if not state["is_before"]:
            self._before = None
        if state["current"] is not None:
            fields, created, name = state["current"]
            path, header = self._building_path(len(self.files)), indexfile.IndexHeader(**fields)
            slots = slots_of_entries(path, self.slot_count, max(header.index_count, 1) - 1)
            self._current = _Filling(path, header, slots, created, name)

    def _read_slots(self, path: Path | str) -> NDArray[np.int32]:
        with FileReader(path) as reader:
            data = reader.read(indexfile.INDEX_HEADER_SIZE, indexfile.SLOT_SIZE * self.slot_count)
        return np.frombuffer(data, ">i4").astype(np.int32)

    def take_keys(self, rows: KeyRows) -> None:
        """Put the keys of a batch of records. Raises StoreError if files cannot be written."""
        if self.from_offset is not None and len(rows) and rows.offset[0] < self.from_offset:
            rows = rows_from(rows, self.from_offset)
        if not len(rows):
            return
        self.record_count += len(rows)
        if self._before is not None:
            if not len(rows.key_hash):
                return
            self._continue(*self._before)
        hashes, records = rows.key_hash, rows.key_record
        file = self._fetch(int(rows.time[0]))
        pos, count = 0, len(hashes)
        while pos < count:
            if file.header.index_count >= self.entry_count:
                # by the next record, with keys or without, if the last one has no more of them
                file = self._fetch(int(rows.time[min(records[pos], records[pos - 1] + 1)]))
            # a first entry's timeDiff counts from the file before, the others' from the first
            room = 1 if file.next_entry == 1 else self.entry_count - file.next_entry
            taken = min(room, count - pos, (CHUNK_SIZE - file.used) // indexfile.ENTRY_SIZE)
            self._put(file, rows, pos, pos + taken)
            pos += taken
        if count and file.header.index_count >= self.entry_count and records[-1] + 1 < len(rows):
            self._fetch(int(rows.time[records[-1] + 1]))  # a record without keys makes the next file, too

    def _put(self, file: _Filling, rows: KeyRows, start: int, end: int) -> None:
        header, number = file.header, file.next_entry
        entries, empty = put_entries(
            rows.key_hash[start:end],
            rows.key_record[start:end],
            rows.offset,
            rows.time,
            number,
            header.begin_timestamp,
            file.slots,
            compiled=self._compiled,
        )
        used = file.used + (end - start) * indexfile.ENTRY_SIZE
        file.buffer[file.used : used] = entries.view(np.uint8)
        file.used = used
        row, first = int(rows.key_record[end - 1]), int(rows.key_record[start])
        counts_all = self.store.dialect.counts_entries_in_hash_slot_count
        file.header = indexfile.IndexHeader(
            begin_timestamp=int(rows.time[first]) if number == 1 else header.begin_timestamp,
            end_timestamp=int(rows.time[row]),
            begin_physical_offset=int(rows.offset[first]) if number == 1 else header.begin_physical_offset,
            end_physical_offset=int(rows.offset[row]),
            hash_slot_count=header.hash_slot_count + (end - start if counts_all else empty),
            index_count=number + end - start,
        )
        self.entry_total += end - start
        if file.used > CHUNK_SIZE - indexfile.ENTRY_SIZE:
            self._write_entries(file)

    def _fetch(self, timestamp: int) -> _Filling:
        """The file that takes the next put, made where there is none or the last one is full."""
        current = self._current
        if current is not None:
            if current.header.index_count < self.entry_count:
                return current
            self._close(current)
        build_files.make_directory(self.directory)
        stamp, offset = max(self._end.end_timestamp, 0), max(self._end.end_physical_offset, 0)
        header = indexfile.IndexHeader(stamp, stamp, offset, offset)
        path = self._building_path(len(self.files))
        build_files.write_part(path, b"", 0, self._file_size, None)
        self._current = _Filling(path, header, np.zeros(self.slot_count, np.int32), timestamp)
        return self._current

    @property
    def file_room(self) -> int:
        """How many entries an index file takes."""
        return max(self.entry_count - 1, 1)

    @property
    def room_before(self) -> int | None:
        """How many entries the file of the store takes that the first keys go into; None: they begin one."""
        return None if self._before is None else self.entry_count - self._before[1].index_count

    @property
    def _file_size(self) -> int:
        return indexfile.index_file_size(self.slot_count, self.entry_count)

    def _close(self, file: _Filling) -> None:
        """Write what is left of a file; it gets its name at the end."""
        if self.store.dialect.abort_has_pid:  # whose orderly stop flushes the index, an empty one, too
            file.header = replace(file.header, index_count=file.next_entry)
        self._write_entries(file)
        write_slots(file.path, file.slots, self._file_size)
        build_files.write_part(file.path, indexfile.encode_header(file.header), 0, self._file_size, None)
        header = file.header
        name = file.name or self.names.name(
            len(self.files), header.begin_physical_offset, file.created_timestamp
        )
        build_files.set_time(
            file.path, header.end_timestamp if header.index_count > 1 else file.created_timestamp
        )
        self.files.append(_as_built(name, header))
        self.names.last, self._end, self._current = name, header, None

    def _write_entries(self, file: _Filling) -> None:
        if file.used:
            first = file.next_entry - file.used // indexfile.ENTRY_SIZE
            data = file.buffer[: file.used].data
            build_files.write_part(
                file.path, data, indexfile.entry_pos(first, self.slot_count), self._file_size, None
            )
            file.used = 0

    def finish(self) -> None:
        """Write out the last file, and give all their names. No state that was saved before is good then."""
        if self._current is not None:
            self._close(self._current)
        for number, file in enumerate(self.files):
            path = self.directory / file.name
            with named_errors(path, "cannot be named"):
                fileops.rename(place_at(self._building_path(number)), place_at(path))

    def _building_path(self, number: int) -> Path:
        return self.directory / f"{number:06d}.building"

    def _go_on_before(self, from_offset: int) -> None:
        """Continue after the last file of the store that ends before `from_offset`."""
        before = readable_headers(self.store.indexes)
        before = [
            (file, header)
            for file, header in before
            if file.size == self._file_size
            and header.end_physical_offset < from_offset
            and header.entry_count
        ]
        if not before:
            return
        file, header = before[-1]
        self.names.last = file.name
        if header.index_count >= self.entry_count:
            self._end = header
        else:
            self._before = file, header

    def _continue(self, file: IndexFile, header: indexfile.IndexHeader) -> None:
        """Take a file of the store over, for there is something to put into it."""
        self._before = None
        build_files.make_directory(self.directory)
        path = self._building_path(len(self.files))
        build_files.copy_part(file.location, path)
        slots = self._read_slots(path)
        self._current = _Filling(path, header, slots, header.begin_timestamp, file.name)


def build_index(
    store: Store,
    into: Path,
    *,
    from_offset: int | None = None,
    names: Sequence[str] | None = None,
    time_zone: str = "UTC",
) -> build_files.IndexBuild:
    """Write index/ of the store below `into`.

    With `from_offset` only records from there on are put: into the last index file of the store that ends
    before it (copied into `into` under its name), or into files after that one if it is full. `names` are the
    names of the files that are made, in order; without, a file that begins where one of the store's does gets
    its name, another that of its first record's time in `time_zone`. Raises StoreError where the log cannot
    be read or a file cannot be written.
    """
    with phase("building the index"), build_files.opened(into) as root:
        builder = IndexBuilder(
            store,
            Path(root) / into.name / "index",
            from_offset=from_offset,
            names=names,
            time_zone=time_zone,
        )
        return index_build(builder, walk_log(store, keys=builder))


def index_build(builder: IndexBuilder, walked: LogWalked) -> build_files.IndexBuild:
    """Write what is left, and say what was built."""
    with phase("writing the index"):
        builder.finish()
    return index_built(builder.files, builder.record_count, builder.entry_total, walked)


def index_built(
    files: Sequence[build_files.BuiltIndexFile], record_count: int, entry_count: int, walked: LogWalked
) -> build_files.IndexBuild:
    """What is to be said of these files."""
    notes = [f"{file} is damaged: keys in its broken parts are not indexed" for file in walked.damaged_files]
    return build_files.IndexBuild(tuple(files), record_count, entry_count, tuple(notes))
