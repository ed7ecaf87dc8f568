"""Messages of a commit log file as Python values, region by region, with filters.

For people and programs that want the whole message; what counts or checks works on the columns instead. The
filters act on the columns (by hash, then exactly), so only what is asked for is read a second time.
Reference 2.1 to 2.7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats import magic
from rocketfsck.formats.columns import BORN_HOST_AT, NUMBERS, store_host_place
from rocketfsck.formats.javatext import index_hash, java_decode, java_encode
from rocketfsck.formats.properties import parse_properties, split_keys, tags_code
from rocketfsck.formats.record import RecordHeader, decode_host
from rocketfsck.scan.columns import Fault, RecordBatch, Trait, fault_name
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.log.resync import Region
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import PropertyParser, ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.reading import FileReader

_NUMBERS = ("pos", *(column.attribute for column in NUMBERS), "body_pos", "tags_code")
"""Fields of a message that are columns of the scan as they are."""

MAX_BODY_SIZE = 64 << 20
"""A body longer than this is not read into a `Message` unless the caller asks for more."""

_HOSTS_SIZE = store_host_place(magic.BORN_HOST_V6) + magic.IPV6_HOST_SIZE - BORN_HOST_AT


@dataclass(frozen=True, kw_only=True)
class Message(RecordHeader[str]):
    """One record of a commit log file, every field as on disk.

    `pos` is the file position of its first byte, `physical_offset` the field's value. Timestamps in ms,
    sizes in bytes as on disk (a negative `body_size` is read as 0). Hosts are `address:port`. `body` is the
    stored bytes (maybe compressed), None where it was not asked for or is too long. `topic` is what Java
    makes of `topic_bytes`. `properties` is what the broker's parser sees, None without any. `run` numbers
    the unbroken runs of records in the file.
    """

    path: str
    pos: int
    body_size: int
    body_pos: int
    body: bytes | None
    topic: str
    topic_bytes: bytes
    properties_size: int
    properties_bytes: bytes
    properties: dict[str, str] | None
    tags_code: int
    faults: Fault
    traits: Trait
    run: int

    @property
    def transaction(self) -> str:
        return magic.TRANSACTION_NAMES[magic.transaction_type(self.sys_flag)]

    @property
    def compression(self) -> str | None:
        """How the body is compressed, None if it is not."""
        kind = magic.compression_type(self.sys_flag)
        return magic.COMPRESSION_NAMES.get(kind, f"type {kind}") if self.sys_flag & magic.COMPRESSED else None

    @property
    def fault_names(self) -> list[str]:
        """What is wrong in the record, in words."""
        return [fault_name(fault) for fault in self.faults]

    @property
    def tags(self) -> str | None:
        return (self.properties or {}).get("TAGS")

    @property
    def unique_key(self) -> str | None:
        return (self.properties or {}).get("UNIQ_KEY")

    @cached_property
    def keys(self) -> list[str]:
        """The words of KEYS, in order."""
        return split_keys((self.properties or {}).get("KEYS", ""))


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Which messages are wanted; what is None does not matter. Ranges are half-open.

    `tag` is the whole TAGS value. `key` is a word of KEYS or the UNIQ_KEY. Timestamps are storeTimestamps in
    ms, offsets are places in the commit log (where a record stands, not what its physicalOffset says).
    """

    topic: str | None = None
    queue_id: int | None = None
    tag: str | None = None
    key: str | None = None
    begin_timestamp: int | None = None
    end_timestamp: int | None = None
    begin_offset: int | None = None
    end_offset: int | None = None

    def rows(self, batch: RecordBatch, table: QueueTable, base_offset: int) -> NDArray[np.intp]:
        """The rows of a batch that may match: all conditions but the exact words of tag and key."""
        offset = batch["pos"] + base_offset
        keep = np.ones(batch.record_count, np.bool_)
        times = (self.begin_timestamp, self.end_timestamp, batch["store_timestamp"])
        for low, high, column in (times, (self.begin_offset, self.end_offset, offset)):
            if low is not None:
                keep &= column >= low
            if high is not None:
                keep &= column < high
        if self.queue_id is not None:
            keep &= batch["queue_id"] == self.queue_id
        if self.topic is not None:
            keep &= self._topic_rows(batch["queue_index"], table)
        if self.tag is not None:
            keep &= batch["tags_code"] == tags_code(self.tag)
        if self.key is not None:
            keep &= self._key_rows(batch, table, self.key)
        return np.flatnonzero(keep)

    def _topic_rows(self, queue_index: NDArray[np.generic], table: QueueTable) -> NDArray[np.bool_]:
        assert self.topic is not None
        topic = java_encode(self.topic)
        known = np.array([name == topic for name, _ in table.names] + [False], np.bool_)
        known[-1] = table.turned_away_count > 0
        rows: NDArray[np.bool_] = known[queue_index]
        return rows

    def _key_rows(self, batch: RecordBatch, table: QueueTable, key: str) -> NDArray[np.bool_]:
        hashes = np.array([index_hash(java_decode(topic), key) for topic, _ in table.names] + [0], np.int32)
        record, queue = batch["key_record"], batch["queue_index"]
        hits = (batch["key_hash"] == hashes[queue[record]]) | (queue[record] < 0)
        found = np.zeros(batch.record_count, np.bool_)
        found[record[hits]] = True
        return found

    def accepts(self, message: Message) -> bool:
        """The conditions that need the record's own words."""
        return (
            (self.topic is None or message.topic == self.topic)
            and (self.tag is None or (message.tags or "") == self.tag)
            and (self.key is None or self.key == message.unique_key or self.key in message.keys)
        )


