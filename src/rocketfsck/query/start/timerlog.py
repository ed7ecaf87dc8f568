"""The timer log and the wheel as a broker's start reads them: how far the log goes, what the slots become.

    scan: from one file before the flushed position on, to the first bytes that are not a unit: the log's end
    slots: every unit scanned becomes the newest one of its slot
    recheck: a slot that leads beyond the cut has the scan go again, from that slot's oldest unit on

Reference 1.8; `TimerMessageStore.recoverAndRevise`, `TimerWheel.reviseSlot` and `checkPhyPos` of 5.0.0 to
5.5.1.

What a start makes of timers in `rocksdbstore/` (5.4.0+, timerRocksDBEnable).

    row              due time and unique key -> the latest record of the message
    timeline mark    rows due then or later are delivered; without it a start begins 10 seconds before itself
    scan mark        the timer topic is read again from there, or from where the files say if that is later

A message that is due when the topic is read again is delivered at once; one that is not gets its row, which
it may have already. A recall deletes the row of its message, a roll writes a later record into it. Reference
11.3; `TimerMessageRocksDBStore`, `Timeline` of 5.4.0 to 5.5.1.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats import dtypes, javatext, magic, properties, rocks, timer
from rocketfsck.query.start.load import LoadedFile
from rocketfsck.query.start.model import TimerStart
from rocketfsck.reader import timers as reader_timers
from rocketfsck.reader.records import LogReader
from rocketfsck.reader.units import UnitReader
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader
from rocketfsck.store.rocks.families import MESSAGE_DATABASE, Content, database_at, decode_row
from rocketfsck.store.rocks.reading import count_rows
from rocketfsck.store.rocks.reading import read_rows as read_database_rows

FAMILY = "timer"
ROW_LIMIT = 1_000_000
"""Rows that are held in memory; timers of a database with more are not predicted."""
LOOKED_AT = 100_000
"""Messages without a row whose records are read one by one."""
SHOWN_LOST = 100
ROW_BLOCK_COUNT = 1 << 15
BACK_MS = 10_000
"""How far before itself a start begins without a timeline mark."""
AT_ONCE_MS = 999
"""A message due so soon is delivered when it is read."""

Key = tuple[int, str]
"""Due time (ms) and unique key, which one row is for."""


@dataclass(frozen=True, slots=True)
class TimerRows:
    """The rows: physical offsets, ascending, and when each is due (ms); the keys; the marks, None without.

    `present` says whether the database is there."""

    present: bool
    offset: dtypes.Longs
    due: dtypes.Longs
    keys: frozenset[Key]
    scan_mark: int | None
    timeline_mark: int | None

    def find(self, offset: dtypes.Longs) -> tuple[dtypes.Longs, dtypes.Flags]:
        """When each message is due, and whether it has a row."""
        if not len(self.offset):
            return np.zeros(len(offset), np.int64), np.zeros(len(offset), np.bool_)
        row = np.minimum(np.searchsorted(self.offset, offset), len(self.offset) - 1)
        has: dtypes.Flags = self.offset[row] == offset
        return self.due[row], has


def read_timer_rows(store: Store) -> TimerRows | str:
    """The rows of the store's database, none without one; why they cannot be used."""
    database = database_at(store, MESSAGE_DATABASE)
    places: list[tuple[int, int]] = []
    keys: set[Key] = set()
    marks: dict[bytes, int] = {}
    if database is not None:
        try:
            if count_rows(database, [FAMILY]).get(FAMILY, 0) > ROW_LIMIT:
                return f"{MESSAGE_DATABASE} has more than {ROW_LIMIT:,} of them"
            for rows in read_database_rows(database, [FAMILY]):
                for key, value in rows.pairs():
                    kind, fields = decode_row(Content.TIMER, key, value)
                    if kind == "mark":
                        marks[key] = fields["number"]
                    else:
                        keys.add((fields["deliverTime"], fields["uniqKey"].decode("utf-8", "replace")))
                        places.append((fields["phyOffset"], fields["deliverTime"]))
        except (StoreError, FormatError) as error:
            return f"{MESSAGE_DATABASE} cannot be read: {error}"
    places.sort()
    offset, due = np.array(places, np.int64).reshape(-1, 2).T.copy()
    scan, timeline = (marks.get(name) for name in rocks.MARKS[FAMILY])
    return TimerRows(database is not None, offset, due, frozenset(keys), scan, timeline)


