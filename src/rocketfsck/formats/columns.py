"""The columns of messages: the integers of a record, from its declared layout, and what is made of a message.

A field that `record.RECORD` declares is a column of the scan, of `dump`, of the view `messages`, of Spark and
of expressions without another word; `DERIVED` are the columns that take more than reading an integer.
Reference 2.1, 2.5.

Where the fields of records and index entries are, as numbers, derived from the declared layouts.

For those who read single fields: kernels, which cannot ask a layout, and probes that want a few bytes of a
record. Places count bytes from the structure's first one. Those of a record hold for IPv4 hosts; an IPv6
bornHost or storeHost moves all that follows it by IPV6_GROWTH. Reference 2.1, 4.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from rocketfsck.formats import indexfile, magic, record
from rocketfsck.formats.layout import shown_name

MAGIC_CODE_AT: Final = record.RECORD_HEADER.offset("magicCode")
BODY_CRC_AT: Final = record.RECORD_HEADER.offset("bodyCRC")
QUEUE_ID_AT: Final = record.RECORD_HEADER.offset("queueId")
FLAG_AT: Final = record.RECORD_HEADER.offset("flag")
QUEUE_OFFSET_AT: Final = record.RECORD_HEADER.offset("queueOffset")
PHYSICAL_OFFSET_AT: Final = record.RECORD_HEADER.offset("physicalOffset")
SYS_FLAG_AT: Final = record.RECORD_HEADER.offset("sysFlag")
BORN_TIMESTAMP_AT: Final = record.RECORD_HEADER.offset("bornTimestamp")
BORN_HOST_AT: Final = record.RECORD_HEADER.offset("bornHost")
STORE_TIMESTAMP_AT: Final = record.RECORD_HEADER.offset("storeTimestamp")
STORE_HOST_AT: Final = record.RECORD_HEADER.offset("storeHost")
RECONSUME_TIMES_AT: Final = record.RECORD_HEADER.offset("reconsumeTimes")
PREPARED_OFFSET_AT: Final = record.RECORD_HEADER.offset("preparedTransactionOffset")
BODY_LENGTH_AT: Final = record.RECORD_HEADER.offset("bodyLength")
BODY_AT: Final = record.RECORD_HEADER.size

HEADER_SIZE: Final = SYS_FLAG_AT
"""totalSize to physicalOffset: what must be there before it is known that a record is at its own place."""
IPV6_GROWTH: Final = magic.IPV6_HOST_SIZE - magic.IPV4_HOST_SIZE
MAX_BODY_AT: Final = BODY_AT + 2 * IPV6_GROWTH

KEY_HASH_AT: Final = indexfile.ENTRY.offset("keyHash")
PHY_OFFSET_AT: Final = indexfile.ENTRY.offset("phyOffset")
TIME_DIFF_AT: Final = indexfile.ENTRY.offset("timeDiff")
PREV_INDEX_AT: Final = indexfile.ENTRY.offset("prevIndex")
ENTRY_SIZE: Final = indexfile.ENTRY.size


def store_timestamp_place(sys_flag: int) -> int:
    """Where a record's storeTimestamp is."""
    return STORE_TIMESTAMP_AT + (IPV6_GROWTH if sys_flag & magic.BORN_HOST_V6 else 0)


def store_host_place(sys_flag: int) -> int:
    """Where a record's storeHost is."""
    return STORE_HOST_AT + (IPV6_GROWTH if sys_flag & magic.BORN_HOST_V6 else 0)


def body_place(sys_flag: int) -> int:
    """Where a record's body is."""
    is_v6 = bool(sys_flag & magic.BORN_HOST_V6) + bool(sys_flag & magic.STORE_HOST_V6)
    return BODY_AT + IPV6_GROWTH * is_v6


ValueKind = Literal["i4", "i8", "text", "words", "map", "bytes"]
_KINDS: dict[str, ValueKind] = {"i8": "i4", "i16": "i4", "i32": "i4", "i64": "i8"}
_FIRST = ("queueId", "queueOffset", "physicalOffset")
"""Where a message is: shown before the other numbers of its record."""
_LENGTHS = frozenset({"topicLength"})
"""Lengths that no one is shown: the bytes say them."""

SCANNED_NAMES = {"size": "total_size", "batch_count": "batch_size", "inner_base_offset": "inner_base"}
"""Columns whose name in the scan and in `Message` is not the one that is shown."""


@dataclass(frozen=True, slots=True)
class MessageColumn:
    """A column: the name that is shown, RocketMQ's or one in its manner, what its values are, and their unit.

    Integers have their NumPy kind, i4 at least. `attribute` is the name in `Message` and in the scan.
    """

    name: str
    field: str
    kind: ValueKind
    unit: str
    attribute: str

    def of(self, message: Any) -> Any:
        """The value in a `Message`."""
        return getattr(message, self.attribute)


def _column(field: str, kind: ValueKind, unit: str = "") -> MessageColumn:
    name = shown_name(field)
    return MessageColumn(name, field, kind, unit, SCANNED_NAMES.get(name, name))


NUMBERS: tuple[MessageColumn, ...] = tuple(
    _column(field.name, _KINDS[field.kind], field.unit)
    for field in sorted(record.RECORD.fields, key=lambda field: field.name not in _FIRST)
    if field.kind in _KINDS and field.name not in _LENGTHS
)
"""The integers of a record as they are on disk, in the order of the layout but for `_FIRST`."""

GIVEN = tuple(column for column in NUMBERS if column.name in record.GivenNumbers.__slots__)
"""Those that a message brings with it."""

DERIVED: tuple[MessageColumn, ...] = (
    _column("topic", "text"),
    _column("bornHost", "text"),
    _column("storeHost", "text"),
    _column("transaction", "text"),
    _column("compression", "text"),
    _column("tags", "text"),
    _column("keys", "words"),
    _column("uniqKey", "text"),
    _column("properties", "map"),
    replace(_column("faults", "words"), attribute="fault_names"),
    _column("body", "bytes"),
)
"""What is made of bytes, bits and properties."""
