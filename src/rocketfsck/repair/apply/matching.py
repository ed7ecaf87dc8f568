"""Pairs the rows of two tables: what stayed in its place, what moved, what is only on one side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.arrays import Longs

RANGE_LIMIT = 1000

Columns = tuple[Longs, Longs, Longs]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """A run of queue offsets or physical offsets, half-open, with how many units or records are in it."""

    start: int
    end: int
    count: int


class Rows:
    """Units or records that differ: numbers in three columns, collected in blocks."""

    def __init__(self) -> None:
        self._blocks: list[Columns] = []
        self.count = 0

    def add(self, index: Longs, offset: Longs, size: Longs) -> None:
        """Put more rows at the end."""
        if len(index):
            self._blocks.append((index, offset, size))
            self.count += len(index)

    def columns(self) -> Columns:
        """All rows."""
        if not self._blocks:
            empty = np.zeros(0, np.int64)
            return empty, empty, empty
        one, two, three = (np.concatenate(parts) for parts in zip(*self._blocks, strict=True))
        return one, two, three


@dataclass(frozen=True, slots=True)
class Matched:
    """Rows of the left side that are lost, and how many of the others are what."""

    lost: NDArray[np.intp]
    corrected: int
    moved: int
    gained: int


def match_rows(left: Columns, right: Columns) -> Matched:
    """Pair the rows that differ: by place and record, then by record (moved), then by place (corrected)."""
    mine, other = np.arange(len(left[0])), np.arange(len(right[0]))
    mine, other, first = pair_rows((left[0], left[1]), (right[0], right[1]), mine, other)
    mine, other, moved = pair_rows((left[1], left[2]), (right[1], right[2]), mine, other)
    mine, other, second = pair_rows((left[0],), (right[0],), mine, other)
    return Matched(mine, first + second, moved, len(other))


def pair_rows(
    left: tuple[Longs, ...], right: tuple[Longs, ...], mine: NDArray[np.intp], other: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp], int]:
    """The rows of either side that have no partner with equal columns on the other; each has at most one."""
    if not len(mine) or not len(other):
        return mine, other, 0
    columns = [np.concatenate([one[mine], two[other]]) for one, two in zip(left, right, strict=True)]
    order = np.lexsort(columns)
    changes = np.zeros(len(order), np.bool_)
    for column in columns:
        ordered = column[order]
        changes[1:] |= ordered[1:] != ordered[:-1]
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(changes)
    ours, theirs = _numbered(group[: len(mine)]), _numbered(group[len(mine) :])
    width = 1 + max(int(ours[1].max()), int(theirs[1].max()))
    keys, others = ours[0] * width + ours[1], theirs[0] * width + theirs[1]
    paired, partner = np.isin(keys, others), np.isin(others, keys)
    return mine[~paired], other[~partner], int(paired.sum())


def _numbered(group: Longs) -> tuple[Longs, Longs]:
    """Each row's group, and its number among the rows of its group."""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    lengths = np.diff(np.concatenate([starts, [len(ordered)]]))
    number = np.empty(len(group), np.int64)
    number[order] = np.arange(len(ordered)) - np.repeat(starts, lengths)
    return group, number


def runs_of(index: Longs) -> tuple[OffsetRange, ...]:
    """Runs of neighbours."""
    if not len(index):
        return ()
    ordered = np.sort(index)
    ends = np.flatnonzero(np.concatenate([ordered[1:] != ordered[:-1] + 1, [True]]))
    starts = np.concatenate([[0], ends[:-1] + 1])
    return tuple(
        OffsetRange(int(ordered[low]), int(ordered[high]) + 1, int(high - low) + 1)
        for low, high in zip(starts[:RANGE_LIMIT], ends[:RANGE_LIMIT], strict=True)
    )
