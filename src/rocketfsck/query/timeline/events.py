"""Events of a timeline, and those that names, times of modification and small files tell. Nothing is scanned.

A time of modification is that of the files at hand: a copy that does not keep it tells when it was copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from itertools import islice
from typing import Literal

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats.checkpoint import CHECKPOINT
from rocketfsck.formats.configviews import data_version
from rocketfsck.formats.delay import SCHEDULE_TOPIC, delay_queue_id
from rocketfsck.formats.indexfile import HEADER, decode_header
from rocketfsck.query.timers import delayed_units, wheel_messages
from rocketfsck.query.view import StoreView
from rocketfsck.store.model import OtherKind, Store, StoreFile
from rocketfsck.store.reading import FileReader

EventKind = Literal["file", "broker", "config", "topic", "gap", "deletion", "due", "finding"]

_CHECKPOINT_FIELDS = {
    "physicMsgTimestamp": "messages up to this time are on disk in the commit log, says the checkpoint",
    "logicsMsgTimestamp": "messages up to this time are on disk in the consume queues, says the checkpoint",
    "indexMsgTimestamp": "messages up to this time are on disk in the index, says the checkpoint",
}
_VERSIONED = ("topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json")


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """One thing that happened at `timestamp` (ms), or will. `timestamp_desc` says which time this is,
    `message` what happened. Names in both are as they are in the store: whoever prints makes them safe.

    `physical_offset` is the record that tells of it.
    """

    timestamp: int
    timestamp_desc: str
    message: str
    kind: EventKind
    file: str | None = None
    topic: str | None = None
    queue_id: int | None = None
    physical_offset: int | None = None


def file_events(store: Store) -> Iterator[TimelineEvent]:
    """The events of all files but the records of the log. A file that cannot be read tells its times only."""
    yield from _modified(store)
    yield from _indexes(store)
    yield from _checkpoint(store)
    yield from _configs(store)


def _modified(store: Store) -> Iterator[TimelineEvent]:
    """When log and index files, the checkpoint and the config files were last written."""
    files = [*store.commitlog.files, *store.indexes, *store.configs]
    files += [] if store.checkpoint is None else [store.checkpoint]
    for file in files:
        yield _written(file, f"{file.relative} was last written")
    if store.abort is not None:
        text = "a broker started; it has not stopped in an orderly way since, or still runs"
        yield _written(store.abort, text, "Broker Start", "broker")
    for other in store.others:
        if other.kind is OtherKind.ABORT_BACKUP:
            for file in other.files:
                yield _written(file, "a broker of 5.0.0 or later stopped or started", "Abort Moved", "broker")
    if store.lock is not None:
        yield _written(store.lock, "a broker last wrote its lock file", "Lock Written", "broker")


def _written(
    file: StoreFile, text: str, desc: str = "Content Modification Time", kind: EventKind = "file"
) -> TimelineEvent:
    return TimelineEvent(file.mtime_ns // 1_000_000, desc, text, kind, file.relative)


def _indexes(store: Store) -> Iterator[TimelineEvent]:
    for index in store.indexes:
        if index.created is not None:
            at = int(index.created.replace(tzinfo=UTC).timestamp() * 1000)
            text = f"{index.relative} was made, by its name: in the broker's time zone, shown as if UTC"
            yield TimelineEvent(at, "Creation Time", text, "file", index.relative)
        try:
            with FileReader(index.path) as reader:
                header = decode_header(reader.read_upto(0, HEADER.size))
        except (FormatError, StoreError):
            continue
        for name, at in (("first", header.begin_timestamp), ("last", header.end_timestamp)):
            if at > 0:
                text = f"{name} message in {index.relative}"
                yield TimelineEvent(at, f"{name.capitalize()} Message Indexed", text, "file", index.relative)


def _checkpoint(store: Store) -> Iterator[TimelineEvent]:
    file = store.checkpoint
    if file is None:
        return
    try:
        with FileReader(file.path) as reader:
            values = CHECKPOINT.parse(reader.read_upto(0, CHECKPOINT.size))
    except (FormatError, StoreError):
        return
    for name, text in _CHECKPOINT_FIELDS.items():
        if values[name] > 0:
            yield TimelineEvent(values[name], f"Checkpoint {name}", text, "broker", file.relative)


def _configs(store: Store) -> Iterator[TimelineEvent]:
    """When a table of the broker last changed, by the version that it keeps."""
    with StoreView(store) as view:
        for name in _VERSIONED:
            try:
                value = view.config(name)
                version = None if value is None else data_version(value)
            except (FormatError, StoreError):
                continue
            if version is not None and version.timestamp > 0:
                text = f"the broker's table {name} last changed (its counter of changes is {version.counter})"
                yield TimelineEvent(version.timestamp, "Table Changed", text, "config", f"config/{name}")


# Events that are still to come: messages that wait for a timer, and those of delay levels.

DUE_LIMIT = 10_000
"""Messages that are listed of the timers, and of each delay level."""


def due_events(store: Store) -> Iterator[TimelineEvent]:
    """What waits, in the order of each source. Raises StoreError for files that cannot be read."""
    for message in wheel_messages(store, max_count=DUE_LIMIT):
        at = message.deliver_timestamp or message.due_timestamp
        to = "" if message.topic is None else f" of {message.topic}"
        yield TimelineEvent(
            at,
            "Scheduled Delivery",
            f"a message{to} waits on the timer wheel ({message.action.value})",
            "due",
            topic=message.topic,
            queue_id=message.queue_id,
            physical_offset=message.physical_offset,
        )
    for level, units in delayed_units(store):
        for unit in islice(units, DUE_LIMIT):
            yield TimelineEvent(
                unit.tags_code,
                "Scheduled Delivery",
                f"a message of delay level {level} waits",
                "due",
                topic=SCHEDULE_TOPIC,
                queue_id=delay_queue_id(level),
                physical_offset=unit.physical_offset,
            )
