"""Commit logs that grow, as a broker's do: records at will, or those of a real store, byte by byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rocketfsck.formats.magic import MAGIC_V1, MAGIC_V2
from rocketfsck.formats.record import Blank, Host, encode_blank, encode_record, make_record
from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.pipeline.tail.place import FileRange, Log, LogPlace
from rocketfsck.pipeline.tail.reading import ranges_between

FILE_SIZE = 4096
HOST = Host(bytes([127, 0, 0, 1]), 10911)

Found = list[tuple[int, bytes]]


def new_record(offset: int, queue_offset: int, timestamp: int, body: bytes, topic: bytes = b"T") -> bytes:
    return encode_record(
        make_record(
            topic=topic,
            queue_id=0,
            queue_offset=queue_offset,
            physical_offset=offset,
            born_timestamp=timestamp,
            born_host=HOST,
            store_timestamp=timestamp,
            store_host=HOST,
            body=body,
            properties=b"KEYS\x01k\x02",
        )
    )


def new_log(
    sizes: Sequence[int], *, first: int = 0, timestamp: int = 1_700_000_000_000, at: int | None = None
) -> Stream:
    """A log of records with bodies of these sizes, 10 ms apart, in files of FILE_SIZE bytes."""
    stream = Stream(FILE_SIZE)
    offset = first if at is None else at
    for number, size in enumerate(sizes):
        record = new_record(offset, number, timestamp + 10 * number, bytes([65 + number % 26]) * size)
        left = FILE_SIZE - offset % FILE_SIZE
        if len(record) + 8 > left:
            stream.put(offset, encode_blank(Blank(left)) + bytes(left - 8))
            offset += left
            record = new_record(offset, number, timestamp + 10 * number, bytes([65 + number % 26]) * size)
        stream.put(offset, record)
        stream.records.append((offset, record))
        offset += len(record)
    return stream


@dataclass
class Stream:
    """The bytes of a log in the order in which they are written, and the records among them."""

    file_size: int
    pieces: list[tuple[int, bytes]] = field(default_factory=list)
    records: Found = field(default_factory=list)

    def put(self, offset: int, data: bytes) -> None:
        self.pieces.append((offset, data))

    @property
    def size(self) -> int:
        return sum(len(data) for _, data in self.pieces)

    def end_of(self, record: int) -> int:
        """How many bytes are written when this record is."""
        offset, data = self.records[record]
        return offset + len(data) - self.pieces[0][0]


def stream_of(commitlog: Path, file_count: int) -> Stream:
    """The first files of a real log. Its records are found by their sizes alone."""
    files = sorted(commitlog.iterdir())[:file_count]
    stream = Stream(files[0].stat().st_size)
    for path in files:
        data = path.read_bytes()
        stream.put(int(path.name), data)
        pos = 0
        while int.from_bytes(data[pos + 4 : pos + 8], "big", signed=True) in (MAGIC_V1, MAGIC_V2):
            size = int.from_bytes(data[pos : pos + 4], "big")
            stream.records.append((int(path.name) + pos, data[pos : pos + size]))
            pos += size
    return stream


@dataclass
class Writer:
    """Writes a stream to a directory. `preallocated`: files are full-sized and one ahead."""

    directory: Path
    stream: Stream
    preallocated: bool
    written: int = 0
    deleted: int = 0

    def write_to(self, size: int) -> None:
        """Go on until `size` bytes of the stream are written."""
        at = 0
        for offset, data in self.stream.pieces:
            low, high = max(self.written - at, 0), min(size - at, len(data))
            if low < high:
                self._write(offset + low, data[low:high])
            at += len(data)
        self.written = max(self.written, min(size, at))

    def _write(self, offset: int, data: bytes) -> None:
        file_size = self.stream.file_size
        while data:
            start = offset - offset % file_size
            path = self.path_of(start)
            if self.preallocated:
                for begin in (start, start + file_size):
                    if not self.path_of(begin).exists():
                        self.path_of(begin).write_bytes(bytes(file_size))
            elif not path.exists():
                path.touch()
            piece = data[: start + file_size - offset]
            with path.open("r+b") as file:
                file.seek(offset - start)
                file.write(piece)
            offset, data = offset + len(piece), data[len(piece) :]

    def path_of(self, start: int) -> Path:
        return self.directory / offset_to_filename(start)

    def delete_first(self) -> None:
        sorted(self.directory.iterdir())[0].unlink()


def read_between(log: Log, start: LogPlace, end: LogPlace, *, fail_on_data_loss: bool = True) -> Found:
    """The records between two places; a torn one fails."""
    return [
        item
        for part in ranges_between(log, start, end, fail_on_data_loss=fail_on_data_loss)
        for item in _records(part)
    ]


def _records(part: FileRange) -> Iterator[tuple[int, bytes]]:
    with Path(part.file.location).open("rb") as file:
        data = file.read(part.end_pos)
    pos = part.start_pos
    while pos < part.end_pos:
        size = int.from_bytes(data[pos : pos + 4], "big")
        if int.from_bytes(data[pos + 4 : pos + 8], "big", signed=True) not in (MAGIC_V1, MAGIC_V2):
            return
        assert pos + size <= part.end_pos
        yield part.base_offset + pos, data[pos : pos + size]
        pos += size
