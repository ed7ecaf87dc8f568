"""The store as queries see it: its log, its queues, its topics; and what is to be said of one record.

A context manager that holds a few files open. Reference 7, 8.

Consume queues by queue offset: units, bounds, and whether a unit and its record agree.

    queue := unit* in files; a file's name is the stream's byte position of its first byte

The unit of a batch queue counts for `batchSize` queue offsets from `msgBaseOffset` on. Bounded: a unit at a
time, and the part of a queue's last file that is not a hole. Reference 3.1, 3.3, 3.5, 3.7, 2.13.

The commit log by physical offset: single records, and where the log begins and ends.

    log := the files in order of name, each with live records, gaps, BLANK and filler, maybe a stale tail

Only what is asked for is read: some bytes a record. Where the live records of a file end is found by a walk
over that file (`scan.log.live`), once and only when it matters. Reference 1.2, 2.1, 2.8.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.javatext import parse_int64, split_java
from rocketfsck.formats.magic import INNER_BATCH, is_in_consume_queue
from rocketfsck.query.answers import Dispatched, Found, UnitState
from rocketfsck.reader.configs import loaded_config, loaded_topics
from rocketfsck.reader.heads import HEAD_SIZE, RecordHead, decode_head
from rocketfsck.reader.units import Unit, UnitReader, Units
from rocketfsck.scan.columns import new_batch
from rocketfsck.scan.log.large import append_large_record, read_large_record
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.options import ScanOptions, Stop, log_options
from rocketfsck.scan.plain.records import LMQ_PREFIX
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.views.messages import MAX_BODY_SIZE, Message, read_message
from rocketfsck.store.elsewhere import QUEUE_DATABASES, has_log_elsewhere
from rocketfsck.store.model import ConsumeQueue, MappedFile, Store
from rocketfsck.store.openfiles import OpenFiles
from rocketfsck.store.reading import Closing

KEY_ROOM = 32768
"""More words than the 32767 bytes of a record's properties can hold."""


