"""Faults of the files in `config/` (fault catalogue K5, K6).

Faults of checkpoint, abort, epoch file and timer progress (fault catalogue K1 to K4, H3, H5).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import FormatError
from rocketfsck.formats import config, smallfiles, timer
from rocketfsck.formats.checkpoint import CHECKPOINT, CHECKPOINT_SIZE, decode_checkpoint
from rocketfsck.writer.damage.job import Job, damage
from rocketfsck.writer.damage.model import CONFIG_LOST, DamageError, PromisedPlace, rules

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


def _confirmed(job: Job) -> None:
    _checkpoint(job)
    known = "confirmPhyOffset" in job.store.dialect.checkpoint_fields
    job.need(known, "version with confirmPhyOffset (5.1.1+)")


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
    job.promise(replace(_field_place(name), physical_offset=offset), *rules)


@damage("K1", RuleName.CHECKPOINT_ZERO, _CP, _WITH_ABORT)
def checkpoint_zeroed(job: Job) -> None:
    """The checkpoint is all zeros."""
    _checkpoint(job)
    job.need(job.log_files and len(job.log(job.log_files[0])), "commit log with records")
    job.editor.write(CHECKPOINT_NAME, 0, bytes(CHECKPOINT_SIZE))
    job.done("the checkpoint is all zeros", PromisedPlace(CHECKPOINT_NAME, 0, 16))


@damage("K1", RuleName.CHECKPOINT_MISSING, _CP, _WITH_ABORT)
def checkpoint_missing(job: Job) -> None:
    """The checkpoint is missing."""
    _checkpoint(job)
    job.need(job.store.commitlog.files, "commit log")
    job.editor.remove(CHECKPOINT_NAME)
    job.done("checkpoint removed", PromisedPlace(CHECKPOINT_NAME))


@damage("K1", RuleName.CHECKPOINT_NEGATIVE, _CP, _WITH_ABORT)
def checkpoint_negative(job: Job) -> None:
    """A time of the checkpoint is negative."""
    _checkpoint(job)
    _set(job, "physicMsgTimestamp", -1 - job.rng.randrange(1 << 40))


@damage("K1", RuleName.CHECKPOINT_TAIL, _CP)
def checkpoint_tail(job: Job) -> None:
    """Bytes that are not zero follow the checkpoint's fields."""
    _checkpoint(job)
    start = CHECKPOINT.size + job.rng.randrange(CHECKPOINT_SIZE - CHECKPOINT.size - 16)
    job.editor.write(CHECKPOINT_NAME, start, bytes(1 + job.rng.randrange(255) for _ in range(16)))
    job.done(f"16 bytes at byte {start} of the checkpoint", PromisedPlace(CHECKPOINT_NAME, start, start + 16))


@damage("K1", RuleName.CHECKPOINT_LENGTH, _CP)
def checkpoint_short(job: Job) -> None:
    """The checkpoint is shorter than a page."""
    _checkpoint(job)
    size = CHECKPOINT.size + job.rng.randrange(CHECKPOINT_SIZE - CHECKPOINT.size)
    job.editor.truncate(CHECKPOINT_NAME, size)
    job.done(f"the checkpoint cut to {size:,} bytes", PromisedPlace(CHECKPOINT_NAME, 0, size))


@damage("K2", RuleName.CHECKPOINT_FUTURE, _CP, _WITH_ABORT)
def checkpoint_future(job: Job) -> None:
    """The checkpoint's times are in the year 2100."""
    _checkpoint(job)
    names = ("physicMsgTimestamp", "logicsMsgTimestamp")
    job.editor.write(CHECKPOINT_NAME, 0, FAR_FUTURE.to_bytes(8, "big") * len(names))
    job.note = "the checkpoint's times are in the year 2100"
    for name in names:
        job.promise(_field_place(name))


@damage("K2", (RuleName.CHECKPOINT_AHEAD, RuleName.CHECKPOINT_FUTURE), _CP, _WITH_ABORT)
def checkpoint_ahead(job: Job) -> None:
    """logicsMsgTimestamp is later than the newest record."""
    _checkpoint(job)
    job.last_log()  # there is a record
    newest = max(int(log.column("store_timestamp").max()) for log in map(job.log, job.log_files) if len(log))
    value = newest + 1 + job.rng.randrange(60_000)
    _set(job, "logicsMsgTimestamp", value)


