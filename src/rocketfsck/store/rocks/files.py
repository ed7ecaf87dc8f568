"""Whether the files of a database are all there, by its own manifest: no RocksDB needed.
`formats.rocksfiles`.

    CURRENT      -> a manifest that is there and whole
    the manifest -> sst files that are there, of the length that it says
                 -> a WAL, at least the one that the database continues with

A WAL is gone through as long as it is small; RocksDB looks at the larger ones itself (`reading`, strict).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from rocketfsck.errors import FormatError
from rocketfsck.formats.rocksfiles import (
    CutOffError,
    Manifest,
    decode_current,
    decode_manifest,
    log_records,
    names_of,
)
from rocketfsck.store.model import Other, StoreFile
from rocketfsck.store.reading import read_whole

CURRENT = "CURRENT"
CURRENT_LIMIT = 4096
MANIFEST_LIMIT = 16 << 20
WAL_LIMIT = 8 << 20
"""A longer WAL is left to RocksDB: its CRC is too slow here."""


class Fault(StrEnum):
    """What is wrong with a file of a database."""

    MISSING = "missing"
    TORN = "torn"
    LENGTH = "length"
    NO_WAL = "no-wal"


@dataclass(frozen=True, slots=True)
class FileFault:
    """A fault of the file `name`. `pos` is where it begins; `expected` the length that the manifest says;
    `at_end` whether a WAL is only cut off, as a broker that is killed may leave it."""

    fault: Fault
    name: str
    detail: str
    size: int = 0
    pos: int | None = None
    expected: int | None = None
    at_end: bool = False


def file_faults(other: Other) -> Iterator[FileFault]:
    """Yield what is wrong with the files of a database. Raises StoreError if one cannot be read."""
    files = {file.name: file for file in other.files}
    if CURRENT not in files:
        yield FileFault(Fault.MISSING, CURRENT, "names the manifest")
        return
    try:
        name = decode_current(read_whole(files[CURRENT].path, CURRENT_LIMIT))
    except FormatError as error:
        yield FileFault(Fault.TORN, CURRENT, str(error), files[CURRENT].size, 0)
        return
    if name not in files:
        yield FileFault(Fault.MISSING, name, "CURRENT names it")
        return
    if files[name].size > MANIFEST_LIMIT:
        return
    try:
        manifest = decode_manifest(read_whole(files[name].path, MANIFEST_LIMIT))
    except FormatError as error:
        yield FileFault(Fault.TORN, name, str(error), files[name].size, error.offset)
        return
    yield from _tables(manifest, files)
    yield from _wals(manifest, files)


def _tables(manifest: Manifest, files: Mapping[str, StoreFile]) -> Iterator[FileFault]:
    for name, table in sorted(names_of(manifest).items()):
        if name not in files:
            family = manifest.families.get(table.family, "?")
            yield FileFault(Fault.MISSING, name, f"rows of the family {family}", expected=table.size)
        elif files[name].size != table.size:
            size = files[name].size
            yield FileFault(Fault.LENGTH, name, "", size, min(size, table.size), table.size)


def _wals(manifest: Manifest, files: Mapping[str, StoreFile]) -> Iterator[FileFault]:
    numbers = {_number(name): file for name, file in files.items() if _number(name) is not None}
    newest = max((manifest.log_numbers.get(family, 0) for family in manifest.families), default=0)
    if not any(number is not None and number >= newest for number in numbers):
        name = f"{newest:06d}.log" if newest else "*.log"  # before the first flush no number is written down
        yield FileFault(Fault.NO_WAL, name, "the last writes were only in a WAL")
    for number, file in sorted(numbers.items(), key=lambda item: item[0] or 0):
        if number is not None and number >= manifest.log_number and file.size <= WAL_LIMIT:
            yield from _wal(file)


def _wal(file: StoreFile) -> Iterator[FileFault]:
    data = read_whole(file.path, WAL_LIMIT)
    try:
        for _ in log_records(data):
            pass
    except FormatError as error:
        cut = isinstance(error, CutOffError)
        yield FileFault(Fault.TORN, file.name, str(error), file.size, error.offset, at_end=cut)


def _number(name: str) -> int | None:
    stem, dot, end = name.partition(".")
    return int(stem) if dot and end == "log" and stem.isascii() and stem.isdigit() else None