def start_rows(
    store: Store, rows: TimerRows, bounds: tuple[int, int], stop_timestamp: int
) -> tuple[TimerStart, list[str]]:
    """What becomes of the messages of the timer topic, whose queue has these bounds; notes on gaps in that.

    `stop_timestamp` (ms) is when the store was last written to: the start is taken to be soon after. Raises
    StoreError where a file cannot be read.
    """
    low, high = bounds
    progress = reader_timers.mapped_progress(store)
    wanted = max(min(progress.queue_offset, progress.master_queue_offset), rows.scan_mark or 0)
    again = min(max(wanted, low), high)
    fate = RowsFate(store, rows, again, stop_timestamp)
    fate.look(bounds)
    timers = TimerStart(
        wheel=MESSAGE_DATABASE,
        scan_pos=0,
        end_pos=0,
        cut_count=0,
        changed_slot_count=0,
        queue_offset=again,
        reread_count=max(high - again, 0),
        read_timestamp=fate.begin,
        waiting_count=fate.waiting_count,
        lost_count=fate.lost_count,
        lost=tuple(sorted(fate.lost)[:SHOWN_LOST]),
        repeated_count=fate.repeated_count,
        endless_slot_count=0,
        skipped_count=max(wanted - high, 0),
        latest_start_timestamp=None,
    )
    return timers, fate.notes


def used_units(reader: UnitReader, begin: int, end: int) -> Iterator[tuple[dtypes.Longs, dtypes.Longs]]:
    """The units between two queue offsets that point somewhere, in blocks: their numbers, and where to."""
    for low, high in reader.with_data(begin, end):
        for start in range(low, high, ROW_BLOCK_COUNT):
            units = reader.units(start, min(ROW_BLOCK_COUNT, high - start))
            used = np.flatnonzero((units["size"] > 0) & (units["offset"] >= 0))
            yield start + used.astype(np.int64), units["offset"][used].astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Rowless:
    """A message of the timer topic that no row names: its place in the topic, its record, when it is due."""

    number: int
    offset: int
    due: int
    key: Key


@dataclass(slots=True)
class RowsFate:
    """Counts what becomes of the messages of the timer topic, which is read again from `again` on."""

    store: Store
    rows: TimerRows
    again: int
    stop_timestamp: int
    waiting_count: int = 0
    lost_count: int = 0
    repeated_count: int = 0
    lost: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    recalled: set[Key] = field(default_factory=set)

    @property
    def begin(self) -> int:
        """Rows that are due then or later are delivered (ms)."""
        mark = self.rows.timeline_mark
        return self.stop_timestamp - BACK_MS if mark is None else mark

    def look(self, bounds: tuple[int, int]) -> None:
        """Judge every message whose unit is in the queue."""
        queue = reader_timers.timer_queue(self.store)
        if queue is None:
            self.notes.append(
                "the queue of the timer topic is missing: the prediction leaves out its messages"
            )
            return
        rowless: dict[Key, _Rowless] = {}
        looked = 0
        with UnitReader(queue) as reader, LogReader(self.store.commitlog) as records:
            for number, offset in used_units(reader, *bounds):
                due, has_row = self.rows.find(offset)
                self._judge(number[has_row], offset[has_row], due[has_row], has_row=True)
                for index in np.flatnonzero(~has_row)[: max(LOOKED_AT - looked, 0)].tolist():
                    found = self._read(int(number[index]), int(offset[index]), records)
                    if found is not None:
                        rowless[found.key] = found  # a later record of the same message takes its place
                looked += int(np.count_nonzero(~has_row))
        if looked > LOOKED_AT:
            self.notes.append(f"the prediction covers the first {LOOKED_AT:,} messages without a timer row")
        known = self.recalled | self.rows.keys
        left = [found for key, found in rowless.items() if key not in known]
        columns = np.array([(found.number, found.offset, found.due) for found in left], np.int64)
        self._judge(*columns.reshape(-1, 3).T, has_row=False)

    def _read(self, number: int, offset: int, records: LogReader) -> _Rowless | None:
        """A message without a row; None for one that is not timed, and for a recall, which is kept."""
        read = records.properties(offset, self.store.dialect.property_parser)
        due = None if read is None else javatext.parse_int64(read[1].get(properties.TIMER_OUT_MS, ""))
        if read is None or due is None:
            return None
        recalled = read[1].get(properties.TIMER_DEL_UNIQKEY)
        if recalled:
            self.recalled.add((due, recalled.partition("+")[2] or recalled))
            return None
        return _Rowless(number, offset, due, (due, read[1].get(properties.UNIQ_KEY, "")))

    def _judge(self, number: dtypes.Longs, offset: dtypes.Longs, due: dtypes.Longs, *, has_row: bool) -> None:
        stop, rows = self.stop_timestamp, self.rows
        mark = rows.timeline_mark
        # without the database nobody knows what was read: a broker that ran reads a message within 100 ms
        seen = number < (rows.scan_mark or 0) if rows.present else np.ones(len(number), np.bool_)
        # a message without a row that was due when it was read was delivered at once, and never had one
        done = seen & ((due < (stop if mark is None else mark)) if has_row else (due <= stop + AT_ONCE_MS))
        at_once = (number >= self.again) & (due <= stop + AT_ONCE_MS)
        by_row = (due >= self.begin) if has_row else np.zeros(len(number), np.bool_)
        by_row |= (number >= self.again) & ~at_once
        delivered = at_once.astype(np.int64) + by_row
        lost = ~done & (delivered == 0)
        self.waiting_count += int(np.count_nonzero(~done & (delivered > 0)))
        self.lost_count += int(np.count_nonzero(lost))
        self.lost += offset[lost].tolist()
        self.repeated_count += int(np.count_nonzero(np.where(done, delivered > 0, delivered > 1)))


