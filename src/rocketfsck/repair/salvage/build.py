"""Builds a salvaged store: the log, then what follows from it, then a check.

What is known of the store that was salvaged, its sizes, version and `config/`, holds for the new one.

Writes the commit log of a salvaged store: records copied in runs, fences and BLANKs between them.

What is packed gets new physical offsets, and what follows from them: the property CRC, and the
preparedTransactionOffset of commits whose half message was taken, too. Everything else of a record stays.
Reference 2.1, 2.7, 2.8, 2.10.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats import checkpoint, columns, dtypes, magic, properties, smallfiles
from rocketfsck.formats.record import Blank, encode_blank
from rocketfsck.progress import Phase, phase
from rocketfsck.query.start.verdict import versions_of
from rocketfsck.repair.apply.judging import predict_output
from rocketfsck.repair.carve.carve import CarvedRecords, SourceFile, crcs_of
from rocketfsck.repair.log import filler_records
from rocketfsck.repair.salvage.choose import Placement, moves_of
from rocketfsck.scan.columns import Trait
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.scan.views.arrow import gather
from rocketfsck.store.circumstances import Source
from rocketfsck.store.model import Store
from rocketfsck.store.openfiles import Readers
from rocketfsck.store.opening import open_store
from rocketfsck.store.reading import Closing, FileReader, named_errors
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.run import check_store
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import place_at

if TYPE_CHECKING:
    from rocketfsck.formats.dialect import Version
    from rocketfsck.query.start.verdict import StartVerdict
    from rocketfsck.verify.report import Report


COPY_SIZE = 4 << 20
"""Bytes of records that are copied at once, if no single one is longer."""

NEAR_SIZE = 512
"""Bytes between two records that are read with them: the header of an entry, but not what is lost."""

OPEN_FILES = 32

_OWN_LOG = {"storePathCommitLog": "", "readOnlyCommitLogStorePaths": ""}
"""Settings of the new store: its log is in its own directory, wherever the old one's is."""

_HEAD_SIZE = 256
"""No filler record's fields before its body take more; the body is zeros."""

_MASK = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class NewStore:
    """A store to be: the records of `sources` that `placement` names, each at its new physical offset.

    `version` is that of the fences and of what follows from the log, "" where any will do. `origin` is the
    store that sizes, version and `config/` come from, None without one; `named_version`, `broker_conf` and
    `delay_levels` are what the user said. `configs` are the contents of `config/` by file name, None: as in
    the origin. With `forgets_halves` a commit whose half message is not taken names none. `settings` go over
    those of `broker_conf`.
    """

    sources: Sequence[SourceFile]
    found: CarvedRecords
    placement: Placement
    version: str
    origin: Store | None = None
    named_version: str | None = None
    broker_conf: Path | None = None
    delay_levels: str | None = None
    configs: Mapping[str, bytes] | None = None
    forgets_halves: bool = False
    settings: dict[str, str] | None = None


