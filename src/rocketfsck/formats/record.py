"""A commitlog record and the BLANK that ends a file. Reference 2.1 to 2.8.

    record := totalSize magicCode bodyCRC queueId flag queueOffset physicalOffset sysFlag
              bornTimestamp bornHost storeTimestamp storeHost reconsumeTimes
              preparedTransactionOffset bodyLength body topicLength topic propertiesLength properties
    host   := address[4 | 16] port

sysFlag 0x10 and 0x20 make bornHost and storeHost IPv6; the magic code says whether topicLength has one byte
(V1) or two (V2). A negative bodyLength or propertiesLength is never written but is read as "nothing there".
Nothing separates records: the next one begins at totalSize.

A host in a record or a message id: `address[4 | 16] port[4]`. Reference 2.4.

The address is in network order; the port is a signed 32-bit number, of which 0 .. 65535 make sense.

Items of a batch: the body of an inner-batch record, and the wire form of a legacy batch. Reference 2.12.

    items := item*
    item  := totalSize magicCode bodyCRC flag bodyLength body propertiesLength properties

magicCode and bodyCRC are 0 as clients write them; brokers do not look at them. totalSize is 22 and the two
lengths.
"""

from __future__ import annotations

import dataclasses
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Annotated, Any, Generic, TypeVar

from construct import IfThenElse, this

from rocketfsck.errors import FormatError
from rocketfsck.formats import magic
from rocketfsck.formats.layout import (
    I8,
    I16,
    I32,
    I64,
    Buffer,
    Bytes,
    Layout,
    checked,
    declare,
    field,
    fields_of,
    members_of,
    not_negative,
    values_of,
)


@dataclass(frozen=True, slots=True)
class InnerItem:
    """One message of a batch. The sizes follow from the bytes."""

    magic_code: Annotated[int, field("magicCode", I32, "", "0")] = dataclasses.field(default=0, kw_only=True)
    body_crc: Annotated[int, field("bodyCRC", I32, "", "0")] = dataclasses.field(default=0, kw_only=True)
    flag: Annotated[int, field("flag", I32, "", "the producer's own, opaque")] = dataclasses.field(
        default=0, kw_only=True
    )
    body: Annotated[
        bytes,
        field("bodyLength", checked(I32, not_negative), "bytes", "size of the body"),
        field("body", Bytes(this.bodyLength), "", "one message's body"),
    ]
    properties: Annotated[
        bytes,
        field("propertiesLength", checked(I16, not_negative), "bytes", "size of the properties"),
        field("properties", Bytes(this.propertiesLength), "", "one message's properties"),
    ] = b""

    @property
    def total_size(self) -> int:
        return MIN_ITEM_SIZE + len(self.body) + len(self.properties)


INNER_ITEM: Layout = declare(
    "inner_item",
    "Item of an inner batch",
    "2.12",
    field("totalSize", I32, "bytes", "the whole item, this field included"),
    *fields_of(InnerItem),
)
MIN_ITEM_SIZE = INNER_ITEM.least_size


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
        item = InnerItem(**{member: values[name] for name, member in members_of(InnerItem).items()})
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
            **values_of(item),
            "totalSize": item.total_size,
            "bodyLength": len(item.body),
            "propertiesLength": len(item.properties),
        })
        for item in items
    )  # fmt: skip


_PORT = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Host:
    """An address of 4 or 16 bytes and a port (a signed 32-bit number on disk)."""

    address: bytes
    port: int

    @property
    def text(self) -> str:
        """`10.1.2.3:10911` or `[2001:db8::1]:10911`."""
        if len(self.address) == 4:
            return ".".join(map(str, self.address)) + f":{self.port}"
        from ipaddress import IPv6Address

        return f"[{IPv6Address(self.address)}]:{self.port}"


def decode_host(data: bytes) -> Host:
    """A host of 8 or 20 bytes; FormatError for any other number."""
    if len(data) not in (magic.IPV4_HOST_SIZE, magic.IPV6_HOST_SIZE):
        raise FormatError(
            f"host: {len(data)} bytes are neither an IPv4 nor an IPv6 address with a port", offset=0
        )
    return Host(bytes(data[:-4]), _PORT.unpack(data[-4:])[0])


def encode_host(host: Host) -> bytes:
    """The address and the port as i32; FormatError if either does not fit."""
    if len(host.address) not in (4, 16) or not -(1 << 31) <= host.port < 1 << 31:
        raise FormatError(f"host: {host!r} does not fit", offset=0)
    return host.address + _PORT.pack(host.port)


_FRAME = struct.Struct(">ii")


def _at_least_nothing(name: str) -> Any:
    return lambda context: max(context[name], 0)


