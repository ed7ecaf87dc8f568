"""The live rows of one record batch as the checks see them: its columns, and places for findings.

What is wrong with records of a log that holds copies: compacted logs, segments of tiered storage.

One finding a record and reason; the columns are those of a scan (`scan.columns`). Reference 2.4.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.dtypes import Flags, Longs
from rocketfsck.formats.magic import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rocketfsck.scan.columns import Fault, RecordBatch
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.spans import true_spans
from rocketfsck.verify.finding import Facts, Where
from rocketfsck.verify.tasks.task import Collector, aggregate

_FAULTS: tuple[tuple[Fault, str], ...] = (
    (Fault.SYS_FLAG | Fault.COMPRESSION_TYPE, "sysFlag has bits without a meaning"),
    (Fault.PORT, "a host has an impossible port"),
    (
        Fault.QUEUE_ID | Fault.QUEUE_OFFSET | Fault.PREPARED_OFFSET | Fault.BODY_SIZE | Fault.PROPERTIES_SIZE,
        "a field is negative",
    ),
    (
        Fault.TOPIC_EMPTY | Fault.TOPIC_CHARSET | Fault.TOPIC_SIZE | Fault.TOPIC_UTF8,
        "the topic name is impossible",
    ),
    (Fault.PROPERTY_NUL, "the properties contain NUL bytes"),
)


def odd_copies(
    batch: RecordBatch, table: QueueTable, topic: str, queue_id: int, log_name: str
) -> Iterator[tuple[Flags, str]]:
    """Which records of a batch have a fault, and which: pairs of flags, one a record, and a reason.

    `table` is that of the scan; the log holds one queue, and `log_name` is what the reason calls it.
    """
    own = (topic.encode("utf-8", "surrogateescape"), queue_id)
    rows = [row for row, name in enumerate(table.names) if name == own]
    faults = batch["faults"]
    yield ~np.isin(batch["queue_index"], rows), "the record belongs to another queue"
    yield (faults & Fault.PHYSICAL_OFFSET) != 0, f"physicalOffset is not the record's place in {log_name}"
    for bits, reason in _FAULTS:
        yield (faults & bits) != 0, reason


class LogRows:
    """The records of a batch of the file `relative`, which begins at `base_offset`.

    Good only until the scan continues: the columns are views of the batch.
    """

    __slots__ = ("base_offset", "batch", "relative", "table")

    def __init__(self, batch: RecordBatch, table: QueueTable, relative: str, base_offset: int) -> None:
        self.batch = batch
        self.table = table
        self.relative = relative
        self.base_offset = base_offset

    @property
    def count(self) -> int:
        return self.batch.record_count

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A record column, as a view."""
        return self.batch[name]

    @property
    def physical(self) -> Longs:
        """Where the records are in the log (not what their field says)."""
        offsets: Longs = self["pos"] + np.int64(self.base_offset)
        return offsets

    @property
    def in_index(self) -> NDArray[np.bool_]:
        """Whether dispatch indexes the record's keys (reference 8)."""
        flags: NDArray[np.bool_] = (self["sys_flag"] & TRANSACTION_MASK) != TRANSACTION_ROLLBACK
        return flags

    def topic(self, row: int) -> str | None:
        """The topic of a row as the name of a directory; None where the table has no room for it."""
        number = int(self["queue_index"][row])
        return os.fsdecode(self.table.names[number][0]) if number >= 0 else None

    def place(self, row: int, last_row: int | None = None) -> Where:
        """Where a record is, or the run of records from `row` to `last_row`."""
        last = row if last_row is None else last_row
        pos, end = int(self["pos"][row]), int(self["pos"][last]) + int(self["total_size"][last])
        return Where(
            file=self.relative,
            start=pos,
            end=end,
            physical_offset=self.base_offset + pos,
            topic=self.topic(row),
            queue_id=int(self["queue_id"][row]),
            queue_offset=int(self["queue_offset"][row]),
        )


def no_facts(row: int) -> Facts:
    """Nothing to say of a row."""
    del row
    return {}


def add_runs(
    collector: Collector,
    rule: str,
    rows: LogRows,
    flags: Flags,
    found: Callable[[int], Facts] = no_facts,
    expected: Callable[[int], Facts] = no_facts,
) -> None:
    """One finding for every run of flagged rows, with the facts of its first row; many runs are counted."""
    starts, ends = true_spans(flags)
    limit = collector.room(rule, rows.relative)
    for start, end in zip(starts[:limit].tolist(), ends[:limit].tolist(), strict=True):
        where = rows.place(start, end - 1)
        collector.find(rule, where, found(start), expected(start), count=end - start)
    rest = int((ends[limit:] - starts[limit:]).sum())
    if rest:
        collector.add(aggregate(rule, rows.relative, rest))
