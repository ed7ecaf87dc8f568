"""The times in the files of a store, changed in place by one map (`names.Times`).

Reference 1.8, 2.1, 3, 4.1, 5.1.

    record            bornTimestamp, storeTimestamp
    unit              storeTime; a tagsCode that is a time of delivery keeps its distance to storeTimestamp
    index             beginTimestamp, endTimestamp; timeDiff follows from them
    checkpoint        the three times, and whatever else is a time after the known fields
    timer log         currWriteTime; the time of delivery is moved, never rounded
    timer wheel       slotTime, and the slot itself: slots follow from times of delivery

Timers that fall due in two slots would be in one if their times were rounded: their chains would be others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats import checkpoint, consumequeue, dtypes, indexfile, javatext, timer
from rocketfsck.writer.mask.names import Times, are_times

_LONG = 8
_TIME_FIELDS = 3
_BORN_AT = 40
_BORN_V6 = 0x10
_HOST_SIZES = (8, 20)
_EXT_CODE, _EXT_TIME = 2, 10
_CHECK_DUE, _CHECK_VERSION = 0, 40


@dataclass(slots=True)
class StoreTimes:
    """The storeTimestamps of the records by physical offset, as the store has them, and the map."""

    times: Times
    _parts: list[tuple[dtypes.Longs, dtypes.Longs]] = field(default_factory=list)

    def learn(self, offset: dtypes.Longs, store_timestamp: dtypes.Longs) -> None:
        """Records of a log file; needed where times are rounded."""
        if self.times.are_rounded:
            self._parts.append((offset, store_timestamp))

    def at(self, offset: dtypes.Longs, otherwise: dtypes.Longs) -> dtypes.Longs:
        """The storeTimestamps at these physical offsets; `otherwise` where there is no record."""
        made = otherwise.copy()
        if not self._parts:
            return made
        known, stored = (np.concatenate(columns) for columns in zip(*self._parts, strict=True))
        order = np.argsort(known, kind="stable")
        self._parts = [(known[order], stored[order])]
        known, stored = self._parts[0]
        if len(known):
            places = np.minimum(np.searchsorted(known, offset), len(known) - 1)
            found = known[places] == offset
            made[found] = stored[places[found]]
        return made

    def deliveries(self, codes: dtypes.Longs, offset: dtypes.Longs | None) -> dtypes.Longs:
        """Tag codes that are times of delivery: as long after storeTimestamp as before."""
        stored = codes if offset is None else self.at(offset, codes)
        is_time = are_times(codes)
        return np.where(is_time, self.times.of_all(stored) + codes - stored, codes)


def move_record(record: bytearray, sys_flag: int, times: Times, pos: int = 0) -> None:
    """The two times of a record's frame, which begins at `pos`."""
    after = pos + _BORN_AT + _LONG + _HOST_SIZES[bool(sys_flag & _BORN_V6)]
    for place in (pos + _BORN_AT, after):
        _move_long(record, place, times)


def _move_long(data: bytearray, place: int, times: Times, *, rounded: bool = True) -> None:
    value = int.from_bytes(data[place : place + _LONG], "big", signed=True)
    if place + _LONG <= len(data):
        made = times.of(value) if rounded else times.moved(value)
        data[place : place + _LONG] = made.to_bytes(_LONG, "big", signed=True)


def rows_of(data: bytearray, dtype: dtypes.Dtype, start: int = 0) -> NDArray[Any]:
    """The whole rows of a file from a position on; what is written to them is written to the file."""
    count = max(len(data) - start, 0) // dtype.itemsize
    return np.frombuffer(data, dtype, count, start) if count else np.zeros(0, dtype)


def move_units(data: bytearray, dtype: dtypes.Dtype, stored: StoreTimes, *, in_log: bool = True) -> None:
    """Times in consume queue units; `in_log`: their offsets are those of the commit log."""
    units = rows_of(data, dtype)
    offset = units["offset"].astype(np.int64) if in_log else None
    units["tagsCode"] = stored.deliveries(units["tagsCode"].astype(np.int64), offset)
    if "storeTime" in (dtype.names or ()):
        units["storeTime"] = stored.times.of_all(units["storeTime"].astype(np.int64))


