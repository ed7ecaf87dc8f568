"""The fields of a record, or of what is left of one, as spans for the hex view.

Read from the bytes themselves, field by field, as far as they make sense: a torn or malformed record shows
what can be read of it, and the rest stays `(unknown)`.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketfsck.cli.bodies import BodyForm
from rocketfsck.cli.dump.item import field_text
from rocketfsck.cli.dump.source import DumpSource
from rocketfsck.cli.show.hexview import Span
from rocketfsck.cli.show.text import visible
from rocketfsck.formats.magic import (
    BORN_HOST_V6,
    COMPRESSED,
    COMPRESSION_NAMES,
    COMPRESSION_TYPE_MASK,
    INNER_BATCH,
    IPV4_HOST_SIZE,
    IPV6_HOST_SIZE,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MULTI_TAGS,
    NEED_UNWRAP,
    STORE_HOST_V6,
    TRANSACTION_MASK,
    TRANSACTION_NAMES,
    compression_type,
    transaction_type,
)
from rocketfsck.formats.record import RECORD, decode_host

_HOST_BITS = {"bornHost": BORN_HOST_V6, "storeHost": STORE_HOST_V6}
_MAGIC_NAMES = {MAGIC_V1: "message V1", MAGIC_V2: "message V2", MAGIC_BLANK: "BLANK"}
_BIT_NAMES = (
    (COMPRESSED, "compressed"),
    (MULTI_TAGS, "multi-tags"),
    (BORN_HOST_V6, "bornHost IPv6"),
    (STORE_HOST_V6, "storeHost IPv6"),
    (NEED_UNWRAP, "need-unwrap"),
    (INNER_BATCH, "inner-batch"),
)


def sys_flag_text(sys_flag: int) -> str:
    """The bits of a sysFlag in words."""
    words = [name for bit, name in _BIT_NAMES if sys_flag & bit]
    if sys_flag & TRANSACTION_MASK:
        words.append(TRANSACTION_NAMES[transaction_type(sys_flag)])
    if sys_flag & COMPRESSION_TYPE_MASK:
        kind = compression_type(sys_flag)
        words.append(COMPRESSION_NAMES.get(kind, f"compression type {kind}"))
    return f"{sys_flag:#x}" + (f" {', '.join(words)}" if words else "")


def record_spans(source: DumpSource, start: int, end: int, body: BodyForm) -> list[Span]:
    """The fields that are in `start:end` of a file, as far as each lies wholly inside."""
    return list(_Fields(source, start, end, body).spans())


class _Fields:
    """A walk over the fields of one record; it ends at the first that does not fit."""

    def __init__(self, source: DumpSource, start: int, end: int, body: BodyForm) -> None:
        self.source = source
        self.pos = start
        self.end = end
        self.body = body
        self.numbers: dict[str, int] = {}

    def spans(self) -> Iterator[Span]:
        for declared in RECORD.fields:
            size = self._size(declared.name, declared.kind, declared.size)
            if size < 0 or self.pos + size > self.end:
                return
            start, self.pos = self.pos, self.pos + size
            if not size:
                continue
            if declared.name == "body":
                yield Span("body", start, self.pos, "", self.body == "none")
                continue
            data = self.source.read(start, size)
            if declared.name == "properties":
                yield from _property_spans(data, start)
                continue
            if declared.kind != "bytes":
                self.numbers[declared.name] = int.from_bytes(data, "big", signed=True)
            yield Span(declared.name, start, self.pos, self._text(declared.name, data))

    def _size(self, name: str, kind: str, fixed: int | None) -> int:
        if name in _HOST_BITS:
            v6 = self.numbers["sysFlag"] & _HOST_BITS[name]
            return IPV6_HOST_SIZE if v6 else IPV4_HOST_SIZE
        if kind == "i8|i16":
            return 2 if self.numbers["magicCode"] == MAGIC_V2 else 1
        if kind == "bytes":
            length = self.numbers[f"{name}Length"]
            return length if name == "topic" else max(length, 0)
        assert fixed is not None
        return fixed

    def _text(self, name: str, data: bytes) -> str:
        if name in _HOST_BITS:
            return visible(decode_host(data).text)
        if name == "topic":
            return f'"{visible(data)}"'
        value = self.numbers[name]
        if name == "magicCode":
            return f"0x{value & 0xFFFFFFFF:08x} {_MAGIC_NAMES.get(value, 'no known magic code')}"
        if name == "sysFlag":
            return sys_flag_text(value)
        return field_text(RECORD.field(name), value)


def _property_spans(data: bytes, start: int) -> Iterator[Span]:
    """One span a property, its separator included."""
    pos = 0
    while pos < len(data):
        at = data.find(b"\x02", pos)
        end = len(data) if at < 0 else at + 1
        name, separator, value = data[pos:end].removesuffix(b"\x02").partition(b"\x01")
        if separator:
            yield Span(f"properties.{visible(name)}", start + pos, start + end, f'"{visible(value)}"')
        else:
            yield Span("properties", start + pos, start + end, f'no pair: "{visible(name)}"')
        pos = end
