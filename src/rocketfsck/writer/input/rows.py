"""Messages from JSON lines, Parquet and Arrow, one row a message, in bounded memory.

A row is checked field by field before anything is made of it; whatever is refused, by this module or by the
writer after it, is refused with the line or row and the field. `FIELDS` (inputfields) is the schema. The
form follows from a file's first bytes, never from its name.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats import columns, magic, record, timer
from rocketfsck.formats.properties import DELAY, KEYS, TAGS, UNIQ_KEY
from rocketfsck.writer.input import fields as input_fields
from rocketfsck.writer.input.fields import InputError
from rocketfsck.writer.message import messages

MAX_LINE_SIZE = 64 << 20
"""Bytes of a line: what base64 makes of the largest message that a broker can be set to take, and more."""

DEFAULT_START_TIME = 1_704_067_200_000
"""2024-01-01T00:00:00Z: when the first message is stored if nothing says it."""

_BODIES = ("body", "body_b64", "body_hex")
_RAW_PROPERTIES = ("properties_b64", "properties_raw_b64", "properties_raw")
_SHORTCUTS = (("tags", TAGS), ("keys", KEYS), ("unique_key", UNIQ_KEY))
_HEAD_SIZE = 8
_ARROW_HEADS = (b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")
_INNER_BITS = magic.NEED_UNWRAP | magic.INNER_BATCH
_FIELD_OF_REASON: Mapping[str, tuple[str, ...]] = {
    **{
        name: (name,)
        for name in ("topic", "body", "queue_id", "sys_flag", "born_host", "store_host", "items")
    },
    "properties": ("propert", "INNER_", "DELAY"),
    "multi_dispatch": ("queue ", "multi_dispatch", "the multi-dispatch", "only normal"),
    "delay_level": ("a delayed",),
}
"""How the writer's reasons begin that are about a field."""


Row = Mapping[str, Any]
RowsOf = Callable[["MessageSource"], Iterator[Row]]
"""Gives the rows of an input and counts them in the source's `number`."""


class MessageSource:
    """The messages of an input, once, in order. `place` names the row that was given last.

    `clock` is the storeTimestamp (ms) of a message that does not say its own, if it is the first one.
    """

    def __init__(self, rows: RowsOf, name: str, unit: str, clock: int) -> None:
        self._rows = rows
        self._name = name
        self._unit = unit
        self._clock = clock
        self.number = 0

    @property
    def place(self) -> str:
        """Where the last row stands: `orders.jsonl, line 7`."""
        return f"{self._name}, {self._unit} {self.number}"

    def __iter__(self) -> Iterator[messages.OutgoingMessage]:
        for row in self._rows(self):
            message = message_of_row(row, self.place, self._clock)
            if message is not None:
                self._clock = message.store_timestamp + 1
                yield message

    def refusal(self, error: messages.MessageError) -> InputError:
        """What the writer refused, as the refusal of the row that it came from."""
        reason = error.reason
        field = next((name for name, starts in _FIELD_OF_REASON.items() if reason.startswith(starts)), "")
        return InputError(self.place, field, reason)


def message_of_row(row: Row, place: str, clock: int = 0) -> messages.OutgoingMessage | None:
    """The message that a row says; None for a row of `dump` that holds none. InputError if it is wrong.

    Fields that are null are as if they were not there.
    """
    values: dict[str, Any] = {}
    unread = _unread_fields(row)
    for name, given in row.items():
        if name in unread:
            continue
        field = input_fields.FIELDS_BY_NAME.get(name)
        if field is None:
            if name in input_fields.DERIVED:
                continue
            raise InputError(place, _named(name), "unknown field")
        if given is None:
            continue
        try:
            values[name] = field.convert(given)
        except ValueError as error:
            raise InputError(place, name, str(error)) from None
    if values.get("kind") in input_fields.EMPTY_KINDS:
        return None
    return _message(values, place, clock)


def _unread_fields(row: Row) -> frozenset[str]:
    """A dumped record's pairs are but a view of its properties string where it was dumped with that."""
    is_raw = any(row.get(name) is not None for name in _RAW_PROPERTIES)
    stored = is_raw and row.get("kind") == input_fields.AS_STORED
    return frozenset({"properties"}) if stored else frozenset()


def _is_delivered(topic: str, sys_flag: int, properties: messages.Properties) -> bool:
    """Whether a record is that of a delayed message whose time had come."""
    if topic == timer.SCHEDULE_TOPIC or sys_flag & magic.TRANSACTION_MASK or isinstance(properties, bytes):
        return False
    names = properties if isinstance(properties, Mapping) else dict(properties)
    return DELAY in names


