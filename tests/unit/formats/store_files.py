"""Reads the files of a broker-written store with nothing but `rocketfsck.formats`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rocketfsck.errors import FormatError
from rocketfsck.formats.magic import MAGIC_V1, MAGIC_V2
from rocketfsck.formats.record import Record, decode_record, read_frame
from rocketfsck.formats.smallfiles import filename_to_offset


@cache
def commitlog(store: Path) -> dict[int, bytes]:
    """The commitlog files' bytes by start offset."""
    files = {}
    for path in sorted((store / "commitlog").iterdir()):
        start = filename_to_offset(path.name)
        assert start is not None
        files[start] = path.read_bytes()
    return files


def bytes_at(store: Path, physical_offset: int, size: int) -> bytes:
    """`size` bytes of the commitlog; they lie in one file."""
    for start, data in commitlog(store).items():
        if start <= physical_offset < start + len(data):
            pos = physical_offset - start
            assert pos + size <= len(data)
            return data[pos : pos + size]
    raise AssertionError(f"no file holds {physical_offset}")


def walk(store: Path) -> Iterator[tuple[int, bytes, Record]]:
    """Physical offset, bytes and record of every record that a walk of each file finds."""
    for start, data in commitlog(store).items():
        pos = 0
        while len(data) - pos >= 8:
            size, magic = read_frame(data, pos)
            if magic not in (MAGIC_V1, MAGIC_V2):
                break
            try:
                record = decode_record(data, pos)
            except FormatError:
                break
            yield start + pos, data[pos : pos + size], record
            pos += size