_V4, _V6 = Bytes(magic.IPV4_HOST_SIZE), Bytes(magic.IPV6_HOST_SIZE)
_BORN_HOST = IfThenElse(this.sysFlag & magic.BORN_HOST_V6, _V6, _V4)
_STORE_HOST = IfThenElse(this.sysFlag & magic.STORE_HOST_V6, _V6, _V4)
_TOPIC_LENGTH = checked(IfThenElse(this.magicCode == magic.MAGIC_V2, I16, I8), not_negative)

HostT = TypeVar("HostT")


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenNumbers:
    """The integers of a record that nothing else in it implies: stored as whoever makes the record says."""

    flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHeader(Generic[HostT]):
    """A record's header by RocketMQ's names in snake case, but for the body's length.

    Sizes in bytes, timestamps in ms, offsets absolute in the commitlog; hosts in the form of whoever reads.
    """

    total_size: Annotated[int, field("totalSize", I32, "bytes", "the whole record, this field included")]
    magic_code: Annotated[int, field("magicCode", I32, "", "0xDAA320A7 (V1) or 0xDAA320AB (V2)")]
    body_crc: Annotated[
        int, field("bodyCRC", I32, "", "CRC-32 of the body as stored, 31 bits; 0 without a body")
    ]
    queue_id: Annotated[int, field("queueId", I32, "", "queue of the topic")]
    flag: Annotated[int, field("flag", I32, "", "the producer's own, opaque")] = 0
    queue_offset: Annotated[
        int, field("queueOffset", I64, "messages", "index in the consume queue; 0 for prepared and rollback")
    ]
    physical_offset: Annotated[
        int, field("physicalOffset", I64, "bytes", "commitlog offset of this record's first byte")
    ]
    sys_flag: Annotated[int, field("sysFlag", I32, "", "compression, transaction, IPv6 and batch bits")]
    born_timestamp: Annotated[int, field("bornTimestamp", I64, "ms", "the producer's clock")]
    born_host: Annotated[
        HostT, field("bornHost", _BORN_HOST, "", "the producer: address, port i32", kind="bytes")
    ]
    store_timestamp: Annotated[
        int, field("storeTimestamp", I64, "ms", "the broker's clock, set under the append lock")
    ]
    store_host: Annotated[
        HostT, field("storeHost", _STORE_HOST, "", "the broker: address, port i32", kind="bytes")
    ]
    reconsume_times: Annotated[int, field("reconsumeTimes", I32, "", "retry count")] = 0
    prepared_transaction_offset: Annotated[
        int,
        field(
            "preparedTransactionOffset",
            I64,
            "bytes",
            "commitlog offset of the prepared or half record, else 0",
        ),
    ] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(RecordHeader[Host]):
    """A record's fields as on disk.

    `body_length` and `properties_length` are the stored numbers; they differ from the bytes' own lengths only
    where they are negative. `topic` and `properties` are raw bytes.
    """

    body_length: Annotated[int, field("bodyLength", I32, "bytes", "size of the body; negative is read as 0")]
    body: Annotated[
        bytes, field("body", Bytes(_at_least_nothing("bodyLength")), "", "as received, possibly compressed")
    ]
    topic: Annotated[
        bytes,
        field("topicLength", _TOPIC_LENGTH, "bytes", "V1: i8, V2: i16", kind="i8|i16"),
        field("topic", Bytes(this.topicLength), "", "UTF-8"),
    ]
    properties_length: Annotated[
        int, field("propertiesLength", I16, "bytes", "size of the properties; negative is read as 0")
    ]
    properties: Annotated[
        bytes,
        field(
            "properties", Bytes(_at_least_nothing("propertiesLength")), "", "name 0x01 value 0x02 …, UTF-8"
        ),
    ]


_HOSTS = ("bornHost", "storeHost")

RECORD: Layout = declare("record", "Commitlog record", "2.1", *fields_of(Record))
RECORD_HEADER: Layout = declare(
    "record_header",
    "Commitlog record up to its body, both hosts IPv4",
    "2.1",
    *(
        replace(item, subcon=Bytes(magic.IPV4_HOST_SIZE)) if item.name in _HOSTS else item
        for item in takewhile(lambda item: item.name != "body", fields_of(Record))
    ),
)


@dataclass(frozen=True, slots=True)
class Blank:
    """The 8 bytes that end a file: `total_size` bytes from here to the file's end hold nothing."""

    total_size: Annotated[int, field("totalSize", I32, "bytes", "from here to the end of the file")]


BLANK: Layout = declare(
    "blank", "End of a commitlog file", "2.8", *fields_of(Blank), field("magicCode", I32, "", "0xCBD43194")
)


