"""Faults of the files in `config/` (fault catalogue K5, K6)."""

from __future__ import annotations

from typing import Any

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import FormatError
from rocketfsck.formats.config import decode_config, encode_config, valid_prefix
from rocketfsck.formats.timer import SCHEDULE_TOPIC, delay_queue_id
from rocketfsck.writer.damage.job import Job, damage
from rocketfsck.writer.damage.model import DamageError, PromisedPlace, rules

CONSUMER_OFFSETS = "config/consumerOffset.json"
DELAY_OFFSETS = "config/delayOffset.json"
TOPICS = "config/topics.json"
_SEPARATOR = "@"

_JSON = "a sound JSON file in config/"
_OFFSETS = "consumerOffset.json with the offset of a queue"
_LOST_CONFIG = rules(
    RuleName.CONFIG_BACKUP_NEWER,
    RuleName.CONFIG_SHAPE,
    RuleName.CONSUMER_OFFSET_OF_LOST_UNITS,
    RuleName.CONSUMER_OFFSET_NEGATIVE,
    RuleName.GHOST_QUEUE,
    RuleName.DELAY_OFFSET_RANGE,
    RuleName.QUEUE_MISSING,
    RuleName.QUEUE_KIND_ATTRIBUTE,
)


def _parsed(job: Job, name: str) -> Any:
    try:
        return decode_config(job.editor.content(name))
    except (FormatError, DamageError):
        return None


def _json_file(job: Job, *, versioned: bool = False) -> str:
    """A sound JSON file of config/ (with a dataVersion, if asked)."""
    names = [
        file.relative
        for file in job.store.configs
        if file.name.endswith(".json") and job.is_free(file.relative) and job.is_free(f"{file.relative}.bak")
    ]
    good = []
    for name in names:
        value = _parsed(job, name)
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
    job.promise(rule, PromisedPlace(name, start, job.editor.size(name)))


@damage("K5", causes=(RuleName.CONFIG_LOST, RuleName.CONFIG_FALLS_BACK), needs=_JSON, may_also=_LOST_CONFIG)
def config_cut(job: Job) -> None:
    """A JSON file was written only in part."""
    name = _json_file(job)
    data = job.editor.content(name).rstrip()
    size = 1 + job.rng.randrange(len(data) - 1)
    job.editor.truncate(name, size)
    job.note = f"{name} cut to {size:,} bytes"
    _broken(job, name, None)


@damage("K5", causes=(RuleName.CONFIG_LOST, RuleName.CONFIG_FALLS_BACK), needs=_JSON, may_also=_LOST_CONFIG)
def config_nuls(job: Job) -> None:
    """A JSON file is all NUL bytes.

    A power cut leaves such a file.
    """
    name = _json_file(job)
    job.editor.write(name, 0, bytes(job.editor.size(name)))
    job.note = f"{name} is all NUL bytes"
    _broken(job, name, None)


@damage("K5", causes=(RuleName.CONFIG_TRAILING_BYTES,), needs=_JSON)
def config_trailing(job: Job) -> None:
    """Bytes of a longer text follow a JSON value.

    A shorter text was written over the longer one.
    """
    name = _json_file(job)
    data = job.editor.content(name)
    _, end = valid_prefix(data)
    rest = data[-(1 + job.rng.randrange(min(len(data) - 1, 40))) :].strip() or b"}"
    job.editor.replace(name, data[:end] + rest)
    job.note = f"{len(rest)} bytes after the value in {name}"
    job.promise(RuleName.CONFIG_TRAILING_BYTES, PromisedPlace(name, end, end + len(rest)))


@damage("K5", causes=(RuleName.CONFIG_MISSING,), needs=_JSON, may_also=_LOST_CONFIG)
def config_missing(job: Job) -> None:
    """A JSON file is missing, and its .bak exists."""
    name = _json_file(job)
    backup = f"{name}.bak"
    if not job.editor.exists(backup):
        job.editor.create(backup, job.editor.content(name), like=name)
    job.editor.remove(name)
    job.note = f"{name} removed"
    job.promise(RuleName.CONFIG_MISSING, PromisedPlace(name))


@damage("K5", causes=(RuleName.CONFIG_BACKUP_NEWER,), needs=f"{_JSON} with a dataVersion")
def config_backup_newer(job: Job) -> None:
    """A .bak has a higher dataVersion than its file."""
    name = _json_file(job, versioned=True)
    value = _parsed(job, name)
    value["dataVersion"]["counter"] = int(value["dataVersion"].get("counter", 0)) + 1 + job.rng.randrange(9)
    _put_backup(job, name, encode_config(value))
    job.note = f"{name}.bak is newer than {name}"
    job.promise(RuleName.CONFIG_BACKUP_NEWER, PromisedPlace(name))


