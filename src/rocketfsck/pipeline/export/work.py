"""The kernel of an export: rows of some parts of a store into files, on whatever machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketfsck.errors import StoreError
from rocketfsck.pipeline.export.file import text_name
from rocketfsck.pipeline.export.model import (
    DATE,
    TIME,
    ExportTask,
    ExportTaskResult,
    LastRecord,
)
from rocketfsck.pipeline.export.write import PartitionWriter, codes_of
from rocketfsck.pipeline.views.model import Part, WantedRows
from rocketfsck.pipeline.views.table import read_part
from rocketfsck.progress import part as piece
from rocketfsck.store.places.urls import is_remote


class _UnreadError(Exception):
    """Nothing more can be read of a store."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(str(error))
        self.error = error


def export_part(task: ExportTask) -> ExportTaskResult | StoreError:
    """Kernel: write the files of a task and say which they are, or why the store cannot be read.

    Done twice it writes the same files. Raises StoreError where something cannot be written, and for FAILFAST
    also where something cannot be read.
    """
    try:
        return _export(task)
    except _UnreadError as unread:
        return unread.error


def _export(task: ExportTask) -> ExportTaskResult:
    name = f"{task.number:05d}"
    damage_count = damaged_byte_count = corrupt_count = 0
    last: LastRecord | None = None
    with ExitStack() as stack:
        table, aside, crowded = (
            stack.enter_context(PartitionWriter(task.root, name, shape, memory_size=task.memory_size))
            for shape in (task.shape, task.aside, task.crowded)
        )
        stack.enter_context(piece(sum(part.size for part in task.parts)))
        for part in task.parts:
            for batch in _read(part, task.wanted):
                last = _last_message(batch, task) or last
                found = _sorted_out(batch, task)
                damage_count += len(found.damage)
                damaged_byte_count += _size(found.damage)
                corrupt_count += found.corrupt_count
                if task.aside_wanted:
                    aside.write(found.damage)
                rows = found.rows
                refused = table.write(_with_columns(rows, task))
                if refused is not None:
                    crowded.write(refused)
        return ExportTaskResult(
            tuple(table.close()),
            tuple(aside.close()),
            tuple(crowded.close()),
            damage_count,
            damaged_byte_count,
            corrupt_count,
            table.spill_count,
            last,
        )


def _read(part: Part, wanted: WantedRows) -> Iterator[pa.RecordBatch]:
    try:
        with piece(part.size, start=part.start):
            yield from read_part(part, wanted)
            if wanted.on_unreadable == "fail":
                _demand_uncut(part)
    except StoreError as error:
        if wanted.mode == "FAILFAST":
            raise
        raise _UnreadError(error) from error


def _demand_uncut(part: Part) -> None:
    """Raise StoreError for a file of this machine that has fewer bytes than when the export was planned."""
    if is_remote(part.source.path) or not part.file:
        return
    file = Path(part.source.path) / part.file
    try:
        size = file.stat().st_size
    except OSError:
        return  # deleted after it was read
    if size < part.file_size:
        raise StoreError(f"the log was cut: {size} of {part.file_size} bytes are left", path=str(file))


@dataclass(frozen=True, slots=True)
class _PartRows:
    """The rows of a batch for the table, those of damage, and how many messages have a wrong CRC."""

    rows: pa.RecordBatch
    damage: pa.RecordBatch
    corrupt_count: int = 0


def _sorted_out(batch: pa.RecordBatch, task: ExportTask) -> _PartRows:
    """For messages, damage is not a row of the table; a row of another view is, even for damage."""
    column = task.wanted.corrupt_column
    if column not in batch.schema.names or batch[column].null_count == len(batch):
        return _PartRows(batch, batch.slice(0, 0))
    is_odd = pc.is_valid(batch[column])
    sound = batch.filter(pc.invert(is_odd)) if task.drop_damage else batch
    if not task.is_messages:
        return _PartRows(sound, batch.filter(is_odd))
    is_damage = pc.and_(is_odd, pc.is_null(batch[TIME]))
    damage = batch.filter(is_damage)
    rows = sound if task.drop_damage else batch.filter(pc.invert(is_damage))
    return _PartRows(rows, damage, pc.sum(is_odd).as_py() - len(damage))


def _last_message(batch: pa.RecordBatch, task: ExportTask) -> LastRecord | None:
    """The last row that is a message: rows come in the order of the log, and damage has no time."""
    if not task.is_messages:
        return None
    (rows,) = np.nonzero(np.asarray(pc.is_valid(batch[TIME])))
    if not len(rows):
        return None
    return LastRecord(batch["offset"][int(rows[-1])].as_py(), batch["size"][int(rows[-1])].as_py())


def _size(damage: pa.RecordBatch) -> int:
    sizes = damage["size"] if "size" in damage.schema.names else None
    return 0 if sizes is None else pc.sum(sizes.cast(pa.int64())).as_py() or 0


def _with_columns(batch: pa.RecordBatch, task: ExportTask) -> pa.RecordBatch:
    """The batch with the columns that only the files have: the text of a partition column, and `date`."""
    names = task.shape.schema.names
    for name in task.shape.partition:
        if text_name(name) in names:
            batch = batch.append_column(text_name(name), batch[name])
    if DATE not in names or DATE in batch.schema.names:
        return batch
    codes = codes_of(batch, DATE, TIME)
    texts = pa.array(codes.texts, pa.string()).cast(pa.date32())
    return batch.append_column(DATE, texts.take(pa.array(codes.numbers)))
