"""Commit log files, and the compaction logs that copy their form: records, BLANKs, and what is neither.

Which bytes are what, `scan` says: its regions tile the file, and its filters act on columns, so that only
the records asked for are read a second time. A body of more than 64 MiB is not shown (null).

The fields of a record, or of what is left of one, as spans for the hex view.

Read from the bytes themselves, field by field, as far as they make sense: a torn or malformed record shows
what can be read of it, and the rest stays `(unknown)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocketfsck.cli.dump import item as dump_item
from rocketfsck.cli.dump.item import DumpFilter, DumpSource, Item
from rocketfsck.cli.output import COLUMNS, BodyForm, Column, body_values
from rocketfsck.cli.show.text import count_of, visible
from rocketfsck.common.rows import ColumnKind
from rocketfsck.formats import magic, properties, record, tiered
from rocketfsck.formats.columns import DERIVED, NUMBERS, ValueKind

if TYPE_CHECKING:
    from rocketfsck.scan.log.resync import Region
    from rocketfsck.scan.views.messages import Message


_HOST_BITS = {"bornHost": magic.BORN_HOST_V6, "storeHost": magic.STORE_HOST_V6}
_MAGIC_NAMES = {magic.MAGIC_V1: "message V1", magic.MAGIC_V2: "message V2", magic.MAGIC_BLANK: "BLANK"}
_BIT_NAMES = (
    (magic.COMPRESSED, "compressed"),
    (magic.MULTI_TAGS, "multi-tags"),
    (magic.BORN_HOST_V6, "bornHost IPv6"),
    (magic.STORE_HOST_V6, "storeHost IPv6"),
    (magic.NEED_UNWRAP, "need-unwrap"),
    (magic.INNER_BATCH, "inner-batch"),
)


def sys_flag_text(sys_flag: int) -> str:
    """The bits of a sysFlag in words."""
    words = [name for bit, name in _BIT_NAMES if sys_flag & bit]
    if sys_flag & magic.TRANSACTION_MASK:
        words.append(magic.TRANSACTION_NAMES[magic.transaction_type(sys_flag)])
    if sys_flag & magic.COMPRESSION_TYPE_MASK:
        kind = magic.compression_type(sys_flag)
        words.append(magic.COMPRESSION_NAMES.get(kind, f"compression type {kind}"))
    return f"{sys_flag:#x}" + (f" {', '.join(words)}" if words else "")


def record_spans(source: DumpSource, start: int, end: int, body: BodyForm) -> list[dump_item.Span]:
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

    def spans(self) -> Iterator[dump_item.Span]:
        for declared in record.RECORD.fields:
            size = self._size(declared.name, declared.kind, declared.size)
            if size < 0 or self.pos + size > self.end:
                return
            start, self.pos = self.pos, self.pos + size
            if not size:
                continue
            if declared.name == "body":
                yield dump_item.Span("body", start, self.pos, "", self.body == "none")
                continue
            data = self.source.read(start, size)
            if declared.name == "properties":
                yield from _property_spans(data, start)
                continue
            if declared.kind != "bytes":
                self.numbers[declared.name] = int.from_bytes(data, "big", signed=True)
            yield dump_item.Span(declared.name, start, self.pos, self._text(declared.name, data))

    def _size(self, name: str, kind: str, fixed: int | None) -> int:
        if name in _HOST_BITS:
            v6 = self.numbers["sysFlag"] & _HOST_BITS[name]
            return magic.IPV6_HOST_SIZE if v6 else magic.IPV4_HOST_SIZE
        if kind == "i8|i16":
            return 2 if self.numbers["magicCode"] == magic.MAGIC_V2 else 1
        if kind == "bytes":
            length = self.numbers[f"{name}Length"]
            return length if name == "topic" else max(length, 0)
        assert fixed is not None
        return fixed

    def _text(self, name: str, data: bytes) -> str:
        if name in _HOST_BITS:
            return visible(record.decode_host(data).text)
        if name == "topic":
            return f'"{visible(data)}"'
        value = self.numbers[name]
        if name == "magicCode":
            return f"0x{value & 0xFFFFFFFF:08x} {_MAGIC_NAMES.get(value, 'no known magic code')}"
        if name == "sysFlag":
            return sys_flag_text(value)
        return dump_item.field_text(record.RECORD.field(name), value)


def _property_spans(data: bytes, start: int) -> Iterator[dump_item.Span]:
    """One span a property, its separator included."""
    pos = 0
    while pos < len(data):
        at = data.find(b"\x02", pos)
        end = len(data) if at < 0 else at + 1
        name, separator, value = data[pos:end].removesuffix(b"\x02").partition(b"\x01")
        if separator:
            yield dump_item.Span(
                f"properties.{visible(name)}", start + pos, start + end, f'"{visible(value)}"'
            )
        else:
            yield dump_item.Span("properties", start + pos, start + end, f'no pair: "{visible(name)}"')
        pos = end


FILTERS = ("topic", "queue_id", "tag", "key", "begin", "end", "physical_offsets", "queue_offsets")
TEXT = (
    *dump_item.text_columns(times=("storeTimestamp",), physicalOffset=14, totalSize=9, storeTimestamp=24),
    *dump_item.text_columns(left=("topic",), topic=20, queueId=7, queueOffset=11),
    *dump_item.text_columns(left=("tags", "keys", "uniqKey"), tags=8, keys=16, uniqKey=32),
)

_KINDS: dict[ValueKind, ColumnKind] = {
    "i4": "int", "i8": "int", "text": "text", "words": "json", "map": "map",
}  # fmt: skip
_SHOWN = tuple(
    column
    for column in (*NUMBERS, *DERIVED)
    if column.kind in _KINDS and column.name not in ("topic", "faults")
)
"""Columns as they are: a topic may be no text, and what is wrong comes last."""

STALE = "stale"
STALE_NOTE = "stale: after the end of the log, left by a truncation"

_REASONS = {
    "": "",
    "end": "up to the end of the file",
    "blank-size": "totalSize is not the rest of the file",
    "magic": "not the magic code of a message",
    "size": "an impossible totalSize",
    "lengths": "lengths that do not add up to totalSize",
    "body-length": "a body that runs past its record",
    "topic-length": "a topic that runs past its record",
    "properties-length": "properties that run past their record",
    "short": "fewer bytes than a header takes",
    "cut": "the file ends before the record does",
    "garbage": "bytes after zeros that start no record",
}


def columns(wanted: DumpFilter) -> tuple[Column, ...]:
    """The machine columns; the body's depend on --body."""
    return (
        Column("topic", "name"),
        *(Column(column.field, _KINDS[column.kind]) for column in _SHOWN),
        Column("properties_raw", "blob"),
        *COLUMNS[wanted.body],
        Column("faults", "json"),
        Column("reason", "text"),
    )


