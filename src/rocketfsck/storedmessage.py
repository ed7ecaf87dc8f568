"""A message of an open store, for programs and people: times as datetimes, the body when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from rocketfsck.common.wording import parse_time
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.query.ids import offset_id_of
from rocketfsck.reader.decoders import unpack
from rocketfsck.scan.views.messages import MAX_BODY_SIZE, Message

Read = Callable[[int, int], bytes]
"""Reads bytes of the file that holds the message: from a position, so many."""

Time = datetime | int | str
"""A point in time: a datetime with a time zone, milliseconds since 1970 (UTC), or text like
`2024-05-17T08:30` (UTC where it names no zone)."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def utc(timestamp: int) -> datetime | None:
    """A timestamp in ms as a datetime in UTC; None outside of the years 1 to 9999."""
    try:
        return _EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        return None


def milliseconds(time: Time | None) -> int | None:
    """A time in ms; a datetime is rounded up to the next ms. Raises UsageError for what is not a time."""
    if time is None or isinstance(time, int):
        return time
    if isinstance(time, str):
        try:
            return parse_time(time)
        except ValueError as error:
            raise UsageError(str(error)) from None
    if not isinstance(time, datetime):
        raise UsageError(f"a time must be a datetime, text or a number of milliseconds, not {time!r}")
    if time.tzinfo is None:
        raise UsageError(f"{time} has no time zone: give one, for example datetime(…, tzinfo=UTC)")
    return -((_EPOCH - time) // _MILLISECOND)


class StoredMessage:
    """One message of the commit log. The names are those of the columns of `OpenedStore.to_arrow`.

    `record` is the message with every field as on disk, but without its body.
    """

    __slots__ = ("_read", "offset", "record")

    def __init__(self, record: Message, offset: int, read: Read) -> None:
        self.record = record
        self.offset = offset
        self._read = read

    def __repr__(self) -> str:
        queue = f"{self.topic!r}, queue {self.queue_id} at {self.queue_offset}"
        return f"<message of {queue}, physical offset {self.offset}>"

    @property
    def topic(self) -> str:
        return self.record.topic

    @property
    def queue_id(self) -> int:
        return self.record.queue_id

    @property
    def queue_offset(self) -> int:
        """The number of the message in its queue."""
        return self.record.queue_offset

    @property
    def physical_offset(self) -> int:
        """The place in the commit log that the message itself names; `offset` is where it is."""
        return self.record.physical_offset

    @property
    def size(self) -> int:
        """Bytes of the whole record."""
        return self.record.total_size

    @property
    def store_timestamp(self) -> int:
        """When the broker stored the message, in ms since 1970 (UTC)."""
        return self.record.store_timestamp

    @property
    def born_timestamp(self) -> int:
        """When the producer made the message, in ms since 1970 (UTC)."""
        return self.record.born_timestamp

    @property
    def stored_at(self) -> datetime | None:
        """`store_timestamp` as a datetime in UTC; None outside of the years 1 to 9999."""
        return utc(self.record.store_timestamp)

    @property
    def born_at(self) -> datetime | None:
        """`born_timestamp` as a datetime in UTC; None outside of the years 1 to 9999."""
        return utc(self.record.born_timestamp)

    @property
    def store_host(self) -> str:
        """Address and port of the broker."""
        return self.record.store_host

    @property
    def born_host(self) -> str:
        """Address and port of the producer."""
        return self.record.born_host

    @property
    def tags(self) -> str | None:
        return self.record.tags

    @property
    def keys(self) -> list[str]:
        """The words of KEYS, in order."""
        return self.record.keys

    @property
    def unique_key(self) -> str | None:
        """The id that the producer gave the message (UNIQ_KEY)."""
        return self.record.unique_key

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties, as a broker reads them."""
        return self.record.properties or {}

    @property
    def message_id(self) -> str:
        """The id by which clients know the message: `unique_key`, else `offset_message_id`."""
        return self.unique_key or self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        """The id made of the broker's address and the place in the log, in hexadecimal digits."""
        return offset_id_of(self.record, self.offset)

    def body(self, *, limit: int = MAX_BODY_SIZE) -> bytes:
        """The body, decompressed, read from the store now.

        Raises UsageError for a body of more than `limit` bytes, stored or decompressed, and where the store
        is closed; StoreError if it cannot be read or decompressed: `stored_body` gives its bytes.
        """
        content = unpack(self.stored_body(limit=limit), self.record.sys_flag, limit + 1)
        if content.unknown is not None:
            raise StoreError(
                f"the body cannot be decompressed: {content.unknown}",
                path=self.record.path,
                offset=self.record.body_pos,
            )
        return self._bounded(content.data, len(content.data), limit)

    def stored_body(self, *, limit: int = MAX_BODY_SIZE) -> bytes:
        """The body as it is stored, maybe compressed. Raises as `body`."""
        size = max(self.record.body_size, 0)
        self._bounded(b"", size, limit)
        return self._read(self.record.body_pos, size) if size else b""

    def _bounded(self, data: bytes, size: int, limit: int) -> bytes:
        if size > limit:
            raise UsageError(
                f"the body at offset {self.offset} has more than {limit:,} bytes: give a higher limit"
            )
        return data