def body_crc(body: bytes) -> int:
    """The bodyCRC of a body as stored: CRC-32 without its top bit, 0 for an empty body."""
    return zlib.crc32(body) & 0x7FFFFFFF if body else 0


def read_frame(data: Buffer, pos: int = 0) -> tuple[int, int]:
    """totalSize and magicCode at `pos`; FormatError if fewer than 8 bytes are there."""
    if pos < 0 or len(data) - pos < _FRAME.size:
        raise FormatError("totalSize: needs more bytes than there are", offset=pos)
    total_size, magic_code = _FRAME.unpack_from(data, pos)
    return total_size, magic_code


def decode_record(data: Buffer, pos: int = 0) -> Record:
    """The record at `pos`.

    FormatError, with the offset of the field in `data`, if the bytes end too early, the magic code does not
    belong to a message, or the lengths do not add up to totalSize. Values are not judged.
    """
    total_size, magic_code = read_frame(data, pos)
    if magic_code not in (magic.MAGIC_V1, magic.MAGIC_V2):
        raise FormatError(
            f"magicCode: {magic_code & 0xFFFFFFFF:#010x} does not belong to a message", offset=pos + 4
        )
    if not magic.MIN_RECORD_SIZE <= total_size <= len(data) - pos:
        raise FormatError(f"totalSize: {total_size}, but {len(data) - pos} bytes are left", offset=pos)
    values = RECORD.parse(data, pos, pos + total_size)
    expected = magic.record_size(
        values["bodyLength"],
        values["topicLength"],
        values["propertiesLength"],
        magic_code=magic_code,
        sys_flag=values["sysFlag"],
    )
    if total_size != expected:
        raise FormatError(f"totalSize: {total_size}, but the lengths add up to {expected}", offset=pos)
    for host in _HOSTS:
        values[host] = decode_host(values[host])
    return Record(**{name: values[field] for field, name in members_of(Record).items()})


def encode_record(record: Record) -> bytes:
    """The bytes of a record, the inverse of `decode_record`.

    total_size is written as it is given, right or not. FormatError for a value that its field cannot hold.
    """
    values = values_of(record)
    for host in _HOSTS:
        values[host] = encode_host(values[host])
    return RECORD.build({**values, "topicLength": len(record.topic)})


def make_record(
    *,
    topic: bytes,
    queue_id: int,
    queue_offset: int,
    physical_offset: int,
    born_timestamp: int,
    born_host: Host,
    store_timestamp: int,
    store_host: Host,
    body: bytes = b"",
    properties: bytes = b"",
    magic_code: int = magic.MAGIC_V1,
    sys_flag: int = 0,
    **given: int,
) -> Record:
    """A record whose sizes, body CRC and IPv6 bits follow from the values; `given` are `GivenNumbers`."""
    sys_flag &= ~(magic.BORN_HOST_V6 | magic.STORE_HOST_V6)
    sys_flag |= magic.BORN_HOST_V6 * (len(born_host.address) == 16) | magic.STORE_HOST_V6 * (
        len(store_host.address) == 16
    )
    return Record(
        total_size=magic.record_size(
            len(body), len(topic), len(properties), magic_code=magic_code, sys_flag=sys_flag
        ),
        magic_code=magic_code,
        body_crc=body_crc(body),
        queue_id=queue_id,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        sys_flag=sys_flag,
        born_timestamp=born_timestamp,
        born_host=born_host,
        store_timestamp=store_timestamp,
        store_host=store_host,
        body_length=len(body),
        body=body,
        topic=topic,
        properties_length=len(properties),
        properties=properties,
        **given,
    )


def decode_blank(data: Buffer, pos: int = 0) -> Blank:
    """The BLANK at `pos`; FormatError if there is none."""
    values = BLANK.parse(data, pos)
    if values["magicCode"] != magic.MAGIC_BLANK:
        raise FormatError(
            f"magicCode: {values['magicCode'] & 0xFFFFFFFF:#010x} does not belong to a BLANK", offset=pos + 4
        )
    return Blank(values["totalSize"])


def encode_blank(blank: Blank) -> bytes:
    """The 8 bytes of a BLANK; what follows them to the end of the file is arbitrary."""
    return BLANK.build({"totalSize": blank.total_size, "magicCode": magic.MAGIC_BLANK})


__all__ = [
    "BLANK", "RECORD", "RECORD_HEADER", "Blank", "Host", "Record", "body_crc", "decode_blank",
    "decode_host", "decode_record", "encode_blank", "encode_host", "encode_record", "make_record",
    "read_frame",
]  # fmt: skip