def log_items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """Records and regions of the file in order; with a filter on what only records have, records alone."""
    from rocketfsck.scan.log.live import LiveScan
    from rocketfsck.scan.log.resync import RegionKind
    from rocketfsck.scan.options import ScanOptions
    from rocketfsck.scan.views.messages import MAX_BODY_SIZE, Message, MessageFilter, walk_messages

    filters = MessageFilter(
        topic=wanted.topic,
        queue_id=wanted.queue_id,
        tag=wanted.tag,
        key=wanted.key,
        begin_timestamp=wanted.begin,
        end_timestamp=wanted.end,
        begin_offset=None if wanted.physical_offsets is None else wanted.physical_offsets[0],
        end_offset=None if wanted.physical_offsets is None else wanted.physical_offsets[1],
    )
    live = LiveScan() if _is_log(source) else None
    for found in walk_messages(
        source.reader,
        source.start_offset,
        ScanOptions(
            property_parser=source.property_parser, file_size=source.size, in_entries=source.in_entries
        ),
        filters if wanted.any else None,
        max_body_size=0 if wanted.body == "none" else MAX_BODY_SIZE,
        live=live,
    ):
        if isinstance(found, Message):
            if wanted.has_queue_offset(found.queue_offset):
                stale = live is not None and live.stale_pos is not None and found.pos >= live.stale_pos
                yield record_item(source, wanted, found, stale=stale)
        elif found.kind is not RegionKind.RECORDS and not _only_records(wanted):
            start = source.start_offset + found.start
            if wanted.has_offset(start, start + found.size):
                yield region_item(source, wanted, found)


