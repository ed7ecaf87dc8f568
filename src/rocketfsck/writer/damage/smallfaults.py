"""Faults of checkpoint, abort, epoch file and timer progress (fault catalogue K1 to K4, H3, H5)."""

from __future__ import annotations

from dataclasses import replace

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.smallfiles import (
    ABORT_NAME,
    CHECKPOINT,
    CHECKPOINT_SIZE,
    EpochEntry,
    decode_checkpoint,
    encode_abort,
    encode_checkpoint,
    encode_epochs,
)
from rocketfsck.formats.timer import TIMER_CHECK, TIMER_CHECK_SIZE
from rocketfsck.writer.damage.job import Job, damage
from rocketfsck.writer.damage.model import PromisedPlace, rules

FAR_FUTURE = 4_102_444_800_000
"""2100-01-01 in ms."""
CHECKPOINT_NAME = "checkpoint"
EPOCHS = "epochFileCheckpoint"
IDENTITY = "brokerIdentity"
TIMER_CHECK_NAME = "config/timercheck"
_PID = 4242

_CP = "a checkpoint"
_LOG = "a commit log"
_WITH_ABORT = rules(RuleName.INDEX_FILE_DOOMED, RuleName.RECOVERY_SCANS_ALL)


def _checkpoint(job: Job) -> None:
    job.need(job.store.checkpoint is not None and job.is_free(CHECKPOINT_NAME), "checkpoint")
    job.need(job.editor.size(CHECKPOINT_NAME) == CHECKPOINT_SIZE, "checkpoint of one page")


def _field_place(name: str) -> PromisedPlace:
    start = CHECKPOINT.offset(name)
    return PromisedPlace(CHECKPOINT_NAME, start, start + 8)


def _set(job: Job, name: str, value: int, *rules: RuleName, offset: int | None = None) -> None:
    """Write a field; a check must find one of these rules at it, with this physical offset."""
    job.editor.write(CHECKPOINT_NAME, CHECKPOINT.offset(name), value.to_bytes(8, "big", signed=True))
    job.note = f"{name} of the checkpoint is {value}"
    job.promise(rules, replace(_field_place(name), physical_offset=offset))


@damage("K1", causes=(RuleName.CHECKPOINT_ZERO,), needs=_CP, may_also=_WITH_ABORT)
def checkpoint_zeroed(job: Job) -> None:
    """The checkpoint is all zeros."""
    _checkpoint(job)
    job.need(job.log_files and len(job.log(job.log_files[0])), "commit log with records")
    job.editor.write(CHECKPOINT_NAME, 0, bytes(CHECKPOINT_SIZE))
    job.note = "the checkpoint is all zeros"
    job.promise(RuleName.CHECKPOINT_ZERO, PromisedPlace(CHECKPOINT_NAME, 0, 16))


@damage("K1", causes=(RuleName.CHECKPOINT_MISSING,), needs=_CP, may_also=_WITH_ABORT)
def checkpoint_missing(job: Job) -> None:
    """The checkpoint is missing."""
    _checkpoint(job)
    job.need(job.store.commitlog.files, "commit log")
    job.editor.remove(CHECKPOINT_NAME)
    job.note = "checkpoint removed"
    job.promise(RuleName.CHECKPOINT_MISSING, PromisedPlace(CHECKPOINT_NAME))


@damage("K1", causes=(RuleName.CHECKPOINT_NEGATIVE,), needs=_CP, may_also=_WITH_ABORT)
def checkpoint_negative(job: Job) -> None:
    """A time of the checkpoint is negative."""
    _checkpoint(job)
    _set(job, "physicMsgTimestamp", -1 - job.rng.randrange(1 << 40), RuleName.CHECKPOINT_NEGATIVE)


@damage("K1", causes=(RuleName.CHECKPOINT_TAIL,), needs=_CP)
def checkpoint_tail(job: Job) -> None:
    """Bytes that are not zero follow the checkpoint's fields."""
    _checkpoint(job)
    start = CHECKPOINT.size + job.rng.randrange(CHECKPOINT_SIZE - CHECKPOINT.size - 16)
    job.editor.write(CHECKPOINT_NAME, start, bytes(1 + job.rng.randrange(255) for _ in range(16)))
    job.note = f"16 bytes at byte {start} of the checkpoint"
    job.promise(RuleName.CHECKPOINT_TAIL, PromisedPlace(CHECKPOINT_NAME, start, start + 16))


@damage("K1", causes=(RuleName.CHECKPOINT_LENGTH,), needs=_CP)
def checkpoint_short(job: Job) -> None:
    """The checkpoint is shorter than a page."""
    _checkpoint(job)
    size = CHECKPOINT.size + job.rng.randrange(CHECKPOINT_SIZE - CHECKPOINT.size)
    job.editor.truncate(CHECKPOINT_NAME, size)
    job.note = f"the checkpoint cut to {size:,} bytes"
    job.promise(RuleName.CHECKPOINT_LENGTH, PromisedPlace(CHECKPOINT_NAME, 0, size))


