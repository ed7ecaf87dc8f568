"""Times and hosts along a commit log file: what neighbours tell of each other.

    storeTimestamp    rises; a step back is a note
    bornTimestamp     a producer's clock, which may be a little ahead
    storeHost         changes where the master changed, or the store was moved

Times that no clock shows count as none: one damaged record must not date the whole file.
Reference 2.1, 9.2 M11.
"""

from __future__ import annotations

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.columns import store_host_place
from rocketfsck.formats.dtypes import Longs
from rocketfsck.formats.magic import IPV4_HOST_SIZE, IPV6_HOST_SIZE, STORE_HOST_V6
from rocketfsck.formats.record import decode_host
from rocketfsck.scan.log.live import RECENT_COUNT, believable
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Facts, Where
from rocketfsck.verify.log.rows import LogRows
from rocketfsck.verify.tasks.task import Collector

BORN_TOLERANCE = 600_000
"""Milliseconds that a producer's clock may be ahead."""


class Clocks:
    """Times and hosts along a file: steps back, producers ahead, changes of the storeHost.

    `first`, `last`, `oldest` and `newest` are storeTimestamps (ms) that a clock can show; None without one.
    """

    __slots__ = (
        "_ahead",
        "_back",
        "_before",
        "_host",
        "_hosts",
        "_tail",
        "first",
        "last",
        "newest",
        "oldest",
    )

    def __init__(self) -> None:
        self.first: int | None = None
        self.last: int | None = None
        self.oldest: int | None = None
        self.newest: int | None = None
        self._before: int | None = None  # the time of the record in front of the next batch
        self._tail: list[int] = []
        self._back: tuple[Where, int, int] | None = None  # first place, largest step, count
        self._ahead: tuple[Where, int, int] | None = None
        self._host: tuple[int, str] | None = None
        self._hosts: tuple[Where, str, str, int] | None = None

    def take(self, rows: LogRows, reader: FileReader) -> None:
        """Go on by the rows of a batch (at least one)."""
        times = rows["store_timestamp"]
        before = np.empty(len(times), np.int64)
        before[1:] = times[:-1]
        before[0] = times[0] if self._before is None else self._before
        self._back = _worst(self._back, rows, before - times, 0)
        self._ahead = _worst(self._ahead, rows, rows["born_timestamp"] - times, BORN_TOLERANCE)
        self._before = int(times[-1])
        self._take_times(believable(times))
        self._tail = [*self._tail, *times[-RECENT_COUNT:].tolist()][-RECENT_COUNT:]
        self._take_hosts(rows, reader)

    @property
    def recent(self) -> int | None:
        """The median storeTimestamp of the last records; None before any."""
        return sorted(self._tail)[len(self._tail) // 2] if self._tail else None

    def _take_times(self, times: Longs) -> None:
        if not len(times):
            return
        self.first = int(times[0]) if self.first is None else self.first
        self.last = int(times[-1])
        low, high = int(times.min()), int(times.max())
        self.oldest = low if self.oldest is None else min(self.oldest, low)
        self.newest = high if self.newest is None else max(self.newest, high)

    def _take_hosts(self, rows: LogRows, reader: FileReader) -> None:
        host = rows["store_host"]
        changes = np.flatnonzero(host[1:] != host[:-1]) + 1
        if self._host is None:
            self._host = (int(host[0]), host_text(rows, reader, 0))
        elif int(host[0]) != self._host[0]:
            changes = np.concatenate(([0], changes))
        if not len(changes):
            return
        if self._hosts is None:
            row = int(changes[0])
            previous = self._host[1] if row == 0 else host_text(rows, reader, row - 1)
            self._hosts = (rows.place(row), previous, host_text(rows, reader, row), 0)
        where, previous, now, count = self._hosts
        self._hosts = (where, previous, now, count + len(changes))
        self._host = (int(host[-1]), host_text(rows, reader, len(host) - 1))

    def finish(self, collector: Collector) -> None:
        """Add what was found: one finding a rule."""
        if self._back is not None:
            where, step, count = self._back
            collector.find(
                RuleName.STORE_TIMESTAMP_BACK, where, {"largest_step_ms": step, "step_count": count}
            )
        if self._ahead is not None:
            where, step, count = self._ahead
            collector.find(RuleName.BORN_AFTER_STORE, where, {"ahead_ms": step, "record_count": count})
        if self._hosts is not None:
            where, previous, now, count = self._hosts
            found: Facts = {"previous_host": previous, "host": now, "change_count": count}
            collector.find(RuleName.STORE_HOST_CHANGE, where, found)


def _worst(
    known: tuple[Where, int, int] | None,
    rows: LogRows,
    amounts: np.ndarray[tuple[int], np.dtype[np.int64]],
    limit: int,
) -> tuple[Where, int, int] | None:
    found = np.flatnonzero(amounts > limit)
    if not len(found):
        return known
    largest = int(amounts[found].max())
    if known is None:
        return rows.place(int(found[0])), largest, len(found)
    return known[0], max(known[1], largest), known[2] + len(found)


def host_text(rows: LogRows, reader: FileReader, row: int) -> str:
    """The storeHost of a record as `address:port`."""
    sys_flag = int(rows["sys_flag"][row])
    start = int(rows["pos"][row]) + store_host_place(sys_flag)
    size = IPV6_HOST_SIZE if sys_flag & STORE_HOST_V6 else IPV4_HOST_SIZE
    return decode_host(reader.read(start, size)).text
