"""Reads a timer log: its units in blocks, and what is not a unit. Reference 1.8.2.

    timerlog file := unit[52]* (end mark)? zeros

A file's units end at its end mark, or at the zeros that reach to its end. What is neither unit, end mark nor
such zeros is a `TimerGap`; the units continue after it at the next multiple of 52. Bounded: a block at a
time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.dtypes import TIMER_UNIT_DTYPE
from rocketfsck.formats.magic import MAGIC_BLANK
from rocketfsck.formats.timer import MAGIC_DELETE, TIMER_LOG_UNIT_SIZE
from rocketfsck.reader.units import StreamReader
from rocketfsck.scan.spans import group_bounds
from rocketfsck.scan.timerwheel import WheelReplay

BLOCK_COUNT = 1 << 14
_ZERO, _UNIT, _MARK, _OTHER = range(4)
_MAGIC_BITS = 0xF

TimerUnits = NDArray[Any]
"""Units as `TIMER_UNIT_DTYPE` has them."""


@dataclass(frozen=True, slots=True)
class TimerBlock:
    """Units in the order of the log, and their positions in it (bytes)."""

    pos: Longs
    units: TimerUnits

    @property
    def deliver_timestamp(self) -> Longs:
        """When each unit is due, in ms: when it was written and its delay."""
        due: Longs = self.units["currWriteTime"].astype(np.int64) + self.units["delayedTime"]
        return due

    @property
    def physical_offset(self) -> Longs:
        """The commit log offset of each unit's record."""
        offset: Longs = self.units["offsetPy"].astype(np.int64)
        return offset


@dataclass(frozen=True, slots=True)
class TimerGap:
    """Bytes `start:end` of the log, positions in its stream, that hold no units although units follow,
    or although the next file says that this one is full. `zero`: they are all zero."""

    start: int
    end: int
    zero: bool


def timer_units(log: StreamReader) -> Iterator[TimerBlock | TimerGap]:
    """All units of the log, file by file, and the gaps among them. Raises StoreError if a file fails."""
    for number, base in enumerate(log.starts):
        yield from _file_units(log, number, base)


def unit_at(log: StreamReader, places: Longs) -> TimerUnits:
    """The units at these positions of the log, zeros where none is. Raises StoreError."""
    return log.gather(places, TIMER_UNIT_DTYPE)


def is_unit(units: TimerUnits) -> NDArray[np.bool_]:
    """A broker's own test of a unit: its length and its magic (`TimerMessageStore.isMagicOK`)."""
    magic = units["magic"]
    return np.asarray(
        (units["size"] == TIMER_LOG_UNIT_SIZE) & (magic >= 0) & (magic <= _MAGIC_BITS), np.bool_
    )


def put_block(
    replay: WheelReplay, log: StreamReader, block: TimerBlock, precision_ms: int
) -> tuple[Longs, Longs]:
    """Put a block's units into the slots of a wheel: the rows whose prevPos is wrong, and the right one."""
    deletes = (block.units["magic"] & MAGIC_DELETE) != 0
    prev_pos = block.units["prevPos"].astype(np.int64)
    return replay.put(block.pos, block.deliver_timestamp // precision_ms, prev_pos, deletes, log.start)


def _file_units(log: StreamReader, number: int, base: int) -> Iterator[TimerBlock | TimerGap]:
    reader = log.reader(number)
    end = reader.used_end()
    zeros_from: int | None = None  # zeros of which nobody knows yet whether units follow
    for start in range(0, end, BLOCK_COUNT * TIMER_LOG_UNIT_SIZE):
        size = min(BLOCK_COUNT * TIMER_LOG_UNIT_SIZE, end - start)
        count = -(-size // TIMER_LOG_UNIT_SIZE)
        data = bytes(reader.read(start, size)).ljust(count * TIMER_LOG_UNIT_SIZE, b"\0")
        units = np.frombuffer(data, TIMER_UNIT_DTYPE)
        kinds = _kinds(units)
        bounds = group_bounds(kinds).tolist()
        for first, last in pairwise(bounds):
            low, high = start + first * TIMER_LOG_UNIT_SIZE, start + last * TIMER_LOG_UNIT_SIZE
            kind = int(kinds[first])
            if kind == _ZERO:
                zeros_from = low if zeros_from is None else zeros_from
                continue
            if zeros_from is not None:
                yield TimerGap(base + zeros_from, base + low, zero=True)
                zeros_from = None
            if kind == _MARK:
                return  # readers leave the file here
            if kind == _UNIT:
                pos = base + np.arange(low, high, TIMER_LOG_UNIT_SIZE, dtype=np.int64)
                yield TimerBlock(pos, units[first:last])
            else:
                yield TimerGap(base + low, base + min(high, reader.size), zero=False)
    if number + 1 < len(log.starts) and reader.size > end:
        yield TimerGap(base + end, base + reader.size, zero=True)


def _kinds(units: TimerUnits) -> NDArray[np.int8]:
    kinds = np.full(len(units), _OTHER, np.int8)
    kinds[is_unit(units)] = _UNIT
    kinds[units["magic"] == np.int32(MAGIC_BLANK)] = _MARK
    flat = units.view(np.uint8).reshape(len(units), TIMER_LOG_UNIT_SIZE)
    kinds[~flat.any(axis=1)] = _ZERO
    return kinds
