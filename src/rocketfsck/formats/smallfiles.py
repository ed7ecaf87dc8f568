r"""The small files at a store's root: `abort`, `lock`, `brokerIdentity`. Reference 1.1, 5.3, 5.4.

`abort` is there while a broker runs, and an unclean stop leaves it; only its existence counts. The file is
empty up to 4.9.8 and holds the broker's PID in ASCII digits from 5.0.0 on. `lock` holds the four bytes
`lock`; what counts is the POSIX lock on its first byte. `brokerIdentity` is one line
`cluster#brokerName#brokerId` without a line end; `brokerIdentity-temp`, there until the controller agrees,
has `#registerCheckCode` after that.

The controller-mode epoch file, `epochFileCheckpoint` (5.0.0+). Reference 1.7.

    file  := count "\n" crc "\n" entry*
    entry := epoch "-" startOffset "\n"

Text. crc is the CRC-32 of the entries' text, 31 bits; 0 means "do not check". An epoch ends where the next
begins. The line separator is that of the broker's system.

Names of the files of a store. Reference 1.2, 1.4.

Mapped files are named by the byte offset of their first byte in their stream: 20 decimal digits. The broker
parses them with `Long.parseLong`, so it also takes other spellings of a number. Index files are named by the
wall clock of their creation in the broker's time zone: `yyyyMMddHHmmssSSS`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rocketfsck.common.wording import count_of
from rocketfsck.errors import FormatError
from rocketfsck.formats.javatext import INT64_MAX, parse_int32, parse_int64

OFFSET_NAME_LENGTH = 20
INDEX_NAME_LENGTH = 17
MAX_NAME_SIZE = 255  # of a file, in bytes


def offset_to_filename(offset: int) -> str:
    """The name of the mapped file that begins at `offset`."""
    return f"{offset:0{OFFSET_NAME_LENGTH}d}"


def filename_to_offset(name: str) -> int | None:
    """The offset that a name of exactly 20 ASCII digits states; None for any other and above 2**63-1."""
    if len(name) != OFFSET_NAME_LENGTH or not (name.isascii() and name.isdigit()):
        return None
    offset = int(name)
    return offset if offset <= INT64_MAX else None


def java_parse_long(name: str) -> int | None:
    """The number that the broker reads from any name, None where it throws NumberFormatException."""
    return parse_int64(name)


def index_filename(created: datetime) -> str:
    """The name of an index file created at this local time (milliseconds are kept)."""
    # strftime does not pad years below 1000 on every platform.
    return f"{created.year:04d}{created:%m%d%H%M%S}{created.microsecond // 1000:03d}"


def index_filename_time(name: str) -> datetime | None:
    """The naive local time that an index file's name states, None if the name is not such a time."""
    if len(name) != INDEX_NAME_LENGTH or not (name.isascii() and name.isdigit()):
        return None
    year, month, day = int(name[:4]), int(name[4:6]), int(name[6:8])
    hour, minute, second = int(name[8:10]), int(name[10:12]), int(name[12:14])
    try:
        return datetime(year, month, day, hour, minute, second, int(name[14:]) * 1000)
    except ValueError:
        return None


def is_directory_name(topic: str) -> bool:
    """Whether a topic can be the name of a directory, and of one below the queues' own."""
    encoded = topic.encode("utf-8", "surrogatepass")
    return topic not in ("", ".", "..") and not set(topic) & {"/", "\0"} and len(encoded) <= MAX_NAME_SIZE


def is_queue_name(topic: str) -> bool:
    """Whether the queues of a topic can be found by its name, as Java reads it.

    Not so where no directory can have the name, nor where bytes that are not UTF-8 became U+FFFD: whatever a
    broker makes of such a topic, no consumer asks for it.
    """
    return is_directory_name(topic) and "\ufffd" not in topic


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


ABORT_NAME = "abort"
LOCK_NAME = "lock"
LOCK_CONTENT = b"lock"
BROKER_IDENTITY_SEPARATOR = "#"
_MAX_PID_DIGITS = 20


def decode_abort(data: bytes) -> int | None:
    """The PID that an abort file states, None for an empty one; FormatError for anything else."""
    if not data:
        return None
    if len(data) > _MAX_PID_DIGITS or not data.isdigit():
        raise FormatError("abort: neither empty nor a PID", offset=0)
    return int(data)


def encode_abort(pid: int | None) -> bytes:
    """The content of an abort file: empty, or a PID."""
    return b"" if pid is None else str(pid).encode()


def is_lock_content(data: bytes) -> bool:
    """Whether a lock file holds what a broker writes (nothing, before its first write)."""
    return data in (b"", LOCK_CONTENT)


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """Who a controller-mode broker is (5.1.1+); `check_code` only where it has not got that id yet."""

    cluster: str
    broker_name: str
    broker_id: int
    check_code: str | None = None


def decode_broker_identity(data: bytes, *, is_temp: bool = False) -> BrokerIdentity:
    """The identity in a `brokerIdentity` file, with `is_temp` in a `brokerIdentity-temp`.

    FormatError for what a broker does not take, or does not write: parts beyond those, a line end.
    """
    name = "brokerIdentity-temp" if is_temp else "brokerIdentity"
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"{name}: not UTF-8", offset=error.start) from None
    parts = text.split(BROKER_IDENTITY_SEPARATOR)
    form = ("cluster", "brokerName", "brokerId", "registerCheckCode")[: 3 + is_temp]
    broker_id = parse_int64(parts[2]) if len(parts) == len(form) else None
    if broker_id is None or not all(parts):
        raise FormatError(f"{name}: not {BROKER_IDENTITY_SEPARATOR.join(form)}", offset=0)
    return BrokerIdentity(parts[0], parts[1], broker_id, parts[3] if is_temp else None)


def encode_broker_identity(identity: BrokerIdentity) -> bytes:
    """The content of a `brokerIdentity` file, of a `brokerIdentity-temp` where it has a check code."""
    parts = [identity.cluster, identity.broker_name, str(identity.broker_id)]
    if identity.check_code is not None:
        parts.append(identity.check_code)
    return BROKER_IDENTITY_SEPARATOR.join(parts).encode()
