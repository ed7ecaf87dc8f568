"""The two message ids: where a record is, and who made it and when. Reference 7.1, 7.2.

    offsetMsgId := address[4 | 16] port[4] physicalOffset[8]                          32 or 56 hex digits
    uniqID      := address[4 | 16] pid[2] classLoaderHash[4] time[4] counter[2]       32 or 56 hex digits

Upper-case hex. Both have the same lengths: only a try tells one from the other. The time of a uniqID
counts ms since local midnight of the first day of a month in the producer's time zone, so neither the month
nor the zone can be known from it: `unique_id_times` gives the candidates.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from rocketfsck.errors import FormatError, UsageError

IPV4_ID_LENGTH = 32
IPV6_ID_LENGTH = 56
_ID_LENGTHS = (IPV4_ID_LENGTH, IPV6_ID_LENGTH)
_OFFSET_TAIL = struct.Struct(">iq")
_UNIQUE_TAIL = struct.Struct(">HIIH")
_HEX = re.compile(r"[0-9A-Fa-f]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class OffsetMessageId:
    """The store host (address of 4 or 16 bytes and port) and the commitlog offset of a record."""

    address: bytes
    port: int
    physical_offset: int

    @property
    def host_text(self) -> str:
        """The address in text."""
        return str(ip_address(self.address))


@dataclass(frozen=True, slots=True)
class UniqueMessageId:
    """What a producer put into its id. `span` is ms since the start of a month in its zone; `pid` is 16 bits
    of the producer's process id; `counter` wraps at 65536."""

    address: bytes
    pid: int
    class_loader_hash: int
    span: int
    counter: int

    @property
    def host_text(self) -> str:
        """The address in text."""
        return str(ip_address(self.address))


@dataclass(frozen=True, slots=True)
class UniqueIdTime:
    """A time at which a uniqID can have been made: `timestamp` in ms if the producer lived in `zone`."""

    timestamp: int
    zone: str
    year: int
    month: int


def _id_bytes(text: str, what: str) -> bytes:
    match = _HEX.match(text)
    assert match is not None
    if match.end() != len(text):
        raise FormatError(f"{what}: {text[match.end()]!r} is not a hex digit", offset=match.end())
    if len(text) not in _ID_LENGTHS:
        raise FormatError(f"{what}: {len(text)} digits are neither 32 nor 56", offset=0)
    return bytes.fromhex(text)


def decode_offset_id(text: str) -> OffsetMessageId:
    """The parts of an offsetMsgId; FormatError if it is not 32 or 56 hex digits."""
    data = _id_bytes(text, "offsetMsgId")
    port, physical_offset = _OFFSET_TAIL.unpack(data[-_OFFSET_TAIL.size :])
    return OffsetMessageId(data[: -_OFFSET_TAIL.size], port, physical_offset)


def encode_offset_id(message_id: OffsetMessageId) -> str:
    """The offsetMsgId of these parts; FormatError if one does not fit."""
    return _encode(message_id.address, _OFFSET_TAIL, message_id.port, message_id.physical_offset)


def decode_unique_id(text: str) -> UniqueMessageId:
    """The parts of a uniqID; FormatError if it is not 32 or 56 hex digits."""
    data = _id_bytes(text, "uniqID")
    return UniqueMessageId(data[: -_UNIQUE_TAIL.size], *_UNIQUE_TAIL.unpack(data[-_UNIQUE_TAIL.size :]))


def encode_unique_id(message_id: UniqueMessageId) -> str:
    """The uniqID of these parts; FormatError if one does not fit."""
    numbers = (message_id.pid, message_id.class_loader_hash, message_id.span, message_id.counter)
    return _encode(message_id.address, _UNIQUE_TAIL, *numbers)


def _encode(address: bytes, tail: struct.Struct, *values: int) -> str:
    if len(address) not in (4, 16):
        raise FormatError(f"address: {len(address)} bytes", offset=0)
    try:
        return (address + tail.pack(*values)).hex().upper()
    except struct.error as error:
        raise FormatError(f"message id: {error}", offset=len(address)) from None


def _month_start(year: int, month: int, zone: str) -> int:
    """Local midnight of the first day of a month, ms UTC, as Java's calendar finds it."""
    from zoneinfo import ZoneInfo

    try:
        local = datetime(year, month, 1, tzinfo=ZoneInfo(zone))
    except (KeyError, ValueError, OSError):
        raise UsageError(f"{zone!r} is not a known time zone") from None
    # A midnight that is twice on the clock is the later one to Java, one that is skipped counts on from
    # before.
    both = (local.replace(fold=0).timestamp(), local.replace(fold=1).timestamp())
    return int(max(both)) * 1000


def unique_id_times(
    message_id: UniqueMessageId | str, near: range, zones: Iterable[str] = ("UTC",)
) -> list[UniqueIdTime]:
    """The times in `near` (ms UTC) at which the id can have been made, for producers in any of these time
    zones.

    Sorted by time. `near` is usually a record's storeTimestamp and what lies an hour or a month before it.
    Months that are shorter than the id's span give nothing. UsageError for an unknown zone.
    """
    if isinstance(message_id, str):
        message_id = decode_unique_id(message_id)
    found = []
    # A zone is at most 15 hours off UTC: a day on both sides is enough to meet every month in question.
    first = _utc(near.start - message_id.span) - timedelta(days=1)
    last = _utc(near.stop - message_id.span) + timedelta(days=1)
    months = range(first.year * 12 + first.month - 1, last.year * 12 + last.month)
    for zone in dict.fromkeys(zones):
        for number in months:
            year, month = divmod(number, 12)
            begin = _month_start(year, month + 1, zone)
            following = divmod(number + 1, 12)
            end = _month_start(following[0], following[1] + 1, zone)
            timestamp = begin + message_id.span
            if timestamp in near and timestamp < end:
                found.append(UniqueIdTime(timestamp, zone, year, month + 1))
    return sorted(found, key=lambda item: (item.timestamp, item.zone))


def _utc(timestamp: int) -> datetime:
    """A UTC time, held inside the years that months can be counted in."""
    seconds = min(max(timestamp // 1000, -62_000_000_000), 253_000_000_000)
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