@damage("K3", RuleName.CONFIRM_OFFSET_AHEAD, "a checkpoint with confirmPhyOffset (5.1.1+)")
def confirm_offset(job: Job) -> None:
    """confirmPhyOffset is beyond the log."""
    _confirmed(job)
    job.need(job.log_files, "version with confirmPhyOffset (5.1.1+)")
    value = job.log_end + 1 + job.rng.randrange(1 << 30)
    _set(job, "confirmPhyOffset", value, offset=value)


@damage("K3", RuleName.CONFIRM_OFFSET, "a checkpoint with confirmPhyOffset (5.1.1+)")
def confirm_inside(job: Job) -> None:
    """confirmPhyOffset is in the middle of a record."""
    _confirmed(job)
    record = job.record("record")
    value = record.physical_offset + 1 + job.rng.randrange(record.total_size - 1)
    _set(job, "confirmPhyOffset", value, offset=value)
    job.rely(record.file.relative, record.pos, record.end)


@damage(
    "K4", (RuleName.ABORT_PRESENT, RuleName.INDEX_FILE_DOOMED), "a cleanly stopped broker",
    RuleName.INDEX_FILE_DOOMED, RuleName.RECOVERY_SCANS_ALL,
)  # fmt: skip
def abort_present(job: Job) -> None:
    """The file abort exists: the broker was killed."""
    job.need(job.store.abort is None and not job.editor.exists(smallfiles.ABORT_NAME), "clean stop")
    data = smallfiles.encode_abort(_PID if job.store.dialect.abort_has_pid else None)
    like = job.store.checkpoint.relative if job.store.checkpoint is not None else None
    job.editor.create(smallfiles.ABORT_NAME, data, like=like)
    job.done("abort made", PromisedPlace(smallfiles.ABORT_NAME, 0, len(data)), RuleName.ABORT_PRESENT)
    used = [index for index in map(job.index, job.store.indexes) if index.used and index.whole]
    if used and job.store.checkpoint is not None:
        checkpoint = decode_checkpoint(job.editor.read(CHECKPOINT_NAME, 0, CHECKPOINT_SIZE))
        newest = used[-1]
        if newest.header.end_timestamp > checkpoint.index_msg_timestamp:
            job.promise(PromisedPlace(newest.file.relative, 0, newest.file.size), RuleName.INDEX_FILE_DOOMED)


def _epochs(job: Job, entries: list[smallfiles.EpochEntry]) -> bytes:
    job.need(job.log_files and not job.editor.exists(EPOCHS), "commit log without an epoch file")
    return smallfiles.encode_epochs(entries)


def _put_epochs(job: Job, note: str, first: smallfiles.EpochEntry, second: smallfiles.EpochEntry) -> None:
    """Make an epoch file; a check must find the second epoch wrong."""
    job.editor.create(EPOCHS, _epochs(job, [first, second]))
    job.done(note, PromisedPlace(EPOCHS, physical_offset=second.start_offset))


@damage("H3", RuleName.EPOCH_DAMAGED, _LOG)
def epoch_damaged(job: Job) -> None:
    """The epoch file's CRC is wrong."""
    data = _epochs(job, [smallfiles.EpochEntry(1, job.log_start)])
    first, crc, rest = data.split(b"\n", 2)
    job.editor.create(EPOCHS, b"\n".join((first, str(int(crc) ^ 1 or 2).encode(), rest)))
    job.done("the epoch file's CRC changed", PromisedPlace(EPOCHS, len(first) + 1))


@damage("H3", RuleName.EPOCH_ORDER, _LOG)
def epoch_order(job: Job) -> None:
    """Epochs do not ascend."""
    first, second = smallfiles.EpochEntry(2, job.log_start), smallfiles.EpochEntry(1, job.log_start)
    _put_epochs(job, "epoch 1 follows epoch 2", first, second)


@damage("H3", RuleName.EPOCH_RANGE, _LOG)
def epoch_range(job: Job) -> None:
    """An epoch starts beyond the log."""
    beyond = job.log_end + 1 + job.rng.randrange(1 << 30)
    first, second = smallfiles.EpochEntry(1, job.log_start), smallfiles.EpochEntry(2, beyond)
    _put_epochs(job, f"epoch 2 starts at {beyond}", first, second)