def _message(values: dict[str, Any], place: str, clock: int) -> messages.OutgoingMessage:
    if not values.get("topic"):
        raise InputError(place, "topic", "a message needs one")
    stored = values.get("kind") == input_fields.AS_STORED
    kind = input_fields.KINDS[values.get("kind", messages.Kind.NORMAL.value)]
    body = _one_of(values, _BODIES, place)
    sys_flag = values.get("sys_flag", 0)
    items = values.get("items", ())
    if stored and sys_flag & _INNER_BITS == _INNER_BITS:
        kind, sys_flag = messages.Kind.INNER_BATCH, sys_flag & ~_INNER_BITS
        try:
            items, body = tuple(record.decode_items(body or b"")), None
        except FormatError as error:
            raise InputError(place, "body", f"no items of an inner batch: {error}") from None
    time = values.get("store_timestamp", values.get("born_timestamp", clock))
    properties = _all_properties(values, place, in_order=stored)
    if stored and kind is messages.Kind.NORMAL and _is_delivered(values["topic"], sys_flag, properties):
        kind = messages.Kind.DELIVERED
    return messages.OutgoingMessage(
        topic=values["topic"],
        body=body or b"",
        store_timestamp=time,
        queue_id=values.get("queue_id", 0),
        properties=properties,
        kind=kind,
        sys_flag=sys_flag,
        born_timestamp=values.get("born_timestamp"),
        born_host=values.get("born_host", messages.DEFAULT_BORN_HOST),
        store_host=values.get("store_host", messages.DEFAULT_STORE_HOST),
        items=items,
        delay_level=values.get("delay_level", 0),
        multi_dispatch=values.get("multi_dispatch", ()),
        filter_bit_map=values.get("filter_bit_map", b""),
        **{column.name: values[column.name] for column in columns.GIVEN if column.name in values},
    )


def _one_of(values: Mapping[str, Any], names: tuple[str, ...], place: str) -> Any:
    given = [name for name in names if name in values]
    if len(given) > 1:
        raise InputError(place, given[1], f"{given[0]} is also given")
    return values[given[0]] if given else None


def _all_properties(values: Mapping[str, Any], place: str, *, in_order: bool) -> messages.Properties:
    """The properties with those that have a field of their own."""
    raw = _one_of(values, _RAW_PROPERTIES, place)
    given: messages.Properties = values.get("properties", {})
    if raw is not None:
        if "properties" in values and not in_order:
            raise InputError(place, "properties", "the properties string is also given")
        given = raw
    shortcuts = {name: values[field] for field, name in _SHORTCUTS if field in values}
    if isinstance(given, bytes):
        if shortcuts and not in_order:
            fields = [field for field, _ in _SHORTCUTS if field in values]
            raise InputError(place, fields[0], "the properties string is given and has all of them")
        return given
    pairs = tuple(given.items()) if isinstance(given, Mapping) else given
    if in_order:
        return pairs
    for field, name in _SHORTCUTS:
        if name in shortcuts and any(key == name and value != shortcuts[name] for key, value in pairs):
            raise InputError(place, field, f"the properties have another {name}")
    known = {key for key, _ in pairs}
    added = tuple((name, value) for name, value in shortcuts.items() if name not in known)
    return {**dict(pairs), **dict(added)} if isinstance(given, Mapping) else pairs + added


def _named(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:57]}..."


@contextmanager
def open_messages(path: Path | str, start_time: int = DEFAULT_START_TIME) -> Iterator[MessageSource]:
    """The messages in a file, `-` for JSON lines on standard input.

    Raises StoreError if it cannot be read, InputError (a UsageError) for what is not a message.
    """
    if str(path) == "-":
        yield MessageSource(partial(_json_rows, sys.stdin.buffer), "standard input", "line", start_time)
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(Path(path).open("rb"))
            head = file.peek(_HEAD_SIZE)[:_HEAD_SIZE]  # a pipe cannot be rewound
        except OSError as error:
            raise StoreError(f"cannot be read: {error.strerror}", path=str(path)) from error
        if head.startswith(_ARROW_HEADS):
            from rocketfsck.writer.input.arrow import arrow_rows

            yield MessageSource(partial(arrow_rows, file, head), str(path), "row", start_time)
        else:
            yield MessageSource(partial(_json_rows, file), str(path), "line", start_time)


def _json_rows(stream: IO[bytes], source: MessageSource) -> Iterator[Row]:
    """The objects of JSON lines; lines of blanks alone are passed over."""
    while True:
        try:
            line = stream.readline(MAX_LINE_SIZE + 1)
        except OSError as error:
            raise StoreError(f"cannot be read: {error.strerror}", path=source.place) from error
        if not line:
            return
        source.number += 1
        if len(line) > MAX_LINE_SIZE:
            raise InputError(source.place, "", f"more than {MAX_LINE_SIZE:,} bytes")
        if source.number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.strip():
            yield _json_row(line, source.place)


def _json_row(line: bytes, place: str) -> Row:
    try:
        value = json.loads(
            line.decode("utf-8"),
            object_pairs_hook=_distinct,
            parse_constant=_no_constant,
            parse_float=_no_float,
        )
    except UnicodeDecodeError as error:
        raise InputError(place, "", f"byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise InputError(place, "", f"not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise InputError(place, "", "JSON that is nested too deeply") from None
    except ValueError as error:
        raise InputError(place, "", str(error)) from None
    if not isinstance(value, dict):
        raise InputError(place, "", "not a JSON object")
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{_named(twice)}: appears twice")
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _no_float(text: str) -> Any:
    raise ValueError(f"{_named(text)} is not a whole number")
