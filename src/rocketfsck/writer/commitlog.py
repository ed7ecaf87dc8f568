"""Appending records to the commit log. Reference 2.1, 2.7, 2.8, 2.9.

A record never crosses a file: where it and 8 bytes more do not fit, a BLANK ends the file. Brokers up to
4.9.0 write that BLANK from the buffer that they encode single messages in, so that bytes of earlier messages
follow its header; later ones write the 8 bytes only.

Mapped file queues in the making: files of one size, named by their first byte's offset. Reference 1.2.

Files are made at full length (holes read as zeros) and written by position, in chunks: memory holds
only the chunk that is not written yet.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rocketfsck.formats import columns, magic, smallfiles
from rocketfsck.formats import properties as props
from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.record import Blank, Record, encode_blank, encode_record, make_record
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import place_at
from rocketfsck.writer.message.compose import Draft
from rocketfsck.writer.message.messages import Kind, MessageError
from rocketfsck.writer.options import PROPERTY_ALLOWANCE, WriteOptions


def create_sparse(path: Path, size: int) -> None:
    """Make a file of this many zero bytes; OSError if it exists."""
    fileops.create(place_at(path), size)


def write_at(path: Path, data: bytes | bytearray | memoryview, pos: int) -> None:
    """Write all of `data` at this position of an existing file."""
    fileops.write(place_at(path), pos, data)


class MappedFileStream:
    """The files of one queue and the place where the next byte goes.

    `first_start` and `last_start` are the offsets of the first and the last file, None before there is one;
    `position` is the stream offset of the append position. Files follow one another without gaps.
    """

    __slots__ = ("_pending", "chunk_size", "directory", "file_size", "first_start", "last_start", "position")

    def __init__(self, directory: Path, file_size: int, chunk_size: int) -> None:
        self.directory = directory
        self.file_size = file_size
        self.chunk_size = chunk_size
        self.first_start: int | None = None
        self.last_start: int | None = None
        self.position = 0
        self._pending = bytearray()

    @property
    def remaining(self) -> int:
        """Bytes left in the last file; 0 without a file."""
        return 0 if self.last_start is None else self.last_start + self.file_size - self.position

    def path_of(self, start: int) -> Path:
        """The file that begins at this offset."""
        return self.directory / smallfiles.offset_to_filename(start)

    def begin_file(self, start: int) -> None:
        """Make the next file and go to its first byte."""
        self.flush()
        if self.last_start is None:
            fileops.make_directories(place_at(self.directory))
            self.first_start = start
        create_sparse(self.path_of(start), self.file_size)
        self.last_start = self.position = start

    def next_file(self) -> None:
        """Make the file that follows the last one, or the file 0."""
        self.begin_file(0 if self.last_start is None else self.last_start + self.file_size)

    def resume(self, first_start: int, last_start: int, position: int) -> None:
        """Continue after what is in existing files."""
        self.first_start, self.last_start, self.position = first_start, last_start, position

    def write(self, data: bytes) -> None:
        """Append bytes that fit in the last file."""
        assert len(data) <= self.remaining
        self._pending += data
        self.position += len(data)
        if len(self._pending) >= self.chunk_size:
            self.flush()

    def skip_to(self, position: int) -> None:
        """Go forward inside the last file, or to its end, leaving zeros."""
        assert self.last_start is not None
        assert self.position <= position <= self.last_start + self.file_size
        self.flush()
        self.position = position

    def flush(self) -> None:
        """Hand everything to the operating system."""
        if self._pending:
            assert self.last_start is not None
            start = self.position - len(self._pending) - self.last_start
            write_at(self.path_of(self.last_start), self._pending, start)
            self._pending.clear()

    def read_back(self, position: int, size: int) -> bytes:
        """Bytes that were appended before; all of one file."""
        self.flush()
        start = position // self.file_size * self.file_size
        with self.path_of(start).open("rb", buffering=0) as file:
            return os.pread(file.fileno(), size, position - start)

    def delete_first(self) -> None:
        """Delete the first file, which is not the last one."""
        assert self.first_start is not None
        assert self.first_start != self.last_start
        fileops.unlink(place_at(self.path_of(self.first_start)))
        self.first_start += self.file_size


CHUNK_SIZE = 1 << 20


@dataclass(slots=True)
class CommitLog:
    """The log being written: its files, and what is in the broker's encode buffer (up to 4.9.0)."""

    stream: MappedFileStream
    dialect: Dialect
    encode_buffer: bytearray
    last_record_offset: int | None = None
    record_count: int = 0

    @property
    def max_offset(self) -> int:
        """The physical offset after the last record."""
        return self.stream.position

    @property
    def min_offset(self) -> int:
        """The physical offset of the first file."""
        return self.stream.position if self.stream.first_start is None else self.stream.first_start


