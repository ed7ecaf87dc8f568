"""How the work of many stores is cut for workers: by bytes and by queues, over all stores together.

    weight of a task := bytes on the disk that it goes through + FILE_WEIGHT a file or queue
    small store      := weight <= WHOLE_WEIGHT: one task of the engine, which opens, checks and judges it
    large store      := its own tasks, in shares of neighbours

Shares begin long and become short, as the work that is left becomes less (guided self-scheduling): few tasks,
and no core waits long for the last one. Nothing here knows what a task does; the simulation of a fleet runs
these very functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")

FILE_WEIGHT = 128 << 10
"""What a file or queue costs in addition to its bytes, as the bytes that are checked in the same time."""
WHOLE_WEIGHT = 2 << 30
"""A store up to this weight is one task."""
LEAST_WEIGHT = 1 << 30
"""A share is at least so long: a commit log file as brokers make them."""
MOST_WEIGHT = 16 << 30
"""A share is at most so long, if it has more than one task: what is lost with a worker."""
RESULT_SIZE = 1300
"""Packed bytes of the result of a task, about."""
HELD_SIZE = 64 << 20
"""Packed bytes of large stores that travel at once; a store that has more is alone."""
SHARES_A_CORE = 4
"""A share is at most this part of what is left for each core."""


@dataclass(frozen=True, slots=True)
class TaskPiece:
    """The tasks `first` to before `last` of one store; `weight` in bytes."""

    store: int
    first: int
    last: int
    weight: int


def pack(stores: Sequence[tuple[int, Sequence[int]]], cores: int) -> list[TaskPiece]:
    """Shares of the tasks of `stores`: each is a number and the weights of its tasks, in their order.

    Every task is in one share, and a share has tasks of one store. No share that has several tasks is longer
    than MOST_WEIGHT, and none is more than twice a fair part of what is left, except for LEAST_WEIGHT.
    """
    left = sum(sum(weights) for _, weights in stores)
    found = []
    for store, weights in stores:
        first = weight = 0
        target = _target(left, cores)
        for number, each in enumerate(weights):
            if number > first and weight + each > target:
                found.append(TaskPiece(store, first, number, weight))
                left -= weight
                first, weight = number, 0
                target = _target(left, cores)
            weight += each
        if first < len(weights):
            found.append(TaskPiece(store, first, len(weights), weight))
            left -= weight
    return found


def rounds(sizes: Iterable[int], counts: Iterable[int], limit: int) -> Iterator[list[int]]:
    """Large stores in rounds: the numbers of neighbours whose packed `sizes`, with the results of their
    `counts` of tasks, may be in memory at once. The results of one round travel along with the tasks of the
    next.
    """
    expected = [size + RESULT_SIZE * count for size, count in zip(sizes, counts, strict=True)]
    return bounded(range(len(expected)), expected, limit)


def _target(left: int, cores: int) -> int:
    return min(max(left // (SHARES_A_CORE * max(cores, 1)), LEAST_WEIGHT), MOST_WEIGHT)


def bounded(items: Iterable[Item], sizes: Iterable[int], limit: int) -> Iterator[list[Item]]:
    """Neighbours in groups of at most `limit` in all, or of one item that is longer."""
    group: list[Item] = []
    total = 0
    for item, size in zip(items, sizes, strict=True):
        if group and total + size > limit:
            yield group
            group, total = [], 0
        group.append(item)
        total += size
    if group:
        yield group
