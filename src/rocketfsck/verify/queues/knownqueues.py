"""The queues of a store as numbers, so that a commit log file meets 10,000 of them without a step for each.

    row      a (topic, queueId), in the order of `Store.queues`: its row in every table that `new_table` makes
    number   a queue's place in `Store.queues`; a (topic, queueId) may have a queue of each kind

Made once for a check (`Context.shared`). Reference 1.1.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.arrays import Longs
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.model import Store

NO_NUMBER = -1


class KnownQueues:
    """The rows and numbers of a store's queues.

    `files` and `batches` have the number of each row's queue of that kind, NO_NUMBER for none; `rows` has the
    row of each number.
    """

    __slots__ = ("_names", "_table", "batches", "files", "rows")

    def __init__(self, store: Store) -> None:
        self._table = QueueTable()
        rows = np.full(len(store.queues), NO_NUMBER, np.int64)
        files: list[int] = []
        batches: list[int] = []
        for number, queue in enumerate(store.queues):
            row = self._table.intern(os.fsencode(queue.topic), queue.queue_id)
            if row == len(files):
                files.append(NO_NUMBER)
                batches.append(NO_NUMBER)
            if row >= 0:
                (files if queue.kind == "file" else batches)[row] = number
                rows[number] = row
        self._names = self._table.names
        self.files: Longs = np.array(files, np.int64)
        self.batches: Longs = np.array(batches, np.int64)
        self.rows = rows

    def __len__(self) -> int:
        return len(self.files)

    def new_table(self) -> QueueTable:
        """A table of its own for a task; its first rows are these."""
        table = QueueTable()
        table.begin_as(self._table, self._names)
        return table

    def kinds(self, row: int) -> dict[str, int]:
        """The numbers of a row's queues by their kinds; none for a row beyond these."""
        if row >= len(self):
            return {}
        found = (("file", int(self.files[row])), ("batch", int(self.batches[row])))
        return {kind: number for kind, number in found if number >= 0}

    def numbers(self, rows: Longs) -> NDArray[np.int32]:
        """A number of each row's queues, that of kind "file" first; NO_NUMBER for rows beyond these."""
        found = np.full(len(rows), NO_NUMBER, np.int32)
        known = rows < len(self)
        files, batches = self.files[rows[known]], self.batches[rows[known]]
        found[known] = np.where(files < 0, batches, files)
        return found
