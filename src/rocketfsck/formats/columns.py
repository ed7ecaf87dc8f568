"""The columns of messages: the integers of a record, from its declared layout, and what is made of a message.

A field that `record.RECORD` declares is a column of the scan, of `dump`, of the view `messages`, of Spark and
of expressions without another word; `DERIVED` are the columns that take more than reading an integer.
Reference 2.1, 2.5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from rocketfsck.formats.names import shown_name
from rocketfsck.formats.record import RECORD, GivenNumbers

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
    for field in sorted(RECORD.fields, key=lambda field: field.name not in _FIRST)
    if field.kind in _KINDS and field.name not in _LENGTHS
)
"""The integers of a record as they are on disk, in the order of the layout but for `_FIRST`."""

GIVEN = tuple(column for column in NUMBERS if column.name in GivenNumbers.__slots__)
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
