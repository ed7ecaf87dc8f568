"""A queue in a database while a broker starts: puts, truncation and least offset as the broker has them."""

from __future__ import annotations

import numpy as np
import pytest

from rocketfsck.formats.dialect import dialect_for
from rocketfsck.query.start.databases import Bound, RowsModel
from rocketfsck.query.start.load import LoadedQueue
from rocketfsck.query.start.queues import AppendedColumns
from rocketfsck.store.model import QueueBounds

SIZE = 400


def model(bounds: QueueBounds | None = None) -> RowsModel:
    queue = LoadedQueue("T", 0, "file", "consumequeue/T/0", SIZE, [])
    made = RowsModel(queue, dialect_for("5.5.0"), bounds)
    made.recover()
    return made


def put(queue: RowsModel, first: int, count: int, step: int = 100) -> None:
    index = np.arange(first, first + count, dtype=np.int64)
    queue.put(AppendedColumns(index, index * step, np.full(count, step), np.zeros(count, np.int64)))


def test_a_put_goes_to_its_own_queue_offset() -> None:
    queue = model()
    assert queue.max_offset == 0
    put(queue, 30, 25)
    assert (queue.max_offset, queue.added_count, queue.greatest) == (55, 25, (54, 5400))
    assert [(file.start_offset, file.wrote_pos) for file in queue.files] == [(400, 400), (800, 300)]
    put(queue, 40, 2)
    assert (queue.max_offset, queue.added_count) == (42, 25), "the same rows; the greatest is the last put"
    assert queue.offset_at(54) == 5400, "the row stays"
    put(queue, 41, 1, step=7)
    assert (queue.added_count, queue.offset_at(41)) == (26, 287)
    assert queue.offset_at(29) is None


@pytest.mark.parametrize(
    ("least", "cut", "expected"),
    [
        ((0, 0), 5000, (19, 1900)),  # nothing is behind the cut
        ((0, 0), 1650, (16, 1600)),
        ((0, 0), 1400, (9, 900)),  # the search meets 14 itself, and knows nothing nearer than 9
        ((0, 0), 900, (0, 0)),  # it meets 9 at once, and knows nothing
        ((0, 0), 1, (0, 0)),
        ((5, 500), 500, (5, 500)),  # nothing is found: the greatest becomes the least
        ((5, 500), 499, (19, 1900)),  # the broker throws
        (None, 900, (19, 1900)),
    ],
)
def test_a_truncation_moves_the_greatest(least: Bound | None, cut: int, expected: Bound) -> None:
    queue = model()
    put(queue, 0, 20)
    queue.least = least
    queue.truncate(cut)
    assert queue.greatest == expected
    assert queue.cut_count == 19 - expected[0]
    assert queue.max_offset == expected[0] + 1


@pytest.mark.parametrize(
    ("least", "log_start", "expected"),
    [
        ((12, 1200), 1000, 12),
        ((12, 1200), 1450, 15),
        ((12, 1200), 1500, 15),
        (None, 0, 10),  # the first row that there is
        (None, 1250, 13),
        ((12, 1200), 5000, 30),  # all of it expired
    ],
)
def test_the_least_follows_the_log(least: Bound | None, log_start: int, expected: int) -> None:
    queue = model()
    put(queue, 10, 20)
    queue.least = least
    queue.correct_min(log_start)
    assert queue.min_offset == expected


def test_the_least_of_a_queue_without_rows() -> None:
    queue = model()
    queue.correct_min(700)
    assert (queue.least, queue.min_offset) == ((0, 700), 0)
    bounds_only = model(QueueBounds(None, (7, 700), 0))
    bounds_only.correct_min(0)
    assert (bounds_only.min_offset, bounds_only.max_offset) == (7, 8), "no row is found"
    bounds_only.truncate(100)
    assert bounds_only.greatest == (7, 700)


def test_a_queue_that_is_destroyed() -> None:
    queue = model(QueueBounds((0, 0), (7, 700), 8))
    put(queue, 8, 1)
    queue.destroy()
    assert (queue.max_offset, queue.cut_count, queue.offset_at(8)) == (0, 8, None)
    queue.truncate(0)
    assert queue.greatest is None
