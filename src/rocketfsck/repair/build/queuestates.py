"""The queues in the making: which rows of the scan's table they are, where their next unit goes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.javatext import java_decode
from rocketfsck.scan.build_plain import IS_BATCH, NEW_STATE, STATE_SIZE
from rocketfsck.scan.queues import QueueTable

LEFT_OUT, REFUSED = -1, -2
MAX_NAME_SIZE = 255  # of a file, in bytes

Longs = NDArray[np.int64]
Name = tuple[str, int]


@dataclass(slots=True)
class QueueStates:
    """`names[number]` is a queue, `values[number]` its row of `build_plain` state.

    `wanted` are the queues to build (None: all), `batch_topics` those whose queues are batch queues.
    """

    wanted: frozenset[Name] | None
    batch_topics: frozenset[str]
    names: list[Name] = field(default_factory=list)
    values: Longs = field(default_factory=lambda: np.empty((64, STATE_SIZE), np.int64))
    refused_names: set[Name] = field(default_factory=set)
    _numbers: dict[Name, int] = field(default_factory=dict)
    _of_row: Longs = field(default_factory=lambda: np.full(1, LEFT_OUT, np.int64))
    _known_rows: int = 0

    def numbers_of(self, rows: Longs, table: QueueTable) -> Longs:
        """The queue's number for rows of the table: LEFT_OUT where it is not wanted, REFUSED for names that
        no directory can have."""
        if len(table) > self._known_rows:
            self._learn(table)
        numbers: Longs = self._of_row[rows]  # the last element stands for row -1
        return numbers

    def _learn(self, table: QueueTable) -> None:
        known = table.names[self._known_rows :]
        found = [self._number(java_decode(topic), queue_id) for topic, queue_id in known]
        kept = self._of_row[: self._known_rows]
        self._of_row = np.concatenate((kept, np.array([*found, REFUSED], np.int64)))
        self._known_rows += len(known)

    def _number(self, topic: str, queue_id: int) -> int:
        name = topic, queue_id
        if self.wanted is not None and name not in self.wanted:
            return LEFT_OUT
        if not is_directory_name(topic):
            self.refused_names.add(name)
            return REFUSED
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.names)
            self.names.append(name)
            if number >= len(self.values):
                self.values = np.concatenate((self.values, np.empty_like(self.values)))
            self.values[number] = NEW_STATE
            self.values[number, IS_BATCH] = topic in self.batch_topics
        return number


def is_directory_name(topic: str) -> bool:
    """Whether a topic can be the name of a directory, and of one below the queues' own."""
    encoded = topic.encode("utf-8", "surrogatepass")
    return topic not in ("", ".", "..") and not set(topic) & {"/", "\0"} and len(encoded) <= MAX_NAME_SIZE


def queue_directory(root: Path, area: str, name: Name) -> Path:
    """Where the files of a queue are."""
    return root / area / name[0] / str(name[1])


def wanted_queues(queues: Collection[Name] | None) -> frozenset[Name] | None:
    return None if queues is None else frozenset(queues)
