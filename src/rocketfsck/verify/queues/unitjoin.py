"""Records of one commit log file against the units of their queues.

A record's unit is at the place that its queueOffset names, so it is looked up there; only where it is
not, the queue is searched by offset (shifted units). Records are gathered over many batches, and meet the
units of all queues in one pass (`unitrooms`). Only a queue with anything odd in that, or with delayed
messages, ext units or batches, is gone through by itself. What was matched and what was missed is kept as
ranges: `crossqueues` makes findings of what is left over on either side, over all files. Reference 3.8, 9.3
Q4 to Q8.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from rocketfsck.formats import consumequeue, dtypes, properties, timer
from rocketfsck.reader.units import OffsetSearch, UnitReader, Units
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.spans import distinct, group_bounds, true_spans
from rocketfsck.scan.units import UNKNOWN_TAGS, Dispatches
from rocketfsck.store.model import Store
from rocketfsck.verify.queues import unitranges
from rocketfsck.verify.queues.unitcompare import DispatchRows, UnitComparer
from rocketfsck.verify.tasks.task import Collector, Context

FLUSH_COUNT = 1 << 18
MAX_STEP = 8
"""Places that two neighbouring records may lie apart and still be read in one piece."""
MAX_RANGES = 1 << 17
FIRST_LOOK = 64
MAX_SEARCHES = 5000
"""Searches by offset for the misplaced units of one piece of a queue."""
MAX_INDEX = 1 << 57
"""No queue is so long; the place of such a unit, in bytes, still fits 64 bits."""

COLUMNS = ("queue", "index", "count", "offset", "size", "time", "tags")


class UnitJoin:
    """Takes the dispatches of every batch in log order; `finish` gives what came of it."""

    def __init__(self, context: Context, table: QueueTable, collector: Collector) -> None:
        self._store = context.store
        self._known = context.shared.made(unitranges.KnownQueues, context.store)
        self._rooms = context.shared.made(unitranges.UnitRooms, context.store)
        self._table = table
        self._collector = collector
        self._comparer = UnitComparer(collector)
        self._compiled = compiled_wanted()
        self._waiting: list[list[dtypes.Longs]] = []
        self._waiting_count = 0
        self._used: dict[int, int] = {}
        self._met: list[dtypes.Longs] = []
        self._matched: list[tuple[int, int, int]] = []
        self._missed: list[tuple[int, int, int, int, int, int, int]] = []
        self._shifts: list[tuple[int, int, int, int, int, int]] = []
        self._not_kept = 0

    def add(self, dispatches: Dispatches, delay_level: dtypes.Longs) -> None:
        """Take the dispatches of live records; `delay_level` is the level of those in the schedule topic, 0
        for the others."""
        known = dispatches.queue >= 0
        columns = [*(getattr(dispatches, name) for name in COLUMNS), delay_level]
        if not known.all():
            columns = [column[known] for column in columns]
        columns[1] = np.clip(columns[1], -1, MAX_INDEX)  # hostile numbers: no queue is that long
        self._waiting.append(columns)
        self._waiting_count += len(columns[0])
        if self._waiting_count >= FLUSH_COUNT:
            self.flush()

    def flush(self) -> None:
        """Compare what has been gathered."""
        waiting, self._waiting = self._waiting, []
        if not self._waiting_count:
            return
        self._waiting_count = 0
        columns = [np.concatenate(parts) for parts in zip(*waiting, strict=True)]
        if self._compiled:
            columns = self._without_met(columns)
        order = np.argsort(columns[0], kind="stable")
        columns = [column[order] for column in columns]
        bounds = group_bounds(columns[0])
        odd = np.arange(len(bounds) - 1)
        if not self._compiled:
            odd = odd[~self._meet(columns, bounds)]
        for group in odd[np.argsort(order[bounds[odd]])].tolist():  # as the log names them
            low, high = int(bounds[group]), int(bounds[group + 1])
            rows = DispatchRows(*(column[low:high] for column in columns[1:]))
            self._queue(int(columns[0][low]), rows)

    def _without_met(self, columns: list[dtypes.Longs]) -> list[dtypes.Longs]:
        """The rows of queues of which a unit is not just as it should be; the others are met, by compiled
        code."""
        row, index, _, offset, size, _, tags, level = columns
        odd, runs = self._rooms.meet(self._known.alone, (row, index, offset, size, tags, level))
        self._met.append(runs)
        if not odd.any():
            self._comparer.found_right(tags)
            return [column[:0] for column in columns]
        self._comparer.found_right(tags[~odd])
        return [column[odd] for column in columns]

    def _meet(self, columns: list[dtypes.Longs], bounds: dtypes.Longs) -> dtypes.Flags:
        """Which queues have a unit for each of their records that is just as it should be: these are met.

        Rows are ordered by queue, `bounds` are those of the queues.
        """
        row, index, _, offset, size, _, tags, level = columns
        alone, starts = self._known.alone, bounds[:-1]
        known = row < len(alone)
        number = np.full(len(row), unitranges.NO_NUMBER, np.int64)
        number[known] = alone[row[known]]
        units, found = self._rooms.take(number, index, starts)
        unit_tags = units["tagsCode"]
        same = (units["offset"] == offset) & (units["size"] == size) & (size > 0) & (unit_tags == tags)
        same &= (level <= 0) & (unit_tags > consumequeue.MAX_EXT_ADDRESS) & (tags != UNKNOWN_TAGS)
        same &= (size != consumequeue.PRE_BLANK_SIZE) | (tags != 0)
        met: dtypes.Flags = found & np.logical_and.reduceat(same, starts)
        rows = np.flatnonzero(np.repeat(met, np.diff(bounds)))
        self._met.append(unitranges.ranges_of(row[rows], index[rows]))
        self._comparer.found_right(tags[rows])
        return met

    def _queue(self, row: int, rows: DispatchRows) -> None:
        """All gathered records of one queue."""
        kinds = self._known.kinds(row)
        if not kinds:
            self._miss(row, rows, np.full(len(rows.index), int(unitranges.Missing.NO_QUEUE), np.int64))
            return
        batch = "batch" in kinds and ("file" not in kinds or bool((rows.count > 1).any()))
        self._used[row] = number = kinds["batch" if batch else "file"]
        with UnitReader(self._store.queues[number]) as reader:
            if batch:
                self._batch_rows(row, number, reader, rows)
                return
            steps = np.diff(rows.index)
            jumps = np.flatnonzero((steps < 1) | (steps > MAX_STEP)) + 1
            for low, high in pairwise([0, *jumps.tolist(), len(rows.index)]):
                self._piece(row, number, reader, rows.part(slice(low, high)))

    def _piece(self, row: int, number: int, reader: UnitReader, rows: DispatchRows) -> None:
        """Records whose queueOffsets rise in small steps."""
        first, last = int(rows.index[0]), int(rows.index[-1])
        found = np.zeros(len(rows.index), reader.dtype)
        if 0 <= first < reader.end_index:
            units = reader.units(first, min(last + 1, reader.end_index) - first)
            places = rows.index - first
            inside = places < len(units)
            found[inside] = units[places[inside]]
        same = (found["offset"] == rows.offset) & (found["size"] > 0)
        same &= (found["size"] != consumequeue.PRE_BLANK_SIZE) | (found["tagsCode"] != 0)
        good = np.flatnonzero(same)
        if len(good):
            kept = rows if len(good) == len(same) else rows.part(good)
            self._match(row, kept.index)
            self._comparer.take(self._store.queues[number], number, kept, found[good], kept.index)
        if len(good) == len(same):
            return
        absent, runs = _surely_absent(rows, found, same)
        if len(absent):
            self._miss_part(row, rows.part(absent), found[absent], reader, runs)
            same[absent] = True
        bad = np.flatnonzero(~same)
        self._shifted(row, number, reader, rows.part(bad), found[bad])

    def _shifted(self, row: int, number: int, reader: UnitReader, rows: DispatchRows, found: Units) -> None:
        """Records whose unit is not at its place, where `found` is: the unit may be at another one.

        What is done for one record does not grow with the number of those after it, and after
        `MAX_SEARCHES` searches the rest counts as having no unit: a queue in complete disorder must not
        cost more than one that is lost.
        """
        look, searches, search = FIRST_LOOK, 0, OffsetSearch(reader)
        while len(rows.index) and searches < MAX_SEARCHES:
            searches += 1
            at = search.find(int(rows.offset[0]))
            length = _length_at(reader, rows.part(slice(0, look)), at)
            if length == look < len(rows.index):
                look *= 8
                continue
            if length:
                kept, shift = rows.part(slice(0, length)), at - int(rows.index[0])
                self._match(row, kept.index + shift)
                run = (row, int(kept.index[0]), int(kept.index[-1]), at, length, int(kept.offset[0]))
                if properties.is_light(self._table.names[row][0]) and len(self._shifts) < MAX_RANGES:
                    self._shifts.append(run)
                else:
                    self._collector.add(unitranges.shifted(self._store, number, run, shift))
            else:
                length = _length_absent(reader, rows, at)
                self._miss_part(row, rows.part(slice(0, length)), found[:length], reader)
            rows, found, look = rows.part(slice(length, None)), found[length:], FIRST_LOOK
        if len(rows.index):
            self._miss_part(row, rows, found, reader)

    def _miss_part(
        self, row: int, rows: DispatchRows, found: Units, reader: UnitReader, runs: dtypes.Longs | None = None
    ) -> None:
        self._miss(row, rows, _reasons(rows, found, reader), runs)

    def _batch_rows(self, row: int, number: int, reader: UnitReader, rows: DispatchRows) -> None:
        """Records of a batch consume queue: their units are found by offset, for they have no fixed place."""
        at = reader.find_offset(int(rows.offset[0]))
        count = max(min(2 * len(rows.offset), reader.end_index - at), 0)
        units = reader.units(at, count)
        offsets = np.where(units["size"] > 0, units["offset"], -1).astype(np.int64)
        order = np.argsort(offsets, kind="stable")
        place = np.minimum(np.searchsorted(offsets[order], rows.offset), max(count - 1, 0))
        same = offsets[order[place]] == rows.offset if count else np.zeros(len(rows.offset), np.bool_)
        good, bad = np.flatnonzero(same), np.flatnonzero(~same)
        if len(good):
            picked = order[place[good]]
            self._match(row, np.sort(picked + at))
            queue = self._store.queues[number]
            self._comparer.take(queue, number, rows.part(good), units[picked], picked + at)
        if len(bad):
            self._miss(row, rows.part(bad), np.full(len(bad), int(unitranges.Missing.NOTHING), np.int64))

    def _match(self, row: int, places: dtypes.Longs) -> None:
        """Units at `places` (rising) have met their records."""
        breaks = np.flatnonzero(np.diff(places) != 1) + 1
        starts = places[np.concatenate(([0], breaks)).astype(np.int64)].tolist()
        ends = places[np.concatenate((breaks - 1, [len(places) - 1])).astype(np.int64)].tolist()
        for start, end in zip(starts, ends, strict=True):
            if self._matched and self._matched[-1][0] == row and self._matched[-1][2] == start:
                self._matched[-1] = (row, self._matched[-1][1], end + 1)
            elif len(self._matched) < MAX_RANGES:
                self._matched.append((row, start, end + 1))
            else:
                self._not_kept += end + 1 - start

    def _miss(
        self, row: int, rows: DispatchRows, reasons: dtypes.Longs, runs: dtypes.Longs | None = None
    ) -> None:
        """Records without a unit, and for each what is in its place (Missing), and the number of its run,
        if not all are one."""
        if runs is None:  # a run ends where queue offsets begin again
            runs = np.cumsum(np.diff(rows.index, prepend=rows.index[:1]) < 0)
        for low, high in pairwise(group_bounds(runs * len(unitranges.Missing) + reasons).tolist()):
            if len(self._missed) >= MAX_RANGES:
                self._not_kept += high - low
                continue
            index, last_index = int(rows.index[low]), int(rows.index[high - 1])
            offset, last_offset = int(rows.offset[low]), int(rows.offset[high - 1])
            reason = int(reasons[low])
            self._missed.append((row, index, last_index, offset, last_offset, high - low, reason))

    def finish(self, followed: dtypes.Longs) -> tuple[unitranges.UnitRanges, dtypes.Longs]:
        """Compare the rest; what was met and missed in this file, and which row of the table each row is.

        The rows `followed` of the table are among them, whether anything was met or not.
        """
        self.flush()
        matched = unitranges.joined(
            np.concatenate([*self._met, np.array(self._matched, np.int64).reshape(-1, 3)])
        )
        if len(matched) > MAX_RANGES:
            self._not_kept += int((matched[MAX_RANGES:, 2] - matched[MAX_RANGES:, 1]).sum())
            matched = matched[:MAX_RANGES]
        missed = np.array(self._missed, np.int64).reshape(-1, 7)
        shifts = np.array(self._shifts, np.int64).reshape(-1, 6)
        used = np.array(list(self._used), np.int64)
        kept = distinct(np.concatenate((matched[:, 0], missed[:, 0], shifts[:, 0], used, followed)))
        for ranges in (matched, missed, shifts):
            ranges[:, 0] = np.searchsorted(kept, ranges[:, 0])
        numbers = self._known.numbers(kept)
        numbers[np.searchsorted(kept, used)] = list(self._used.values())
        names = self._table.names
        unknown = [names[row] for row in kept[numbers < 0].tolist()]
        delays = [(*key, *values) for key, values in sorted(self._comparer.delays.items())]
        found = unitranges.UnitRanges(
            numbers,
            tuple((os.fsdecode(topic), queue_id) for topic, queue_id in unknown),
            matched,
            missed,
            np.array(delays, np.int64).reshape(-1, 6),
            shifts,
            self._not_kept,
        )
        return found, kept


def _surely_absent(rows: DispatchRows, found: Units, same: dtypes.Flags) -> tuple[dtypes.Longs, dtypes.Longs]:
    """The records whose unit need not be looked for, and the number of the run that each is in.

    Offsets rise along a queue: between two units at their places are only those of the records between, and
    if there is one place for each record, and none holds the unit of another, then they have none.
    """
    starts, ends = true_spans(~same)
    before, behind = np.maximum(starts - 1, 0), np.minimum(ends, len(same) - 1)
    sure = (starts > 0) & (ends < len(same))
    sure &= rows.index[behind] - rows.index[before] == ends - starts + 1
    elsewhere = np.zeros(len(same) + 1, np.int64)
    elsewhere[1:][~same] = np.isin(found["offset"][~same], rows.offset[~same])
    elsewhere = np.cumsum(elsewhere)
    sure &= elsewhere[ends] == elsewhere[starts]
    absent = np.flatnonzero(~same)[np.repeat(sure, ends - starts)]
    return absent, np.repeat(np.arange(len(starts)), (ends - starts) * sure)


def _length_at(reader: UnitReader, rows: DispatchRows, at: int) -> int:
    """How many of the records, from the first on, have their units at `at` and at the same distances."""
    places = rows.index - rows.index[0]
    units = reader.units(at, max(min(int(places[-1]) + 1, reader.end_index - at), 0))
    inside = places < len(units)
    same = np.zeros(len(places), np.bool_)
    picked = units[places[inside]]
    same[inside] = (picked["offset"] == rows.offset[inside]) & (picked["size"] > 0)
    return len(same) if same.all() else int(np.argmin(same))


def _length_absent(reader: UnitReader, rows: DispatchRows, at: int) -> int:
    """How many of the records, from the first on, have no unit anywhere, if `at` is where it would be."""
    unit = reader.units(at, 1)[0] if at < reader.end_index else None
    if unit is None or int(unit["size"]) <= 0:
        return len(rows.index)
    return max(int(np.searchsorted(rows.offset, int(unit["offset"]), "left")), 1)


def _reasons(rows: DispatchRows, found: Units, reader: UnitReader) -> dtypes.Longs:
    """What is in the places of the records' units (Missing)."""
    empty = (found["offset"] == 0) & (found["tagsCode"] == 0)
    reasons = np.full(len(rows.index), int(unitranges.Missing.OTHER), np.int64)
    reasons[empty & (found["size"] == consumequeue.PRE_BLANK_SIZE)] = unitranges.Missing.PRE_BLANK
    reasons[empty & (found["size"] == 0)] = unitranges.Missing.NOTHING
    reasons[rows.index < reader.first_index] = unitranges.Missing.BEFORE
    return reasons


def delay_levels_of(store: Store) -> Mapping[int, int]:
    """The delay in ms of each level, as given or by default."""
    if store.delay_levels_source == "default":
        return timer.DEFAULT_DELAY_LEVELS
    return timer.parse_delay_levels(store.delay_levels)
