"""Names of the files of a store. Reference 1.2, 1.4.

Mapped files are named by the byte offset of their first byte in their stream: 20 decimal digits. The broker
parses them with `Long.parseLong`, so it also takes other spellings of a number. Index files are named by the
wall clock of their creation in the broker's time zone: `yyyyMMddHHmmssSSS`.
"""

from __future__ import annotations

from datetime import datetime

from rocketfsck.formats.javatext import INT64_MAX, parse_int64

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