class LogWriter(Closing):
    """The commit log being written below `root`. A context manager. Raises StoreError for what fails."""

    def __init__(self, root: Path, made: NewStore) -> None:
        self.directory = root / "commitlog"
        self.sources = made.sources
        self.found = made.found
        self.placement = made.placement
        self.version = made.version or "4.0.0"  # of fences that need no property CRC
        self.forgets_halves = made.forgets_halves
        self.written_size = 0
        self._moves = moves_of(made.found, made.placement)
        self._readers = Readers(OPEN_FILES)
        self._descriptor = -1
        self._start: int | None = None

    def close(self) -> None:
        self._readers.close()
        self._close()

    def write(self, stated: Phase) -> None:
        """Write all files; `stated` counts the bytes of records."""
        fileops.make_directory(place_at(self.directory))
        placement = self.placement
        rows, offsets = placement.rows, placement.offsets
        for start, stop in record_runs(self.found, rows, offsets, placement.file_size):
            self._copy(rows[start:stop], offsets[start:stop])
            stated.at(self.written_size)
        for low, high in placement.fences:
            self._fence(low, high)
        for low, high in placement.blanks:
            self._put(low, encode_blank(Blank(high - low)))

    def _copy(self, rows: dtypes.Longs, offsets: dtypes.Longs) -> None:
        """Copy records that adjoin in the new log, and nearly so in their source."""
        reader = self._readers.opened(self.sources[int(self.found["source"][rows[0]])].path)
        buffer, at = records_together(reader, self.found["pos"][rows], self.found["total_size"][rows])
        if self.placement.name == "pack":
            self._rewrite(buffer, rows, offsets, at)
        self._put(int(offsets[0]), buffer.data)
        self.written_size += len(buffer)

    def _rewrite(
        self, buffer: NDArray[np.uint8], rows: dtypes.Longs, offsets: dtypes.Longs, at: dtypes.Longs
    ) -> None:
        """Give records at these places in the buffer their new physical offsets."""
        found = self.found
        _store_longs(buffer, at + columns.PHYSICAL_OFFSET_AT, offsets)
        named, places = _prepared_places(found, rows, at)
        if len(named):
            target = self._moves.of(found["prepared_transaction_offset"][named])
            known = (target >= 0) | self.forgets_halves
            _store_longs(buffer, places[known], np.maximum(target[known], 0))
        checked, sizes, trailers = _property_crcs(buffer, found, rows, at)
        if len(checked):
            crcs = crcs_of(buffer, checked, sizes - properties.PROPERTY_CRC_SIZE).astype(np.int64) & _MASK
            digits = crcs[:, None] // 10 ** np.arange(10) % 10  # least significant first, as it is stored
            buffer[trailers[:, None] + np.arange(10)] = digits.astype(np.uint8) + ord("0")

    def _fence(self, low: int, high: int) -> None:
        """Fill a range, which lies inside a file, with filler records; their bodies stay holes."""
        placement, found = self.placement, self.found
        after = int(np.searchsorted(placement.offsets, low))
        near = int(placement.rows[max(after - 1, 0)])
        timestamp = max(int(found["store_timestamp"][near]), 1)
        with_crc = bool((found["traits"][placement.rows] & int(Trait.PROPERTY_CRC)).any())
        at = low
        for record in filler_records(
            low,
            high - low,
            version=self.version,
            store_timestamp=timestamp,
            property_crc=None if with_crc else False,
        ):
            if len(record) <= 2 * _HEAD_SIZE:
                self._put(at, record)
            else:
                self._put(at, record[:_HEAD_SIZE])
                self._put(at + len(record) - _HEAD_SIZE, record[-_HEAD_SIZE:])
            at += len(record)

    def _put(self, offset: int, data: bytes | memoryview) -> None:
        """Write bytes at a physical offset; they lie inside one file."""
        file_size = self.placement.file_size
        start = offset // file_size * file_size
        path = self.directory / smallfiles.offset_to_filename(start)
        with named_errors(path, "cannot be written"):
            if start != self._start:
                self._close()
                self._descriptor = fileops.open_part(place_at(path))
                self._start = start
                if os.fstat(self._descriptor).st_size != file_size:
                    os.ftruncate(self._descriptor, file_size)
            fileops.write_all(self._descriptor, data, offset - start)

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._start = -1, None


def records_together(
    reader: FileReader, starts: dtypes.Longs, sizes: dtypes.Longs
) -> tuple[dtypes.Bytes, dtypes.Longs]:
    """Records of a file that are in order and near each other, one after the other, and where each begins.

    Raises StoreError when bytes cannot be read.
    """
    low, sizes = int(starts[0]), sizes.astype(np.int64)
    span = np.empty(int(starts[-1] + sizes[-1]) - low, np.uint8)
    reader.read_into(span.data, low)
    at = starts.astype(np.int64) - low
    if len(span) == int(sizes.sum()):
        return span, at
    bounds, buffer = gather(span, at, sizes, compiled=compiled_wanted(len(span)))
    return buffer, bounds[:-1].astype(np.int64)


def record_runs(
    found: CarvedRecords, rows: dtypes.Longs, offsets: dtypes.Longs, file_size: int
) -> Iterator[tuple[int, int]]:
    """Half-open ranges of `rows` that adjoin in one file of the new log, and nearly so in their source.

    Each is at most COPY_SIZE bytes, or one record.
    """
    sizes = found["total_size"][rows].astype(np.int64)
    source, pos = found["source"][rows], found["pos"][rows]
    between = pos[1:] - pos[:-1] - sizes[:-1]
    breaks = source[1:] != source[:-1]
    breaks |= (between < 0) | (between > NEAR_SIZE)
    breaks |= offsets[1:] != offsets[:-1] + sizes[:-1]
    breaks |= offsets[1:] // file_size != offsets[:-1] // file_size
    for start, stop in pairwise([0, *(np.flatnonzero(breaks) + 1).tolist(), len(rows)]):
        at = start
        while at < stop:
            ahead = np.cumsum(sizes[at:stop])
            upto = at + max(int(np.searchsorted(ahead, COPY_SIZE, side="right")), 1)
            yield at, upto
            at = upto


def without_places(
    buffer: NDArray[np.uint8], found: CarvedRecords, rows: dtypes.Longs, at: dtypes.Longs
) -> None:
    """Zero the fields of records that follow from where they are in the log: what is left stays when they are
    packed. The records are at these places of the buffer."""
    _store_longs(buffer, at + columns.PHYSICAL_OFFSET_AT, np.zeros(len(rows), np.int64))
    _, places = _prepared_places(found, rows, at)
    _store_longs(buffer, places, np.zeros(len(places), np.int64))
    _, _, trailers = _property_crcs(buffer, found, rows, at)
    buffer[trailers[:, None] + np.arange(10)] = 0