@damage("H3", RuleName.EPOCH_BOUNDARY, _LOG)
def epoch_boundary(job: Job) -> None:
    """An epoch starts in the middle of a record."""
    record = job.record("record", lambda _, item: item.physical_offset > job.log_start)
    inside = record.physical_offset + 1 + job.rng.randrange(record.total_size - 1)
    first, second = smallfiles.EpochEntry(1, job.log_start), smallfiles.EpochEntry(2, inside)
    _put_epochs(job, f"epoch 2 starts at {inside}", first, second)
    job.rely(record.file.relative, record.pos, record.end)


@damage("H3", RuleName.IDENTITY_DAMAGED, _LOG)
def identity_damaged(job: Job) -> None:
    """brokerIdentity ends in a line break, which brokers reject."""
    job.need(job.log_files and not job.editor.exists(IDENTITY), "commit log without a brokerIdentity")
    data = b"DefaultCluster#broker-a#1\n"
    job.editor.create(IDENTITY, data)
    job.done("brokerIdentity ends in a line break", PromisedPlace(IDENTITY, 0, len(data)))


def _timer(job: Job, size: int) -> None:
    values = dict.fromkeys((field.name for field in timer.TIMER_CHECK.fields), 0)
    values["lastReadTimeMs"] = FAR_FUTURE
    data = timer.TIMER_CHECK.build(values)
    if job.editor.exists(TIMER_CHECK_NAME):
        job.need(job.is_free(TIMER_CHECK_NAME), "free timercheck")
        data += job.editor.read(TIMER_CHECK_NAME, len(data), timer.TIMER_CHECK_SIZE)
        job.editor.replace(TIMER_CHECK_NAME, data.ljust(timer.TIMER_CHECK_SIZE, b"\0")[:size])
    else:
        job.editor.create(TIMER_CHECK_NAME, data, size=size)


@damage("H5", RuleName.TIMER_CHECK_RANGE, "anything")
def timer_check(job: Job) -> None:
    """timercheck names a time in the future.

    By the file the timer has read up to the year 2100.
    """
    _timer(job, timer.TIMER_CHECK_SIZE)
    job.note = "timercheck says that slots were read up to the year 2100"
    job.promise(PromisedPlace(TIMER_CHECK_NAME, 0, 8))


@damage("H5", RuleName.TIMER_CHECK_LENGTH, "anything", RuleName.TIMER_CHECK_RANGE)
def timer_check_short(job: Job) -> None:
    """timercheck is shorter than a page."""
    size = timer.TIMER_CHECK.size + job.rng.randrange(1000)
    _timer(job, size)
    job.done(f"timercheck cut to {size:,} bytes", PromisedPlace(TIMER_CHECK_NAME, 0, size))


CONSUMER_OFFSETS = "config/consumerOffset.json"
DELAY_OFFSETS = "config/delayOffset.json"
TOPICS = "config/topics.json"
_SEPARATOR = "@"

_JSON = "a sound JSON file in config/"
_OFFSETS = "consumerOffset.json with the offset of a queue"


def _parsed(job: Job, name: str) -> Any:
    try:
        return config.decode_config(job.editor.content(name))
    except (FormatError, DamageError):
        return None


def _json_file(job: Job, *, versioned: bool = False) -> str:
    """A sound JSON file of config/ (with a dataVersion, if asked)."""
    good = []
    for name in (file.relative for file in job.store.configs if file.name.endswith(".json")):
        value = _parsed(job, name) if job.is_free(name) and job.is_free(f"{name}.bak") else None
        if isinstance(value, dict) and (not versioned or isinstance(value.get("dataVersion"), dict)):
            good.append(name)
    return job.choose(good, "sound JSON file in config/" + (" with a dataVersion" if versioned else ""))


def _backup_is_sound(job: Job, name: str) -> bool:
    return job.editor.exists(f"{name}.bak") and _parsed(job, f"{name}.bak") is not None


def _put_backup(job: Job, name: str, data: bytes) -> None:
    backup = f"{name}.bak"
    if job.editor.exists(backup):
        job.editor.replace(backup, data)
    else:
        job.editor.create(backup, data, like=name)


