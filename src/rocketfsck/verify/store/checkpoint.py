"""Checks of `checkpoint`, `abort` and `lock`, and of what the next start would do because of them.

Reference 1.7, 4.8, 5, 6.4, 9.5; fault classes I1, K1-K4, H3.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.formats.checkpoint import CHECKPOINT, CHECKPOINT_SIZE, Checkpoint, decode_checkpoint
from rocketfsck.formats.indexfile import IndexHeader
from rocketfsck.formats.markers import is_lock_content
from rocketfsck.reader.heads import begins_record, first_head
from rocketfsck.reader.index import read_header
from rocketfsck.store.elsewhere import has_log_elsewhere
from rocketfsck.store.model import IndexFile, Store, StoreFile
from rocketfsck.store.reading import FileReader, read_whole
from rocketfsck.verify.finding import Facts, Finding, Where
from rocketfsck.verify.report import NotChecked
from rocketfsck.verify.store.checkpointtail import check_tail
from rocketfsck.verify.store.epoch import check_epochs, check_identity
from rocketfsck.verify.tasks.facts import Known
from rocketfsck.verify.tasks.task import Context

CLOCK_TOLERANCE_MS = 86_400_000
"""A time is in the future when it is this much later than now: the broker's clock is not this machine's."""

MAX_SIZE = 1 << 20
_TIMES = ("physicMsgTimestamp", "logicsMsgTimestamp", "indexMsgTimestamp")


def check_checkpoint(context: Context, known: Known) -> Iterator[Finding | NotChecked]:
    """Everything about the small files at the store's root."""
    store = context.store
    checkpoint = Checkpoint()
    if store.checkpoint is not None:
        try:
            data = read_whole(store.checkpoint.path, MAX_SIZE)
        except StoreError as error:
            yield NotChecked(store.checkpoint.relative, str(error), operational=True)
            return
        checkpoint = decode_checkpoint(data.ljust(CHECKPOINT.size, b"\0"))
        yield from _check_shape(store.checkpoint, data)
        yield from check_tail(store, store.checkpoint, data, known)
        yield from _check_values(context, store.checkpoint, checkpoint, known)
        yield from _check_confirm_offset(store, store.checkpoint, checkpoint, known)
        yield from _check_master_offset(store, store.checkpoint, checkpoint, known)
        yield from _check_logics_offset(store, store.checkpoint, checkpoint, known)
    elif store.commitlog.files and not store.log_only:
        yield Finding(RuleName.CHECKPOINT_MISSING, Where(file="checkpoint"))
    headers = []
    for index in store.indexes:
        try:
            headers.append((index, read_header(index.location)))
        except StoreError as error:
            yield NotChecked(index.relative, str(error), operational=True)
    if store.checkpoint is not None:
        yield from _check_index_time(store.checkpoint, checkpoint, headers)
    yield from _check_abort(store, checkpoint, headers)
    yield from _check_lock(store)
    yield from check_epochs(store, known)
    yield from check_identity(store)


def _check_shape(file: StoreFile, data: bytes) -> Iterator[Finding]:
    if len(data) != CHECKPOINT_SIZE:
        where = Where(file=file.relative, start=0, end=len(data))
        yield Finding(RuleName.CHECKPOINT_LENGTH, where, {"size": len(data)}, {"size": CHECKPOINT_SIZE})


