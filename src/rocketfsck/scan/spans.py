"""Half-open ranges of integers in NumPy arrays: merging, subtracting, grouping of neighbours.

Sets of numbers as sorted arrays.

NumPy's own `unique` and `isin` import numpy.ma when they are first called, in whatever thread that is: a
tenth of what a small check takes, and an import that parses source code, which CPython 3.11 does not do
safely in two threads at once ("AST constructor recursion depth mismatch").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.dtypes import Flags, Longs

Number = TypeVar("Number", bound=np.integer[Any])


def distinct(values: NDArray[Number]) -> NDArray[Number]:
    """The different values of a one-dimensional array, ascending."""
    ordered = np.sort(values)
    kept = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=kept[1:])
    return ordered[kept]


def among(values: NDArray[Any], ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values are in `ordered`, an ascending array."""
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    place = np.searchsorted(ordered, values)
    place[place == len(ordered)] = 0
    found: NDArray[np.bool_] = ordered[place] == values
    return found


_NOTHING = ((1 << 63) - 1, (1 << 63) - 1)


def true_spans(flags: Flags) -> tuple[Longs, Longs]:
    """Starts and ends of the runs of True in a flag array."""
    padded = np.zeros(len(flags) + 2, np.int8)
    padded[1:-1] = flags
    edges = np.flatnonzero(np.diff(padded)).astype(np.int64)
    return edges[0::2], edges[1::2]


def group_bounds(keys: NDArray[Any]) -> Longs:
    """Bounds of the groups of equal neighbours: `bounds[i]:bounds[i + 1]` is group i."""
    if not len(keys):
        return np.zeros(1, np.int64)
    inner = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    return np.concatenate(([0], inner, [len(keys)])).astype(np.int64)


def merge_spans(starts: Longs, ends: Longs) -> tuple[Longs, Longs]:
    """The same numbers in the fewest ranges, in order."""
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    first = np.concatenate(([True], starts[1:] > ends[:-1]))
    last = np.concatenate((first[1:], [True]))
    return starts[first], ends[last]


def subtract_spans(start: int, end: int, starts: Longs, ends: Longs) -> list[tuple[int, int]]:
    """What is left of `start:end` without the ranges given (which are merged and in order)."""
    left: list[tuple[int, int]] = []
    first, last = ends.searchsorted(start, "right"), starts.searchsorted(end, "left")
    at = start
    for low, high in zip(starts[first:last].tolist(), ends[first:last].tolist(), strict=True):
        if low > at:
            left.append((at, low))
        at = max(at, high)
    if at < end:
        left.append((at, end))
    return left


def common_spans(
    spans: Iterable[tuple[int, int]], others: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """What ranges, in order and apart, have in common with others, in order: nothing twice."""
    rest = iter(others)
    low, high = next(rest, _NOTHING)
    for start, end in spans:
        at = start
        while low < end:
            if high > max(at, low):
                yield max(at, low), min(end, high)
                at = min(end, high)
            if high > end:
                break
            low, high = next(rest, _NOTHING)


def find_span(values: Longs, starts: Longs, ends: Longs) -> Longs:
    """For each value the number of the range (in order, not overlapping) that holds it, -1 for none."""
    if not len(starts):
        return np.full(len(values), -1, np.int64)
    number = np.searchsorted(starts, values, "right") - 1
    held = (number >= 0) & (values < ends[np.maximum(number, 0)])
    return np.where(held, number, -1).astype(np.int64)