@damage("K5", causes=(RuleName.CONFIG_BACKUP_DAMAGED,), needs=_JSON)
def config_backup_damaged(job: Job) -> None:
    """A .bak does not parse."""
    name = _json_file(job)
    _put_backup(job, name, job.editor.content(name)[:-1].rstrip() + b"\1")
    job.note = f"{name}.bak does not parse"
    job.promise(RuleName.CONFIG_BACKUP_DAMAGED, PromisedPlace(f"{name}.bak"))


@damage("K5", causes=(RuleName.CONFIG_SHAPE,), needs=_JSON, may_also=_LOST_CONFIG)
def config_shape(job: Job) -> None:
    """A JSON file holds a list where a table belongs."""
    name = _json_file(job)
    job.editor.replace(name, b"[]")
    job.note = f"{name} holds a list"
    job.promise(RuleName.CONFIG_SHAPE, PromisedPlace(name))


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
    job.editor.replace(CONSUMER_OFFSETS, encode_config(value))
    topic = name.split(_SEPARATOR)[0]
    job.note = f"the offset of {name} in queue {queue_id} is {offset}"
    place = PromisedPlace(CONSUMER_OFFSETS, topic=topic, queue_id=int(queue_id), queue_offset=offset)
    job.promise(rules, place)
    job.rely(f"consumequeue/{topic}/{queue_id}/")


_BEYOND = (
    RuleName.CONSUMER_OFFSET_AHEAD,
    RuleName.CONSUMER_OFFSET_OF_LOST_UNITS,
    RuleName.CONSUMER_OFFSET_LOOSE,
)
"""Rules of offsets beyond the end: which one depends on the queue and on what is known of the group."""


@damage("K6", causes=_BEYOND, needs=_OFFSETS)
def consumer_offset_ahead(job: Job) -> None:
    """A group's offset is beyond the end of its queue."""
    value, found = _offsets(job)
    name, queue_id = job.choose(found, "consumer offset of a queue in the store")
    offset = 1_000_000 + job.rng.randrange(1_000_000)
    _set_offset(job, value, name, queue_id, offset, *_BEYOND)


@damage("K6", causes=(RuleName.CONSUMER_OFFSET_NEGATIVE,), needs=_OFFSETS)
def consumer_offset_negative(job: Job) -> None:
    """A group has a negative offset."""
    value, found = _offsets(job)
    name, queue_id = job.choose(found, "consumer offset of a queue in the store")
    _set_offset(job, value, name, queue_id, -1 - job.rng.randrange(100), RuleName.CONSUMER_OFFSET_NEGATIVE)


@damage(
    "K6",
    causes=(RuleName.CONSUMER_OFFSET_OF_LOST_UNITS,),
    needs=_OFFSETS,
    may_also=rules(RuleName.RECORD_WITHOUT_UNIT),
)
def consumer_offset_of_lost_units(job: Job) -> None:
    """A group consumed units that are lost."""
    value, found = _offsets(job)
    good = []
    for name, queue_id in found:
        topic = name.split(_SEPARATOR)[0]
        queue = next(
            queue
            for queue in job.store.queues
            if (queue.topic, str(queue.queue_id)) == (topic, str(queue_id))
        )
        scene = job.queue(queue)
        if queue.kind != "file" or not scene.whole or scene.end_index - scene.start_index < 2:
            continue
        last = scene.unit(scene.end_index - 1)
        record = job.record_at(last.offset)
        if (
            record is not None
            and job.unit_of(record) is not None
            and last.start > 0
            and job.is_free(last.file.relative, last.start, last.end)
        ):
            good.append((name, queue_id, last))
    name, queue_id, last = job.choose(good, "consumer offset of a queue with units")
    job.editor.write(last.file.relative, last.start, bytes(last.end - last.start))
    _set_offset(job, value, name, queue_id, last.index + 1, RuleName.CONSUMER_OFFSET_OF_LOST_UNITS)
    job.note += ", whose last unit is lost"


@damage("K6", causes=(RuleName.DELAY_OFFSET_RANGE,), needs="delayOffset.json")
def delay_offset(job: Job) -> None:
    """A delay level's offset is beyond the end of its queue."""
    job.need(job.editor.exists(DELAY_OFFSETS) and job.is_free(DELAY_OFFSETS), DELAY_OFFSETS)
    value = _parsed(job, DELAY_OFFSETS)
    table = value.get("offsetTable") if isinstance(value, dict) else None
    job.need(isinstance(table, dict), "offsetTable in delayOffset.json")
    assert isinstance(table, dict)
    level = job.choose(sorted(int(name) for name in table) or [1], "delay level")
    offset = 1_000_000 + job.rng.randrange(1_000_000)
    for name in list(table):
        if int(name) == level:
            del table[name]
    table[level] = offset
    job.editor.replace(DELAY_OFFSETS, encode_config(value))
    job.note = f"delay level {level} has offset {offset}"
    place = PromisedPlace(
        DELAY_OFFSETS, topic=SCHEDULE_TOPIC, queue_id=delay_queue_id(level), queue_offset=offset
    )
    job.promise(RuleName.DELAY_OFFSET_RANGE, place)
