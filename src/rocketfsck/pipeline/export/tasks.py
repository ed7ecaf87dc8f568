"""The tasks of an export: the same, and the same files, whatever the engine and however many run at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rocketfsck.engine import Engine
from rocketfsck.pipeline.export.file import DataFile, FileShape
from rocketfsck.pipeline.export.merge import merge_files, plan_merges
from rocketfsck.pipeline.export.model import ExportOptions, ExportResult, ExportTask, LastRecord, TaskResult
from rocketfsck.pipeline.export.plan import ExportPlan
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
    found: list[TaskResult | None] = [None] * len(tasks)
    last: dict[str, LastRecord] = {}
    with phase("exporting", total) as at:
        for outcome in engine.run(export_part, tasks):
            found[outcome.index] = outcome.result
            done += sum(part.size for part in outcome.task.parts)
            at.at(done)
    results = [result for result in found if result is not None]
    for task, result in zip(tasks, found, strict=True):  # in the order of each log
        if result is not None and result.last is not None:
            last[task.parts[0].source.broker] = result.last
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
        last=last,
        gaps=plan.gaps,
        failed=plan.failed,
    )


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
