"""Index entries put: their bytes, and what they leave in the slots (reference 4.4).

    entry := keyHash phyOffset timeDiff prevIndex      20 bytes, big-endian (reference 4.1)

Only the links go from entry to entry: `_link` is written in the part of Python that Numba compiles too, and
runs as it is or compiled; NumPy does the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.arrays import Longs, Words
from rocketfsck.formats.dtypes import ENTRY_DTYPE
from rocketfsck.formats.javatext import INT32_MAX
from rocketfsck.scan.machine.jit import in_form


def link_entries(key_hash: Words, number: int, slots: Words, *, compiled: bool) -> tuple[Words, int]:
    """The prevIndex of the entries `number` and on, and how many of them found their slot empty.

    `key_hash` is not negative, `slots` is moved on. A slot that says what no slot can say counts as empty.
    """
    slot = key_hash % np.int32(len(slots))
    previous = np.empty(len(slot), np.int32)
    arrays: list[Any] = [slot, slots, previous]
    if not compiled:
        arrays = [array.data for array in arrays]  # quicker to index than arrays
    return previous, int(in_form(_link, compiled)(*arrays, number))


def _link(slot: Any, slots: Any, previous: Any, number: int) -> int:
    empty = 0
    for row in range(len(slot)):
        newest = slots[slot[row]]
        if newest <= 0 or newest > number + row:
            newest = 0
            empty += 1
        previous[row] = newest
        slots[slot[row]] = number + row
    return empty


def put_entries(
    key_hash: Words,
    key_record: Words,
    offset: Longs,
    time: Longs,
    number: int,
    begin_timestamp: int,
    slots: Words,
    *,
    compiled: bool,
) -> tuple[NDArray[np.void], int]:
    """Keys as the entries `number` and on of an index file; and how many found their slot empty.

    `key_record` are rows of `offset` and `time`; `slots` is moved on.
    """
    entries = np.empty(len(key_hash), ENTRY_DTYPE)
    entries["keyHash"], entries["phyOffset"] = key_hash, offset[key_record]
    entries["timeDiff"] = time_diffs(time[key_record], begin_timestamp)
    entries["prevIndex"], empty = link_entries(key_hash, number, slots, compiled=compiled)
    return entries, empty


def time_diffs(store_timestamp: Longs, begin_timestamp: int) -> Longs:
    """`formats.indexfile.time_diff` of many: the difference wraps around like Java's."""
    if begin_timestamp <= 0:
        return np.zeros_like(store_timestamp)
    seconds: Longs = (store_timestamp - np.int64(begin_timestamp)) // 1000
    return np.clip(seconds, 0, INT32_MAX)