def _broken(job: Job, name: str, start: int | None) -> None:
    """Promise what a file that does not parse from `start` on must cause."""
    rule = RuleName.CONFIG_FALLS_BACK if _backup_is_sound(job, name) else RuleName.CONFIG_LOST
    job.promise(PromisedPlace(name, start, job.editor.size(name)), rule)


@damage("K5", (RuleName.CONFIG_LOST, RuleName.CONFIG_FALLS_BACK), _JSON, CONFIG_LOST)
def config_cut(job: Job) -> None:
    """A JSON file was written only in part."""
    name = _json_file(job)
    data = job.editor.content(name).rstrip()
    size = 1 + job.rng.randrange(len(data) - 1)
    job.editor.truncate(name, size)
    job.note = f"{name} cut to {size:,} bytes"
    _broken(job, name, None)


@damage("K5", (RuleName.CONFIG_LOST, RuleName.CONFIG_FALLS_BACK), _JSON, CONFIG_LOST)
def config_nuls(job: Job) -> None:
    """A JSON file is all NUL bytes.

    A power cut leaves such a file.
    """
    name = _json_file(job)
    job.editor.write(name, 0, bytes(job.editor.size(name)))
    job.note = f"{name} is all NUL bytes"
    _broken(job, name, None)


@damage("K5", RuleName.CONFIG_TRAILING_BYTES, _JSON)
def config_trailing(job: Job) -> None:
    """Bytes of a longer text follow a JSON value.

    A shorter text was written over the longer one.
    """
    name = _json_file(job)
    data = job.editor.content(name)
    _, end = config.valid_prefix(data)
    rest = data[-(1 + job.rng.randrange(min(len(data) - 1, 40))) :].strip() or b"}"
    job.editor.replace(name, data[:end] + rest)
    job.done(f"{len(rest)} bytes after the value in {name}", PromisedPlace(name, end, end + len(rest)))


@damage("K5", RuleName.CONFIG_MISSING, _JSON, CONFIG_LOST)
def config_missing(job: Job) -> None:
    """A JSON file is missing, and its .bak exists."""
    name = _json_file(job)
    backup = f"{name}.bak"
    if not job.editor.exists(backup):
        job.editor.create(backup, job.editor.content(name), like=name)
    job.remove(name)


@damage("K5", RuleName.CONFIG_BACKUP_NEWER, f"{_JSON} with a dataVersion")
def config_backup_newer(job: Job) -> None:
    """A .bak has a higher dataVersion than its file."""
    name = _json_file(job, versioned=True)
    value = _parsed(job, name)
    value["dataVersion"]["counter"] = int(value["dataVersion"].get("counter", 0)) + 1 + job.rng.randrange(9)
    _put_backup(job, name, config.encode_config(value))
    job.done(f"{name}.bak is newer than {name}", PromisedPlace(name))


@damage("K5", RuleName.CONFIG_BACKUP_DAMAGED, _JSON)
def config_backup_damaged(job: Job) -> None:
    """A .bak does not parse."""
    name = _json_file(job)
    _put_backup(job, name, job.editor.content(name)[:-1].rstrip() + b"\1")
    job.done(f"{name}.bak does not parse", PromisedPlace(f"{name}.bak"))


@damage("K5", RuleName.CONFIG_SHAPE, _JSON, CONFIG_LOST)
def config_shape(job: Job) -> None:
    """A JSON file holds a list where a table belongs."""
    name = _json_file(job)
    job.editor.replace(name, b"[]")
    job.done(f"{name} holds a list", PromisedPlace(name))


def _offsets(job: Job) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """consumerOffset.json, and the (topic@group, queueId) in it whose queue is there."""
    job.need(job.editor.exists(CONSUMER_OFFSETS) and job.is_free(CONSUMER_OFFSETS), CONSUMER_OFFSETS)
    value = _parsed(job, CONSUMER_OFFSETS)
    table = value.get("offsetTable") if isinstance(value, dict) else None
    job.need(isinstance(table, dict) and table, "consumer offset")
    assert isinstance(table, dict)
    queues = {(queue.topic, str(queue.queue_id)) for queue in job.store.queues}
    found = [
        (name, queue_id)
        for name, offsets in table.items()
        if isinstance(offsets, dict) and name.count(_SEPARATOR) == 1
        for queue_id in offsets
        if (name.split(_SEPARATOR)[0], str(queue_id)) in queues
    ]
    return value, found


