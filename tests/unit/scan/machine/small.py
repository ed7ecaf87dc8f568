"""Kernels that take no time to compile."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from rocketfsck.formats.dtypes import Bytes, Flags, Longs, Words
from rocketfsck.scan.compiled import text
from rocketfsck.scan.machine.jit import entry


@entry
def triple(number: int) -> int:
    """A number, three times, and one."""
    return number * 3 + 1


@entry
def hashed(address: int, size: int) -> int:
    """A kernel that calls a helper."""
    return text.byte_hash(address, size)


class Pair(NamedTuple):
    """A number and an array."""

    low: int
    rows: Longs


@entry
def all_kinds(
    pair: Pair,
    wanted: bool,
    seed: np.uint64,
    data: Bytes,
    words: Annotated[Words, 2],
    flags: Flags,
) -> tuple[int, int]:
    """Something of each argument."""
    total = pair.low + pair.rows[len(pair.rows) - 1]
    for row in range(words.shape[0]):
        for column in range(words.shape[1]):
            words[row, column] += row * 10 + column
    flags[0] = wanted
    high = np.int64(seed >> np.uint64(60))
    return total + len(data) + data[1], high  # type: ignore[return-value]  # 64 bits of a machine integer


@entry
def is_odd(number: int) -> bool:
    """A kernel that gives a bool."""
    return number % 2 == 1


@entry
def double(rows: Longs) -> None:
    """A kernel that gives nothing."""
    for row in range(len(rows)):
        rows[row] *= 2