def move_ext(data: bytearray, places: Iterable[int], times: Times) -> None:
    """Times in the ext units at these positions."""
    for place in places:
        if place + consumequeue.EXT_UNIT_MIN_SIZE <= len(data):
            _move_long(data, place + _EXT_TIME, times)
            _move_long(data, place + _EXT_CODE, times)


def move_index(data: bytearray, slot_count: int, stored: StoreTimes, inherited: int | None) -> int | None:
    """The header's times; with rounding also the entries' distances from its begin, as wrong as before.

    Entry 1 is put while the header has the end of the file before (`inherited`, ms; None: there is none).
    Returns the end of this file, as it was.
    """
    if len(data) < indexfile.INDEX_HEADER_SIZE:
        return None
    end = int.from_bytes(data[_LONG : 2 * _LONG], "big", signed=True)
    times = stored.times
    begin = int.from_bytes(data[:_LONG], "big", signed=True)
    _move_long(data, 0, times)
    _move_long(data, _LONG, times)
    start = indexfile.entry_pos(0, slot_count)
    entries = rows_of(data, dtypes.ENTRY_DTYPE, start)
    if not times.are_rounded or times.of(begin) == begin or not len(entries):
        return end
    used = np.flatnonzero(entries["phyOffset"] != 0)
    if len(entries) > 1 and entries["keyHash"][1]:  # the first record is at offset 0
        used = np.union1d(used, [1])
    was = entries["timeDiff"][used].astype(np.int64)
    at = stored.at(entries["phyOffset"][used].astype(np.int64), begin + was * 1000)
    since = np.where(used == 1, at if inherited is None else inherited, begin)
    made = was - _seconds(at - since) + _seconds(times.of_all(at) - times.of_all(since))
    fitting = np.clip(made, javatext.INT32_MIN, javatext.INT32_MAX)
    entries["timeDiff"][used] = np.where((was >= 0) & (made < 0), 0, fitting)
    return end


def _seconds(difference: dtypes.Longs) -> dtypes.Longs:
    """`time_diff` for a column of differences (ms)."""
    return np.clip(difference // 1000, indexfile.time_diff(0, 1), javatext.INT32_MAX)


def move_checkpoint(data: bytearray, times: Times, log_end: int) -> None:
    """The checkpoint's times. A long after its known fields is a time if beyond the log's end (bytes)."""
    for number in range(len(data) // _LONG):
        place = number * _LONG
        value = int.from_bytes(data[place : place + _LONG], "big")
        if number < _TIME_FIELDS or (place >= checkpoint.CHECKPOINT.size and value > log_end):
            _move_long(data, place, times)


def move_timer_log(data: bytearray, times: Times) -> None:
    """Times of writing in timer log units; the time of delivery is moved by the shift alone."""
    units = rows_of(data, dtypes.TIMER_UNIT_DTYPE)
    rows = np.flatnonzero(units["size"] == timer.TIMER_LOG_UNIT_SIZE)
    written = units["currWriteTime"][rows].astype(np.int64)
    made = times.of_all(written)
    later = np.where(are_times(written), written + times.shift - made, 0)
    lasts = units["delayedTime"][rows].astype(np.int64) + later
    fits = lasts <= javatext.INT32_MAX
    rows = rows[fits]
    units["currWriteTime"][rows], units["delayedTime"][rows] = made[fits], lasts[fits]


def move_wheel(data: bytearray, times: Times, precision_ms: int) -> None:
    """The slots of a timer wheel go to the places of their new times; `precision_ms`: a slot's length."""
    turn, slots = times.shift // precision_ms, rows_of(data, dtypes.TIMER_SLOT_DTYPE)
    due = slots["slotTime"].astype(np.int64)
    slots["slotTime"] = np.where(are_times(due * precision_ms), due + turn, due)
    if len(data) == timer.TIMER_WHEEL_SIZE:
        slots[:] = np.roll(slots, turn % len(slots))


def move_timer_check(data: bytearray, times: Times) -> None:
    """How far the timers have come, by the shift alone; the time of the data version."""
    _move_long(data, _CHECK_DUE, times, rounded=False)
    _move_long(data, _CHECK_VERSION, times)