def _is_log(source: DumpSource) -> bool:
    """Whether the file is one of the commit log: in what is copied from it nothing is stale."""
    if source.store is None:
        return "compactionLog" not in Path(source.reader.path).parts and not _is_segment(source)
    return any(str(file.path) == source.reader.path for file in source.store.commitlog.files)


def _is_segment(source: DumpSource) -> bool:
    """Whether the file is a log segment of tiered storage, which has no fixed length."""
    return tiered.segment_offset(Path(source.reader.path).name) is not None


def _only_records(wanted: DumpFilter) -> bool:
    """Whether a filter asks for something that only records have."""
    asked = (wanted.topic, wanted.queue_id, wanted.tag, wanted.key, wanted.queue_offsets)
    return any(value is not None for value in (*asked, wanted.begin, wanted.end))


def region_item(source: DumpSource, wanted: DumpFilter, region: Region) -> Item:
    """A region that is not records, as an"""
    kind = str(region.kind)
    reason = _REASONS.get(str(region.reason), str(region.reason))
    note = f"{count_of(region.size, 'byte')}{f': {reason}' if reason else ''}"
    values: dict[str, Any] = {"reason": str(region.reason) or None}
    if kind == "blank":
        header = record.BLANK.parse(source.read(region.start, record.BLANK.size))
        note = f"end of the file's records, totalSize {header['totalSize']}{f': {reason}' if reason else ''}"
        blank = dump_item.layout_item(kind, record.BLANK, region.start, header, note)
        return replace(blank, end=region.end, values={**header, **values})
    partial = kind in ("torn", "malformed", "damaged")
    return Item(
        kind,
        region.start,
        region.end,
        values,
        note,
        (lambda: record_spans(source, region.start, region.end, wanted.body)) if partial else None,
    )


def record_item(source: DumpSource, wanted: DumpFilter, message: Message, *, stale: bool) -> Item:
    """A record as an"""
    from rocketfsck.scan.columns import Fault

    if _is_segment(source):  # its records go up to its very end
        message = replace(message, faults=message.faults & ~Fault.END_OF_FILE)
    start, end = message.pos, message.pos + message.total_size
    values = message_values(message) | ({"reason": STALE} if stale else {})
    values |= body_values(message, wanted.body)
    note = ", ".join(word for word in (STALE_NOTE if stale else "", _note(message)) if word)
    return Item("record", start, end, values, note, lambda: record_spans(source, start, end, wanted.body))


def message_values(message: Message) -> dict[str, Any]:
    """A message's fields by RocketMQ's names, all but the body."""
    return {
        "topic": message.topic_bytes,
        **{column.field: column.of(message) for column in _SHOWN},
        "properties_raw": None if _is_said(message) else message.properties_bytes,
        "faults": message.fault_names,
    }


def _is_said(message: Message) -> bool:
    """Whether the pairs say all there is in the properties string, so that it could be made of them again."""
    pairs = message.properties or {}
    written = (properties.serialize_properties(pairs, ending) for ending in (True, False))
    return all(pairs) and message.properties_bytes in written


def _note(message: Message) -> str:
    said = [message.transaction] if magic.transaction_type(message.sys_flag) else []
    if message.sys_flag & magic.INNER_BATCH:
        said.append("inner batch")
    return ", ".join((*said, *(f"odd: {name}" for name in message.fault_names)))


SPECS = {"commitlog": dump_item.Spec(columns, TEXT, FILTERS, log_items)}
