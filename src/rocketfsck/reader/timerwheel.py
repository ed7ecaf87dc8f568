"""The timer wheel and its snapshots as arrays of slots, and how long a slot is. Reference 1.8.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.errors import StoreError
from rocketfsck.formats.arrays import Flags, Longs
from rocketfsck.formats.dtypes import TIMER_SLOT_DTYPE
from rocketfsck.formats.javatext import parse_int64
from rocketfsck.formats.timer import (
    DEFAULT_PRECISION_MS,
    PRECISIONS_MS,
    TIMER_WHEEL_SIZE,
    TIMER_WHEEL_SLOT_SIZE,
)
from rocketfsck.reader.timerfiles import WHEEL, snapshot_pos, timer_log, wheel_files
from rocketfsck.reader.timers import TimerBlock, is_unit, unit_at
from rocketfsck.reader.units import StreamReader
from rocketfsck.scan.timerwheel import SLOT_COUNT
from rocketfsck.store.model import Store, StoreFile
from rocketfsck.store.reading import FileReader

Slots = NDArray[Any]
"""All slots of a wheel as `TIMER_SLOT_DTYPE` has them."""

PRECISION_SETTING = "timerPrecisionMs"
PROBED = 4096
"""Slots from which the length of a slot is found."""


def read_wheel(file: StoreFile) -> Slots:
    """All slots; holes are not read. Raises StoreError where the file fails or has another length."""
    data = bytearray(TIMER_WHEEL_SIZE)
    with FileReader(file.path) as reader:
        if reader.size != TIMER_WHEEL_SIZE:
            raise StoreError(f"has {reader.size:,} bytes, not {TIMER_WHEEL_SIZE:,}", path=file.location)
        for pos, chunk in reader.data_chunks():
            data[pos : pos + len(chunk)] = chunk
    return np.frombuffer(data, TIMER_SLOT_DTYPE)


def used_slots(slots: Slots) -> Longs:
    """The numbers of the slots that are not all zero."""
    flat = slots.view(np.uint64).reshape(SLOT_COUNT, TIMER_WHEEL_SLOT_SIZE // 8)
    return np.flatnonzero(flat.any(axis=1))


def belongs(log: StreamReader, places: Longs, slot_time: Longs, precision_ms: int) -> Flags:
    """Whether a unit of this slotTime is at each of these positions of the log."""
    units = unit_at(log, places)
    due = TimerBlock(places, units).deliver_timestamp
    inside = (places >= log.start) & (places < log.end)
    return np.asarray(inside & is_unit(units) & (due // precision_ms == slot_time), np.bool_)


def newest_first(wheels: Sequence[StoreFile]) -> list[StoreFile]:
    """The wheel that a start takes first: the newest snapshot, else the wheel itself."""
    return sorted(
        wheels,
        key=lambda file: -1 if file.relative == WHEEL else snapshot_pos(file) or 0,
        reverse=True,
    )


def precision_of(store: Store, log: StreamReader, slots: Slots | None) -> int:
    """The length of a slot in ms: as set, else the one by which most slots and units agree."""
    stated = parse_int64(store.settings.get(PRECISION_SETTING) or "")
    if stated is not None and stated in PRECISIONS_MS:
        return stated
    return (None if slots is None else _precision_in(log, slots)) or DEFAULT_PRECISION_MS


def known_precision(store: Store) -> int | None:
    """The length of a slot in ms as the wheel shows it; None where it shows none. Raises StoreError."""
    log = timer_log(store)
    wheels = [file for file in wheel_files(store) if file.size == TIMER_WHEEL_SIZE]
    if log is None or not wheels:
        return None
    with StreamReader(log) as stream:
        return _precision_in(stream, read_wheel(newest_first(wheels)[0]))


def _precision_in(log: StreamReader, slots: Slots) -> int | None:
    rows = slots[used_slots(slots)[:PROBED]]
    last, time = rows["lastPos"].astype(np.int64), rows["slotTime"].astype(np.int64)
    agree = {
        precision: int(np.count_nonzero(belongs(log, last, time, precision))) for precision in PRECISIONS_MS
    }
    best = max((DEFAULT_PRECISION_MS, *PRECISIONS_MS), key=lambda precision: agree[precision])
    return best if agree[best] else None
