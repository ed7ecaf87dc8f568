"""Messages and columns of a whole store: what the package exports on top of the layers' own functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rocketfsck.errors import UsageError
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import log_options
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.views.messages import MAX_BODY_SIZE, Message, MessageFilter, read_messages
from rocketfsck.store.model import MappedFile, QueueKind, Store
from rocketfsck.store.reading import FileReader

if TYPE_CHECKING:
    import pyarrow as pa


def iter_messages(
    store: Store,
    *,
    topic: str | None = None,
    queue_id: int | None = None,
    tag: str | None = None,
    key: str | None = None,
    begin_timestamp: int | None = None,
    end_timestamp: int | None = None,
    begin_offset: int | None = None,
    end_offset: int | None = None,
    max_body_size: int = MAX_BODY_SIZE,
    live_only: bool = False,
) -> Iterator[Message]:
    """Every message of the commit log in its order, or those that match all that is asked for.

    `key` is a word of KEYS or the UNIQ_KEY, `tag` the whole TAGS. Timestamps are storeTimestamps in ms and
    offsets physical offsets, half-open. Bodies above `max_body_size` bytes are None (0: no bodies at all).
    Records in every sound run are given, those behind damage, too, and those that a truncation left behind
    the log's end; `live_only` leaves the latter out. Raises StoreError when
    bytes cannot be read.
    """
    wanted = MessageFilter(
        topic=topic,
        queue_id=queue_id,
        tag=tag,
        key=key,
        begin_timestamp=begin_timestamp,
        end_timestamp=end_timestamp,
        begin_offset=begin_offset,
        end_offset=end_offset,
    )
    for _, message in placed_messages(
        store, wanted, read_bodies=True, max_body_size=max_body_size, live_only=live_only
    ):
        yield message


def placed_messages(
    store: Store, wanted: MessageFilter, *, read_bodies: bool, max_body_size: int, live_only: bool
) -> Iterator[tuple[MappedFile, Message]]:
    """As `iter_messages`, each message with the file that holds it; no CRC is compared without `read_bodies`.

    Raises StoreError when bytes cannot be read.
    """
    for file in _files(store, wanted.begin_offset, wanted.end_offset):
        with FileReader(file.path) as reader:
            for message in read_messages(
                reader,
                file.start_offset or 0,
                log_options(store, file, read_bodies=read_bodies),
                wanted,
                max_body_size=max_body_size,
                live_only=live_only,
            ):
                yield file, message


def read_columns(
    store: Store,
    columns: Sequence[str] | None = None,
    *,
    read_bodies: bool = False,
    begin_offset: int | None = None,
    end_offset: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The records of the commit log as Arrow record batches, one row a record, in the log's order.

    `columns` are names of `scan.views.arrow.ALL_COLUMNS`; None gives those of `SCAN_COLUMNS` there
    after `file`, `offset` and `topic`. `topic` is text as Java decodes it, `offset` the place in the commit
    log. `read_bodies` also compares the CRCs (bits of `faults`). The offsets choose whole files. Raises
    UsageError for an unknown column and StoreError when bytes cannot be read.
    """
    from rocketfsck.scan.views import arrow

    names = tuple(columns) if columns is not None else (*arrow.FILE_COLUMNS, *arrow.SCAN_COLUMNS)
    unknown = set(names) - set(arrow.ALL_COLUMNS)
    if unknown:
        raise UsageError(f"no column has the name {', '.join(sorted(unknown))}")
    for file in _files(store, begin_offset, end_offset):
        table = QueueTable()
        base_offset = file.start_offset or 0
        with FileReader(file.path) as reader:
            options = log_options(store, file, read_bodies=read_bodies)
            for found in scan_log_file(reader, base_offset, options, table):
                if isinstance(found, RecordBatch):
                    yield arrow.records_to_arrow(
                        arrow.LogBatch(found, table, base_offset, file.relative, reader), names
                    )


def read_units(
    store: Store, topic: str, queue_id: int, *, kind: QueueKind | None = None
) -> Iterator[pa.RecordBatch]:
    """The units of one consume queue as Arrow record batches, one row a unit, in the queue's order.

    `index` is the unit's place in its queue and `kind` what a broker takes it for: `unit`, `zero` (nothing),
    `pre_blank` or `invalid`; then its own fields. `kind` "batch" asks for the 46-byte units where a topic has
    both. Raises UsageError if there is no such queue and StoreError when bytes cannot be read.
    """
    from rocketfsck.reader.units import Kind, UnitReader, kinds_of, read_blocks
    from rocketfsck.scan.views.arrow import units_to_arrow

    queues = [
        queue
        for queue in store.queues
        if (queue.topic, queue.queue_id) == (topic, queue_id) and kind in (None, queue.kind)
    ]
    if not queues:
        raise UsageError(f"no consume queue {queue_id} of the topic {topic!r}")
    names = [name.name.lower() for name in Kind]
    with UnitReader(queues[0]) as reader:
        for index, units in read_blocks(reader):
            yield units_to_arrow(index, units, kinds_of(units), names, queues[0].kind)


def read_entries(store: Store, index: int) -> Iterator[pa.RecordBatch]:
    """The entries in use of `store.indexes[index]` as Arrow record batches, in the order of their putting.

    `entry` numbers them from 1; the other columns are their fields. Raises UsageError if there is no such
    index file and StoreError when bytes cannot be read.
    """
    from rocketfsck.reader.index import BLOCK_COUNT, IndexReader
    from rocketfsck.scan.views.arrow import entries_to_arrow

    if not 0 <= index < len(store.indexes):
        raise UsageError(f"no index file {index}; the store has {len(store.indexes)}")
    with IndexReader(store.indexes[index], store.geometry) as reader:
        for first in range(1, reader.used_entry + 1, BLOCK_COUNT):
            count = min(BLOCK_COUNT, reader.used_entry + 1 - first)
            yield entries_to_arrow(first, reader.entries(first, count))


def _files(store: Store, begin_offset: int | None, end_offset: int | None) -> Iterator[MappedFile]:
    for file in store.commitlog.files:
        start = file.start_offset or 0
        if (begin_offset is None or start + file.size > begin_offset) and (
            end_offset is None or start < end_offset
        ):
            yield file
