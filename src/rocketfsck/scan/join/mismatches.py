"""What a join gives back: columns of mismatches with exact counts; and how its loop is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.arrays import Longs
from rocketfsck.scan.join import keymerge

MISMATCH_LIMIT = 8192
"""Mismatches that one call gives back; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class Mismatches:
    """Columns of mismatches, views that are good until the next call.

    `code` is a member of the join's enum, `queue` a row of the QueueTable, `row` the (first) record's row
    in the batch or -1, `offset` its physical offset and `end` the end of the last one's, `number:number_end`
    the units, entries, queue offsets or rows concerned, `found` and `expected` the values of the first,
    `count` how many neighbours this row stands for.
    """

    rows: Longs

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def code(self) -> Longs:
        return self.rows[:, keymerge.CODE]

    @property
    def queue(self) -> Longs:
        return self.rows[:, keymerge.QUEUE]

    @property
    def row(self) -> Longs:
        return self.rows[:, keymerge.ROW]

    @property
    def offset(self) -> Longs:
        return self.rows[:, keymerge.OFFSET]

    @property
    def end(self) -> Longs:
        return self.rows[:, keymerge.END]

    @property
    def number(self) -> Longs:
        return self.rows[:, keymerge.NUMBER]

    @property
    def number_end(self) -> Longs:
        return self.rows[:, keymerge.NUMBER_END]

    @property
    def found(self) -> Longs:
        return self.rows[:, keymerge.FOUND]

    @property
    def expected(self) -> Longs:
        return self.rows[:, keymerge.EXPECTED]

    @property
    def count(self) -> Longs:
        return self.rows[:, keymerge.COUNT]


class Output:
    """Where a kernel writes mismatches, and the counts over all calls."""

    def __init__(self, code_count: int, limit: int) -> None:
        self.out = np.zeros((limit, keymerge.MISMATCH_WIDTH), np.int64)
        self.state = np.zeros(1 + code_count, np.int64)
        self.open_rows = np.full(code_count, -1, np.int32)

    def begin(self) -> None:
        self.state[0] = 0

    def taken(self) -> Mismatches:
        return Mismatches(self.out[: int(self.state[0])])

    def count(self, code: int) -> int:
        return int(self.state[1 + code])


def int64_columns(compiled: bool, *columns: NDArray[Any]) -> list[Any]:
    """As int64 arrays for compiled code, as lists (quicker to index, exact numbers) for plain."""
    if compiled:
        return [np.ascontiguousarray(column, np.int64) for column in columns]
    return [column.tolist() for column in columns]