def _check_values(
    context: Context, file: StoreFile, checkpoint: Checkpoint, known: Known
) -> Iterator[Finding]:
    """Fields that this version does not write are whatever an older or newer one left: not judged."""
    values = checkpoint.values()
    now = _broker_now(context, file)
    newest, oldest = known.max_store_timestamp, known.min_store_timestamp
    for name in context.store.dialect.checkpoint_fields:
        value, where = values[name], _field(file, name)
        found: Facts = {"field": name, "value": value}
        if value < 0:
            yield Finding(RuleName.CHECKPOINT_NEGATIVE, where, found)
        elif name in _TIMES and value > max(now + CLOCK_TOLERANCE_MS, newest or 0):
            yield Finding(RuleName.CHECKPOINT_FUTURE, where, found, {"now_timestamp": now})
        elif name in _TIMES and newest is not None and value > newest:
            yield Finding(RuleName.CHECKPOINT_AHEAD, where, found, {"newest_timestamp": newest})
        elif name in _TIMES[:2] and oldest is not None and value < oldest and context.store.abort is None:
            yield Finding(RuleName.CHECKPOINT_BEHIND, where, found, {"oldest_timestamp": oldest})

    # Without any unit a zero is sound: nothing was dispatched, and no message had waited for a flush.
    zero = checkpoint.physic_msg_timestamp == checkpoint.logics_msg_timestamp == 0
    if zero and context.store.queues and _has_records(context.store):
        yield Finding(RuleName.CHECKPOINT_ZERO, Where(file=file.relative, start=0, end=16))


