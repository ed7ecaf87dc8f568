"""Items of a batch: the body of an inner-batch record, and the wire form of a legacy batch. Reference 2.12.

    items := item*
    item  := totalSize magicCode bodyCRC flag bodyLength body propertiesLength properties

magicCode and bodyCRC are 0 as clients write them; brokers do not look at them. totalSize is 22 and the two
lengths.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from construct import this

from rocketfsck.errors import FormatError
from rocketfsck.formats.layout import I16, I32, Buffer, Bytes, Layout, checked, declare, field, not_negative

INNER_ITEM: Layout = declare(
    "inner_item",
    "Item of an inner batch",
    "2.12",
    field("totalSize", I32, "bytes", "the whole item, this field included"),
    field("magicCode", I32, "", "0"),
    field("bodyCRC", I32, "", "0"),
    field("flag", I32, "", "the producer's own, opaque"),
    field("bodyLength", checked(I32, not_negative), "bytes", "size of the body"),
    field("body", Bytes(this.bodyLength), "", "one message's body"),
    field("propertiesLength", checked(I16, not_negative), "bytes", "size of the properties"),
    field("properties", Bytes(this.propertiesLength), "", "one message's properties"),
)
MIN_ITEM_SIZE = 22


@dataclass(frozen=True, slots=True)
class InnerItem:
    """One message of a batch. The sizes follow from the bytes."""

    body: bytes
    properties: bytes = b""
    flag: int = 0
    magic_code: int = 0
    body_crc: int = 0

    @property
    def total_size(self) -> int:
        return MIN_ITEM_SIZE + len(self.body) + len(self.properties)


def decode_items(body: Buffer) -> list[InnerItem]:
    """The items of an inner batch's body, which they fill exactly.

    FormatError, with the offset of the field in `body`, if an item runs past the end or its lengths do not
    add up.
    """
    items = []
    pos = 0
    while pos < len(body):
        total_size = int.from_bytes(body[pos : pos + 4], "big", signed=True)
        if not MIN_ITEM_SIZE <= total_size <= len(body) - pos:
            raise FormatError(f"totalSize: {total_size}, but {len(body) - pos} bytes are left", offset=pos)
        values = INNER_ITEM.parse(body, pos, pos + total_size)
        item = InnerItem(
            values["body"], values["properties"], values["flag"], values["magicCode"], values["bodyCRC"]
        )
        if item.total_size != total_size:
            message = f"totalSize: {total_size}, but the lengths add up to {item.total_size}"
            raise FormatError(message, offset=pos)
        items.append(item)
        pos += total_size
    return items


def encode_items(items: Iterable[InnerItem]) -> bytes:
    """The body that these items make; FormatError for one whose lengths do not fit their fields."""
    return b"".join(
        INNER_ITEM.build({
            "totalSize": item.total_size,
            "magicCode": item.magic_code,
            "bodyCRC": item.body_crc,
            "flag": item.flag,
            "bodyLength": len(item.body),
            "body": item.body,
            "propertiesLength": len(item.properties),
            "properties": item.properties,
        })
        for item in items
    )  # fmt: skip
