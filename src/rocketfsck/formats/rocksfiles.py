"""RocksDB's own files, as far as they tell which others must be there: CURRENT, the log format, MANIFEST.

    CURRENT        := "MANIFEST-" number "\\n"
    MANIFEST, WAL  := block*                          a block is 32 KiB, the last is shorter
    block          := fragment* zeros                 zeros where no head fits any more
    fragment       := crc(u32) length(u16) type(u8) [logNumber(u32)] bytes     little-endian
    MANIFEST record:= (tag(varint) value)*            a version edit

A record is one fragment of type FULL, or a FIRST, some MIDDLE and a LAST; types 5 to 8 are the same with a
log number. That much is enough to say which sst files a database consists of, how long they are, and from
which WAL on it continues; keys and values are left to RocksDB itself (`store.rocks`).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rocketfsck.errors import FormatError

BLOCK_SIZE = 32768
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
RECYCLED = 4
"""Added to a type where a log number is in the head."""

_HEAD = struct.Struct("<IHB")
_CURRENT = re.compile(rb"MANIFEST-\d{1,20}\n")
_CRC_DELTA = 0xA282EAD8

# Tags of a version edit that are read, and those that must be skipped by what follows them.
_COMPARATOR, _LOG_NUMBER, _NEXT_FILE, _LAST_SEQUENCE = 1, 2, 3, 4
_COMPACT_CURSOR, _DELETED_FILE, _NEW_FILE, _PREVIOUS_LOG = 5, 6, 7, 9
_MIN_LOG_TO_KEEP, _NEW_FILE_2, _NEW_FILE_3, _NEW_FILE_4 = 10, 100, 102, 103
_FAMILY, _FAMILY_ADD, _FAMILY_DROP, _MAX_FAMILY, _ATOMIC_GROUP = 200, 201, 202, 203, 300
_SAFE_TO_SKIP = 1 << 13
_VARINTS = frozenset({_LOG_NUMBER, _NEXT_FILE, _LAST_SEQUENCE, _PREVIOUS_LOG, _MIN_LOG_TO_KEEP, _MAX_FAMILY,
                      _ATOMIC_GROUP})  # fmt: skip
_TERMINATE, _CUSTOM_UNSAFE = 1, 1 << 6


class CutOffError(FormatError):
    """A file in the log format ends in the midst of a record, as one that was being written does."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """An sst file that a manifest names: number and length in bytes."""

    number: int
    size: int
    family: int

    @property
    def name(self) -> str:
        return f"{self.number:06d}.sst"


@dataclass(slots=True)
class Manifest:
    """What a manifest says in the end: the families by number, the sst files by number, and by family the
    number of the first WAL that is still needed."""

    families: dict[int, str] = field(default_factory=lambda: {0: "default"})
    files: dict[int, TableFile] = field(default_factory=dict)
    log_numbers: dict[int, int] = field(default_factory=dict)

    @property
    def log_number(self) -> int:
        """The least number of a WAL that is still needed."""
        return min((self.log_numbers.get(family, 0) for family in self.families), default=0)


def decode_current(data: bytes) -> str:
    """The name in the file CURRENT; FormatError if it has none."""
    if not _CURRENT.fullmatch(data):
        raise FormatError(f"CURRENT: {data[:60]!r} is not the name of a manifest with a line end", offset=0)
    return data[:-1].decode("ascii")


def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE = _crc_table()


def crc32c(data: bytes, crc: int = 0) -> int:
    """CRC-32C of bytes, byte by byte: for files of a few MiB."""
    crc ^= 0xFFFFFFFF
    table = _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    """A CRC as RocksDB stores it."""
    return ((crc >> 15 | crc << 17) + _CRC_DELTA) & 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class WalRecord:
    """A record of the log format, where its first fragment begins, and where its last one ends."""

    start: int
    end: int
    data: bytes


def log_records(data: bytes) -> Iterator[WalRecord]:
    """The records of a MANIFEST or a WAL, in order.

    FormatError with the place of the first fragment that is not whole: cut off, of a wrong CRC, or of no
    type.
    """
    pos, start, parts = 0, -1, [b""]
    while pos < len(data):
        left = BLOCK_SIZE - pos % BLOCK_SIZE
        if left < _HEAD.size:
            pos += left
            continue
        if len(data) - pos < _HEAD.size:
            raise CutOffError(
                f"{len(data) - pos} bytes are left, but a fragment's head has {_HEAD.size}", offset=pos
            )
        crc, size, kind = _HEAD.unpack_from(data, pos)
        if kind == size == crc == 0 and not any(data[pos : pos + left]):
            pos += left  # room that was taken in advance
            continue
        head = _HEAD.size + (4 if kind > RECYCLED else 0)
        plain = kind - RECYCLED if kind > RECYCLED else kind
        end = pos + head + size
        if not FULL <= plain <= LAST:
            raise FormatError(f"{kind} is not a type of fragment", offset=pos)
        if size > left - head:
            raise FormatError(f"a fragment of {size} bytes does not fit into its block", offset=pos)
        if end > len(data):
            raise CutOffError(f"{len(data) - pos} bytes are left of a fragment of {head + size}", offset=pos)
        if masked(crc32c(data[pos + 6 : end])) != crc:
            raise FormatError("a fragment's CRC does not match", offset=pos)
        if (plain in (FULL, FIRST)) != (start < 0):
            raise FormatError("a fragment begins or continues a record at the wrong place", offset=pos)
        if plain in (FULL, FIRST):
            start, parts = pos, []
        parts.append(data[pos + head : end])
        pos = end
        if plain in (FULL, LAST):
            yield WalRecord(start, pos, b"".join(parts))
            start = -1
    if start >= 0:
        raise CutOffError("the last record has no end", offset=start)


def decode_manifest(data: bytes) -> Manifest:
    """The sum of a manifest's version edits; FormatError with the place of the first that cannot be read."""
    manifest = Manifest()
    last = 0
    for record in log_records(data):
        last = record.end
        try:
            _apply(manifest, record.data)
        except (FormatError, IndexError) as error:
            raise FormatError(f"a version edit cannot be read: {error}", offset=record.start) from error
    if not last:
        raise FormatError("no version edit", offset=0)
    return manifest


