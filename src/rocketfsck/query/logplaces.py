"""What a store has at the places that a line names: records, queue offsets, files.

A hole of a statement is a place by its name, which is that of the expression in the broker's source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rocketfsck.formats.consumequeue import UNIT_SIZE
from rocketfsck.query.places import find_by_offset
from rocketfsck.query.view import StoreView
from rocketfsck.scan.views.messages import Message
from rocketfsck.store.model import Store, StoreFile

_PHYSICAL = frozenset(
    {
        "bodyOffset",
        "commitLogOffset",
        "confirmOffset",
        "lastConfirmValidMsgPhyOffset",
        "mappedFileOffset",
        "masterOffset",
        "masterPhyOffset",
        "maxPhyOffset",
        "maxPhyOffsetOfConsumeQueue",
        "maxPhysicOffset",
        "maxPhysicalPosInLogicQueue",
        "minPhyOffset",
        "offsetPy",
        "offsetToTruncate",
        "phyOffset",
        "processOffset",
        "reputFromOffset",
        "slaveAckOffset",
        "slavePhyOffset",
        "startOffset",
        "truncateOffset",
    }
)
_QUEUE_BYTES = frozenset(("expectLogicOffset", "currentLogicOffset"))
_FILES = frozenset(["bcq", "file", "fileName", "filePath", "finalFileName", "path", "scpPath", "targetBcq"])
_TOPIC, _QUEUE_IDS, _OFFSET = "topic", ("queueId", "queue"), "offset"
Values = tuple[tuple[str, str], ...]
"""Holes by name, with what is in them."""


@dataclass(frozen=True, slots=True)
class StorePlace:
    """A place that a line names: its hole and what is there. `file` is relative to the store, None without
    one; `command` shows the place, as an argument vector without the program."""

    hole: str
    says: str
    file: str | None = None
    command: tuple[str, ...] = ()


def places_of(store: Store, values: Values, root: str) -> tuple[StorePlace, ...]:
    """The places among the holes of a line, in a store at `root`. Raises StoreError for unreadable files."""
    with StoreView(store) as view:
        return tuple(_places(view, values, root))


def _places(view: StoreView, values: Values, root: str) -> Iterator[StorePlace]:
    named = dict(values)
    topic = named.get(_TOPIC)
    queue_id = next((int(named[name]) for name in _QUEUE_IDS if _is_number(named.get(name))), None)
    for hole, value in dict.fromkeys(values):
        if hole in _PHYSICAL and _is_number(value):
            yield record_place(view, hole, int(value), root)
        elif hole in _FILES:
            yield from file_place(view, hole, value, root)
    if topic is None or queue_id is None:
        return
    queue = view.queue(topic, queue_id)
    if queue is None:
        yield StorePlace(_TOPIC, f"the store has no consume queue {queue_id} of topic {topic}")
        return
    yield StorePlace(
        _TOPIC,
        f"queue {queue_id} of topic {topic} has queue offsets {queue.min_offset} to {queue.max_offset}, "
        "half-open",
        None,
        ("query", "offsets", root, "--topic", topic),
    )
    for hole, value in dict.fromkeys(values):
        if hole in _QUEUE_BYTES and _is_number(value):
            yield _unit(view, hole, topic, queue_id, int(value) // UNIT_SIZE, root)
        elif hole == _OFFSET and _is_number(value) and int(value) <= queue.max_offset:
            yield _unit(view, hole, topic, queue_id, int(value), root)


def record_place(view: StoreView, hole: str, offset: int, root: str) -> StorePlace:
    place = view.log.place(offset)
    if place is None:
        low, high = view.log.min_offset, view.log.end_offset
        return StorePlace(
            hole, f"no file has physical offset {offset}; the log has {low} to {high}, half-open"
        )
    file, pos = place
    shown = ("dump", "--hex", "--physical-offset", f"{offset}:", "--limit", "1", f"{root}/{file.relative}")
    found = view.log.record_at(offset)
    if isinstance(found, Message):
        says = (
            f"a record begins at physical offset {offset}, byte {pos} of {file.relative}: "
            f"topic {found.topic}, queueId {found.queue_id}, queue offset {found.queue_offset}"
        )
    else:
        why = "" if found is None else f" ({found.name.lower().replace('_', ' ')})"
        says = f"no record begins at physical offset {offset}, byte {pos} of {file.relative}{why}"
    return StorePlace(hole, says, file.relative, shown)


def _unit(view: StoreView, hole: str, topic: str, queue_id: int, offset: int, root: str) -> StorePlace:
    answer = find_by_offset(view.store, topic, queue_id, offset, via="index", view=view)
    notes = [] if answer.trace is None else answer.trace.notes
    note = "; ".join([*notes, *(lead.why for lead in answer.leads)])
    return StorePlace(
        hole,
        f"queue offset {offset}: {note or answer.why}",
        None,
        ("query", "offset", root, topic, str(queue_id), str(offset), "--via", "both"),
    )


def file_place(view: StoreView, hole: str, value: str, root: str) -> Iterator[StorePlace]:
    store = view.store
    parts = value.rstrip("/").split("/")
    files: list[StoreFile] = [
        *store.commitlog.files,
        *(file for queue in store.queues for file in queue.mapped_files.files),
        *store.indexes,
    ]
    for keep in range(min(len(parts), 5), 1, -1):  # the broker's root need not be where the store is now
        tail = "/" + "/".join(parts[-keep:])
        for file in files:
            if f"/{file.relative}".endswith(tail):
                says = f"{file.relative} has {file.size:,} bytes"
                yield StorePlace(hole, says, file.relative, ("dump", f"{root}/{file.relative}"))
                return
    yield StorePlace(hole, f"the store has no file {'/'.join(parts[-4:])}")


def _is_number(text: str | None) -> bool:
    return text is not None and text.isascii() and text.isdigit() and len(text) < 19
