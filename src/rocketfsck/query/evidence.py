"""What a store has of a text that somebody has: all that it may be, and what is there for each.

    without a scan    offset id, physical offset, TOPIC/QUEUE/OFFSET, topic, consumer group, file, time
    in one scan       UNIQ_KEY, key, tags, host, text in a body (unpacked, where it is compressed)

A text may be several of them at once. The scan reads the whole log, and ends after `HIT_LIMIT` messages.

What a store has at the places that a line names: records, queue offsets, files.

A hole of a statement is a place by its name, which is that of the expression in the broker's source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal

from rocketfsck.common.wording import count_of, parse_time, timestamp
from rocketfsck.errors import FormatError
from rocketfsck.formats.consumequeue import UNIT_SIZE
from rocketfsck.query.answers import Found, Outcome
from rocketfsck.query.content.evaluate import Expression, find_by_expression, scan_log
from rocketfsck.query.ids import find_by_id
from rocketfsck.query.info.store import log_info
from rocketfsck.query.offsets import group_offsets, queue_offsets
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
    bounds = f"{queue.min_offset} to {queue.max_offset}, half-open"
    says = f"queue {queue_id} of topic {topic} has queue offsets {bounds}"
    yield StorePlace(_TOPIC, says, command=("query", "offsets", root, "--topic", topic))
    for hole, value in dict.fromkeys(values):
        if hole in _QUEUE_BYTES and _is_number(value):
            yield _unit(view, hole, topic, queue_id, int(value) // UNIT_SIZE, root)
        elif hole == _OFFSET and _is_number(value) and int(value) <= queue.max_offset:
            yield _unit(view, hole, topic, queue_id, int(value), root)


def record_place(view: StoreView, hole: str, offset: int, root: str) -> StorePlace:
    place = view.log.place(offset)
    if place is None:
        low, high = view.log.min_offset, view.log.end_offset
        says = f"no file has physical offset {offset}; the log has {low} to {high}, half-open"
        return StorePlace(hole, says)
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
    command = ("query", "offset", root, topic, str(queue_id), str(offset), "--via", "both")
    return StorePlace(hole, f"queue offset {offset}: {note or answer.why}", command=command)


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


HIT_LIMIT = 10_000
"""Messages of the scan after which it ends: what is there is plain by then."""

Reading = Literal[
    "offset-id",
    "physical-offset",
    "queue-offset",
    "file",
    "topic",
    "group",
    "time",
    "unique-key",
    "key",
    "tags",
    "host",
    "text",
]
_NUMBER = re.compile(r"(?:0[xX][0-9a-fA-F]{1,15}|\d{1,18})", re.ASCII)
_QUEUE_PLACE = re.compile(r"(.+)[/ ](\d{1,9})[/ ](\d{1,18})", re.ASCII)
_HOST = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<four>[^:]+))(?::(?P<port>\d{1,5}))?", re.ASCII)
_FIRST_TIME = 100_000_000_000
"""A number is a time from here on (1973), and else an offset alone."""


@dataclass(frozen=True, slots=True)
class TextEvidence:
    """One thing that the text is, and what the store has of it.

    `found` are the first of `count` messages; where the scan ended early, `is_counted` is false and there may
    be more. `command` shows all of it, as an argument vector without the program.
    """

    reading: Reading
    says: str
    count: int = 0
    is_counted: bool = True
    found: tuple[Found, ...] = ()
    command: tuple[str, ...] = ()


def find_evidence(view: StoreView, text: str, root: str, limit: int) -> Iterator[TextEvidence]:
    """All that a text is in a store at `root`, each with at most `limit` messages. Raises StoreError."""
    yield from _offset_id(view, text, root)
    if _NUMBER.fullmatch(text):
        yield from _physical_offset(view, int(text, 0) if text[:2] in ("0x", "0X") else int(text), root)
    place = _QUEUE_PLACE.fullmatch(text)
    if place is not None:
        yield from _queue_offset(view, place[1], int(place[2]), int(place[3]), root)
    if "/" in text:
        for file in file_place(view, "file", text, root):
            if file.file is not None:
                yield TextEvidence("file", f"a file: {file.says}", command=file.command)
    yield from _topic(view, text, root)
    yield from _group(view, text, root)
    yield from _time(view, text, root, limit)
    yield from _scanned(view, text, root, limit)


def _offset_id(view: StoreView, text: str, root: str) -> Iterator[TextEvidence]:
    try:
        answer = find_by_id(view.store, text, reading="offset", via="auto", view=view)
    except FormatError:
        return
    if answer.outcome is Outcome.FOUND:
        says = "an offset message id, which leads to this record"
        command = ("query", "life", root, text)
        yield TextEvidence("offset-id", says, len(answer.found), found=answer.found, command=command)


def _physical_offset(view: StoreView, offset: int, root: str) -> Iterator[TextEvidence]:
    if view.log.place(offset) is None:
        return
    place, message = record_place(view, "offset", offset, root), view.log.message_at(offset)
    found = (view.found(message, offset, "scan"),) if isinstance(message, Message) else ()
    says = f"a physical offset: {place.says}"
    yield TextEvidence("physical-offset", says, len(found), found=found, command=place.command)


def _queue_offset(
    view: StoreView, topic: str, queue_id: int, offset: int, root: str
) -> Iterator[TextEvidence]:
    if view.queue(topic, queue_id) is None:
        return
    answer = find_by_offset(view.store, topic, queue_id, offset, via="both", view=view)
    says = "a place in a queue" + (f": {answer.why}" if answer.why else "")
    command = ("query", "offset", root, topic, str(queue_id), str(offset))
    yield TextEvidence("queue-offset", says, len(answer.found), found=tuple(answer.found), command=command)


def _topic(view: StoreView, text: str, root: str) -> Iterator[TextEvidence]:
    queues = list(queue_offsets(view.store, topic=text, view=view))
    if not queues:
        return
    first = [queue.first_timestamp for queue in queues if queue.first_timestamp is not None]
    last = [queue.last_timestamp for queue in queues if queue.last_timestamp is not None]
    count = sum(queue.count for queue in queues)
    times = f", stored from {timestamp(min(first))} to {timestamp(max(last))}" if first and last else ""
    says = f"a topic with {count_of(len(queues), 'queue')} and {count_of(count, 'message')}{times}"
    yield TextEvidence("topic", says, count, command=("query", "offsets", root, "--topic", text))


def _group(view: StoreView, text: str, root: str) -> Iterator[TextEvidence]:
    try:
        places = group_offsets(view.store, group=text, view=view)
    except FormatError:  # a config that no broker loads: `check` says which
        return
    if places:
        topics = {place.topic for place in places}
        lag = sum(place.lag for place in places)
        says = (
            f"a consumer group of {count_of(len(topics), 'topic')} and {count_of(len(places), 'queue')}, "
            f"{count_of(lag, 'message')} behind"
        )
        yield TextEvidence("group", says, command=("query", "offsets", root, "--group", text))


def _time(view: StoreView, text: str, root: str, limit: int) -> Iterator[TextEvidence]:
    try:
        wanted = parse_time(text)
    except ValueError:
        return
    if wanted < _FIRST_TIME:
        return
    expression = f"store_timestamp >= {wanted}"
    start = 0
    for file in view.log.files:  # by times that rise, as all searches for a time go
        first = log_info(file).first_store_timestamp
        if first is not None and first <= wanted:
            start = file.start_offset or 0
    found = tuple(find_by_expression(view.store, expression, max_count=limit, start_offset=start, view=view))
    after = "the first messages from then on" if found else "no message is so late"
    command = ("query", "scan", root, expression)
    says = f"a time, {timestamp(wanted)}: {after}"
    yield TextEvidence("time", says, len(found), is_counted=False, found=found, command=command)


def _scanned(view: StoreView, text: str, root: str, limit: int) -> Iterator[TextEvidence]:
    asked = {reading: Expression(expression) for reading, expression in _expressions(text)}
    whole = Expression(" or ".join(f"({one.text})" for one in asked.values()))
    counts: dict[Reading, int] = dict.fromkeys(asked, 0)
    kept: dict[Reading, list[Found]] = {reading: [] for reading in asked}
    hits = 0
    for offset, message in scan_log(view.log, whole, matches=whole.matches, with_bodies=True):
        hits += 1
        for reading, one in asked.items():
            if one.matches(message, offset):
                counts[reading] += 1
                if len(kept[reading]) < limit:
                    kept[reading].append(view.found(message, offset, "scan"))
        if hits == HIT_LIMIT:
            break
    for reading, one in asked.items():
        if counts[reading]:
            found = tuple(kept[reading])
            says = f"{_NAMES[reading]} of {'' if hits < HIT_LIMIT else 'at least '}"
            says += count_of(counts[reading], "message")
            command = _shown_by(reading, text, root, one.text, found)
            yield TextEvidence(reading, says, counts[reading], hits < HIT_LIMIT, found, command)


_NAMES: dict[Reading, str] = {
    "unique-key": "the UNIQ_KEY",
    "key": "a key",
    "tags": "the tags",
    "host": "the host (born or store host)",
    "text": "a text in the bodies",
}


def _expressions(text: str) -> Iterator[tuple[Reading, str]]:
    """What a scan looks for, by what the text is then."""
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    yield "unique-key", f"unique_key == {quoted}"
    yield "key", f"keys == {quoted}"
    yield "tags", f"tags == {quoted}"
    host = _host_pattern(text)
    if host is not None:
        yield "host", f"born_host ~ {host} or store_host ~ {host}"
    yield "text", f"content contains {quoted}"


def _host_pattern(text: str) -> str | None:
    """A regular expression of hosts as messages show them, of any port where the text names none."""
    try:
        address, port = str(ip_address(text)), None
    except ValueError:
        parts = _HOST.fullmatch(text)
        if parts is None:
            return None
        try:
            address, port = str(ip_address(parts["six"] or parts["four"])), parts["port"]
        except ValueError:
            return None
    end = r"(:|\]|$)" if port is None else rf"\]?:{port}$"
    return rf"/^\[?{re.escape(address)}{end}/"


def _shown_by(
    reading: Reading, text: str, root: str, expression: str, found: tuple[Found, ...]
) -> tuple[str, ...]:
    if reading == "unique-key":
        return ("query", "life", root, text)
    if reading == "key":
        topics = {item.message.topic for item in found}
        if len(topics) == 1:
            return ("query", "key", root, topics.pop(), text)
    return ("query", "scan", root, expression)
