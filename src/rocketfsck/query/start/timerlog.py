"""The timer log and the wheel as a broker's start reads them: how far the log goes, what the slots become.

    scan: from one file before the flushed position on, to the first bytes that are not a unit: the log's end
    slots: every unit scanned becomes the newest one of its slot
    recheck: a slot that leads beyond the cut has the scan go again, from that slot's oldest unit on

Reference 1.8; `TimerMessageStore.recoverAndRevise`, `TimerWheel.reviseSlot` and `checkPhyPos` of 5.0.0 to
5.5.1.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rocketfsck.formats.dtypes import TIMER_UNIT_DTYPE, Flags, Longs
from rocketfsck.formats.magic import MAGIC_BLANK
from rocketfsck.formats.timer import TIMER_LOG_UNIT_SIZE
from rocketfsck.query.start.load import LoadedFile
from rocketfsck.reader.timers import Slots, TimerBlock, TimerUnits, is_unit
from rocketfsck.scan.timerwheel import SLOT_COUNT, WheelReplay
from rocketfsck.store.reading import FileReader

BLOCK_COUNT = 1 << 14


@dataclass(slots=True)
class LogRows:
    """All that may be units in the files of a timer log, in its order: every 52 bytes up to the last byte
    that is not zero. `bounds` are the rows at which each file begins, and the end."""

    files: Sequence[LoadedFile]
    pos: Longs
    units: TimerUnits
    bounds: Sequence[int]

    @property
    def due(self) -> Longs:
        """When each row is due, in ms."""
        return TimerBlock(self.pos, self.units).deliver_timestamp

    def row_at(self, number: int, place: int) -> int | None:
        """The row at a place in a file, by its number; None where the file has no bytes of a unit there."""
        row = self.bounds[number] + place // TIMER_LOG_UNIT_SIZE
        return row if place % TIMER_LOG_UNIT_SIZE == 0 and row < self.bounds[number + 1] else None


def read_rows(files: Sequence[LoadedFile]) -> LogRows:
    """The rows of all files. Memory is that of what the files hold. Raises StoreError where one fails."""
    parts: list[TimerUnits] = [np.zeros(0, TIMER_UNIT_DTYPE)]
    places: list[Longs] = [np.zeros(0, np.int64)]
    bounds = [0]
    for file in files:
        with FileReader(file.path) as reader:
            count = min(-(-reader.used_end() // TIMER_LOG_UNIT_SIZE), file.size // TIMER_LOG_UNIT_SIZE)
            data = bytes(reader.read(0, count * TIMER_LOG_UNIT_SIZE))
        parts.append(np.frombuffer(data, TIMER_UNIT_DTYPE))
        places.append(file.start_offset + np.arange(count, dtype=np.int64) * TIMER_LOG_UNIT_SIZE)
        bounds.append(bounds[-1] + count)
    return LogRows(files, np.concatenate(places), np.concatenate(parts), bounds)


def replay_of(slots: Slots) -> WheelReplay:
    """A wheel's slots as they are on disk, ready for units to be put."""
    replay = WheelReplay()
    replay.time[:] = slots["slotTime"]
    replay.first[:] = slots["firstPos"]
    replay.last[:] = slots["lastPos"]
    return replay


@dataclass(slots=True)
class Scan:
    """The scan of a log into a wheel."""

    rows: LogRows
    replay: WheelReplay
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
            stop = files[number].start_offset + count * TIMER_LOG_UNIT_SIZE
            if ends:
                break
        return stop

    def _file(self, number: int, *, cuts: bool) -> tuple[int, bool]:
        """How many rows of a file the scan passes, and whether it ends with them."""
        file, rows = self.rows.files[number], self.rows
        low, high = rows.bounds[number], rows.bounds[number + 1]
        units, due = rows.units[low:high], rows.due[low:high]
        marks = np.flatnonzero(units["magic"] == np.int32(MAGIC_BLANK))
        count = int(marks[0]) if len(marks) else len(units)
        bad = np.flatnonzero(~is_unit(units[:count])) if cuts else np.zeros(0, np.int64)
        early = np.flatnonzero(
            is_unit(units[:count]) & (due[:count] < 0)
        )  # no slot: an exception ends the scan
        stops = [int(found[0]) for found in (bad, early) if len(found)]
        ends = bool(stops)
        count = min([count, *stops])
        good = is_unit(units[:count])
        self._put(rows.pos[low : low + count][good], due[:count][good])
        if not ends and not len(marks):
            # zeros, or too few bytes for a unit: both end a scan that cuts
            whole = file.size // TIMER_LOG_UNIT_SIZE
            ends = cuts and (count < whole or file.size % TIMER_LOG_UNIT_SIZE != 0)
        return count, ends

    def _put(self, pos: Longs, due: Longs) -> None:
        unlinked = np.zeros(len(pos), np.int64)
        none = np.zeros(len(pos), np.bool_)
        for start in range(0, len(pos), BLOCK_COUNT):
            part = slice(start, start + BLOCK_COUNT)
            slot_time = due[part] // self.precision_ms
            self.replay.put(pos[part], slot_time, unlinked[part], none[part], 0)


def waiting_slots(replay: WheelReplay, read_timestamp: int, precision_ms: int) -> Longs:
    """The slots that a broker comes to from its reading time on, in the order of their numbers."""
    first = read_timestamp // precision_ms
    ahead = (replay.time >= first) & (replay.time < first + SLOT_COUNT)
    number: Longs = np.flatnonzero(ahead)
    placed: Longs = number[replay.time[number] % SLOT_COUNT == number]
    return placed


def first_behind(replay: WheelReplay, slots: Longs, end: int) -> int | None:
    """The oldest unit of the slots that lead behind the log's end; None where none does."""
    behind: Longs = slots[replay.last[slots] > end]
    return int(replay.first[behind].min()) if len(behind) else None


@dataclass(frozen=True, slots=True)
class SlotChains:
    """What slots lead to: `counts` says of every row how often, `endless_slot_count` how many slots have a
    chain without an end. Not `complete`: so many links lead to the same rows that not all were followed."""

    counts: Longs
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


def changed_slots(replay: WheelReplay, before: WheelReplay) -> Flags:
    """Slots that are not what they were."""
    return np.asarray((replay.time != before.time) | (replay.last != before.last), np.bool_)
