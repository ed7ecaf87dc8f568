"""Continuing a store that exists: what a broker finds when it starts on one that was stopped in order.

Append positions are not on disk: they are where the records of the last log file, the units of a queue's
last file and the ext units end (reference 1.2, 3.5). A store in which a broker would cut, delete or stumble
over something is not continued: such a store must be checked and repaired first.
"""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path

from rocketfsck.errors import FormatError, UsageError
from rocketfsck.formats import checkpoint, consumequeue, indexfile, magic
from rocketfsck.formats.record import body_crc, decode_record, read_frame
from rocketfsck.store import open_store
from rocketfsck.store.model import ConsumeQueue, MappedFile, Store
from rocketfsck.store.reading import FileReader
from rocketfsck.writer.commitlog import CommitLog, MappedFileStream
from rocketfsck.writer.consumequeue import QueueState
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import place_at
from rocketfsck.writer.indexfile import IndexFileState, IndexService, new_slots
from rocketfsck.writer.options import WriteOptions
from rocketfsck.writer.storewriter import StoreWriter, new_writer

_SCAN_SIZE = 1 << 16


def open_for_append(root: Path, options: WriteOptions) -> Store:
    """The store at `root`; UsageError where a broker is running, was killed, or would not simply continue."""
    store = open_store(root, version=options.version)
    if store.live.locked:
        raise UsageError(f"{root}: a broker is running in it")
    if store.abort is not None:
        raise UsageError(f"{root}: the broker was killed (abort exists); start it or repair the store first")
    if store.strays:
        raise UsageError(
            f"{root}: {store.strays[0].relative} does not belong in a store; check the store first"
        )
    if any(Path(place).parent != store.root for place in store.commitlog.locations):
        raise UsageError(f"{root}: its commit log is not in the directory commitlog")
    geometry = options.geometry
    _check_files(store.commitlog.files, geometry.commitlog_file_size)
    for queue in store.queues:
        is_batch = queue.topic in options.batch_topics
        if is_batch != (queue.kind == "batch"):
            raise UsageError(f"{queue.topic} is a batch topic in the options or in the store, not in both")
        size = geometry.batch_file_size if is_batch else geometry.consumequeue_file_size
        _check_files(queue.files, size)
    for ext in store.ext_queues:
        _check_files(ext.files, geometry.ext_file_size)
    for index in store.indexes:
        if index.size != indexfile.index_file_size(geometry.slot_count, geometry.entry_count):
            raise UsageError(
                f"{index.relative} has {index.size:,} bytes, which the given geometry does not allow"
            )
    return store


def _check_files(files: Sequence[MappedFile], size: int) -> None:
    for number, file in enumerate(files):
        if file.size != size:
            raise UsageError(f"{file.relative} has {file.size:,} bytes, not {size:,}")
        expected = (files[0].start_offset or 0) + number * size
        if file.start_offset != expected or expected % size:
            raise UsageError(f"{file.relative} does not follow the file before it; check the store first")


def clone_store(store: Store, target: Path) -> None:
    """Make `target` (an empty directory) the same store. Files that nothing is written to any more are hard
    links, all others copies that keep their holes."""
    of_queues = [*(queue.files for queue in store.queues), *(ext.files for ext in store.ext_queues)]
    groups = [store.commitlog.files, *of_queues]
    closed = {file.location for files in groups for file in files[:-1]}
    closed |= {file.location for file in store.indexes[:-1]}
    for file in store.all_files():
        copy = target / file.relative
        fileops.make_directories(place_at(copy.parent))
        if file.location in closed:
            try:
                fileops.link(file.location, place_at(copy))
                continue
            except OSError:
                pass  # not on this file system: a copy is as good
        fileops.copy(os.fspath(file.path), place_at(copy))


def resumed_writer(root: Path, store: Store, options: WriteOptions) -> StoreWriter:
    """A writer after the end of the copy at `root` of a store; UsageError where its end is not clear."""
    writer = new_writer(root, options)
    if store.commitlog.files:
        _resume_log(writer.log, store)
    for queue in store.queues:
        _resume_queue(writer.queues.state(queue.topic, queue.queue_id), queue)
    _resume_index(writer.index, store)
    if store.checkpoint is not None:
        with FileReader(store.checkpoint.path) as reader:
            writer.checkpoint.reload(checkpoint.decode_checkpoint(reader.read(0, reader.size)))
    return writer


