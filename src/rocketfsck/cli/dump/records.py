"""Commit log files, and the compaction logs that copy their form: records, BLANKs, and what is neither.

Which bytes are what, `scan` says: its regions tile the file, and its filters act on columns, so that only
the records asked for are read a second time. A body of more than 64 MiB is not shown (null).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocketfsck.cli.bodies import COLUMNS, body_values
from rocketfsck.cli.dump.item import Item, Spec, TextColumn, layout_spans
from rocketfsck.cli.dump.recordspans import record_spans
from rocketfsck.cli.dump.source import DumpFilter, DumpSource
from rocketfsck.cli.output import Column
from rocketfsck.cli.show.text import count_of, timestamp
from rocketfsck.common.rows import ColumnKind
from rocketfsck.formats.columns import DERIVED, NUMBERS, ValueKind
from rocketfsck.formats.magic import INNER_BATCH, transaction_type
from rocketfsck.formats.properties import serialize_properties
from rocketfsck.formats.record import BLANK
from rocketfsck.formats.tiered import segment_offset

if TYPE_CHECKING:
    from rocketfsck.scan.log.regions import Region
    from rocketfsck.scan.views.messages import Message

FILTERS = (
    "topic",
    "queue_id",
    "tag",
    "key",
    "begin",
    "end",
    "physical_offsets",
    "queue_offsets",
)
TEXT = (
    TextColumn("physicalOffset", "physicalOffset", 14),
    TextColumn("totalSize", "totalSize", 9),
    TextColumn("storeTimestamp", "storeTimestamp", 24, render=timestamp),
    TextColumn("topic", "topic", 20, right=False),
    TextColumn("queueId", "queueId", 7),
    TextColumn("queueOffset", "queueOffset", 11),
    TextColumn("tags", "tags", 8, right=False),
    TextColumn("keys", "keys", 16, right=False),
    TextColumn("uniqKey", "uniqKey", 32, right=False),
)

_KINDS: dict[ValueKind, ColumnKind] = {
    "i4": "int",
    "i8": "int",
    "text": "text",
    "words": "json",
    "map": "map",
}
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
    from rocketfsck.scan.log.regions import RegionKind
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
    return segment_offset(Path(source.reader.path).name) is not None


def _only_records(wanted: DumpFilter) -> bool:
    """Whether a filter asks for something that only records have."""
    asked = (wanted.topic, wanted.queue_id, wanted.tag, wanted.key, wanted.queue_offsets)
    return any(value is not None for value in (*asked, wanted.begin, wanted.end))


def region_item(source: DumpSource, wanted: DumpFilter, region: Region) -> Item:
    """A region that is not records, as an item."""
    kind = str(region.kind)
    reason = _REASONS.get(str(region.reason), str(region.reason))
    note = f"{count_of(region.size, 'byte')}{f': {reason}' if reason else ''}"
    values: dict[str, Any] = {"reason": str(region.reason) or None}
    if kind == "blank":
        header = BLANK.parse(source.read(region.start, BLANK.size))
        note = f"end of the file's records, totalSize {header['totalSize']}{f': {reason}' if reason else ''}"
        return Item(
            kind,
            region.start,
            region.end,
            {**header, **values},
            note,
            lambda: layout_spans(BLANK, region.start, header),
        )
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
    """A record as an item."""
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
    written = (serialize_properties(pairs, ending) for ending in (True, False))
    return all(pairs) and message.properties_bytes in written


def _note(message: Message) -> str:
    said = [message.transaction] if transaction_type(message.sys_flag) else []
    if message.sys_flag & INNER_BATCH:
        said.append("inner batch")
    return ", ".join((*said, *(f"odd: {name}" for name in message.fault_names)))


SPECS = {"commitlog": Spec(columns, TEXT, FILTERS, log_items)}