def new_commitlog(root: Path, options: WriteOptions) -> CommitLog:
    """An empty log below `root` that begins at the options' start offset."""
    stream = MappedFileStream(root / "commitlog", options.geometry.commitlog_file_size, CHUNK_SIZE)
    stream.position = options.start_offset
    return CommitLog(stream, options.dialect, bytearray())


def draft_record(draft: Draft, properties: bytes) -> Record:
    """The record of a draft, its offsets still 0."""
    message = draft.message
    return make_record(
        topic=draft.topic_bytes,
        queue_id=draft.queue_id,
        queue_offset=0,
        physical_offset=0,
        born_timestamp=draft.born_timestamp,
        born_host=message.born_host,
        store_timestamp=message.store_timestamp,
        store_host=message.store_host,
        body=draft.body,
        properties=properties,
        magic_code=draft.magic_code,
        sys_flag=draft.sys_flag,
        **{column.name: column.of(message) for column in columns.GIVEN} | {"flag": draft.flag},
    )


def room_for_crc(draft: Draft, properties: bytes) -> bytes:
    """The properties with 20 bytes for the CRC after them, and a separator where the broker puts one."""
    separator = props.PROPERTY_SEPARATOR.encode()
    # A batch's records get no separator: their properties are as the producer ended them (2.7).
    joins = draft.message.kind is not Kind.LEGACY_BATCH and properties and not properties.endswith(separator)
    whole = properties + (separator if joins else b"") + bytes(props.PROPERTY_CRC_SIZE)
    if len(whole) > props.MAX_PROPERTIES_SIZE:
        raise MessageError(
            f"properties of {len(whole):,} bytes with their CRC: the limit is {props.MAX_PROPERTIES_SIZE:,}"
        )
    return whole


def check_sizes(records: Sequence[Record], options: WriteOptions) -> None:
    """MessageError for a record, or a batch of them, that is larger than the settings or a file allow."""
    total = sum(record.total_size for record in records)
    limit = options.max_message_size
    if options.dialect.record_limit_spares_properties:
        for record in records:
            if record.body_length > limit:
                raise MessageError(f"body of {record.body_length:,} bytes: maxMessageSize is {limit:,}")
        limit += PROPERTY_ALLOWANCE
    if total > limit:
        raise MessageError(f"{total:,} bytes: the limit is {limit:,}")
    room = options.geometry.commitlog_file_size - magic.BLANK_HEADER_SIZE
    if total > room:
        raise MessageError(f"{total:,} bytes do not fit in a commit log file: the limit is {room:,}")


def make_room(log: CommitLog, size: int, *, single: bool) -> int:
    """The physical offset where `size` bytes go next; ends the file before where they do not fit."""
    stream = log.stream
    if stream.last_start is None:
        stream.begin_file(stream.position)
    elif size + magic.BLANK_HEADER_SIZE > stream.remaining:
        _end_file(log, single=single)
        stream.next_file()
    return stream.position


def _end_file(log: CommitLog, *, single: bool) -> None:
    header = encode_blank(Blank(log.stream.remaining))
    if log.dialect.stale_blank_filler:
        log.encode_buffer[: len(header)] = header
        if single:
            header = bytes(log.encode_buffer[: log.stream.remaining])
    log.stream.write(header)


def append_record(
    log: CommitLog, record: Record, queue_offset: int, *, with_crc: bool, single: bool
) -> Record:
    """Write a record at the append position, where room was made for it; the record with its offsets."""
    placed = replace(record, queue_offset=queue_offset, physical_offset=log.stream.position)
    encoded = encode_record(placed)
    if with_crc:
        trailer = props.property_crc_trailer(props.property_crc(encoded))
        encoded = encoded[: -props.PROPERTY_CRC_SIZE] + trailer
        placed = replace(placed, properties=placed.properties[: -props.PROPERTY_CRC_SIZE] + trailer)
    if single and log.dialect.stale_blank_filler:
        log.encode_buffer[: len(encoded)] = encoded
    log.stream.write(encoded)
    log.last_record_offset = placed.physical_offset
    log.record_count += 1
    return placed


def preallocate_next(log: CommitLog) -> None:
    """Make the file that a running broker keeps ready after the last one."""
    stream = log.stream
    if stream.last_start is not None:
        create_sparse(stream.path_of(stream.last_start + stream.file_size), stream.file_size)
