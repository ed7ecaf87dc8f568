"""Other times for those of a store: moved by a secret number of seconds, and rounded down if that is asked.

One map is for all times, wherever they are, so that the distance between two times stays (with rounding, to
within the unit). A number that is not a plausible time stays: 0, negative ones, and what damage made of a
time.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.filename import index_filename, index_filename_time

SECOND = 1000
DAY = 86_400 * SECOND
_EARLIEST, _LATEST = 10**12, 10**13
"""What a time in ms is between: 13 digits, from 2001 on."""
_LEAST_SHIFT, _SHIFTS = 365 * DAY // SECOND, 7 * 365 * DAY // SECOND
_LEAP = 1_000_000


@dataclass(frozen=True, slots=True)
class Times:
    """What becomes of times: `shift` is added, then they are rounded down to multiples of `unit`; all in ms.

    `shift` is a number of whole seconds, so that the slots of a timer wheel stay whole at any precision.
    """

    shift: int = 0
    unit: int = 1

    @property
    def stay(self) -> bool:
        """Whether every time is as in the store."""
        return self.shift == 0 and self.unit == 1

    @property
    def are_rounded(self) -> bool:
        """Whether times are rounded, too, so that distances change."""
        return self.unit > 1

    def of(self, value: int) -> int:
        """What a time (ms) becomes."""
        return self.moved(value) // self.unit * self.unit if _EARLIEST <= value < _LATEST else value

    def moved(self, value: int) -> int:
        """The same without rounding, for times at which timers are due."""
        return value + self.shift if _EARLIEST <= value < _LATEST else value

    def of_all(self, values: Longs) -> Longs:
        """`of` for a column."""
        made = values + self.shift
        return np.where(are_times(values), made // self.unit * self.unit, values)

    def of_text(self, text: bytes, *, rounded: bool = True) -> bytes:
        """A decimal number in ASCII; any other text stays, and so does the length."""
        if not text.isdigit():
            return text
        value = int(text)
        return b"%0*d" % (len(text), self.of(value) if rounded else self.moved(value))

    def of_file(self, mtime_ns: int) -> int:
        """A time of modification (ns)."""
        value, rest = divmod(mtime_ns, _LEAP)
        return self.of(value) * _LEAP + (0 if self.are_rounded else rest)

    def of_index_name(self, name: str) -> str:
        """The name of an index file, which is a local time; any other name stays."""
        created = index_filename_time(name)
        if created is None or self.stay:
            return name
        value = (created.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        made = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.of(value))
        return index_filename(made)


def next_index_name(name: str) -> str:
    """The name one millisecond later; a name that is not a time gets a digit more."""
    created = index_filename_time(name)
    return f"{name}0" if created is None else index_filename(created + timedelta(milliseconds=1))


def are_times(values: Longs) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which numbers of a column are plausible times in ms."""
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = (values >= _EARLIEST) & (values < _LATEST)
    return found


def secret_shift(secret: bytes) -> int:
    """A shift (ms) into the past, of 1 to 8 years in whole seconds, that only the secret tells."""
    draw = int.from_bytes(hashlib.shake_128(secret + b"times").digest(16))
    return -(_LEAST_SHIFT + draw % _SHIFTS) * SECOND
