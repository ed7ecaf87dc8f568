"""Where a row leads: a record to its units and index entries, each of them back, along chains and lists.

    record -> unit, index entries, prepared record        unit -> record, ext unit
    row of a database -> record        entry of a DLedger log -> the units and index entries of its record
    slot -> newest entry -> the one before it … -> record    wheel slot -> timer log -> record

Every link is looked up in the bytes when it is asked for; one that leads to nothing says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from rocketfsck.cli.browse.model.files import FilePlace, OpenFile, Shelf
from rocketfsck.cli.dump.index import index_geometry
from rocketfsck.cli.dump.item import DumpFilter, Item, is_database
from rocketfsck.cli.show.text import sentence, visible
from rocketfsck.errors import StoreError
from rocketfsck.formats import consumequeue, indexfile, javatext, magic
from rocketfsck.progress import go_on
from rocketfsck.query.answers import Dispatched, UnitState
from rocketfsck.query.view import StoreView
from rocketfsck.reader.index import IndexReader
from rocketfsck.scan.views.messages import Message

CHAIN_LIMIT = 10_000
"""As many entries of a chain are followed in search of one."""
KEY_LIMIT = 64
SHOWN_LIMIT = 2_000
"""As many entries of a chain are listed."""


@dataclass(frozen=True, slots=True)
class Link:
    """What a row leads to, in words (printable); `place` is None where nothing is there. With a `slot`, the
    link is to the chain of that hash slot of the file that `place` names."""

    title: str
    place: FilePlace | None = None
    slot: int | None = None


def links_of(shelf: Shelf, view: StoreView, file: OpenFile, item: Item) -> list[Link]:
    """What a row of an open file leads to. Raises StoreError when bytes cannot be read."""
    kind = file.row.target.kind
    find = _FINDERS.get((kind, item.kind)) or (_of_row if is_database(kind) else None)
    return list(find(_Asked(shelf, view, file, item))) if find is not None else []


def chain_links(file: OpenFile, slot: int) -> list[Link]:
    """The chain of a hash slot of an open index file: the slot, its entries from the newest on, its end."""
    links = []
    for item in islice(file.kind.items(file.source, DumpFilter(slot=slot)), SHOWN_LIMIT):
        go_on()
        if item.kind == "chain-end":
            links.append(Link(f"{sentence(item.note)}"))
            continue
        values = item.values
        if item.kind == "slot":
            said = f"slot {slot}: newest entry {values['newest_index']}"
        else:
            said = f"entry {values['entry']}: physical offset {values['physical_offset']}"
            said += f", hash {values['key_hash']}"
        said += f", {item.note}" if item.note else ""
        links.append(Link(said, FilePlace(file.row.key, item.start)))
    if len(links) == SHOWN_LIMIT:
        links.append(Link(f"only the first {SHOWN_LIMIT:,} are listed"))
    return links


@dataclass(frozen=True, slots=True)
class _Asked:
    shelf: Shelf
    view: StoreView
    file: OpenFile
    item: Item

    def number(self, name: str) -> int:
        value: Any = self.item.values.get(name)
        return value if isinstance(value, int) else -1

    def record(self, name: str, title: str = "record") -> Link:
        offset = self.number(name)
        place = self.shelf.log_place(offset)
        said = f"{title} at physical offset {offset}"
        return Link(said if place else f"{said}: no file of the log has it", place)

    def whose(self) -> tuple[str | None, int | None]:
        return self.file.row.target.topic, self.file.row.target.queue_id


def _of_record(asked: _Asked) -> Iterator[Link]:
    start = asked.item.start
    offset = asked.file.source.start_offset + start
    if asked.shelf.at("commitlog", offset) != FilePlace(asked.file.row.key, start):
        return  # a copy in a compaction log or in tiered storage
    yield from _of_message(asked, offset)


def _of_dledger_entry(asked: _Asked) -> Iterator[Link]:
    """The links of the record that an entry carries; none of an entry without one."""
    if "physical_offset" in asked.item.values:
        yield from _of_message(asked, asked.number("physical_offset"))


def _of_message(asked: _Asked, offset: int) -> Iterator[Link]:
    message = asked.view.log.record_at(offset)
    if not isinstance(message, Message):
        return
    for dispatched in asked.view.found(message, offset).queues:
        yield _unit_link(asked.shelf, dispatched)
    yield from _entry_links(asked, message, offset)
    ended = magic.transaction_type(message.sys_flag) in (magic.TRANSACTION_COMMIT, magic.TRANSACTION_ROLLBACK)
    if ended and message.prepared_transaction_offset:
        yield asked.record("prepared_transaction_offset", "prepared record")


def _unit_link(shelf: Shelf, dispatched: Dispatched) -> Link:
    topic = visible(dispatched.topic)
    said = f"unit {dispatched.queue_offset} of topic {topic} queue {dispatched.queue_id}"
    why = _STATES[dispatched.state]
    if dispatched.unit is None:
        return Link(f"{said}: {why}")
    units = {"consumequeue": consumequeue.UNIT_SIZE, "batchconsumequeue": consumequeue.BATCH_UNIT_SIZE}
    for kind, size in units.items():
        pos = dispatched.unit.index * size
        place = shelf.at(kind, pos, dispatched.topic, dispatched.queue_id)
        if place is not None:
            return Link(f"{said}: {why}" if why else said, place)
    return Link(f"{said}: no file has it")


_STATES = {
    UnitState.AGREES: "",
    UnitState.MISSING: "the queue has no unit there",
    UnitState.DIFFERS: "the unit there points elsewhere",
    UnitState.NO_QUEUE: "the store has no such queue",
    UnitState.UNREADABLE: "the queue cannot be read",
    UnitState.EXPIRED: "the queue begins after it",
    UnitState.NOT_EXPECTED: "such records are in no queue",
}


def _entry_links(asked: _Asked, message: Message, offset: int) -> Iterator[Link]:
    """The index entries that lead back to a record, under each of its keys."""
    keys = [*([message.unique_key] if message.unique_key else []), *message.keys]
    wanted = list(dict.fromkeys(keys))[:KEY_LIMIT]
    found: set[str] = set()
    for file in asked.shelf.store.indexes:
        go_on()
        try:
            with IndexReader(file, asked.shelf.store.geometry) as index:
                header = index.header
                if not header.begin_physical_offset <= offset <= header.end_physical_offset:
                    continue
                for key in wanted:
                    hashed = javatext.index_hash(message.topic, key)
                    for entry in islice(index.chain(hashed), CHAIN_LIMIT):
                        if not isinstance(entry, str) and entry.physical_offset == offset:
                            found.add(key)
                            slot = indexfile.slot_of(hashed, index.slot_count)
                            said = f"index entry {entry.number} in slot {slot} for key {visible(key)}"
                            pos = indexfile.entry_pos(entry.number, index.slot_count)
                            yield Link(said, FilePlace(file.relative, pos))
                            break
        except StoreError as error:
            yield Link(f"{visible(file.relative)}: {sentence(str(error))}")
    for key in wanted:
        if key not in found:
            yield Link(f"index entry for key {visible(key)}: no index file that covers the offset has one")


def _of_unit(asked: _Asked) -> Iterator[Link]:
    yield asked.record("physical_offset")
    if "ext_offset" in asked.item.values:
        pos = asked.number("ext_offset")
        place = asked.shelf.at("consumequeue-ext", pos, *asked.whose())
        yield Link(f"ext unit at {pos}" + ("" if place else ": no file has it"), place)


def _of_batch_unit(asked: _Asked) -> Iterator[Link]:
    offset = asked.number("physical_offset")
    if "compactionCq" in asked.file.row.key.split("/"):
        place = asked.shelf.at("commitlog", offset, *asked.whose())
        yield Link(f"record at {offset} of the compacted log" + ("" if place else ": no file has it"), place)
        return
    yield asked.record("physical_offset")


def _of_slot(asked: _Asked) -> Iterator[Link]:
    slot, key = asked.number("slot"), asked.file.row.key
    yield Link(f"chain of slot {slot}", FilePlace(key, asked.item.start), slot)
    yield _to_entry(asked, asked.number("newest_index"), "newest entry")


def _of_entry(asked: _Asked) -> Iterator[Link]:
    slot, key = asked.number("slot"), asked.file.row.key
    yield asked.record("physical_offset")
    yield Link(f"chain of slot {slot}", FilePlace(key, indexfile.slot_pos(slot)), slot)
    yield Link(f"slot {slot}", FilePlace(key, indexfile.slot_pos(slot)))
    yield _to_entry(asked, asked.number("prev_index"), "entry before it in the chain")


def _to_entry(asked: _Asked, number: int, title: str) -> Link:
    geometry = index_geometry(asked.file.source)
    pos = -1 if geometry is None else indexfile.entry_pos(number, geometry[0])
    said = f"{title}: {number}"
    if number > 0 and 0 < pos < asked.file.source.size:
        return Link(said, FilePlace(asked.file.row.key, pos))
    return Link(f"{said}: {'the end of the chain' if number == 0 else 'no such entry'}")


def _of_timer(asked: _Asked) -> Iterator[Link]:
    yield asked.record("physical_offset")
    yield _in_stream(asked, "prev_pos", "timerlog", "unit before it in the list")


def _of_wheel(asked: _Asked) -> Iterator[Link]:
    yield _in_stream(asked, "last_pos", "timerlog", "last unit of the list")
    yield _in_stream(asked, "first_pos", "timerlog", "first unit of the list")


def _of_row(asked: _Asked) -> Iterator[Link]:
    """The record of a database's row, where it has one."""
    if asked.number("physical_offset") >= 0:
        yield asked.record("physical_offset")


def _of_dledger_unit(asked: _Asked) -> Iterator[Link]:
    yield _in_stream(asked, "pos", "dledger-data", "entry")


def _in_stream(asked: _Asked, name: str, kind: str, title: str) -> Link:
    pos = asked.number(name)
    place = asked.shelf.at(kind, pos) if pos >= 0 else None
    return Link(f"{title} at {pos}" + ("" if place else ": no file has it"), place)


_FINDERS: dict[tuple[str, str], Callable[[_Asked], Iterator[Link]]] = {
    ("commitlog", "record"): _of_record,
    ("consumequeue", "unit"): _of_unit,
    ("batchconsumequeue", "unit"): _of_batch_unit,
    ("index", "slot"): _of_slot,
    ("index", "entry"): _of_entry,
    ("index", "unused"): _of_entry,
    ("timerlog", "unit"): _of_timer,
    ("timerwheel", "slot"): _of_wheel,
    ("dledger-index", "unit"): _of_dledger_unit,
    ("dledger-data", "entry"): _of_dledger_entry,
}
"""By the kind of a file and of a row in it; rows of databases have one of their own."""
