"""What the config files say, typed: topics, consumer offsets, delay offsets. Reference 1.6.

Each view takes the value of `config.decode_config` and raises FormatError if it has not the shape that a
broker would load. Integer keys may be quoted: fastjson converts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rocketfsck.errors import FormatError
from rocketfsck.formats.javatext import INT64_MAX, INT64_MIN, parse_int64

TOPIC_GROUP_SEPARATOR = "@"
PERM_READ = 4
PERM_WRITE = 2
PERM_INHERIT = 1


@dataclass(frozen=True, slots=True)
class DataVersion:
    """How often a table has changed and when last (ms). `state_version` is None before 5.0.0."""

    counter: int
    timestamp: int
    state_version: int | None = None


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic of `topics.json`; `perm` is a sum of PERM_READ, PERM_WRITE and PERM_INHERIT."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = PERM_READ | PERM_WRITE
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)


def _table(value: Any, what: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise FormatError(f"{what} is not an object")
    return value


def _member(value: Any, name: str) -> Mapping[Any, Any]:
    """The object under `name`; a missing or null one is empty, as after the broker's load."""
    member = _table(value, "the file").get(name)
    return {} if member is None else _table(member, name)


def _integer(value: Any, what: str) -> int:
    number = parse_int64(value) if isinstance(value, str) else value
    if type(number) is not int or not INT64_MIN <= number <= INT64_MAX:
        raise FormatError(f"{what} is {value!r}, not a 64-bit number")
    return number


def _integer_table(value: Any, what: str) -> dict[int, int]:
    return {
        _integer(key, f"a key of {what}"): _integer(item, what) for key, item in _table(value, what).items()
    }


def data_version(value: Any) -> DataVersion | None:
    """The `dataVersion` of a file, None if it has none."""
    found = _member(value, "dataVersion")
    if not found:
        return None
    state = found.get("stateVersion")
    return DataVersion(
        _integer(found.get("counter", 0), "counter"),
        _integer(found.get("timestamp", 0), "timestamp"),
        None if state is None else _integer(state, "stateVersion"),
    )


def topic_configs(value: Any) -> dict[str, TopicConfig]:
    """The topics of `topics.json` by the name they are listed under."""
    topics = {}
    for listed, item in _member(value, "topicConfigTable").items():
        entry = _table(item, f"topic {listed}")
        default = TopicConfig(str(entry.get("topicName", listed)))
        topics[str(listed)] = TopicConfig(
            default.topic_name,
            _integer(entry.get("readQueueNums", default.read_queue_nums), f"readQueueNums of {listed}"),
            _integer(entry.get("writeQueueNums", default.write_queue_nums), f"writeQueueNums of {listed}"),
            _integer(entry.get("perm", default.perm), f"perm of {listed}"),
            str(entry.get("topicFilterType", default.topic_filter_type)),
            _integer(entry.get("topicSysFlag", default.topic_sys_flag), f"topicSysFlag of {listed}"),
            entry.get("order") is True,
            {str(name): str(text) for name, text in _member(entry, "attributes").items()},
        )
    return topics


def consumer_offsets(value: Any) -> dict[str, dict[int, int]]:
    """The next queue offset to consume, by `topic@group` and queueId, of `consumerOffset.json`."""
    table = _member(value, "offsetTable")
    return {str(name): _integer_table(offsets, f"offsets of {name}") for name, offsets in table.items()}


def lmq_consumer_offsets(value: Any) -> dict[str, dict[int, int]]:
    """The same of `lmqConsumerOffset.json`, where a broker with `enableLmq` keeps the offsets of all groups.

    `lmqOffsetTable` has those of light groups, whose queues all have the queueId 0.
    """
    table = _member(value, "lmqOffsetTable")
    light = {str(name): {0: _integer(offset, f"offset of {name}")} for name, offset in table.items()}
    return {**consumer_offsets(value), **light}


OFFSET_VIEWS: Mapping[str, Callable[[Any], dict[str, dict[int, int]]]] = {
    "consumerOffset.json": consumer_offsets,
    "lmqConsumerOffset.json": lmq_consumer_offsets,
}
"""The files of committed offsets: of brokers without `enableLmq`, and with it."""


def delay_offsets(value: Any) -> dict[int, int]:
    """The next queue offset to deliver by delay level (from 1) of `delayOffset.json`."""
    return _integer_table(_member(value, "offsetTable"), "offsetTable")


def compaction_offsets(value: Any) -> dict[str, int]:
    """The queue offset up to which `topic_queueId` was compacted, of `compaction/position-checkpoint`."""
    table = _member(value, "queueOffsetMap")
    return {str(name): _integer(offset, f"offset of {name}") for name, offset in table.items()}


def split_topic_group(name: str) -> tuple[str, str] | None:
    """Topic and group of a `topic@group` key, None where the broker would not find two parts."""
    parts = name.split(TOPIC_GROUP_SEPARATOR)
    return (parts[0], parts[1]) if len(parts) == 2 else None
