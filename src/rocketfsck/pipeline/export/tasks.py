"""The tasks of an export: the same, and the same files, whatever the engine and however many run at once.

A store of which a task cannot read something (its log was cut while the export runs), or whose file no worker
survives, is left out as a whole: nothing of it is in the result, and the next run that appends begins where
this one did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rocketfsck.engine import Engine
from rocketfsck.engine.seam import Dead, surviving
from rocketfsck.errors import StoreError
from rocketfsck.pipeline.export.file import DataFile, FileShape
from rocketfsck.pipeline.export.marks import marks_of
from rocketfsck.pipeline.export.model import (
    ExportOptions,
    ExportResult,
    ExportTask,
    ExportTaskResult,
    LastRecord,
    Mark,
)
from rocketfsck.pipeline.export.plan import ExportPlan, merge_files, plan_merges
from rocketfsck.pipeline.export.work import export_part
from rocketfsck.pipeline.views.model import Part
from rocketfsck.progress import phase

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
