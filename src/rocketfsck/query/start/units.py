"""Where the units of a queue on disk lead: from which record on, and into which ranges of the commit log.

What a start itself does not look at, but consumers meet. Pre-blank units lead to no record. Reference 3.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.consumequeue import PRE_BLANK_UNIT
from rocketfsck.formats.dtypes import UNIT_DTYPE
from rocketfsck.query.start.load import LoadedFile
from rocketfsck.query.start.model import LostRange
from rocketfsck.query.start.queues import FAR, QueueModel


class Queues(Protocol):
    """The queues of a start."""

    def values(self) -> Iterable[QueueModel]:
        """All of them."""

    def reaching(self, offset: int) -> Iterable[QueueModel]:
        """Those with units of records at a physical offset and beyond it, at least."""


_BLANK = np.frombuffer(PRE_BLANK_UNIT, UNIT_DTYPE)[0]


def first_covered(queue: QueueModel) -> int:
    """The least physical offset that the units at the beginning of the queue on disk lead to.

    Records in front of it have no unit: what a queue began behind is not in it.
    """
    if queue.first_file is None or queue.loaded.kind == "batch":
        return 0
    for units in queue.read(queue.first_file):
        used = _led_to(queue, units)
        if len(used):
            return int(used.min())
        if not queue.valid(units).all():
            break
    return 0


def leading_between(queue: QueueModel, ranges: Sequence[tuple[int, int]]) -> list[int]:
    """How many units on disk that consumers are given lead into each range of physical offsets."""
    counts = [0] * len(ranges)
    for file in queue.files:
        if file.is_new:
            break
        low = max(queue.min_pos - file.start_offset, 0) if queue.loaded.kind == "file" else 0
        high = min(file.wrote_pos, queue.disk_end - file.start_offset)
        for units in queue.read(file, low, high):
            offset = _led_to(queue, units)
            for number, (start, end) in enumerate(ranges):
                counts[number] += int(np.count_nonzero((offset >= start) & (offset < end)))
    return counts


def find_unreadable(files: Sequence[LoadedFile], max_offset: int, queues: Queues) -> list[LostRange]:
    """The ranges that no file of the log holds and that units lead to, and how many units each.

    Without a hole in the log only the queues that reach beyond its end are read.
    """
    holes = [
        (file.end_offset, following.start_offset)
        for file, following in pairwise(files)
        if file.end_offset < following.start_offset
    ]
    behind = (max_offset, FAR)
    counts = dict.fromkeys([*holes, behind], 0)
    furthest = max_offset
    for queue in queues.values() if holes else queues.reaching(max_offset):
        asked = [*holes, behind] if queue.covered_offset >= max_offset else holes
        if asked and queue.files:
            furthest = max(furthest, queue.covered_offset)
            for place, count in zip(asked, leading_between(queue, asked), strict=True):
                counts[place] += count
    return [
        LostRange(start, min(end, max(furthest, start) + 1), count)
        for (start, end), count in counts.items()
        if count
    ]


def _led_to(queue: QueueModel, units: NDArray[Any]) -> NDArray[np.int64]:
    """The physical offsets that valid units lead to."""
    blank = (units["offset"] == _BLANK["offset"]) & (units["size"] == _BLANK["size"])
    blank &= units["tagsCode"] == _BLANK["tagsCode"]
    return np.asarray(units["offset"][queue.valid(units) & ~blank], np.int64)