def _broker_now(context: Context, file: StoreFile) -> int:
    """Now (ms), by this machine's clock or by the broker's as its files show it, whichever is later."""
    files = (file, *context.store.commitlog.files)
    return max(context.now_timestamp, max(item.mtime_ns for item in files) // 1_000_000)


def _has_records(store: Store) -> bool:
    return bool(store.commitlog.files) and first_head(store.commitlog.files[0]) is not None


def _check_confirm_offset(
    store: Store, file: StoreFile, checkpoint: Checkpoint, known: Known
) -> Iterator[Finding]:
    value, name = checkpoint.confirm_physical_offset, "confirmPhyOffset"
    start = store.commitlog.start_offset
    end = known.end_offset if known.complete else store.commitlog.end_offset
    if name not in store.dialect.checkpoint_fields or start is None or end is None:
        return
    where = _field(file, name, physical_offset=value)
    if value > end:
        yield Finding(RuleName.CONFIRM_OFFSET_AHEAD, where, {"value": value}, {"end_offset": end})
    elif max(start, 1) <= value < end and not begins_record(store.commitlog, value):
        yield Finding(RuleName.CONFIRM_OFFSET, where, {"value": value})


def _check_master_offset(
    store: Store, file: StoreFile, checkpoint: Checkpoint, known: Known
) -> Iterator[Finding]:
    """What the master had flushed, as it said to its slave: ahead of a slave that has not all of it yet."""
    value, name = checkpoint.master_flushed_offset, "masterFlushedOffset"
    end = known.end_offset if known.complete else store.commitlog.end_offset
    if name in store.dialect.checkpoint_fields and end is not None and value > end:
        where = _field(file, name, physical_offset=value)
        yield Finding(RuleName.MASTER_FLUSHED_AHEAD, where, {"value": value}, {"end_offset": end})


def _check_logics_offset(
    store: Store, file: StoreFile, checkpoint: Checkpoint, known: Known
) -> Iterator[Finding]:
    """Where the last record is whose unit was flushed: 0 until a broker has flushed for the first time."""
    value, name = checkpoint.logics_physical_offset, "logicsPhysicalOffset"
    start = store.commitlog.start_offset
    end = known.end_offset if known.complete else store.commitlog.end_offset
    if (
        name not in store.dialect.checkpoint_fields
        or start is None
        or end is None
        or has_log_elsewhere(store)
    ):
        return
    where = _field(file, name, physical_offset=value)
    if value >= max(end, 1):
        yield Finding(RuleName.LOGICS_OFFSET_AHEAD, where, {"value": value}, {"end_offset": end})
    elif max(start, 1) <= value and not begins_record(store.commitlog, value):
        yield Finding(RuleName.LOGICS_OFFSET, where, {"value": value})


def _check_index_time(
    file: StoreFile, checkpoint: Checkpoint, headers: list[tuple[IndexFile, IndexHeader | None]]
) -> Iterator[Finding]:
    full = [header for _, header in headers[:-1] if header is not None]
    expected = full[-1].end_timestamp if full else 0
    if checkpoint.index_msg_timestamp != expected:
        where = _field(file, "indexMsgTimestamp")
        yield Finding(
            RuleName.CHECKPOINT_INDEX_TIME,
            where,
            {"value": checkpoint.index_msg_timestamp},
            {"value": expected},
        )


def _check_abort(
    store: Store, checkpoint: Checkpoint, headers: list[tuple[IndexFile, IndexHeader | None]]
) -> Iterator[Finding]:
    """An unclean stop, and what the next start makes of it."""
    if store.abort is None:
        return
    where = Where(file=store.abort.relative, start=0, end=store.abort.size)
    if store.live.locked:
        yield Finding(RuleName.ABORT_OF_RUNNING_BROKER, where, {"pid": store.live.holder_pid})
        return
    yield Finding(RuleName.ABORT_PRESENT, where)
    for index, header in headers:
        if header is None or header.end_timestamp <= checkpoint.index_msg_timestamp or not header.entry_count:
            continue
        found = {
            "entry_count": header.entry_count,
            "begin_timestamp": header.begin_timestamp,
            "end_timestamp": header.end_timestamp,
        }
        place = Where(file=index.relative, start=0, end=index.size)
        yield Finding(
            RuleName.INDEX_FILE_DOOMED, place, found, {"index_msg_timestamp": checkpoint.index_msg_timestamp}
        )
    yield from _predict_start(store, checkpoint)


def _predict_start(store: Store, checkpoint: Checkpoint) -> Iterator[Finding]:
    """From which file an abnormal recovery scans. Reference 6.4."""
    files = store.commitlog.files
    if not files:
        return
    dialect, safe = store.dialect, _index_safe(store)
    limit = checkpoint.min_timestamp_index if safe else checkpoint.min_timestamp
    start, written = len(files) - 1, 0
    least = max(len(files) - dialect.recovery_file_limit, 0) if dialect.recovery_file_limit else -1
    while start >= 0:
        head = first_head(files[start])
        written += head is not None
        if start == least > 0:
            break  # looked at as many files as it does
        if (
            head is not None
            and head.store_timestamp != 0
            and checkpoint.covers(
                head.physical_offset, head.store_timestamp, dialect.recovery_mark, index_safe=safe
            )
        ):
            break
        start -= 1
    chosen = files[max(start, 0)]
    where = Where(file=chosen.relative, physical_offset=chosen.start_offset)
    found = {
        "scan_count": len(files) - max(start, 0),
        "file_count": len(files),
        "physic_msg_timestamp": checkpoint.physic_msg_timestamp,
        "logics_msg_timestamp": checkpoint.logics_msg_timestamp,
        "limit_timestamp": limit,
    }
    # A log of one file, and what was made in advance after it, is scanned whole in any case.
    yield Finding(
        RuleName.RECOVERY_SCANS_ALL if start < 0 and written > 1 else RuleName.RECOVERY_START, where, found
    )


def _index_safe(store: Store) -> bool:
    """Whether a recovery also goes back to what the full index files hold."""
    return store.settings.flag("messageIndexEnable", True) and store.settings.flag("messageIndexSafe", False)


def _check_lock(store: Store) -> Iterator[Finding | NotChecked]:
    if store.lock is None:
        return
    try:
        with FileReader(store.lock.path) as reader:
            data = reader.read_upto(0, 16)
    except StoreError as error:
        yield NotChecked(store.lock.relative, str(error), operational=True)
        return
    if not is_lock_content(data):
        yield Finding(
            RuleName.LOCK_CONTENT,
            Where(file=store.lock.relative, start=0, end=len(data)),
            {"bytes_hex": data.hex()},
        )


def _field(file: StoreFile, name: str, physical_offset: int | None = None) -> Where:
    start = CHECKPOINT.offset(name)
    return Where(file=file.relative, start=start, end=start + 8, physical_offset=physical_offset)