class LogView(OpenFiles):
    """The commit log of a store. A context manager; holds a few files open."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.commitlog)
        self.store = store
        self._live_ends: dict[int, int] = {}
        self._batch = new_batch(1, KEY_ROOM, KEY_ROOM)

    @cached_property
    def is_partial(self) -> bool:
        """Whether records may be in a DLedger log, too, that is not read here."""
        return has_log_elsewhere(self.store)

    @property
    def min_offset(self) -> int:
        """Physical offset of the first byte of the first file; -1 without files, as a broker says it."""
        return self.starts[0] if self.starts else -1

    @cached_property
    def end_offset(self) -> int:
        """The physical offset after the last live record or BLANK; 0 without any.

        Walks the last file that holds records. Raises StoreError when it cannot be read.
        """
        for number in reversed(range(len(self.files))):
            end = self.live_end(number)
            if end > self.starts[number]:
                return end
        return max(self.min_offset, 0)

    def live_end(self, number: int) -> int:
        """The physical offset after the last live record or BLANK of `files[number]`; its start for none."""
        if number not in self._live_ends:
            scan, base_offset = LiveScan(), self.starts[number]
            options = log_options(self.store, self.files[number], read_bodies=False)
            for _ in scan.batches(self.reader(number), base_offset, options, QueueTable()):
                pass
            self._live_ends[number] = base_offset + scan.end_pos
        return self._live_ends[number]

    def is_live(self, physical_offset: int) -> bool:
        """Whether what is there belongs to this life of the log (walks the file)."""
        number = self.file_at(physical_offset)
        return number is not None and physical_offset < self.live_end(number)

    def is_walked(self, physical_offset: int) -> bool:
        """Whether `is_live` would answer without a walk."""
        return self.file_at(physical_offset) in self._live_ends

    def walked(self, number: int, end_pos: int) -> None:
        """Remember where the live records of `files[number]` end: somebody has walked it."""
        self._live_ends[number] = self.starts[number] + end_pos

    def options(self, number: int) -> ScanOptions:
        """How `files[number]` is scanned for whole messages."""
        return log_options(self.store, self.files[number], read_bodies=True)

    def place(self, physical_offset: int) -> tuple[MappedFile, int] | None:
        """The file that holds an offset, and the position in it; None where no file does."""
        number = self.file_at(physical_offset)
        return None if number is None else (self.files[number], physical_offset - self.starts[number])

    def message_at(
        self, physical_offset: int, *, max_body_size: int = MAX_BODY_SIZE
    ) -> Message | Stop | None:
        """The record that is at an offset, live or not; why there is none; None outside all files.

        The record's own physicalOffset may say something else (`Message.faults`). Raises StoreError when
        bytes cannot be read.
        """
        return self._record(physical_offset, max_body_size, read_bodies=True)

    def record_at(self, physical_offset: int) -> Message | Stop | None:
        """As `message_at`, without the body, of which no byte is read: no CRC is compared (`Message.faults`).

        Takes no longer for a large record than for a small one. Raises StoreError when bytes cannot be read.
        """
        return self._record(physical_offset, 0, read_bodies=False)

    def _record(
        self, physical_offset: int, max_body_size: int, *, read_bodies: bool
    ) -> Message | Stop | None:
        number = self.file_at(physical_offset)
        if number is None:
            return None
        reader, pos = self.reader(number), physical_offset - self.starts[number]
        options = replace(self.options(number), read_bodies=read_bodies)
        record = read_large_record(reader, pos, options.file_size)
        if isinstance(record, Stop):
            return record
        self._batch.begin(0)
        taken = append_large_record(
            reader, record, physical_offset - pos, options.file_size, options, self._batch, QueueTable()
        )
        assert taken  # the batch has room for more keys than a record can hold
        return read_message(reader, self._batch, 0, options.property_parser, max_body_size)

    def read(self, physical_offset: int, size: int) -> bytes | None:
        """`size` bytes from an offset on, None unless one file holds them all."""
        place = self.at(physical_offset) if size >= 0 else None
        if place is None:
            return None
        reader, pos = place
        return reader.read(pos, size) if pos + size <= reader.size else None

    def select(self, physical_offset: int, size: int) -> bool:
        """Whether a running broker would hand out these bytes: in one file, before the end of the log."""
        place = self.place(physical_offset)
        if place is None or size < 0:
            return False
        return place[1] + size <= place[0].size and physical_offset + size <= self.end_offset

    def store_timestamp(self, physical_offset: int, size: int) -> int:
        """The storeTimestamp that a broker reads for a unit, in ms; -1 where it finds none."""
        if physical_offset < self.min_offset or not self.select(physical_offset, size):
            return -1
        head = self.read(physical_offset, HEAD_SIZE)
        return -1 if head is None else decode_head(head).store_timestamp


BLOCK_COUNT = 1 << 16
STALE_LIMIT = 1 << 16
"""As many units at the end of a queue are compared with their records before it is taken as it is."""


class QueueView(UnitReader):
    """One consume queue. Indexes number the units of the stream; for kind "file" they are queue offsets."""

    __slots__ = ("__dict__", "log", "queue")

    def __init__(self, queue: ConsumeQueue, log: LogView) -> None:
        super().__init__(queue)
        self.queue = queue
        self.log = log

    @cached_property
    def end_index(self) -> int:
        """Index after the last unit that points somewhere and was not left there by a truncation.

        Units at the end that lead to no live record of this queue count as such remains. A next start
        may treat them as good ones: `query.serving.state` has what a broker then serves.
        """
        return self._end[0]

    @property
    def stale_count(self) -> int:
        """How many units behind `end_index` point somewhere."""
        return self._end[1]

    @cached_property
    def _end(self) -> tuple[int, int]:
        """`end_index` and `stale_count`. Where no unit leads anywhere, all of them count."""
        passed = 0
        elsewhere: set[tuple[int, int]] = set()
        for first, units, used in self._used_from_end():
            for row in reversed(used.tolist()):
                if passed >= STALE_LIMIT:
                    return self.used_end_index, 0
                unit = Unit.of(first + row, units[row])
                place = (unit.physical_offset, unit.size)
                if place not in elsewhere:
                    if unit.is_pre_blank or self.leads(unit):
                        return unit.index + 1, passed
                    elsewhere.add(place)
                passed += 1
        return self.used_end_index, 0

    @cached_property
    def used_end_index(self) -> int:
        """Index after the last unit that points somewhere, even if from an earlier life of the queue."""
        for first, _, used in self._used_from_end():
            return first + int(used[-1]) + 1
        return self.first_index

    def _used_from_end(self) -> Iterator[tuple[int, Units, NDArray[np.intp]]]:
        """Blocks of units from the end on, without holes: the first one's index, the units, and the rows of
        those that point somewhere, at least one."""
        size = self.unit_size
        block = BLOCK_COUNT * size
        for number in reversed(range(len(self.files))):
            reader = self.reader(number)
            whole = reader.size - reader.size % size
            for start, end in reversed(list(reader.data_extents())):
                high = min(-(-end // size) * size, whole)
                while high > start:
                    low = max(high - block, start - start % size)
                    units = np.frombuffer(reader.read(low, high - low), self.dtype)
                    used = np.flatnonzero((units["offset"] >= 0) & (units["size"] > 0))
                    if len(used):
                        yield (self.starts[number] + low) // size, units, used
                    high = low

    def file_end_index(self, index: int) -> int:
        """The index after the last unit of the file that holds the unit `index`; 0 without files."""
        if not self.files:
            return 0
        number = max(self.last_from(index * self.unit_size), 0)
        return (self.starts[number] + self.files[number].size) // self.unit_size

    def unit_of(self, queue_offset: int) -> Unit | None:
        """The unit that stands for a queue offset; None where none does."""
        return self._lookup(queue_offset, self.end_index)

    def any_unit_of(self, queue_offset: int) -> Unit | None:
        """As `unit_of`, but a truncation may have left the unit there: nothing of the log is read."""
        is_file = self.queue.kind == "file"
        return self._lookup(queue_offset, queue_offset + 1 if is_file else self.used_end_index)

    def _lookup(self, queue_offset: int, end_index: int) -> Unit | None:
        if self.queue.kind == "file":
            unit = self.unit(queue_offset) if queue_offset < end_index else None
            return unit if unit is not None and unit.is_message else None
        behind = self._first(end_index, lambda unit: unit.queue_offset > queue_offset)
        unit = self.unit(behind - 1) if behind > self.first_index else None
        if unit is None or not unit.queue_offset <= queue_offset < unit.queue_offset + max(unit.count, 1):
            return None
        return unit

    def first_index_at(self, physical_offset: int) -> int:
        """The index of the first unit that points at an offset or beyond it, by binary search.

        Trusts that offsets rise, as they do in a sound queue.
        """
        return self._first(self.end_index, lambda unit: unit.physical_offset >= physical_offset)

    def _first(self, end_index: int, is_behind: Callable[[Unit], bool]) -> int:
        """The index of the first unit before an end that is behind something, or is not there."""

        def is_reached(index: int) -> bool:
            unit = self.unit(index)
            return unit is None or is_behind(unit)

        return bisect_left(range(end_index), True, self.first_index, key=is_reached)

    @cached_property
    def min_index(self) -> int:
        """The index of the first unit that points into the log; `end_index` if none does."""
        # Pre-blank units point at 0: asking for 1 and more finds what is after them, and what points at 0
        # truly is the very first unit.
        first = self.unit(self.first_index)
        blank = first is not None and first.is_pre_blank
        return self.first_index_at(max(self.log.min_offset, 1 if blank else 0))

    def queue_offset_at(self, index: int) -> int:
        """The queue offset that an index begins with; after the end, the one that comes next."""
        if self.queue.kind == "file":
            return index
        if index < self.end_index:
            unit = self.unit(index)
            return unit.queue_offset if unit else 0
        last = self.unit(self.end_index - 1) if self.end_index > self.first_index else None
        return last.queue_offset + last.count if last else 0

    @property
    def min_offset(self) -> int:
        """The first queue offset that can be read."""
        return self.queue_offset_at(self.min_index)

    @property
    def max_offset(self) -> int:
        """The queue offset that the next message gets."""
        return self.queue_offset_at(self.end_index)

    def time_of(self, unit: Unit | None) -> int | None:
        """The storeTimestamp (ms) of the message that a unit leads to, None for none. Raises StoreError."""
        found = None if unit is None else self.log.record_at(unit.physical_offset)
        return found.store_timestamp if isinstance(found, Message) else None

    def leads(self, unit: Unit) -> bool:
        """Whether a unit leads to a live record of this queue, at whatever place: a broker may count units
        otherwise than records (a further queue whose number the record does not have, units that shifted).

        A unit whose record has expired does, or is in a log that is not read here: nothing speaks against it.
        """
        if unit.physical_offset < self.log.min_offset:
            return True
        if self.log.is_partial and self.log.place(unit.physical_offset) is None:
            return True
        head = self.log.read(unit.physical_offset, HEAD_SIZE)
        if head is None or not self._may_be_of(unit, decode_head(head)):
            return False
        found = self.log.record_at(unit.physical_offset)
        return (
            isinstance(found, Message)
            and found.total_size == unit.size
            and (self.queue.topic, self.queue.queue_id) in queues_of(found)
            and self.log.is_live(unit.physical_offset)
        )

    def _may_be_of(self, unit: Unit, head: RecordHead) -> bool:
        """Whether a record with this head may be the one of the unit: no other needs to be looked at."""
        further = self.queue.queue_id == 0 and self.queue.topic.startswith(LMQ_PREFIX)
        return head.total_size == unit.size and (head.queue_id == self.queue.queue_id or further)

    def serves(self, unit: Unit, message: Message) -> bool:
        """Whether a unit of this queue was made for this record.

        Of its own queue the record has the number, and the unit must be there. Units of further queues
        (light ones) count: a broker that began such a queue again, after the queue was deleted or with
        pre-blank units before it, has them elsewhere than the record says, and serves them from there.
        """
        queue = (self.queue.topic, self.queue.queue_id)
        own, *_ = places_of(message)
        is_own = own == (*queue, unit.queue_offset)
        is_further = queue != own[:2] and queue in queues_of(message)
        return message.total_size == unit.size and (is_own or is_further)


def queues_of(message: Message) -> set[tuple[str, int]]:
    """The queues that a record names: (topic, queueId), whether or not it has a queueOffset for each."""
    names = split_java((message.properties or {}).get("INNER_MULTI_DISPATCH", ""), ",")
    further = {(name, 0 if name.startswith(LMQ_PREFIX) else message.queue_id) for name in names if name}
    return further | {(message.topic, message.queue_id)}


def places_of(message: Message) -> list[tuple[str, int, int]]:
    """The queues that a record is dispatched to: (topic, queueId, queueOffset), its own first.

    Prepared and rolled back ones are in none, but their own place is named all the same. Reference 2.13, 8.
    """
    properties = message.properties or {}
    base = message.queue_offset
    if message.sys_flag & INNER_BATCH:
        base = parse_int64(properties.get("INNER_BASE", "")) or base
    places = [(message.topic, message.queue_id, base)]
    names, offsets = properties.get("INNER_MULTI_DISPATCH"), properties.get("INNER_MULTI_QUEUE_OFFSET")
    if names and offsets:
        listed, numbers = split_java(names, ","), split_java(offsets, ",")
        if len(listed) != len(numbers):
            return places  # a broker then takes the lists for broken
        for name, text in zip(listed, numbers, strict=True):
            number = parse_int64(text)
            if number is not None:
                places.append((name, 0 if name.startswith(LMQ_PREFIX) else message.queue_id, number))
    return places


WALK_LIMIT = 256 << 10
"""A file with more data than this is not walked just to tell whether one record in it is live."""
_SOUND = (UnitState.AGREES, UnitState.EXPIRED)


def queues_by_name(store: Store) -> dict[tuple[str, int], ConsumeQueue]:
    """The consume queues of a store; the one with more bytes where two have one name."""
    chosen: dict[tuple[str, int], ConsumeQueue] = {}
    for queue in store.queues:
        other = chosen.get((queue.topic, queue.queue_id))
        if other is None or queue.mapped_files.size > other.mapped_files.size:
            chosen[queue.topic, queue.queue_id] = queue
    return chosen


def view_of(store: Store, view: StoreView | None) -> AbstractContextManager[StoreView]:
    """The view that is given, which stays open; else one for as long as the context lasts."""
    return StoreView(store) if view is None else nullcontext(view)


class StoreView(Closing):
    """What all queries share.

    `walk_limit` (bytes) bounds what is read of a file to tell stale records from live ones; with `walks`
    larger files are walked, too, where nothing less tells.
    """

    def __init__(self, store: Store, *, walk_limit: int = WALK_LIMIT, walks: bool = False) -> None:
        self.store = store
        self.log = LogView(store)
        self.walk_limit = walk_limit
        self.walks = walks
        self._queues: dict[tuple[str, int], QueueView | None] = {}

    def close(self) -> None:
        self.log.close()
        for view in self._queues.values():
            if view is not None:
                view.close()

    @cached_property
    def _by_name(self) -> dict[tuple[str, int], ConsumeQueue]:
        return queues_by_name(self.store)

    def queue(self, topic: str, queue_id: int) -> QueueView | None:
        """The consume queue of a topic and queueId; None if the store has none."""
        name = (topic, queue_id)
        if name not in self._queues:
            found = self._by_name.get(name)
            if found is not None and self.store.lifted.fetch is not None:
                found = self.store.lifted.fetch(found)
            self._queues[name] = None if found is None else QueueView(found, self.log)
        return self._queues[name]

    def is_unread(self, topic: str, queue_id: int) -> bool:
        """Whether the queue may be in a database that cannot be read."""
        if self.queue(topic, queue_id) is not None:
            return False
        return (topic, queue_id) in self._by_name or not QUEUE_DATABASES.isdisjoint(self.store.lifted.failed)

    @cached_property
    def topics(self) -> dict[str, set[str]]:
        """Every topic that the store knows, with what knows it: "consumequeue", "topics.json"."""
        topics: dict[str, set[str]] = {}
        for queue in self.store.queues:
            topics.setdefault(queue.topic, set()).add("consumequeue")
        for name in self.configured_topics:
            topics.setdefault(name, set()).add("topics.json")
        return topics

    @cached_property
    def configured_topics(self) -> tuple[str, ...]:
        """The topics of config/topics.json; none where it is missing or cannot be used."""
        return tuple(loaded_topics(self.store) or ())

    def config(self, name: str) -> object | None:
        """The value in a file of config/, or in its .bak as a broker takes it; None where neither helps."""
        return loaded_config(self.store, name)

    def found(self, message: Message, offset: int, *via: str) -> Found:
        """A record with its places in queues."""
        return Found(message, offset, self.liveness(offset), tuple(self._dispatched(message, offset)), via)

    def liveness(self, offset: int) -> bool | None:
        """Whether a record belongs to this life of the log; None where finding out takes a long walk.

        A stale tail ends the log, or comes after the BLANK of a file that others follow: there a record
        that its consume queue leads to counts as live.
        """
        place = self.log.place(offset)
        if place is None:
            return False
        if place[0].allocated_size <= self.walk_limit or self.log.is_walked(offset):
            return self.log.is_live(offset)
        following = (place[0].start_offset or 0) + place[0].size
        if isinstance(self.log.record_at(following), Message):
            message = self.log.record_at(offset)
            if isinstance(message, Message) and self._dispatched(message, offset)[0].state in _SOUND:
                return True
        return self.log.is_live(offset) if self.walks else None

    def _dispatched(self, message: Message, offset: int) -> list[Dispatched]:
        places = []
        is_expected = is_in_consume_queue(message.sys_flag)
        for topic, queue_id, queue_offset in places_of(message):
            queue = self.queue(topic, queue_id) if is_expected else None
            unit = None if queue is None else queue.any_unit_of(queue_offset)
            if not is_expected:
                state = UnitState.NOT_EXPECTED
            elif queue is None:
                state = UnitState.UNREADABLE if self.is_unread(topic, queue_id) else UnitState.NO_QUEUE
            elif unit is None:
                expired = queue_offset < queue.queue_offset_at(queue.first_index)
                state = UnitState.EXPIRED if expired else UnitState.MISSING
            elif (unit.physical_offset, unit.size) == (offset, message.total_size):
                state = UnitState.AGREES
            else:
                state = UnitState.DIFFERS
            places.append(Dispatched(topic, queue_id, queue_offset, state, unit))
        return places

    def why_no_topic(self, topic: str) -> str | None:
        """A sentence if the store knows no such topic, with names that are near; None if it does."""
        if topic in self.topics:
            return None
        from difflib import get_close_matches

        near = get_close_matches(topic, list(self.topics), 3)
        hint = f"; similar: {', '.join(near)}" if near else ""
        return f"the store has no topic {topic}{hint}"