class _Edit:
    """Reads the values of one version edit; IndexError at its end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.pos]
            self.pos += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise FormatError("a number of more than 10 bytes", offset=self.pos)

    def text(self) -> bytes:
        size = self.varint()
        if size > len(self.data) - self.pos:
            raise FormatError(f"a text of {size} bytes does not fit", offset=self.pos)
        self.pos += size
        return self.data[self.pos - size : self.pos]


def _apply(manifest: Manifest, data: bytes) -> None:
    edit = _Edit(data)
    family = 0
    numbers: dict[int, int] = {}
    added: list[tuple[int, int]] = []
    deleted: list[int] = []
    name: str | None = None
    dropped = False
    while edit.pos < len(data):
        tag = edit.varint()
        if tag in _VARINTS:
            numbers[tag] = edit.varint()
        elif tag == _FAMILY:
            family = edit.varint()
        elif tag == _FAMILY_ADD:
            name = edit.text().decode("utf-8", "surrogateescape")
        elif tag == _FAMILY_DROP:
            dropped = True
        elif tag == _DELETED_FILE:
            edit.varint()
            deleted.append(edit.varint())
        elif tag in (_NEW_FILE, _NEW_FILE_2, _NEW_FILE_3, _NEW_FILE_4):
            added.append(_new_file(edit, tag))
        elif tag == _COMPACT_CURSOR:
            edit.varint()
            edit.text()
        elif tag == _COMPARATOR or tag & _SAFE_TO_SKIP:
            edit.text()
        else:
            raise FormatError(f"{tag} is not a known tag", offset=edit.pos)
    _sum_up(manifest, family, name, dropped)
    for number in deleted:
        manifest.files.pop(number, None)
    for number, size in added:
        manifest.files[number] = TableFile(number, size, family)
    if _LOG_NUMBER in numbers:
        manifest.log_numbers[family] = numbers[_LOG_NUMBER]


def _sum_up(manifest: Manifest, family: int, name: str | None, dropped: bool) -> None:
    if name is not None:
        manifest.families[family] = name
    if dropped:
        manifest.families.pop(family, None)
        for number in [file.number for file in manifest.files.values() if file.family == family]:
            del manifest.files[number]


def _new_file(edit: _Edit, tag: int) -> tuple[int, int]:
    """Number and length of an added file; what else is said of it is skipped."""
    edit.varint()
    number = edit.varint()
    if tag == _NEW_FILE_3:
        edit.varint()
    size = edit.varint()
    edit.text()
    edit.text()
    if tag != _NEW_FILE:
        edit.varint()
        edit.varint()
    if tag == _NEW_FILE_4:
        while (custom := edit.varint()) != _TERMINATE:
            edit.text()
            if custom & _CUSTOM_UNSAFE and custom != 65:  # 65 is the path's number
                raise FormatError(f"{custom} is not a known part of a file", offset=edit.pos)
    return number & ((1 << 62) - 1), size


def names_of(manifest: Manifest) -> Mapping[str, TableFile]:
    """The sst files of a manifest by name."""
    return {file.name: file for file in manifest.files.values()}
