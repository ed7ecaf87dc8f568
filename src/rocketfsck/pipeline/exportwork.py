"""The kernel of an export: rows of some parts of a store into files, on whatever machine."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from rocketfsck.pipeline.exportmodel import DATE, TIME, ExportTask, TaskResult
from rocketfsck.pipeline.exportwrite import PartitionWriter, codes_of
from rocketfsck.pipeline.views.table import read_part


def export_part(task: ExportTask) -> TaskResult:
    """Kernel: write the files of a task and say which they are.

    Done twice it writes the same files. Raises StoreError where something cannot be read or written.
    """
    name = f"{task.number:05d}"
    corrupt_column = task.wanted.corrupt_column
    damage_count = damage_size = corrupt_count = 0
    with ExitStack() as stack:
        root = Path(task.root)
        table, aside, crowded = (
            stack.enter_context(PartitionWriter(root, name, shape, memory_size=task.memory_size))
            for shape in (task.shape, task.aside, task.crowded)
        )
        for part in task.parts:
            for batch in read_part(part, task.wanted):
                rows = batch
                if corrupt_column in batch.schema.names and batch[corrupt_column].null_count < len(batch):
                    is_odd = pc.is_valid(batch[corrupt_column])
                    is_damage = pc.and_(is_odd, pc.is_null(batch[TIME]))
                    damage = batch.filter(is_damage)
                    damage_count += len(damage)
                    damage_size += pc.sum(damage["size"]).as_py() or 0
                    corrupt_count += (pc.sum(is_odd).as_py() or 0) - len(damage)
                    rows = batch.filter(pc.invert(is_odd if task.drop_damage else is_damage))
                    if not task.drop_damage:
                        aside.write(damage)
                refused = table.write(_dated(rows, task))
                if refused is not None:
                    crowded.write(refused)
        return TaskResult(
            tuple(table.close()),
            tuple(aside.close()),
            tuple(crowded.close()),
            damage_count,
            damage_size,
            corrupt_count,
            table.spill_count,
        )


def _dated(batch: pa.RecordBatch, task: ExportTask) -> pa.RecordBatch:
    """The batch with the column `date`, where the files have it."""
    if DATE not in task.shape.schema.names or DATE in batch.schema.names:
        return batch
    codes = codes_of(batch, DATE, TIME)
    texts = pa.array(codes.texts, pa.string()).cast(pa.date32())
    return batch.append_column(DATE, texts.take(pa.array(codes.numbers)))
