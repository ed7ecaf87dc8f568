"""Messages counted by time, in as few buckets as are wanted, without knowing the times beforehand."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rocketfsck.formats.arrays import Longs

FIRST_STEP_MS = 1000
LEAST_COUNT = 4
"""Buckets that all times of 64 bits fall into before a step has more than 64 bits."""
_RUN_COUNT = 512
"""Runs of equal buckets in a batch that are added one by one; with more the rows are sorted first."""


class TimeBuckets:
    """Messages and bytes by the time of storing. A bucket is `step_ms` long; the step doubles as long as more
    than `limit` buckets have messages, so that a clock that was wrong once costs a bucket and no
    precision."""

    def __init__(self, limit: int, step_ms: int = FIRST_STEP_MS) -> None:
        self.step_ms = step_ms
        self._limit = max(limit, LEAST_COUNT)
        self._counts: dict[int, tuple[int, int]] = {}

    def add(self, times: Longs, sizes: Longs) -> None:
        """Count messages by their times (ms) and sizes."""
        if not len(times):
            return
        while True:
            keys = times // self.step_ms
            starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
            if len(starts) > min(_RUN_COUNT, self._limit):
                order = np.argsort(keys, kind="stable")
                keys, times, sizes = keys[order], times[order], sizes[order]
                starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
            if len(starts) <= self._limit:
                break
            self._coarsen()
        counts = np.diff(np.append(starts, len(keys)))
        totals = np.add.reduceat(sizes, starts)
        for key, count, size in zip(keys[starts].tolist(), counts.tolist(), totals.tolist(), strict=True):
            self._count(key, count, size)
        self._fit()

    def take(self, other: TimeBuckets) -> None:
        """Count what another one has counted."""
        while self.step_ms < other.step_ms:
            self._coarsen()
        for key, (count, size) in other._counts.items():
            self._count(key * other.step_ms // self.step_ms, count, size)
        self._fit()

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """(begin in ms, messages, bytes) of the buckets in order."""
        for key in sorted(self._counts):
            yield key * self.step_ms, *self._counts[key]

    def extent(self, share: float = 0.0005) -> tuple[int, int] | None:
        """From where to where, in ms, the messages are, without a `share` of them at either end."""
        rows = list(self.rows())
        if not rows:
            return None
        counts = np.cumsum([count for _, count, _ in rows])
        total = int(counts[-1])
        first = int(np.searchsorted(counts, total * share, side="right"))
        last = int(np.searchsorted(counts, total * (1 - share), side="left"))
        return rows[first][0], rows[min(last, len(rows) - 1)][0] + self.step_ms

    def _count(self, key: int, count: int, size: int) -> None:
        known = self._counts.get(key, (0, 0))
        self._counts[key] = (known[0] + count, known[1] + size)

    def _fit(self) -> None:
        while len(self._counts) > self._limit:
            self._coarsen()

    def _coarsen(self) -> None:
        counts, self._counts = self._counts, {}
        self.step_ms *= 2
        for key, (count, size) in counts.items():
            self._count(key // 2, count, size)
