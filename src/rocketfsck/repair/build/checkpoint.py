"""The checkpoint of verified data: times and offsets as a broker that has flushed everything writes them.

physicMsgTimestamp is the last record's, logicsMsgTimestamp that of the newest record with a unit and
logicsPhysicalOffset where it is, indexMsgTimestamp the end of the last full index file. Fields that the
version does not write stay as they are. Reference 5.1; fault catalogue K1 to K3.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketfsck.formats.smallfiles import CHECKPOINT, CHECKPOINT_SIZE, Checkpoint, decode_checkpoint
from rocketfsck.reader.heads import RecordHead
from rocketfsck.reader.index import readable_headers
from rocketfsck.reader.records import LogReader
from rocketfsck.reader.shortqueues import read_short_queues
from rocketfsck.reader.units import Kind, UnitReader, kinds_of
from rocketfsck.repair.log.edit import LogEnd, read_log_end
from rocketfsck.store.model import ConsumeQueue, Store
from rocketfsck.store.reading import read_whole

MAX_SIZE = 1 << 20


def build_checkpoint(
    store: Store, end: LogEnd | None = None, *, newest_offset: int | None = None, zero_tail: bool = False
) -> Checkpoint:
    """The checkpoint that fits the store; `end` is the log's end, if it is known. Raises StoreError.

    `newest_offset` is the physical offset of the newest record with a unit, -1 for none; with None the queues
    are read for it. With `zero_tail` all after the fields of the store's version is damage, even a newer
    version's field. In a file of another length a field tells no version: only what fits the log stays.
    """
    before = read_checkpoint(store)
    known = store.dialect.checkpoint_fields
    is_whole = store.checkpoint is not None and store.checkpoint.size == CHECKPOINT_SIZE
    end = read_log_end(store) if end is None else end
    flushed, confirmed = before.master_flushed_offset, before.confirm_physical_offset
    log_end = end.end_offset if end is not None else 0
    if not 0 <= flushed <= log_end and ("masterFlushedOffset" in known or not is_whole):
        flushed = 0
    if ("confirmPhyOffset" in known or not is_whole) and not _is_zero_or_record(store, confirmed):
        confirmed = end.record_offset if end is not None and "confirmPhyOffset" in known else 0
    if newest_offset is None:
        logics = last_in_queues(store, end)
    else:
        logics = _head_at(store, newest_offset)
    logics_offset = 0 if zero_tail else before.logics_physical_offset
    if not is_whole and not _is_zero_or_record(store, logics_offset):
        logics_offset = 0
    if "logicsPhysicalOffset" in known:
        logics_offset = logics.physical_offset if logics is not None else 0
    return Checkpoint(
        end.store_timestamp if end is not None else 0,
        logics.store_timestamp if logics is not None else 0,
        index_timestamp(store),
        flushed,
        confirmed,
        logics_offset,
    )


def _is_zero_or_record(store: Store, offset: int) -> bool:
    """Whether an offset can stay: 0, as a broker that never recovered has it, or the start of a record."""
    with LogReader(store.commitlog) as log:
        return offset == 0 or log.head(offset) is not None


def read_checkpoint(store: Store) -> Checkpoint:
    """What the checkpoint says now; zeros where there is none, or less of it. Raises StoreError."""
    if store.checkpoint is None:
        return Checkpoint()
    data = read_whole(store.checkpoint.path, MAX_SIZE) if store.checkpoint.size <= MAX_SIZE else b""
    return decode_checkpoint(data[: CHECKPOINT.size].ljust(CHECKPOINT.size, b"\0"))


def last_in_queues(store: Store, end: LogEnd | None) -> RecordHead | None:
    """The newest live record that a unit points to; None without any. Raises StoreError."""
    if end is None:
        return None
    queues = [queue for queue in store.queues if queue.files]
    newest, known = _last_in_short_queues(queues, end.end_offset)
    for number, queue in enumerate(queues):
        if number in known:
            continue
        with UnitReader(queue) as reader:
            last = reader.find_offset(end.end_offset) - 1
            if last < reader.first_index:
                continue
            unit = reader.units(last, 1)
            if int(kinds_of(unit)[0]) == Kind.UNIT:
                newest = max(newest, int(unit["offset"][0]))
    return _head_at(store, newest)


def _head_at(store: Store, offset: int) -> RecordHead | None:
    """The record at a physical offset; None for -1. Raises StoreError."""
    with LogReader(store.commitlog) as log:
        return log.head(offset) if offset >= 0 else None


def _last_in_short_queues(queues: Sequence[ConsumeQueue], end_offset: int) -> tuple[int, set[int]]:
    """The highest physical offset in the sound short queues that end in front of one, and which these are."""
    numbers = [
        number for number, queue in enumerate(queues) if queue.kind == "file" and len(queue.files) == 1
    ]
    files = [queues[number].files[0] for number in numbers]
    short = read_short_queues([file.location for file in files], [file.size for file in files])
    inside = short.last_offset < end_offset
    newest = int(short.last_offset[inside].max(initial=-1))
    return newest, {numbers[place] for place in short.place[inside].tolist()}


def index_timestamp(store: Store) -> int:
    """The endTimestamp of the last full index file: all but the last are; 0 without any."""
    headers = readable_headers(store.indexes)
    return headers[-2][1].end_timestamp if len(headers) > 1 else 0
