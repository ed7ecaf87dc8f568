"""Messages by id. An id of 32 or 56 hex digits may be either kind, and only a try tells.

    offsetMsgId -> the record at its physical offset, which must name the same store host
    uniqID      -> the UNIQ_KEY of a message of any topic: by the index under each topic, then by a scan

Reference 7.1 to 7.3.
"""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rocketfsck.errors import FormatError, UsageError
from rocketfsck.formats import messageid
from rocketfsck.formats.record import Host
from rocketfsck.query.answers import STALE, Answer, Found, Lead, Outcome, ScanStep, Trace
from rocketfsck.query.content.evaluate import scan_log
from rocketfsck.query.keys import Via, find_by_key
from rocketfsck.query.view import StoreView
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.spans import distinct
from rocketfsck.scan.views.messages import Message, MessageFilter
from rocketfsck.store.model import Store

Reading = Literal["either", "offset", "unique"]


def find_by_id(
    store: Store,
    text: str,
    *,
    reading: Reading = "either",
    via: Via = "auto",
    view: StoreView | None = None,
) -> Answer:
    """The message of an id. `reading` says which kind it is; "either" tries both.

    Where both kinds lead to different messages the outcome is AMBIGUOUS and both are given. `via` is how a
    unique id is looked for. Raises FormatError for a text that is neither 32 nor 56 hex digits, StoreError
    when the log cannot be read.
    """
    if view is None:
        with StoreView(store) as own:
            return find_by_id(store, text, reading=reading, via=via, view=own)
    parts = messageid.decode_offset_id(text)
    trace = Trace()
    leads: list[Lead] = []
    by_offset = by_unique = None
    if reading != "unique":
        by_offset = _live(view, _at_offset(view, parts, trace, leads), via, "the offset id", leads)
    if reading != "offset" and not (via == "auto" and by_offset is not None and reading == "either"):
        by_unique = find_unique_anywhere(view, text, via, trace, leads)
    elif reading == "either":
        by_unique = find_unique_anywhere(view, text, "index", trace, leads)
    unique = [_live(view, found, via, "the unique id", leads) for found in by_unique or ()]
    return _decide(text, by_offset, tuple(found for found in unique if found), leads, trace)


def _live(view: StoreView, found: Found | None, via: Via, source: str, leads: list[Lead]) -> Found | None:
    """The record, if it is live; a stale one becomes a lead. A walk over its file tells where nothing less
    does, unless only the index is asked."""
    if found is None:
        return None
    live = found.live
    if live is None and via != "index":
        live = view.log.is_live(found.offset)
    if live is False:
        leads.append(Lead(found.offset, source, STALE))
        return None
    return replace(found, live=live)


def _decide(
    text: str, by_offset: Found | None, by_unique: tuple[Found, ...], leads: list[Lead], trace: Trace
) -> Answer:
    found = {item.offset: item for item in by_unique}
    if by_offset is not None:
        found.setdefault(by_offset.offset, by_offset)
    in_order = tuple(found[offset] for offset in sorted(found))
    outcome, why = Outcome.FOUND, f"read as {'an offset id' if by_offset is not None else 'a unique id'}"
    if not in_order:
        outcome = Outcome.NOT_FOUND
        why = f"{text} does not lead to a message, neither as an offset id nor as a unique id"
        stale = next((lead for lead in leads if lead.why == STALE), None)
        if stale is not None:
            why = f"{text} leads to a stale record at physical offset {stale.offset}, not a message"
    elif by_offset is not None and by_unique and len(found) > len(by_unique):
        outcome = Outcome.AMBIGUOUS
        why = f"{text} is the offset id of one message and the unique id of another; "
        why += "choose with --as offset or --as unique"
    return Answer(outcome, in_order, why, leads=tuple(leads), trace=trace)


