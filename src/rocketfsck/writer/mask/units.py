"""Consume queues, their extensions and timer logs with other tag codes and hashes of topics."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.consumequeue import EXT_END_MARK, EXT_UNIT_MIN_SIZE
from rocketfsck.formats.dtypes import TIMER_UNIT_DTYPE, Dtype
from rocketfsck.formats.timer import TIMER_LOG_UNIT_SIZE
from rocketfsck.writer.mask.hashes import HashMasks
from rocketfsck.writer.mask.names import Pseudonyms

_LOW_WORD = (1 << 63) - 1
_CODE = slice(2, 10)


def mask_units(data: bytearray, dtype: Dtype, masks: HashMasks, *, in_log: bool = True) -> Longs:
    """Change the tag codes of consume queue units in place; the byte offsets of ext units that they name.

    `in_log`: the units' offsets are those of the commit log.
    """
    count = len(data) // dtype.itemsize
    if not count:
        return np.empty(0, np.int64)
    units = np.frombuffer(data, dtype, count)
    codes, offset = units["tagsCode"].astype(np.int64), units["offset"].astype(np.int64)
    units["tagsCode"] = masks.codes(codes, offset if in_log else None)
    addresses = codes[codes < -(1 << 31)]
    return addresses & _LOW_WORD


def mask_ext(data: bytearray, places: Iterable[int], masks: HashMasks, names: Pseudonyms) -> set[int]:
    """Change the tag codes of ext units in place, empty their bit maps; all that is not a unit becomes noise.

    `places` are positions of units in the file, in addition to those that follow one another from its
    beginning. Returns the positions of all of them. The zeros of a bit map, too, say which groups a message
    was for: noise that keeps them would tell that.
    """
    before = bytes(data)
    end = len(before.rstrip(b"\0"))
    data[:end] = names.noise(b"\1" * end)
    seen: set[int] = set()
    for first in (0, *places):
        place = first
        while 0 <= place <= len(before) - EXT_UNIT_MIN_SIZE and place not in seen:
            seen.add(place)
            head = before[place : place + EXT_UNIT_MIN_SIZE]
            if head.startswith(EXT_END_MARK):
                break
            size = int.from_bytes(head[:2], "big", signed=True)
            if size < EXT_UNIT_MIN_SIZE:
                data[place : place + 2] = head[:2]
                break
            code = int.from_bytes(head[_CODE], "big", signed=True)
            made = int(masks.codes(np.array([code], np.int64))[0])
            data[place : place + EXT_UNIT_MIN_SIZE] = head
            data[place + 2 : place + 10] = made.to_bytes(8, "big", signed=True)
            data[place + EXT_UNIT_MIN_SIZE : place + size] = bytes(
                min(place + size, len(before)) - place - EXT_UNIT_MIN_SIZE
            )
            place += size
        if 0 <= place < len(before) and before[place : place + 2] == EXT_END_MARK:
            data[place : place + 2] = EXT_END_MARK
    return seen


def mask_timer_log(data: bytearray, masks: HashMasks, names: Pseudonyms) -> None:
    """Change the hashes of topics in the units of a timer log in place."""
    count = len(data) // TIMER_LOG_UNIT_SIZE
    if not count:
        return
    units = np.frombuffer(data, TIMER_UNIT_DTYPE, count)
    rows = np.flatnonzero(units["size"] == TIMER_LOG_UNIT_SIZE)
    hashes = units["hashCodeOfRealTopic"][rows].astype(np.int64)
    units["hashCodeOfRealTopic"][rows] = masks.name_hashes(hashes, names.known())