def _prepared_places(
    found: CarvedRecords, rows: dtypes.Longs, at: dtypes.Longs
) -> tuple[dtypes.Longs, dtypes.Longs]:
    """The rows that name a half message, and where in the buffer they do."""
    named = np.flatnonzero(found["prepared_transaction_offset"][rows] > 0)
    flags = found["sys_flag"][rows[named]]
    hosts = columns.IPV6_GROWTH * ((flags & magic.BORN_HOST_V6) != 0) + columns.IPV6_GROWTH * (
        (flags & magic.STORE_HOST_V6) != 0
    )
    return rows[named], at[named] + columns.PREPARED_OFFSET_AT + hosts


def _property_crcs(
    buffer: NDArray[np.uint8], found: CarvedRecords, rows: dtypes.Longs, at: dtypes.Longs
) -> tuple[dtypes.Longs, dtypes.Longs, dtypes.Longs]:
    """Of the records that end in a property CRC: where they begin, their sizes, where the ten digits are."""
    checked = np.flatnonzero(found["traits"][rows] & int(Trait.PROPERTY_CRC))
    at, sizes = at[checked], found["total_size"][rows[checked]].astype(np.int64)
    name = np.frombuffer(f"{properties.CRC32}\x01".encode(), np.uint8)
    trailer = at + sizes - properties.PROPERTY_CRC_SIZE
    ends_in_it = (buffer[trailer[:, None] + np.arange(len(name))] == name).all(axis=1)
    return at[ends_in_it], sizes[ends_in_it], trailer[ends_in_it] + len(name)


def _store_longs(buffer: NDArray[np.uint8], at: dtypes.Longs, values: dtypes.Longs) -> None:
    """Write 64-bit big-endian numbers at these indexes."""
    data = np.ascontiguousarray(values, ">i8").view(np.uint8).reshape(-1, 8)
    buffer[at[:, None] + np.arange(8)] = data


def fill_store(
    building: Path, made: NewStore, carry: Callable[[Path], None] | None = None
) -> tuple[Report, tuple[StartVerdict, ...]]:
    """Write everything below a directory; what a check of it finds, and what brokers will do with it.

    `carry` puts there what does not follow from the log. Raises StoreError.
    """
    from rocketfsck.repair.build.config import build_topics
    from rocketfsck.repair.build.files import build_checkpoint, take_owner
    from rocketfsck.repair.build.index import build_index
    from rocketfsck.repair.build.queues import build_queues

    total = int(made.found["total_size"][made.placement.rows].sum())
    with phase("writing the commit log", total) as at, LogWriter(building, made) as writer:
        writer.write(at)
    if made.configs is not None:
        _write_configs(made.configs, building)
    elif made.origin is not None:
        _copy_config(made.origin, building)
    if carry is not None:
        carry(building)
    store = open_made(building, made)
    build_queues(store, building)
    build_index(store, building)
    store = open_made(building, made)
    fileops.write_new(
        place_at(building / "checkpoint"), checkpoint.encode_checkpoint(build_checkpoint(store))
    )
    topics = building / "config" / "topics.json"
    if not topics.exists():
        content = build_topics(store)
        if content is not None:
            fileops.make_directories(place_at(topics.parent))
            fileops.write_new(place_at(topics), content)
    if made.origin is not None:
        take_owner(building, made.origin.root)
    store = open_made(building, made)
    report = check_store(store, CheckOptions(level="full"))
    return report, predict_output(store, _versions(made, store), losses=True)


def _versions(made: NewStore, store: Store) -> tuple[Version, ...]:
    """Those that the new store may be started with: as named, or all that may have written the old one."""
    if made.named_version is not None:
        return (store.dialect.version,)
    return versions_of(store if made.origin is None else made.origin)


def _copy_config(origin: Store, building: Path) -> None:
    for file in origin.configs:
        copy_file(file.location, building / "config" / file.name)


def _write_configs(contents: Mapping[str, bytes], building: Path) -> None:
    for name, content in contents.items():
        place = place_at(building / "config" / name)
        fileops.make_directories(place.parent)
        fileops.write_new(place, content)


def copy_file(source: str, target: Path) -> None:
    """A new file with the bytes of another, in directories made as needed.

    Raises StoreError if the other one cannot be read, OSError if the new one cannot be written.
    """
    place = place_at(target)
    fileops.make_directories(place.parent)
    with FileReader(source) as reader:
        fileops.copy_content(reader, place)


def open_made(building: Path, made: NewStore) -> Store:
    """The store being built, with the sizes and the version of where it came from. Raises StoreError."""
    origin = made.origin
    store = open_store(
        building,
        broker_conf=made.broker_conf,
        version=made.version or None,
        delay_levels=made.delay_levels or (None if origin is None else origin.delay_levels),
        settings=_OWN_LOG | (made.settings or {}),
    )
    if origin is None:
        return store
    names = ("consumequeue_file_size", "batch_file_size", "ext_file_size", "slot_count", "entry_count")
    taken = {name: getattr(origin.geometry, name) for name in names if store.geometry.source(name) != "given"}
    inferred: dict[str, Source] = dict.fromkeys(taken, "inferred")
    sources = {**store.geometry.sources, **inferred}
    return replace(store, geometry=replace(store.geometry, **taken, sources=sources))