@damage("K2", causes=(RuleName.CHECKPOINT_FUTURE,), needs=_CP, may_also=_WITH_ABORT)
def checkpoint_future(job: Job) -> None:
    """The checkpoint's times are in the year 2100."""
    _checkpoint(job)
    names = ("physicMsgTimestamp", "logicsMsgTimestamp")
    values = decode_checkpoint(job.editor.read(CHECKPOINT_NAME, 0, CHECKPOINT_SIZE))
    data = encode_checkpoint(
        replace(values, physic_msg_timestamp=FAR_FUTURE, logics_msg_timestamp=FAR_FUTURE)
    )
    job.editor.write(CHECKPOINT_NAME, 0, data[:16])
    job.note = "the checkpoint's times are in the year 2100"
    for name in names:
        job.promise(RuleName.CHECKPOINT_FUTURE, _field_place(name))


@damage("K2", causes=(RuleName.CHECKPOINT_AHEAD, RuleName.CHECKPOINT_FUTURE), needs=_CP, may_also=_WITH_ABORT)
def checkpoint_ahead(job: Job) -> None:
    """logicsMsgTimestamp is later than the newest record."""
    _checkpoint(job)
    job.last_log()  # there is a record
    newest = max(int(log.column("store_timestamp").max()) for log in map(job.log, job.log_files) if len(log))
    value = newest + 1 + job.rng.randrange(60_000)
    _set(job, "logicsMsgTimestamp", value, RuleName.CHECKPOINT_AHEAD, RuleName.CHECKPOINT_FUTURE)


@damage("K3", causes=(RuleName.CONFIRM_OFFSET_AHEAD,), needs="a checkpoint with confirmPhyOffset (5.1.1+)")
def confirm_offset(job: Job) -> None:
    """confirmPhyOffset is beyond the log."""
    _checkpoint(job)
    known = "confirmPhyOffset" in job.store.dialect.checkpoint_fields
    job.need(known and job.log_files, "version with confirmPhyOffset (5.1.1+)")
    value = job.log_end + 1 + job.rng.randrange(1 << 30)
    _set(job, "confirmPhyOffset", value, RuleName.CONFIRM_OFFSET_AHEAD, offset=value)


@damage("K3", causes=(RuleName.CONFIRM_OFFSET,), needs="a checkpoint with confirmPhyOffset (5.1.1+)")
def confirm_inside(job: Job) -> None:
    """confirmPhyOffset is in the middle of a record."""
    _checkpoint(job)
    known = "confirmPhyOffset" in job.store.dialect.checkpoint_fields
    job.need(known, "version with confirmPhyOffset (5.1.1+)")
    record = job.record("record")
    value = record.physical_offset + 1 + job.rng.randrange(record.total_size - 1)
    _set(job, "confirmPhyOffset", value, RuleName.CONFIRM_OFFSET, offset=value)
    job.rely(record.file.relative, record.pos, record.end)


@damage(
    "K4",
    causes=(RuleName.ABORT_PRESENT, RuleName.INDEX_FILE_DOOMED),
    needs="a cleanly stopped broker",
    may_also=rules(RuleName.INDEX_FILE_DOOMED, RuleName.RECOVERY_SCANS_ALL),
)
def abort_present(job: Job) -> None:
    """The file abort exists: the broker was killed."""
    job.need(job.store.abort is None and not job.editor.exists(ABORT_NAME), "clean stop")
    data = encode_abort(_PID if job.store.dialect.abort_has_pid else None)
    like = job.store.checkpoint.relative if job.store.checkpoint is not None else None
    job.editor.create(ABORT_NAME, data, like=like)
    job.note = "abort made"
    job.promise(RuleName.ABORT_PRESENT, PromisedPlace(ABORT_NAME, 0, len(data)))
    used = [index for index in map(job.index, job.store.indexes) if index.used and index.whole]
    if used and job.store.checkpoint is not None:
        checkpoint = decode_checkpoint(job.editor.read(CHECKPOINT_NAME, 0, CHECKPOINT_SIZE))
        newest = used[-1]
        if newest.header.end_timestamp > checkpoint.index_msg_timestamp:
            job.promise(RuleName.INDEX_FILE_DOOMED, PromisedPlace(newest.file.relative, 0, newest.file.size))


def _epochs(job: Job, entries: list[EpochEntry]) -> bytes:
    job.need(job.log_files and not job.editor.exists(EPOCHS), "commit log without an epoch file")
    return encode_epochs(entries)


