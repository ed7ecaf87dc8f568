"""Messages that were found, as rows, and as text in the form of `dump`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rocketfsck.cli.dump.item import COMMON_COLUMNS, DumpFilter, Item, Kind, TextColumn, load_kind
from rocketfsck.cli.dump.records import message_values
from rocketfsck.cli.dump.render import TextRenderer
from rocketfsck.cli.output import BodyForm, Column, body_values, of_kind
from rocketfsck.cli.query.options import QueryRequest
from rocketfsck.cli.show.text import Palette
from rocketfsck.common.documents import members
from rocketfsck.formats.layout import shown_values
from rocketfsck.query.answers import Dispatched, Found, UnitState
from rocketfsck.query.ids import offset_id_of

_QUEUE_WORDS = {
    UnitState.MISSING: "has no unit for it",
    UnitState.DIFFERS: "has a unit there that points elsewhere",
    UnitState.NO_QUEUE: "does not exist",
    UnitState.UNREADABLE: "cannot be read",
    UnitState.EXPIRED: "begins after it",
}


def found_columns(body: BodyForm) -> tuple[Column, ...]:
    """The machine columns of a message that was found."""
    return (
        Column("file", "name"),
        Column("offset", "int"),
        Column("offset_message_id", "text"),
        Column("live", "bool"),
        *of_kind("json", "via", "queues"),
        *load_kind("commitlog", DumpFilter(body=body)).columns[len(COMMON_COLUMNS) :],
    )


def found_row(found: Found, body: BodyForm, root: str) -> dict[str, Any]:
    """A message that was found with all its columns."""
    message = found.message
    row: dict[str, Any] = {
        "file": message.path.removeprefix(root).lstrip("/"),
        "offset": found.offset,
        "offset_message_id": offset_id_of(message, found.offset),
        "live": found.live,
        "via": list(found.via),
        "queues": [dict(members(place)) for place in found.queues],
        **shown_values(message_values(message)),
    }
    return row | body_values(message, body)


class FoundText:
    """Found messages as lines: a table, or with `verbose` a block each."""

    def __init__(self, asked: QueryRequest, palette: Palette) -> None:
        text = load_kind("commitlog", DumpFilter()).text
        text = tuple(column for column in text if column.name != "physical_offset")
        place = TextColumn("offset", "offset", 14)
        kind = Kind("messages", "messages", (), (place, *text), lambda _source, _wanted: iter(()))
        self._renderer = TextRenderer(kind, palette, verbose=asked.verbose, body=asked.body != "none")
        self._asked = asked

    def lines(self, found: Found) -> Iterator[str]:
        """The lines of one message; the first also gives the table's head."""
        message = found.message
        values = found_row(found, self._asked.body, str(self._asked.path.absolute()))
        values["queues"] = [_queue_text(place) for place in found.queues]
        values["live"] = values["live"] if found.live is not None else "not looked at"
        end = message.pos + message.total_size
        yield from self._renderer.lines(Item("record", message.pos, end, values, note_of(found)))


def _queue_text(place: Dispatched) -> str:
    return f"{place.topic}/{place.queue_id}/{place.queue_offset}:{place.state.value}"


def note_of(found: Found) -> str:
    """What is odd about a message that was found; empty for nothing."""
    said = []
    if found.live is False:
        said.append("stale: after the end of the log, left by a truncation")
    said += [f"odd: {name}" for name in found.message.fault_names]
    for place in found.queues:
        if place.state in _QUEUE_WORDS:
            where = f"queue {place.queue_id} of {place.topic}"
            said.append(f"odd: {where} {_QUEUE_WORDS[place.state]}")
        elif place.state is UnitState.NOT_EXPECTED:
            said.append("prepared or rolled back: in no queue")
    return ", ".join(said)
