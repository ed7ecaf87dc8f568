"""What every byte of the commit log is, over all files, for offsets that queues and indexes hold."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from rocketfsck.formats.dtypes import Longs
from rocketfsck.scan.spans import distinct, find_span
from rocketfsck.store.elsewhere import has_log_elsewhere
from rocketfsck.store.model import Store
from rocketfsck.verify.log.regions import DAMAGED, STALE
from rocketfsck.verify.store.misnamed import Misnamed
from rocketfsck.verify.tasks.task import TaskResult


class Ground(IntEnum):
    """What is at a physical offset."""

    LIVE = 0  # between live records, or at one
    EXPIRED = 1  # below the first file
    MISSING = 2  # between two files: a segment that is not there
    BEYOND = 3  # beyond the log's end
    DAMAGE = 4
    UNKNOWN = 5  # a file that was not checked, or is not read by this version
    FENCE = 6  # filler in place of a lost record; said of single units, once their place was read
    MISNAMED = 7  # in a file that has a wrong name


class LogMap:
    """Looks up physical offsets. `log_end` is where the live log ends, None if that is not known."""

    def __init__(
        self, store: Store, logs: Sequence[TaskResult | None], misnamed: Sequence[Misnamed] = ()
    ) -> None:
        self._misnamed_starts: Longs = np.array([file.start for file in misnamed], np.int64)
        self._misnamed_ends: Longs = np.array([file.end for file in misnamed], np.int64)
        files = [
            (file.start_offset, file.size, log)
            for file, log in zip(store.commitlog.files, logs, strict=True)
            if file.start_offset is not None
        ]
        files.sort(key=lambda item: item[0])
        self._starts: Longs = np.array([start for start, _, _ in files], np.int64)
        self._ends: Longs = self._starts + np.array([size for _, size, _ in files], np.int64)
        self._logs = [log for _, _, log in files]
        self.log_end: int | None = None
        last = len(files) - 1
        while last >= 0 and self._logs[last] is not None and not self._is_live(last):
            last -= 1
        if last >= 0 and self._logs[last] is not None:
            self.log_end = int(self._starts[last]) + int(self._logs[last].summary.live_end)  # type: ignore[union-attr]
        elif last < 0 and files:
            self.log_end = int(self._starts[0])
        self._last = last
        self._continues = has_log_elsewhere(store)

    @property
    def is_misnamed_in_front(self) -> bool:
        """Whether a file with a wrong name belongs in front of the first file: what it has did not expire."""
        return len(self._starts) > 0 and bool((self._misnamed_starts < self._starts[0]).any())

    def _is_live(self, number: int) -> bool:
        log = self._logs[number]
        return log is not None and bool(log.summary.live_end)

    def lost_size_before(self, offset: int) -> int:
        """How many bytes before a physical offset, from the first file on, belong to no record that is there:
        missing files, damage, and files that were never written to."""
        size = 0
        before = self._starts[0] if len(self._starts) else 0
        for start, end, log in zip(self._starts.tolist(), self._ends.tolist(), self._logs, strict=True):
            if start >= offset:
                break
            size += max(start - before, 0)
            before = max(before, end)
            if log is not None:
                bad, live_end = log.summary.bad, log.summary.live_end
                low, high = bad.start[bad.code == DAMAGED], bad.end[bad.code == DAMAGED]
                high = np.minimum(high, min(offset - start, live_end))
                size += int(np.maximum(high - low, 0).sum())
                size += max(min(end, offset) - start - live_end, 0)
        return size + max(offset - before, 0)

    def grounds(self, offsets: Longs) -> Longs:
        """The `Ground` of every offset."""
        found = np.full(len(offsets), Ground.LIVE, np.int64)
        if not len(self._starts):
            found[:] = Ground.UNKNOWN
            return found
        file = find_span(offsets, self._starts, self._ends)
        found[(file < 0) & (offsets < self._starts[0])] = Ground.EXPIRED
        found[(file < 0) & (offsets >= self._starts[0])] = Ground.MISSING
        if self.log_end is not None:
            found[offsets >= self.log_end] = Ground.BEYOND
        else:
            found[(file < 0) & (offsets >= self._ends[-1])] = Ground.BEYOND
        if self._continues:
            found[(file < 0) & (offsets >= self._ends[-1])] = Ground.UNKNOWN
        for number in distinct(file[file >= 0]).tolist():
            rows = np.flatnonzero((file == number) & (found != Ground.BEYOND))
            log = self._logs[number]
            if log is None:
                found[rows] = Ground.UNKNOWN
                continue
            summary = log.summary
            pos = offsets[rows] - self._starts[number]
            found[rows[pos >= summary.live_end]] = Ground.DAMAGE
            span = find_span(pos, summary.bad.start, summary.bad.end)
            held = span >= 0
            code = summary.bad.code[span[held]]
            found[rows[held][code == DAMAGED]] = Ground.DAMAGE
            found[rows[held][code == STALE]] = Ground.BEYOND
        # Torn and damaged bytes after the last live record are damage, zeros there are not.
        beyond = np.flatnonzero((found == Ground.BEYOND) & (file >= 0))
        for number in distinct(file[beyond]).tolist():
            log = self._logs[number]
            if log is not None:
                rows = beyond[file[beyond] == number]
                bad = log.summary.bad
                span = find_span(offsets[rows] - self._starts[number], bad.start, bad.end)
                held = span >= 0
                found[rows[held][bad.code[span[held]] == DAMAGED]] = Ground.DAMAGE
        found[find_span(offsets, self._misnamed_starts, self._misnamed_ends) >= 0] = Ground.MISNAMED
        return found