def _at_offset(
    view: StoreView, parts: messageid.OffsetMessageId, trace: Trace, leads: list[Lead]
) -> Found | None:
    offset = parts.physical_offset
    place = view.log.place(offset)
    if place is None:
        trace.notes.append(f"as an offset id: physical offset {offset} is outside the log")
        return None
    message = view.log.message_at(offset)
    if not isinstance(message, Message):
        trace.notes.append(f"as an offset id: no record begins at physical offset {offset}")
        return None
    if message.store_host != Host(parts.address, parts.port).text:
        own = messageid.encode_offset_id(messageid.OffsetMessageId(*_host_parts(message), offset))
        leads.append(Lead(offset, "the offset id", f"the record there has another id: {own}"))
        trace.notes.append(f"as an offset id: the record at {offset} has the id {own}")
        return None
    trace.notes.append(f"as an offset id: {place[0].relative} at byte {place[1]}")
    return view.found(message, offset, "id")


def _host_parts(message: Message) -> tuple[bytes, int]:
    address, _, port = message.store_host.rpartition(":")
    return ip_address(address.strip("[]")).packed, int(port)


def offset_id_of(message: Message, offset: int) -> str:
    """The offsetMsgId of a record that is at an offset."""
    return messageid.encode_offset_id(messageid.OffsetMessageId(*_host_parts(message), offset))


def find_unique_anywhere(
    view: StoreView, text: str, via: Via, trace: Trace, leads: list[Lead]
) -> tuple[Found, ...]:
    """The messages of any topic with this UNIQ_KEY, as given or in upper case, in the log's order.

    The index is asked under every topic that the store knows. `trace` and `leads` are added to.
    """
    found: dict[int, Found] = {}
    upper = text.upper()
    asked = tuple(dict.fromkeys((text, upper)))
    if via != "scan":
        for topic in view.topics:
            for key in asked:
                answer = find_by_key(view.store, topic, key, unique=True, via="index", view=view)
                found.update((item.offset, item) for item in answer.found)
                leads += [lead for lead in answer.leads if _is_telling(lead)]
                if answer.found and answer.trace is not None:
                    trace.key, trace.key_hash = answer.trace.key, answer.trace.key_hash
                    trace.index_steps += answer.trace.index_steps
        trace.notes += _made_by(text)
        trace.notes.append(
            f"as a unique id: asked the index under each topic ({len(view.topics):,})"
            + ("" if found else ", without a match")
        )
    if via in ("scan", "both") or (via == "auto" and not found):
        before = len(found)
        for offset, message in scan_log(view.log, _UniqueKeys(asked)):
            found.setdefault(offset, view.found(message, offset, "scan"))
        count = len(found) - before
        why = "asked for" if via != "auto" else "the index has no match"
        trace.scan_steps.append(ScanStep(0, view.log.end_offset, why, count))
    return tuple(found[offset] for offset in sorted(found))


def _made_by(text: str) -> list[str]:
    """What a unique id says of its maker; nothing for a key of another form."""
    try:
        parts = messageid.decode_unique_id(text)
    except FormatError:
        return []
    return [
        f"as a unique id: made by process {parts.pid} (16 bits of it) at {parts.host_text}, "
        f"counter {parts.counter}, {parts.span} ms into a month of its time zone"
    ]


class _UniqueKeys:
    """Records whose UNIQ_KEY is one of these, whatever their topic."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys
        self._filters = [MessageFilter(key=key) for key in keys]

    def rows(self, batch: RecordBatch, table: QueueTable, base_offset: int) -> NDArray[np.intp]:
        rows = [wanted.rows(batch, table, base_offset) for wanted in self._filters]
        found: NDArray[np.intp] = distinct(np.concatenate(rows))
        return found

    def accepts(self, message: Message) -> bool:
        return message.unique_key in self.keys


def _is_telling(lead: Lead) -> bool:
    """Whether a lead says more than that two keys have one hash."""
    return not lead.why.startswith("another message")


def check_id(text: str) -> None:
    """Raise UsageError, with the position, for a text that is not a message id."""
    try:
        messageid.decode_offset_id(text)
    except FormatError as error:
        raise UsageError(
            f"{text!r} is not a message id: {error}; for keys of another form use `query unique-key`"
        ) from None