def _set_offset(
    job: Job, value: dict[str, Any], name: str, queue_id: Any, offset: int, *rules: RuleName
) -> None:
    value["offsetTable"][name][queue_id] = offset
    job.editor.replace(CONSUMER_OFFSETS, config.encode_config(value))
    topic = name.split(_SEPARATOR)[0]
    job.note = f"the offset of {name} in queue {queue_id} is {offset}"
    place = PromisedPlace(CONSUMER_OFFSETS, topic=topic, queue_id=int(queue_id), queue_offset=offset)
    job.promise(place, *rules)
    job.rely(f"consumequeue/{topic}/{queue_id}/")


_BEYOND = (
    RuleName.CONSUMER_OFFSET_AHEAD, RuleName.CONSUMER_OFFSET_OF_LOST_UNITS, RuleName.CONSUMER_OFFSET_LOOSE,
)  # fmt: skip
"""Rules of offsets beyond the end: which one depends on the queue and on what is known of the group."""


@damage("K6", _BEYOND, _OFFSETS)
def consumer_offset_ahead(job: Job) -> None:
    """A group's offset is beyond the end of its queue."""
    value, found = _offsets(job)
    name, queue_id = job.choose(found, "consumer offset of a queue in the store")
    offset = 1_000_000 + job.rng.randrange(1_000_000)
    _set_offset(job, value, name, queue_id, offset)


@damage("K6", RuleName.CONSUMER_OFFSET_NEGATIVE, _OFFSETS)
def consumer_offset_negative(job: Job) -> None:
    """A group has a negative offset."""
    value, found = _offsets(job)
    name, queue_id = job.choose(found, "consumer offset of a queue in the store")
    _set_offset(job, value, name, queue_id, -1 - job.rng.randrange(100))


@damage("K6", RuleName.CONSUMER_OFFSET_OF_LOST_UNITS, _OFFSETS, RuleName.RECORD_WITHOUT_UNIT)
def consumer_offset_of_lost_units(job: Job) -> None:
    """A group consumed units that are lost."""
    value, found = _offsets(job)
    good = []
    for name, queue_id in found:
        topic = name.split(_SEPARATOR)[0]
        key = (topic, str(queue_id))
        queue = next(queue for queue in job.store.queues if (queue.topic, str(queue.queue_id)) == key)
        scene = job.queue(queue)
        if queue.kind != "file" or not scene.whole or scene.end_index - scene.start_index < 2:
            continue
        last = scene.unit(scene.end_index - 1)
        record = job.record_at(last.offset)
        is_free = last.start > 0 and job.is_free(last.file.relative, last.start, last.end)
        if is_free and record is not None and job.unit_of(record) is not None:
            good.append((name, queue_id, last))
    name, queue_id, last = job.choose(good, "consumer offset of a queue with units")
    job.editor.write(last.file.relative, last.start, bytes(last.end - last.start))
    _set_offset(job, value, name, queue_id, last.index + 1)
    job.note += ", whose last unit is lost"


@damage("K6", RuleName.DELAY_OFFSET_RANGE, "delayOffset.json")
def delay_offset(job: Job) -> None:
    """A delay level's offset is beyond the end of its queue."""
    job.need(job.editor.exists(DELAY_OFFSETS) and job.is_free(DELAY_OFFSETS), DELAY_OFFSETS)
    value = _parsed(job, DELAY_OFFSETS)
    table = value.get("offsetTable") if isinstance(value, dict) else None
    job.need(isinstance(table, dict), "offsetTable in delayOffset.json")
    assert isinstance(table, dict)
    level = job.choose(sorted(int(name) for name in table) or [1], "delay level")
    offset = 1_000_000 + job.rng.randrange(1_000_000)
    others = {name: value for name, value in table.items() if int(name) != level}
    value["offsetTable"] = {**others, level: offset}
    job.editor.replace(DELAY_OFFSETS, config.encode_config(value))
    job.note = f"delay level {level} has offset {offset}"
    topic, queue_id = timer.SCHEDULE_TOPIC, timer.delay_queue_id(level)
    job.promise(PromisedPlace(DELAY_OFFSETS, topic=topic, queue_id=queue_id, queue_offset=offset))
