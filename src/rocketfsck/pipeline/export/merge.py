"""Small files of one partition made one: else a topic with a little in every log file has as many files.

    part-00003-0000.parquet, part-00007-0000.parquet, …  ->  merged-00000-0000.parquet

Rows keep their order, which is that of the tasks. Who merges leaves the sources where they are, so that an
attempt can be made again. In an object store all small files wait below `_work`, and one that is merged with
no other is copied from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet as pq

from rocketfsck.errors import StoreError
from rocketfsck.pipeline.export.file import DataFile, FileShape, FileWriter
from rocketfsck.pipeline.export.layout import Cell
from rocketfsck.pipeline.export.objects import Objects, final
from rocketfsck.store.places.urls import is_remote

SMALL_SIZE = 16 << 20
"""Bytes of a file below which it is put together with others of its partition."""

MERGED_SIZE = 128 << 20
"""Bytes of the files that one merged file is made of, at most."""

TASK_SIZE = 256 << 20
"""Bytes that one task merges, about."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Files of one partition, in order, that become the file `path`."""

    cell: Cell
    sources: tuple[DataFile, ...]
    path: str


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Merges that one worker makes, one after the other."""

    root: Path
    shape: FileShape
    merges: tuple[Merge, ...]


def plan_merges(
    files: Sequence[DataFile], shape: FileShape, root: Path, *, small_size: int = SMALL_SIZE
) -> tuple[list[DataFile], list[MergeTask]]:
    """The files that stay, and tasks that make others of the rest; `files` come in the order of the tasks."""
    small: dict[Cell, list[DataFile]] = {}
    for file in files:
        if file.size < small_size:
            small.setdefault(file.cell, []).append(file)
    merges: list[tuple[Merge, int]] = []
    for cell in sorted(small, key=lambda cell: cell.sort_key):
        for number, group in enumerate(_groups(small[cell])):
            path = final(group[0].path)
            if len(group) > 1:
                path = shape.path(cell, f"merged-{number:05d}.parquet")
            if path != group[0].path:
                merges.append((Merge(cell, tuple(group), path), sum(file.size for file in group)))
    gone = {file.path for merge, _ in merges for file in merge.sources}
    tasks: list[MergeTask] = []
    batch: list[Merge] = []
    size = 0
    for merge, merge_size in merges:
        batch.append(merge)
        size += merge_size
        if size >= TASK_SIZE:
            tasks.append(MergeTask(root, shape, tuple(batch)))
            batch, size = [], 0
    if batch:
        tasks.append(MergeTask(root, shape, tuple(batch)))
    return [file for file in files if file.path not in gone], tasks


def merge_files(task: MergeTask) -> list[DataFile]:
    """Kernel: make the files of a task. Raises StoreError when one cannot be read or written."""
    shape = replace(task.shape, hold_size=0)
    return [
        _merge(task.root, shape, merge) if len(merge.sources) > 1 else _copy(task.root, merge)
        for merge in task.merges
    ]


def _copy(root: Path, merge: Merge) -> DataFile:
    (file,) = merge.sources
    Objects(root).copy(file.path, merge.path)
    return replace(file, path=merge.path)


def _groups(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    group: list[DataFile] = []
    size = 0
    for file in files:
        if group and size + file.size > MERGED_SIZE:
            yield group
            group, size = [], 0
        group.append(file)
        size += file.size
    yield group


def _merge(root: Path, shape: FileShape, merge: Merge) -> DataFile:
    writer = FileWriter(root, merge.path, merge.cell, shape)
    try:
        waiting: list[pa.Table] = []
        size = 0
        for table in _row_groups(root, shape, [file.path for file in merge.sources]):
            waiting.append(table)
            size += table.nbytes
            if size >= shape.row_group_size:
                writer.write(pa.concat_tables(waiting))
                waiting, size = [], 0
        if waiting:
            writer.write(pa.concat_tables(waiting))
        return writer.close()
    except BaseException:
        writer.abort()
        raise


def _row_groups(root: Path, shape: FileShape, paths: Sequence[str]) -> Iterator[pa.Table]:
    for path in paths:
        try:
            with pq.ParquetFile(_opened(root, path)) as file:
                for number in range(file.num_row_groups):
                    yield file.read_row_group(number).cast(shape.schema)
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"cannot be read: {error}", path=str(root / path)) from error


def _opened(root: Path, path: str) -> Path | pa.BufferReader:
    if not is_remote(root):
        return root / path
    data = Objects(root).get(path)
    if data is None:
        raise StoreError("cannot be read: a file of this run is gone", path=str(root / path))
    return pa.BufferReader(data)