BLOCK_COUNT = 1 << 14


@dataclass(slots=True)
class LogRows:
    """All that may be units in the files of a timer log, in its order: every 52 bytes up to the last byte
    that is not zero. `bounds` are the rows at which each file begins, and the end."""

    files: Sequence[LoadedFile]
    pos: dtypes.Longs
    units: reader_timers.TimerUnits
    bounds: Sequence[int]

    @property
    def due(self) -> dtypes.Longs:
        """When each row is due, in ms."""
        return reader_timers.TimerBlock(self.pos, self.units).deliver_timestamp

    def row_at(self, number: int, place: int) -> int | None:
        """The row at a place in a file, by its number; None where the file has no bytes of a unit there."""
        row = self.bounds[number] + place // timer.TIMER_LOG_UNIT_SIZE
        return row if place % timer.TIMER_LOG_UNIT_SIZE == 0 and row < self.bounds[number + 1] else None


def read_rows(files: Sequence[LoadedFile]) -> LogRows:
    """The rows of all files. Memory is that of what the files hold. Raises StoreError where one fails."""
    parts: list[reader_timers.TimerUnits] = [np.zeros(0, dtypes.TIMER_UNIT_DTYPE)]
    places: list[dtypes.Longs] = [np.zeros(0, np.int64)]
    bounds = [0]
    for file in files:
        with FileReader(file.path) as reader:
            count = min(
                -(-reader.used_end() // timer.TIMER_LOG_UNIT_SIZE), file.size // timer.TIMER_LOG_UNIT_SIZE
            )
            data = bytes(reader.read(0, count * timer.TIMER_LOG_UNIT_SIZE))
        parts.append(np.frombuffer(data, dtypes.TIMER_UNIT_DTYPE))
        places.append(file.start_offset + np.arange(count, dtype=np.int64) * timer.TIMER_LOG_UNIT_SIZE)
        bounds.append(bounds[-1] + count)
    return LogRows(files, np.concatenate(places), np.concatenate(parts), bounds)


def replay_of(slots: reader_timers.Slots) -> reader_timers.WheelReplay:
    """A wheel's slots as they are on disk, ready for units to be put."""
    replay = reader_timers.WheelReplay()
    replay.time[:] = slots["slotTime"]
    replay.first[:] = slots["firstPos"]
    replay.last[:] = slots["lastPos"]
    return replay


@dataclass(slots=True)
class Scan:
    """The scan of a log into a wheel."""

    rows: LogRows
    replay: reader_timers.WheelReplay
    precision_ms: int

    def run(self, begin: int, *, cuts: bool) -> int:
        """Go through the files from the one that holds `begin` on; the position at which the scan stops.

        With `cuts` bytes that are not a unit end it, else they are passed over.
        """
        files = self.rows.files
        if not files:
            return 0
        first = max((i for i, file in enumerate(files) if file.start_offset <= begin), default=0)
        stop = files[first].start_offset
        for number in range(first, len(files)):
            count, ends = self._file(number, cuts=cuts)
            stop = files[number].start_offset + count * timer.TIMER_LOG_UNIT_SIZE
            if ends:
                break
        return stop

    def _file(self, number: int, *, cuts: bool) -> tuple[int, bool]:
        """How many rows of a file the scan passes, and whether it ends with them."""
        file, rows = self.rows.files[number], self.rows
        low, high = rows.bounds[number], rows.bounds[number + 1]
        units, due = rows.units[low:high], rows.due[low:high]
        marks = np.flatnonzero(units["magic"] == np.int32(magic.MAGIC_BLANK))
        count = int(marks[0]) if len(marks) else len(units)
        good = reader_timers.is_unit(units[:count])
        stops = np.flatnonzero((~good & cuts) | (good & (due[:count] < 0)))  # no slot: an exception ends it
        ends = bool(len(stops))
        count = int(stops[0]) if ends else count
        good = good[:count]
        self._put(rows.pos[low : low + count][good], due[:count][good])
        if not ends and not len(marks):
            # zeros, or too few bytes for a unit: both end a scan that cuts
            whole = file.size // timer.TIMER_LOG_UNIT_SIZE
            ends = cuts and (count < whole or file.size % timer.TIMER_LOG_UNIT_SIZE != 0)
        return count, ends

    def _put(self, pos: dtypes.Longs, due: dtypes.Longs) -> None:
        unlinked = np.zeros(len(pos), np.int64)
        none = np.zeros(len(pos), np.bool_)
        for start in range(0, len(pos), BLOCK_COUNT):
            part = slice(start, start + BLOCK_COUNT)
            slot_time = due[part] // self.precision_ms
            self.replay.put(pos[part], slot_time, unlinked[part], none[part], 0)


def waiting_slots(replay: reader_timers.WheelReplay, read_timestamp: int, precision_ms: int) -> dtypes.Longs:
    """The slots that a broker comes to from its reading time on, in the order of their numbers."""
    first = read_timestamp // precision_ms
    ahead = (replay.time >= first) & (replay.time < first + reader_timers.SLOT_COUNT)
    number: dtypes.Longs = np.flatnonzero(ahead)
    placed: dtypes.Longs = number[replay.time[number] % reader_timers.SLOT_COUNT == number]
    return placed


def first_behind(replay: reader_timers.WheelReplay, slots: dtypes.Longs, end: int) -> int | None:
    """The oldest unit of the slots that lead behind the log's end; None where none does."""
    behind: dtypes.Longs = slots[replay.last[slots] > end]
    return int(replay.first[behind].min()) if len(behind) else None


@dataclass(frozen=True, slots=True)
class SlotChains:
    """What slots lead to: `counts` says of every row how often, `endless_slot_count` how many slots have a
    chain without an end. Not `complete`: so many links lead to the same rows that not all were followed."""

    counts: dtypes.Longs
    endless_slot_count: int
    complete: bool


def follow(rows: LogRows, last: Sequence[int], end: int) -> SlotChains:
    """Go back from the newest unit of every slot (`last`), as a broker does: what a link leads to is not
    tested, and one that leads to a later file is treated as a place in the file that is open. Units at `end`
    and after it are gone."""
    counts = np.zeros(len(rows.pos), np.int64)
    prev = rows.units["prevPos"].astype(np.int64).tolist()
    starts = [file.start_offset for file in rows.files]
    budget = 4 * (len(prev) + len(last))
    endless = 0
    for pos in last:
        seen: set[int] = set()
        number, at = -1, int(pos)
        while at >= 0:
            if number < 0 or starts[number] > at:
                number = bisect_right(starts, at) - 1
                if number < 0 or at >= rows.files[number].end_offset:
                    break
            place = at % rows.files[number].size
            row = rows.row_at(number, place)
            if row is None or starts[number] + place >= end:
                break
            if row in seen:
                endless += 1
                break
            seen.add(row)
            at = prev[row]
        counts[list(seen)] += 1
        budget -= len(seen)
        if budget < 0:
            return SlotChains(counts, endless, complete=False)
    return SlotChains(counts, endless, complete=True)


def changed_slots(replay: reader_timers.WheelReplay, before: reader_timers.WheelReplay) -> dtypes.Flags:
    """Slots that are not what they were."""
    return np.asarray((replay.time != before.time) | (replay.last != before.last), np.bool_)
