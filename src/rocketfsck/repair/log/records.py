"""The valid records in a part of the commit log that is to go, queue by queue, with units or without.

A record is valid if its frame is sound and its checksums fit, as in the ledger. Reference 2.1, 2.6, 6.6.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rocketfsck.formats.arrays import Longs
from rocketfsck.formats.javatext import java_decode
from rocketfsck.repair.log.edit import QueueFrames
from rocketfsck.repair.plan.model import Loss
from rocketfsck.scan.columns import Fault, RecordBatch
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import log_options
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.sorting import distinct
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.store.reading import FileReader

_BAD = int(Fault.BODY_CRC | Fault.PROPERTY_CRC)


@dataclass(frozen=True, slots=True)
class LostRecords:
    """The records of one queue that go: the loss to be named, and where they start (physical offsets)."""

    loss: Loss
    offsets: Longs


def lost_records(store: Store, file: MappedFile, start: int, kept_in: str) -> list[LostRecords]:
    """The valid records of a commit log file from position `start` on, by queue. Raises StoreError."""
    base, table = file.start_offset or 0, QueueTable()
    parts: dict[int, list[tuple[Longs, Longs, Longs]]] = {}
    options = log_options(store, file, read_bodies=True)
    with FileReader(file.path) as reader:
        for batch in scan_log_file(reader, base, options, table):
            if not isinstance(batch, RecordBatch):
                continue
            good = (batch["pos"] >= start) & ((batch["faults"] & _BAD) == 0)
            for number in distinct(batch["queue_index"][good]).tolist():
                rows = np.flatnonzero(good & (batch["queue_index"] == number))
                offset = batch["pos"][rows].astype(np.int64) + base
                size = batch["total_size"][rows].astype(np.int64)
                index = batch["queue_offset"][rows].astype(np.int64)
                parts.setdefault(number, []).append((offset, offset + size, index))
    return [_lost(table, number, found, kept_in) for number, found in sorted(parts.items())]


def _lost(
    table: QueueTable, number: int, parts: Sequence[tuple[Longs, Longs, Longs]], kept_in: str
) -> LostRecords:
    offset, end, index = (np.concatenate(column) for column in zip(*parts, strict=True))
    raw, queue_id = table.names[number] if number >= 0 else (None, None)
    loss = Loss(
        "record",
        len(offset),
        None if raw is None else java_decode(raw),
        queue_id,
        None if raw is None else int(index.min()),
        None if raw is None else int(index.max()),
        int(offset.min()),
        int(end.max()),
        kept_in,
    )
    return LostRecords(loss, offset)


def without_records(frames: Iterable[QueueFrames], records: Sequence[LostRecords]) -> list[QueueFrames]:
    """What units say was there, less the records that are named already."""
    known = np.concatenate([np.empty(0, np.int64), *(item.offsets for item in records)])
    left = []
    for item in frames:
        rows = np.flatnonzero(~np.isin(item.offset, known))
        if len(rows):
            left.append(replace(item, index=item.index[rows], offset=item.offset[rows], size=item.size[rows]))
    return left