def _resume_log(log: CommitLog, store: Store) -> None:
    files = store.commitlog.files
    for file in files[-3:]:
        position, blank = _walk_log_file(log, file)
        if blank != (file is not files[-1]):
            raise UsageError(f"{file.relative} has an end that no broker writes; check the store first")
    _resume_stream(log.stream, files, position)


def _resume_stream(stream: MappedFileStream, files: Sequence[MappedFile], pos: int) -> None:
    """Go on at a position of the last of these files."""
    first, last = files[0].start_offset or 0, files[-1].start_offset or 0
    stream.resume(first, last, last + pos)


def _walk_log_file(log: CommitLog, file: MappedFile) -> tuple[int, bool]:
    """The position after the records of a file, and whether a BLANK is there."""
    start = file.start_offset or 0
    pos = 0
    with FileReader(file.path) as reader:
        while pos + magic.BLANK_HEADER_SIZE <= reader.size:
            size, magic_code = read_frame(reader.read(pos, magic.BLANK_HEADER_SIZE))
            if magic_code == magic.MAGIC_BLANK:
                return pos, True
            if size == magic_code == 0:
                break
            if not magic.BLANK_HEADER_SIZE <= size <= reader.size - pos:
                raise UsageError(
                    f"{file.relative} at byte {pos}does not hold a record; check the store first"
                )
            try:
                record = decode_record(reader.read(pos, size))
            except FormatError as error:
                raise UsageError(f"{file.relative} at byte {pos}: {error}; check the store first") from None
            if record.physical_offset != start + pos or record.body_crc != body_crc(record.body):
                raise UsageError(f"{file.relative} at byte {pos}: a damaged record; check the store first")
            log.last_record_offset = record.physical_offset
            pos += size
    return pos, False


def _resume_queue(state: QueueState, queue: ConsumeQueue) -> None:
    if not queue.files:
        return
    layout, size, last = state.layout, state.layout.size, queue.files[-1]
    end, unit = 0, None
    with FileReader(last.path) as reader:
        while end < reader.size:
            found = layout.parse(reader.read(end, size))
            valid = consumequeue.is_valid_unit(found["offset"], found["size"])
            if state.is_batch:
                values = (found["offset"], found["size"], found["msgBaseOffset"], found["batchSize"])
                valid = consumequeue.is_valid_batch_unit(*values)
            if not valid:
                break
            end, unit = end + size, found
    if unit is None:
        raise UsageError(f"{last.relative} begins without a unit; check the store first")
    _resume_stream(state.stream, queue.files, end)
    ends = state.dialect.max_physic_offset_is_end and not state.is_batch
    state.max_physic_offset = unit["offset"] + (unit["size"] if ends else 0)
    state.next_offset = state.stream.position // size
    if state.is_batch:
        state.next_offset = unit["msgBaseOffset"] + unit["batchSize"]
    if state.ext is not None and queue.ext is not None and queue.ext.files:
        _resume_ext(state.ext, queue.ext.files)


def _resume_ext(stream: MappedFileStream, files: Sequence[MappedFile]) -> None:
    pos = 0
    with FileReader(files[-1].path) as reader:
        while pos + consumequeue.EXT_UNIT_MIN_SIZE <= reader.size:
            data = reader.read_upto(pos, 32768)
            if data[:2] == b"\0\0":
                break
            try:
                unit = consumequeue.decode_ext_unit(data)
            except FormatError as error:
                raise UsageError(f"{files[-1].relative} at byte {pos}: {error}") from None
            if unit is None:
                pos = reader.size
                break
            pos += unit.size
    _resume_stream(stream, files, pos)


def _resume_index(service: IndexService, store: Store) -> None:
    for file in store.indexes:
        with FileReader(file.path) as reader:
            header = indexfile.decode_header(reader.read(0, indexfile.INDEX_HEADER_SIZE))
        service.finished.append((file.name, header))
    # The broker puts into the last file only; where that is full, the next put finishes it.
    if service.finished:
        name, header = service.finished.pop()
        slots = new_slots(service.slot_count)
        with FileReader(store.indexes[-1].path) as reader:
            for start in range(0, service.slot_count, _SCAN_SIZE):
                count = min(_SCAN_SIZE, service.slot_count - start)
                words = array("i", reader.read(indexfile.slot_pos(start), indexfile.SLOT_SIZE * count))
                if sys.byteorder == "little":
                    words.byteswap()
                slots[start : start + count] = memoryview(words)
        service.current = IndexFileState(service.directory / name, header, slots)