def walk_messages(
    reader: FileReader,
    base_offset: int,
    options: ScanOptions,
    wanted: MessageFilter | None = None,
    *,
    max_body_size: int = MAX_BODY_SIZE,
    live_only: bool = False,
    live: LiveScan | None = None,
) -> Iterator[Message | Region]:
    """Yield the messages wanted and all regions of a log file in file order (messages before their region).

    `max_body_size` of 0 leaves the bodies out. `live_only` gives no regions, and ends where a stale tail
    begins (`scan.log.live`). `live` sees all that is walked over: a message at its `stale_pos` or after it
    is stale. Raises StoreError when bytes cannot be read.
    """
    table = QueueTable()
    walk: Callable[..., Iterator[RecordBatch | Region]] = scan_log_file
    if live_only:
        walk = LiveScan().batches
    elif live is not None:
        walk = partial(live.walk, past_end=True)
    for found in walk(reader, base_offset, options, table):
        if isinstance(found, Region):
            yield found
            continue
        rows = None if wanted is None else wanted.rows(found, table, base_offset)
        for row in range(found.record_count) if rows is None else rows.tolist():
            message = read_message(reader, found, row, options.property_parser, max_body_size)
            if wanted is None or wanted.accepts(message):
                yield message


def read_messages(
    reader: FileReader,
    base_offset: int,
    options: ScanOptions,
    wanted: MessageFilter | None = None,
    *,
    max_body_size: int = MAX_BODY_SIZE,
    live_only: bool = False,
) -> Iterator[Message]:
    """As `walk_messages`, the messages only."""
    found = walk_messages(
        reader, base_offset, options, wanted, max_body_size=max_body_size, live_only=live_only
    )
    yield from (message for message in found if isinstance(message, Message))


def read_message(
    reader: FileReader,
    batch: RecordBatch,
    row: int,
    parser: PropertyParser,
    max_body_size: int = MAX_BODY_SIZE,
) -> Message:
    """The message of one row of a batch of that file."""
    columns = batch.records
    number = {name: int(columns[name][row]) for name in _NUMBERS}
    pos, body_size, body_pos = number["pos"], max(number["body_size"], 0), number["body_pos"]
    properties_size = max(number["properties_size"], 0)
    topic_pos, topic_size = int(columns["topic_pos"][row]), int(columns["topic_size"][row])
    properties_pos = int(columns["properties_pos"][row])
    hosts = reader.read_upto(pos + BORN_HOST_AT, _HOSTS_SIZE)
    store_at = store_host_place(number["sys_flag"]) - BORN_HOST_AT
    is_v6 = number["sys_flag"] & magic.STORE_HOST_V6
    store_end = store_at + (magic.IPV6_HOST_SIZE if is_v6 else magic.IPV4_HOST_SIZE)
    with_body = max_body_size > 0 and body_size <= max_body_size
    tail_pos = body_pos if with_body else topic_pos
    tail = memoryview(reader.read(tail_pos, properties_pos + properties_size - tail_pos))
    topic = bytes(tail[topic_pos - tail_pos : topic_pos - tail_pos + topic_size])
    properties = bytes(tail[properties_pos - tail_pos :])
    return Message(
        path=reader.path,
        **number,
        born_host=decode_host(hosts[: store_at - 8]).text,
        store_host=decode_host(hosts[store_at:store_end]).text,
        body=bytes(tail[:body_size]) if with_body else None,
        topic=java_decode(topic),
        topic_bytes=topic,
        properties_bytes=properties,
        properties=parse_properties(properties, parser),
        faults=Fault(int(columns["faults"][row])),
        traits=Trait(int(columns["traits"][row])),
        run=batch.run,
    )
