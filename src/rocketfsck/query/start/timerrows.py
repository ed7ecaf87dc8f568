"""What a start makes of timers in `rocksdbstore/` (5.4.0+, timerRocksDBEnable).

    row              due time and unique key -> the latest record of the message
    timeline mark    rows due then or later are delivered; without it a start begins 10 seconds before itself
    scan mark        the timer topic is read again from there, or from where the files say if that is later

A message that is due when the topic is read again is delivered at once; one that is not gets its row, which
it may have already. A recall deletes the row of its message, a roll writes a later record into it. Reference
11.3; `TimerMessageRocksDBStore`, `Timeline` of 5.4.0 to 5.5.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats.dtypes import Flags, Longs
from rocketfsck.formats.javatext import parse_int64
from rocketfsck.formats.properties import TIMER_DEL_UNIQKEY, TIMER_OUT_MS, UNIQ_KEY
from rocketfsck.formats.rocks import MARKS
from rocketfsck.query.start.model import TimerStart
from rocketfsck.reader.records import LogReader
from rocketfsck.reader.timers import mapped_progress, timer_queue
from rocketfsck.reader.units import UnitReader
from rocketfsck.store.model import Store
from rocketfsck.store.rocks.families import MESSAGE_DATABASE, Content, database_at, decode_row
from rocketfsck.store.rocks.reading import count_rows, read_rows

FAMILY = "timer"
ROW_LIMIT = 1_000_000
"""Rows that are held in memory; timers of a database with more are not predicted."""
LOOKED_AT = 100_000
"""Messages without a row whose records are read one by one."""
SHOWN_LOST = 100
BLOCK_COUNT = 1 << 15
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
    offset: Longs
    due: Longs
    keys: frozenset[Key]
    scan_mark: int | None
    timeline_mark: int | None

    def find(self, offset: Longs) -> tuple[Longs, Flags]:
        """When each message is due, and whether it has a row."""
        if not len(self.offset):
            return np.zeros(len(offset), np.int64), np.zeros(len(offset), np.bool_)
        row = np.minimum(np.searchsorted(self.offset, offset), len(self.offset) - 1)
        has: Flags = self.offset[row] == offset
        return self.due[row], has


def read_timer_rows(store: Store) -> TimerRows | str:
    """The rows of the store's database, none without one; why they cannot be used."""
    database = database_at(store, MESSAGE_DATABASE)
    places: list[tuple[int, int]] = []
    keys: set[Key] = set()
    marks: dict[bytes, int] = {}
    if database is not None:
        try:
            if count_rows(database).get(FAMILY, 0) > ROW_LIMIT:
                return f"{MESSAGE_DATABASE} has more than {ROW_LIMIT:,} of them"
            for rows in read_rows(database, [FAMILY]):
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
    table = np.array(places, np.int64).reshape(-1, 2)
    scan, timeline = (marks.get(name) for name in MARKS[FAMILY])
    return TimerRows(
        database is not None, table[:, 0].copy(), table[:, 1].copy(), frozenset(keys), scan, timeline
    )


def start_rows(
    store: Store, rows: TimerRows, bounds: tuple[int, int], stop_timestamp: int
) -> tuple[TimerStart, list[str]]:
    """What becomes of the messages of the timer topic, whose queue has these bounds; notes on gaps in that.

    `stop_timestamp` (ms) is when the store was last written to: the start is taken to be soon after. Raises
    StoreError where a file cannot be read.
    """
    low, high = bounds
    progress = mapped_progress(store)
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
        queue = timer_queue(self.store)
        if queue is None:
            self.notes.append(
                "the queue of the timer topic is missing: the prediction leaves out its messages"
            )
            return
        rowless: dict[Key, _Rowless] = {}
        looked = 0
        with UnitReader(queue) as reader, LogReader(self.store.commitlog) as records:
            for low, high in reader.with_data(*bounds):
                for start in range(low, high, BLOCK_COUNT):
                    units = reader.units(start, min(BLOCK_COUNT, high - start))
                    used = np.flatnonzero((units["size"] > 0) & (units["offset"] >= 0))
                    offset = units["offset"][used].astype(np.int64)
                    number = start + used.astype(np.int64)
                    due, has_row = self.rows.find(offset)
                    self._judge(number[has_row], offset[has_row], due[has_row], has_row=True)
                    for index in np.flatnonzero(~has_row)[: max(LOOKED_AT - looked, 0)].tolist():
                        found = self._read(int(number[index]), int(offset[index]), records)
                        if found is not None:
                            rowless[found.key] = found  # a later record of the same message takes its place
                    looked += int(np.count_nonzero(~has_row))
        if looked > LOOKED_AT:
            self.notes.append(f"the prediction covers the first {LOOKED_AT:,} messages without a timer row")
        left = [
            found
            for found in rowless.values()
            if found.key not in self.recalled and found.key not in self.rows.keys
        ]
        columns = np.array([(found.number, found.offset, found.due) for found in left], np.int64).reshape(
            -1, 3
        )
        self._judge(*columns.T, has_row=False)

    def _read(self, number: int, offset: int, records: LogReader) -> _Rowless | None:
        """A message without a row; None for one that is not timed, and for a recall, which is kept."""
        read = records.properties(offset, self.store.dialect.property_parser)
        due = None if read is None else parse_int64(read[1].get(TIMER_OUT_MS, ""))
        if read is None or due is None:
            return None
        recalled = read[1].get(TIMER_DEL_UNIQKEY)
        if recalled:
            self.recalled.add((due, recalled.partition("+")[2] or recalled))
            return None
        return _Rowless(number, offset, due, (due, read[1].get(UNIQ_KEY, "")))

    def _judge(self, number: Longs, offset: Longs, due: Longs, *, has_row: bool) -> None:
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