def _put_epochs(job: Job, rule: RuleName, note: str, first: EpochEntry, second: EpochEntry) -> None:
    """Make an epoch file; a check must find this rule at the second epoch."""
    job.editor.create(EPOCHS, _epochs(job, [first, second]))
    job.note = note
    job.promise(rule, PromisedPlace(EPOCHS, physical_offset=second.start_offset))


@damage("H3", causes=(RuleName.EPOCH_DAMAGED,), needs=_LOG)
def epoch_damaged(job: Job) -> None:
    """The epoch file's CRC is wrong."""
    data = _epochs(job, [EpochEntry(1, job.log_start)])
    first, crc, rest = data.split(b"\n", 2)
    job.editor.create(EPOCHS, b"\n".join((first, str(int(crc) ^ 1 or 2).encode(), rest)))
    job.note = "the epoch file's CRC changed"
    job.promise(RuleName.EPOCH_DAMAGED, PromisedPlace(EPOCHS, len(first) + 1))


@damage("H3", causes=(RuleName.EPOCH_ORDER,), needs=_LOG)
def epoch_order(job: Job) -> None:
    """Epochs do not ascend."""
    first, second = EpochEntry(2, job.log_start), EpochEntry(1, job.log_start)
    _put_epochs(job, RuleName.EPOCH_ORDER, "epoch 1 follows epoch 2", first, second)


@damage("H3", causes=(RuleName.EPOCH_RANGE,), needs=_LOG)
def epoch_range(job: Job) -> None:
    """An epoch starts beyond the log."""
    beyond = job.log_end + 1 + job.rng.randrange(1 << 30)
    first, second = EpochEntry(1, job.log_start), EpochEntry(2, beyond)
    _put_epochs(job, RuleName.EPOCH_RANGE, f"epoch 2 starts at {beyond}", first, second)


@damage("H3", causes=(RuleName.EPOCH_BOUNDARY,), needs=_LOG)
def epoch_boundary(job: Job) -> None:
    """An epoch starts in the middle of a record."""
    record = job.record("record", lambda _, item: item.physical_offset > job.log_start)
    inside = record.physical_offset + 1 + job.rng.randrange(record.total_size - 1)
    first, second = EpochEntry(1, job.log_start), EpochEntry(2, inside)
    _put_epochs(job, RuleName.EPOCH_BOUNDARY, f"epoch 2 starts at {inside}", first, second)
    job.rely(record.file.relative, record.pos, record.end)


@damage("H3", causes=(RuleName.IDENTITY_DAMAGED,), needs=_LOG)
def identity_damaged(job: Job) -> None:
    """brokerIdentity ends in a line break, which brokers reject."""
    job.need(job.log_files and not job.editor.exists(IDENTITY), "commit log without a brokerIdentity")
    data = b"DefaultCluster#broker-a#1\n"
    job.editor.create(IDENTITY, data)
    job.note = "brokerIdentity ends in a line break"
    job.promise(RuleName.IDENTITY_DAMAGED, PromisedPlace(IDENTITY, 0, len(data)))


def _timer(job: Job, size: int) -> None:
    values = dict.fromkeys((field.name for field in TIMER_CHECK.fields), 0)
    values["lastReadTimeMs"] = FAR_FUTURE
    data = TIMER_CHECK.build(values)
    if job.editor.exists(TIMER_CHECK_NAME):
        job.need(job.is_free(TIMER_CHECK_NAME), "free timercheck")
        data += job.editor.read(TIMER_CHECK_NAME, len(data), TIMER_CHECK_SIZE)
        job.editor.replace(TIMER_CHECK_NAME, data.ljust(TIMER_CHECK_SIZE, b"\0")[:size])
    else:
        job.editor.create(TIMER_CHECK_NAME, data, size=size)


@damage("H5", causes=(RuleName.TIMER_CHECK_RANGE,), needs="anything")
def timer_check(job: Job) -> None:
    """timercheck names a time in the future.

    By the file the timer has read up to the year 2100.
    """
    _timer(job, TIMER_CHECK_SIZE)
    job.note = "timercheck says that slots were read up to the year 2100"
    job.promise(RuleName.TIMER_CHECK_RANGE, PromisedPlace(TIMER_CHECK_NAME, 0, 8))


@damage(
    "H5", causes=(RuleName.TIMER_CHECK_LENGTH,), needs="anything", may_also=rules(RuleName.TIMER_CHECK_RANGE)
)
def timer_check_short(job: Job) -> None:
    """timercheck is shorter than a page."""
    size = TIMER_CHECK.size + job.rng.randrange(1000)
    _timer(job, size)
    job.note = f"timercheck cut to {size:,} bytes"
    job.promise(RuleName.TIMER_CHECK_LENGTH, PromisedPlace(TIMER_CHECK_NAME, 0, size))
