"""Checks of `checkpoint`, `abort` and `lock`, and of what the next start would do because of them.

Reference 1.7, 4.8, 5, 6.4, 9.5; fault classes I1, K1-K4, H3.

The bytes of a checkpoint after its known fields: zeros, damage, or fields of a newer broker. ADR 0011.

    tail := zero*  |  long[1..FIELD_LIMIT] zero*      each long 0, an offset, a time or a number

Reference 5.1.

Checks of the controller-mode epoch file against itself and the commit log (reference 1.7, class H3).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats import smallfiles
from rocketfsck.formats.checkpoint import CHECKPOINT, CHECKPOINT_SIZE, Checkpoint, decode_checkpoint
from rocketfsck.formats.indexfile import IndexHeader
from rocketfsck.reader.configs import BACKUP, EPOCH_LIMIT, epoch_files
from rocketfsck.reader.heads import begins_record, first_head
from rocketfsck.reader.index import read_header
from rocketfsck.store.elsewhere import has_log_elsewhere
from rocketfsck.store.model import IndexFile, MappedFileQueue, OtherKind, Store, StoreFile
from rocketfsck.store.openfiles import OpenFiles
from rocketfsck.store.reading import FileReader, read_whole
from rocketfsck.verify.finding import Facts, Finding, Findings, Where
from rocketfsck.verify.report import Items, NotChecked
from rocketfsck.verify.tasks.task import Context, Known

# Checks of who a broker in controller mode takes itself for: `brokerIdentity` and its forerunner.
#
#     brokerIdentity       cluster#brokerName#brokerId                     read first
#     brokerIdentity-temp  cluster#brokerName#brokerId#registerCheckCode   read where the first gives nothing
#
# Written once when the broker registers. Reference 1.7.

EPOCH_SIZE_LIMIT = 1 << 16
NAMES = {"cluster": "brokerClusterName", "broker_name": "brokerName"}
"""What must be the same in broker.conf, by the field here."""


def check_identity(store: Store) -> Items:
    """The identity files; nobody reads a `.bak`, nor a `-temp` next to a sound identity."""
    files = [
        file for other in store.others if other.kind is OtherKind.BROKER_IDENTITY for file in other.files
    ]
    for file in sorted(files, key=lambda file: file.name):
        if file.name.endswith(".bak"):
            continue
        try:
            data = read_whole(file.path, EPOCH_SIZE_LIMIT)
            identity = smallfiles.decode_broker_identity(data, is_temp=file.name.endswith("-temp"))
        except FormatError as error:
            where = Where(file.relative, error.offset, file.size)
            yield Finding(RuleName.IDENTITY_DAMAGED, where, {"reason": str(error)})
        except StoreError as error:
            yield NotChecked(file.relative, str(error), operational=True)
        else:
            found = {setting: str(getattr(identity, name)) for name, setting in NAMES.items()}
            yield from _differing(store, file, found)
            return


def _differing(store: Store, file: StoreFile, found: dict[str, str]) -> Findings:
    where = Where(file.relative, 0, file.size)
    for name, value in found.items():
        stated = (store.settings.get(name) or "").strip()
        if stated and stated != value:
            yield Finding(RuleName.IDENTITY_DIFFERS, where, {"name": name, "value": value}, {"value": stated})


HEADER_LINES = 2


def check_epochs(store: Store, known: Known) -> Items:
    """The epoch file; its .bak only where the file itself is damaged."""
    files = epoch_files(store)
    for name, file in sorted(files.items()):
        if name.endswith(BACKUP):
            continue
        try:
            data = read_whole(file.path, EPOCH_LIMIT)
            epochs = smallfiles.decode_epochs(data)
        except FormatError as error:
            backup = files.get(f"{name}{BACKUP}")
            found = {"reason": str(error), "backup_state": _backup_state(backup)}
            yield Finding(RuleName.EPOCH_DAMAGED, Where(file.relative, error.offset), found)
        except StoreError as error:
            yield NotChecked(file.relative, str(error), operational=True)
        else:
            yield from _check_entries(store, known, file, epochs, _line_ends(data))


def _line_ends(data: bytes) -> list[int]:
    """Where each line ends, its separator included; the lines are those that the entries were read from."""
    return list(accumulate(map(len, data.splitlines(keepends=True))))


def _backup_state(backup: StoreFile | None) -> str:
    if backup is None:
        return "absent"
    try:
        smallfiles.decode_epochs(read_whole(backup.path, EPOCH_LIMIT))
    except StoreError:
        return "damaged"
    return "sound"


def _check_entries(
    store: Store, known: Known, file: StoreFile, epochs: smallfiles.EpochFile, line_ends: Sequence[int]
) -> Findings:
    """Order, range and boundaries. A start below the log has expired; equal starts are empty epochs."""
    log_start = store.commitlog.start_offset
    end = known.end_offset if known.complete else store.commitlog.end_offset
    previous: smallfiles.EpochEntry | None = None
    for number, entry in enumerate(epochs.entries, HEADER_LINES + 1):
        where = Where(
            file.relative, line_ends[number - 2], line_ends[number - 1], physical_offset=entry.start_offset
        )
        found = {"line": number, "epoch": entry.epoch, "start_offset": entry.start_offset}
        if previous is not None and (
            entry.epoch <= previous.epoch or entry.start_offset < previous.start_offset
        ):
            order = {"previous_epoch": previous.epoch, "previous_physical_offset": previous.start_offset}
            yield Finding(RuleName.EPOCH_ORDER, where, {**found, **order})
        if end is not None and entry.start_offset > end:
            yield Finding(RuleName.EPOCH_RANGE, where, found, {"end_offset": end})
        elif (
            log_start is not None
            and end is not None
            and log_start <= entry.start_offset < end
            and not begins_record(store.commitlog, entry.start_offset)
        ):
            yield Finding(RuleName.EPOCH_BOUNDARY, where, found)
        previous = entry


FIELD_LIMIT = 8
"""Longs behind the known fields that may be fields of a newer broker; what is further behind is damage."""

_LAST_KNOWN = "logicsPhysicalOffset"
NUMBER_BITS = 53
"""Numbers of 2^53 or more are later than any time in microseconds: most random bytes are."""
_LONG = struct.Struct(">q")
_STARTS = struct.Struct(">qq")
"""The two times that every checkpoint of a broker with messages has."""


def check_tail(store: Store, file: StoreFile, data: bytes, known: Known) -> Findings:
    """Finds CP026 on each field that the store's version does not write, or CP008 where the bytes are not
    such fields. Fields of versions that left no other traces are looked at, too: a stray value is damage."""
    known_size = (
        CHECKPOINT.size if _LAST_KNOWN in store.dialect.checkpoint_fields else CHECKPOINT.offset(_LAST_KNOWN)
    )
    tail = data[known_size:]
    if not any(tail):
        return
    first = known_size + len(tail) - len(tail.lstrip(b"\0"))
    end = known_size + len(tail.rstrip(b"\0"))
    fields = [(pos, value) for pos, (value,) in _longs(tail, known_size) if value]
    sound = len(data) == CHECKPOINT_SIZE and end <= known_size + FIELD_LIMIT * _LONG.size
    whole = all(value > 0 for value in _STARTS.unpack_from(data)) if sound else False
    kinds = [_kind(store, value, known, whole) if sound else None for _, value in fields]
    if None in kinds:
        found = {"bytes_hex": data[first : min(end, first + 16)].hex()}
        yield Finding(RuleName.CHECKPOINT_TAIL, Where(file.relative, first, end), found)
        return
    for (pos, value), kind in zip(fields, kinds, strict=True):
        where = Where(file.relative, pos, pos + _LONG.size)
        yield Finding(RuleName.CHECKPOINT_FIELD_UNKNOWN, where, {"value": value, "kind": kind})


def _kind(store: Store, value: int, known: Known, whole: bool) -> str | None:
    """`kind_of`; in a checkpoint that is `whole` in its known fields, any other "number", too."""
    return kind_of(store, value, known) or ("number" if whole and is_number(value) else None)


def is_number(value: int) -> bool:
    """Whether a long is such as programs write, a count or a time in microseconds, and not a flipped bit, nor
    a long that was written across two."""
    return 0 < value < 1 << NUMBER_BITS and value & (value - 1) != 0 and value & 0xFFFFFFFF != 0


def _longs(tail: bytes, first: int) -> Iterator[tuple[int, tuple[int]]]:
    whole = tail[: len(tail) // _LONG.size * _LONG.size]
    return zip(range(first, CHECKPOINT_SIZE, _LONG.size), _LONG.iter_unpack(whole), strict=False)


def kind_of(store: Store, value: int, known: Known) -> str | None:
    """What a number of a newer broker's can be: "offset" of a record or of the log's end, "time" of the log's
    records; None: neither, as far as the log is here to tell. Raises StoreError."""
    if value <= 0:
        return None
    log = store.commitlog
    end = log.end_offset if known.end_offset is None else known.end_offset
    if has_log_elsewhere(store) or log.start_offset is None or end is None:
        return "offset"  # nothing here contradicts that
    if value < max(log.start_offset, 1):
        return "offset"  # an older broker leaves the field as it is while the log continues
    if value <= end and (value == end or begins_record(log, value)):
        return "offset"
    if value < end and known.end_offset is None and not any(_bytes_at(log, value)):
        return "offset"  # of the log's end, as far as a look at a few bytes tells
    oldest, newest = known.min_store_timestamp, known.max_store_timestamp
    if oldest is None or newest is None:
        head = first_head(log.files[0])
        oldest, newest = (head.store_timestamp if head is not None else value + 1, value)
    return "time" if oldest <= value <= newest else None


def _bytes_at(log: MappedFileQueue, physical_offset: int) -> bytes:
    with OpenFiles(log) as files:
        place = files.at(physical_offset)
        return b"?" if place is None else place[0].read_upto(place[1], 8)


CLOCK_TOLERANCE_MS = 86_400_000
"""A time is in the future when it is this much later than now: the broker's clock is not this machine's."""

MAX_SIZE = 1 << 20
_TIMES = ("physicMsgTimestamp", "logicsMsgTimestamp", "indexMsgTimestamp")


def check_checkpoint(context: Context, known: Known) -> Items:
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
        yield Finding(RuleName.CHECKPOINT_MISSING, Where("checkpoint"))
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


def _check_shape(file: StoreFile, data: bytes) -> Findings:
    if len(data) != CHECKPOINT_SIZE:
        where = Where(file.relative, 0, len(data))
        yield Finding(RuleName.CHECKPOINT_LENGTH, where, {"size": len(data)}, {"size": CHECKPOINT_SIZE})


def _check_values(context: Context, file: StoreFile, checkpoint: Checkpoint, known: Known) -> Findings:
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
        yield Finding(RuleName.CHECKPOINT_ZERO, Where(file.relative, 0, 16))


def _broker_now(context: Context, file: StoreFile) -> int:
    """Now (ms), by this machine's clock or by the broker's as its files show it, whichever is later."""
    files = (file, *context.store.commitlog.files)
    return max(context.now_timestamp, max(item.mtime_ns for item in files) // 1_000_000)


def _has_records(store: Store) -> bool:
    return bool(store.commitlog.files) and first_head(store.commitlog.files[0]) is not None


def _check_confirm_offset(store: Store, file: StoreFile, checkpoint: Checkpoint, known: Known) -> Findings:
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


def _check_master_offset(store: Store, file: StoreFile, checkpoint: Checkpoint, known: Known) -> Findings:
    """What the master had flushed, as it said to its slave: ahead of a slave that has not all of it yet."""
    value, name = checkpoint.master_flushed_offset, "masterFlushedOffset"
    end = known.end_offset if known.complete else store.commitlog.end_offset
    if name in store.dialect.checkpoint_fields and end is not None and value > end:
        where = _field(file, name, physical_offset=value)
        yield Finding(RuleName.MASTER_FLUSHED_AHEAD, where, {"value": value}, {"end_offset": end})


def _check_logics_offset(store: Store, file: StoreFile, checkpoint: Checkpoint, known: Known) -> Findings:
    """Where the last record is whose unit was flushed: 0 until a broker has flushed for the first time."""
    value, name = checkpoint.logics_physical_offset, "logicsPhysicalOffset"
    start = store.commitlog.start_offset
    end = known.end_offset if known.complete else store.commitlog.end_offset
    is_written = name in store.dialect.checkpoint_fields and not has_log_elsewhere(store)
    if not is_written or start is None or end is None:
        return
    where = _field(file, name, physical_offset=value)
    if value >= max(end, 1):
        yield Finding(RuleName.LOGICS_OFFSET_AHEAD, where, {"value": value}, {"end_offset": end})
    elif max(start, 1) <= value and not begins_record(store.commitlog, value):
        yield Finding(RuleName.LOGICS_OFFSET, where, {"value": value})


def _check_index_time(
    file: StoreFile, checkpoint: Checkpoint, headers: list[tuple[IndexFile, IndexHeader | None]]
) -> Findings:
    full = [header for _, header in headers[:-1] if header is not None]
    expected = full[-1].end_timestamp if full else 0
    if checkpoint.index_msg_timestamp != expected:
        where, found = _field(file, "indexMsgTimestamp"), {"value": checkpoint.index_msg_timestamp}
        yield Finding(RuleName.CHECKPOINT_INDEX_TIME, where, found, {"value": expected})


def _check_abort(
    store: Store, checkpoint: Checkpoint, headers: list[tuple[IndexFile, IndexHeader | None]]
) -> Findings:
    """An unclean stop, and what the next start makes of it."""
    if store.abort is None:
        return
    where = Where(store.abort.relative, 0, store.abort.size)
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
        place = Where(index.relative, 0, index.size)
        limit = {"index_msg_timestamp": checkpoint.index_msg_timestamp}
        yield Finding(RuleName.INDEX_FILE_DOOMED, place, found, limit)
    yield from _predict_start(store, checkpoint)


def _predict_start(store: Store, checkpoint: Checkpoint) -> Findings:
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
        if head is not None and head.store_timestamp != 0:
            place = head.physical_offset, head.store_timestamp
            if checkpoint.covers(*place, dialect.recovery_mark, index_safe=safe):
                break
        start -= 1
    chosen = files[max(start, 0)]
    where = Where(chosen.relative, physical_offset=chosen.start_offset)
    found = {
        "scan_count": len(files) - max(start, 0),
        "file_count": len(files),
        "physic_msg_timestamp": checkpoint.physic_msg_timestamp,
        "logics_msg_timestamp": checkpoint.logics_msg_timestamp,
        "limit_timestamp": limit,
    }
    # A log of one file, and what was made in advance after it, is scanned whole in any case.
    rule = RuleName.RECOVERY_SCANS_ALL if start < 0 and written > 1 else RuleName.RECOVERY_START
    yield Finding(rule, where, found)


def _index_safe(store: Store) -> bool:
    """Whether a recovery also goes back to what the full index files hold."""
    return store.settings.flag("messageIndexEnable", True) and store.settings.flag("messageIndexSafe", False)


def _check_lock(store: Store) -> Items:
    if store.lock is None:
        return
    try:
        with FileReader(store.lock.path) as reader:
            data = reader.read_upto(0, 16)
    except StoreError as error:
        yield NotChecked(store.lock.relative, str(error), operational=True)
        return
    if not smallfiles.is_lock_content(data):
        where = Where(store.lock.relative, 0, len(data))
        yield Finding(RuleName.LOCK_CONTENT, where, {"bytes_hex": data.hex()})


def _field(file: StoreFile, name: str, physical_offset: int | None = None) -> Where:
    start = CHECKPOINT.offset(name)
    return Where(file.relative, start, start + 8, physical_offset=physical_offset)
