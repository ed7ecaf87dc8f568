"""The tasks of an export: the same, and the same files, whatever the engine and however many run at once.

A store of which a task cannot read something (its log was cut while the export runs), or whose file no worker
survives, is left out as a whole: nothing of it is in the result, and the next run that appends begins where
this one did.

The kernel of an export: rows of some parts of a store into files, on whatever machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketfsck.engine import Engine
from rocketfsck.engine.seam import Dead, surviving
from rocketfsck.errors import StoreError
from rocketfsck.pipeline.export.file import DataFile, FileShape, text_name
from rocketfsck.pipeline.export.marks import marks_of
from rocketfsck.pipeline.export.model import (
    DATE,
    TIME,
    ExportOptions,
    ExportResult,
    ExportTask,
    ExportTaskResult,
    LastRecord,
    Mark,
)
from rocketfsck.pipeline.export.plan import ExportPlan, merge_files, plan_merges
from rocketfsck.pipeline.export.write import PartitionWriter, codes_of
from rocketfsck.pipeline.views.model import Part, WantedRows
from rocketfsck.pipeline.views.table import read_part
from rocketfsck.progress import part as piece
from rocketfsck.progress import phase
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


TASK_SIZE = 256 << 20
"""Bytes of a store that one task reads, about: so many, whatever the engine, that files are the same."""


def write_files(work: Path, plan: ExportPlan, options: ExportOptions, engine: Engine) -> ExportResult:
    """Have the engine write the files below `work`. Raises StoreError."""
    tasks = [
        ExportTask(
            number,
            work,
            parts,
            plan.wanted_of(parts[0].source.broker),
            plan.shape,
            plan.aside,
            plan.crowded,
            options.wanted.mode == "DROPMALFORMED",
            options.memory_size,
            options.view == "messages",
        )
        for number, parts in enumerate(_runs(plan.parts))
    ]
    total = sum(part.size for part in plan.parts)
    done = 0
    found: list[ExportTaskResult | StoreError | None] = [None] * len(tasks)
    with phase("exporting", total) as at:
        for task, result, _ in surviving(engine, export_part, tasks):
            found[task.number] = _named(task, result) if isinstance(result, Dead) else result
            done += sum(part.size for part in task.parts)
            at.at(done)
    errors: dict[str, StoreError] = {}
    last: dict[str, LastRecord] = {}
    for task, written in zip(tasks, found, strict=True):  # in the order of each log
        broker = task.parts[0].source.broker
        if isinstance(written, StoreError):
            errors.setdefault(broker, written)
        elif written is not None and written.last is not None:
            last[broker] = written.last
    marks: Mapping[str, Mark] = {}
    if options.view == "messages" and options.table_format != "parquet":
        sources = dict.fromkeys(task.parts[0].source for task in tasks)
        read = [source for source in sources if source.broker not in errors]
        marks, unmarked = marks_of(read, last, engine)
        errors |= unmarked
    brokers = {task.parts[0].source.broker for task in tasks}
    if errors and brokers <= errors.keys():
        raise next(iter(errors.values()))
    results = [
        written
        for task, written in zip(tasks, found, strict=True)
        if isinstance(written, ExportTaskResult) and task.parts[0].source.broker not in errors
    ]
    files = [file for result in results for file in result.files]
    before = len(files)
    if options.merge:
        with phase("merging small files"):
            files = _merged(work, files, plan.shape, engine)
    return ExportResult(
        path=str(work),
        files=tuple(sorted(files, key=lambda file: file.path)),
        aside=tuple(file for result in results for file in result.aside),
        crowded=tuple(file for result in results for file in result.crowded),
        damage_count=sum(result.damage_count for result in results),
        damaged_byte_count=sum(result.damaged_byte_count for result in results),
        corrupt_count=sum(result.corrupt_count for result in results),
        damage_told=not options.wanted.selects_messages,
        task_count=len(tasks),
        merged_count=before - len(files),
        last={broker: record for broker, record in last.items() if broker not in errors},
        marks=marks,
        gaps=tuple(gap for gap in plan.gaps if gap.broker not in errors),
        failed=(*plan.failed, *((broker, str(error)) for broker, error in errors.items())),
    )


def _named(task: ExportTask, dead: Dead) -> StoreError:
    """What is said of a task that no worker survived: the first of its files."""
    part = task.parts[0]
    path = f"{part.source.path}/{part.file}" if part.file else part.source.path
    return StoreError(f"cannot be read by any worker: {dead.error}", path=path)


def _runs(parts: Sequence[Part]) -> Iterator[tuple[Part, ...]]:
    """Parts of one store, one after the other, as long as a task should be."""
    run: list[Part] = []
    for part in parts:
        if run and (part.source != run[0].source or sum(item.size for item in run) >= TASK_SIZE):
            yield tuple(run)
            run = []
        run.append(part)
    if run:
        yield tuple(run)


def _merged(work: Path, files: list[DataFile], shape: FileShape, engine: Engine) -> list[DataFile]:
    kept, tasks = plan_merges(files, shape, work)
    for outcome in engine.run(merge_files, tasks):
        kept += outcome.result or []
    return kept
