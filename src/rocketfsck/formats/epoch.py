"""The controller-mode epoch file, `epochFileCheckpoint` (5.0.0+). Reference 1.7.

    file  := count "\\n" crc "\\n" entry*
    entry := epoch "-" startOffset "\\n"

Text. crc is the CRC-32 of the entries' text, 31 bits; 0 means "do not check". An epoch ends where the next
begins. The line separator is that of the broker's system.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from rocketfsck.common.wording import count_of
from rocketfsck.errors import FormatError
from rocketfsck.formats.javatext import parse_int32, parse_int64

_SEPARATOR = "-"


@dataclass(frozen=True, slots=True)
class EpochEntry:
    """An epoch and the commitlog offset in bytes at which it began."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class EpochFile:
    """The entries, and the CRC that the file states (0 = unchecked)."""

    entries: tuple[EpochEntry, ...]
    crc: int


def epoch_crc(text: bytes) -> int:
    """The CRC that is on the second line, over the entries' text with their line separators."""
    return zlib.crc32(text) & 0x7FFFFFFF


def _number(line: bytes, offset: int, what: str) -> int:
    number = parse_int64(line.decode("ascii", "replace").strip())
    if number is None:
        raise FormatError(f"{what}: {line[:40]!r} is not a number", offset=offset)
    return number


def decode_epochs(data: bytes) -> EpochFile:
    """The epochs in a file; FormatError, with its offset, for the line that is wrong, also by its CRC."""
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        raise FormatError("epoch file: fewer than two lines", offset=len(data))
    count = _number(lines[0], 0, "count")
    crc_offset = len(lines[0])
    crc = _number(lines[1], crc_offset, "crc")
    following = count_of(len(lines) - 2, "entry follows", "entries follow")
    if count != len(lines) - 2:
        raise FormatError(f"count: {count}, but {following}", offset=0)
    offset = crc_offset + len(lines[1])
    if crc not in (0, epoch_crc(data[offset:])):
        raise FormatError(f"crc: {crc}, but the entries have {epoch_crc(data[offset:])}", offset=crc_offset)
    entries = []
    for line in lines[2:]:
        parts = line.decode("ascii", "replace").strip().split(_SEPARATOR)
        epoch = parse_int32(parts[0])
        start_offset = parse_int64(parts[-1])
        if len(parts) != 2 or epoch is None or start_offset is None:
            raise FormatError(f"entry: {line[:60]!r} is not epoch-startOffset", offset=offset)
        entries.append(EpochEntry(epoch, start_offset))
        offset += len(line)
    return EpochFile(tuple(entries), crc)


def encode_epochs(entries: Sequence[EpochEntry], *, line_separator: str = "\n") -> bytes:
    """The file for these entries, with its CRC; FormatError for none: a broker writes no empty list."""
    if not entries:
        raise FormatError("epoch file: at least one entry is needed")
    text = "".join(
        f"{entry.epoch}{_SEPARATOR}{entry.start_offset}{line_separator}" for entry in entries
    ).encode()
    return f"{len(entries)}{line_separator}{epoch_crc(text)}{line_separator}".encode() + text
