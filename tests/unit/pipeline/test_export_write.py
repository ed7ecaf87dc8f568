"""Rows into files a partition: whole, in order, in bounded memory, once however often it is tried."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from rocketfsck.errors import StoreError
from rocketfsck.pipeline.export import plan as exportmerge
from rocketfsck.pipeline.export.file import TEMPORARY, Cell, DataFile, FileShape, FileWriter
from rocketfsck.pipeline.export.plan import merge_files, plan_merges
from rocketfsck.pipeline.export.write import PartitionWriter, Spill

from tests.unit.pipeline.exporting import (
    DAY_MS,
    HOSTILE,
    SCHEMA,
    START,
    batches,
    new_root,
    rows_of,
    shape,
    sums_of,
)

TOPICS = (*HOSTILE, *(f"topic-{number}" for number in range(10)))


def _write(
    root: Path,
    rows: Sequence[pa.RecordBatch],
    name: str = "00000",
    files: FileShape | None = None,
    **options: Any,
) -> tuple[list[DataFile], int]:
    with PartitionWriter(root, name, files or shape(), **options) as writer:
        for batch in rows:
            assert writer.write(batch) is None
        return writer.close(), writer.spill_count


def _expected(rows: Sequence[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    return [
        (row["offset"], row["topic"] or None, row["store_timestamp"], row["body"])
        for batch in rows
        for row in batch.to_pylist()
    ]


def _found(root: Path, files: Sequence[DataFile]) -> list[tuple[Any, ...]]:
    """The rows of the files, with the topics that they were written for."""
    rows = [
        (row["offset"], file.cell.values[0], row["store_timestamp"], row["body"])
        for file in files
        for row in pq.ParquetFile(root / file.path).read().to_pylist()
    ]
    return sorted(rows)


def test_every_row_once_in_its_partition_in_order(tmp_path: Path) -> None:
    root, rows = new_root(tmp_path / "r"), list(batches(TOPICS, 6))
    files, spills = _write(root, rows)
    assert spills == 0
    assert _found(root, files) == _expected(rows)
    assert len({file.path for file in files}) == len({file.cell for file in files}) == len(files)
    for file in files:
        table = pq.ParquetFile(root / file.path).read()
        offsets, times = table["offset"].to_numpy(), table["store_timestamp"].to_numpy()
        assert (np.diff(offsets) > 0).all()
        days = {str(np.datetime64(int(time), "ms"))[:10] for time in times}
        assert days == {file.cell.values[1]}
        assert file.bounds["offset"] == (offsets.min(), offsets.max(), 0)
        assert (file.row_count, file.size) == (len(table), (root / file.path).stat().st_size)
    assert list((root / TEMPORARY).iterdir()) == []
    everything = {path.relative_to(root).as_posix() for path in root.rglob("*.parquet")}
    assert everything == {file.path for file in files}


def test_a_small_budget_spills_and_gives_the_same_files(tmp_path: Path) -> None:
    rows = list(batches(TOPICS, 12))
    whole, spills = _write(new_root(tmp_path / "a"), rows)
    assert spills == 0
    few, spills = _write(new_root(tmp_path / "b"), rows, memory_size=1 << 18)
    assert spills > 2
    assert few == whole
    assert _found(tmp_path / "b", few) == _expected(rows)
    assert sums_of(tmp_path / "a") == sums_of(tmp_path / "b")


def test_memory_is_bounded_whatever_there_is(tmp_path: Path) -> None:
    """Twelve times the rows take the same memory: what waits is spilled, not kept."""

    def peak(count: int) -> int:
        files = shape(row_group_size=1 << 18)
        root = new_root(tmp_path / str(count))
        most, before = 0, pa.total_allocated_bytes()
        with PartitionWriter(root, "0", files, memory_size=1 << 20) as writer:
            for batch in batches(TOPICS, count, body=200, step=60_000):
                writer.write(batch)
                most = max(most, pa.total_allocated_bytes() - before)
            writer.close()
        return most

    assert peak(10) > 1 << 18  # or nothing is measured
    assert peak(120) < 4 << 20


def test_a_large_partition_gets_row_groups_and_files_of_their_size(tmp_path: Path) -> None:
    rows = list(batches(["one"], 40, step=100))
    files, _ = _write(
        new_root(tmp_path / "r"),
        rows,
        files=shape(row_group_size=1 << 17, file_size=1 << 19),
        memory_size=1 << 20,
    )
    assert [Path(file.path).name for file in files] == [
        f"part-00000-{n:04d}.parquet" for n in range(len(files))
    ]
    assert len(files) > 1
    assert _found(tmp_path / "r", files) == _expected(rows)
    metadata = pq.ParquetFile(tmp_path / "r" / files[0].path).metadata
    assert metadata.num_row_groups > 2
    ends = [metadata.row_group(group).column(1).statistics for group in range(metadata.num_row_groups)]
    assert all(one.max < other.min for one, other in pairwise(ends))
    assert [column.column_index for column in metadata.row_group(0).sorting_columns] == [0, 1]


def test_bounds_are_of_short_columns_only(tmp_path: Path) -> None:
    files, _ = _write(new_root(tmp_path / "r"), list(batches(["t"], 1)))
    group = pq.ParquetFile(tmp_path / "r" / files[0].path).metadata.row_group(0)
    named = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    assert named["offset"].statistics.has_min_max
    assert named["broker"].statistics.has_min_max
    assert named["body"].statistics is None
    assert named["offset"].compression == "ZSTD"
    assert set(files[0].bounds) == {"offset", "store_timestamp"}


def test_rows_of_partitions_that_are_too_many_come_back(tmp_path: Path) -> None:
    (batch,) = batches(["a", "b", "c", "d"], 1, step=0)
    with PartitionWriter(new_root(tmp_path / "r"), "0", shape(), max_cells=2) as writer:
        refused = writer.write(batch)
        files = writer.close()
    assert refused is not None
    assert refused.schema == batch.schema
    assert len(files) == 2
    assert sum(file.row_count for file in files) + len(refused) == len(batch)
    kept = {file.cell.values[0] for file in files}
    assert kept.isdisjoint(refused["topic"].to_pylist())


def test_times_of_no_date_and_no_topic_are_null(tmp_path: Path) -> None:
    batch = pa.record_batch(
        {
            "broker": ["b"] * 4,
            "topic": ["t", None, "t", "t"],
            "offset": [0, 1, 2, 3],
            "store_timestamp": pa.array([START, START, -5, None], pa.int64()),
            "body": pa.array([b"x"] * 4, pa.binary()),
        }
    )
    files, _ = _write(new_root(tmp_path / "r"), [batch])
    assert {file.cell.values: file.row_count for file in files} == {
        ("t", "2023-11-14"): 1,
        (None, "2023-11-14"): 1,
        ("t", None): 2,
    }
    shutil.rmtree(tmp_path / "r" / TEMPORARY)
    assert [(row["topic"], row["date"]) for row in rows_of(tmp_path / "r")] == [
        ("t", "2023-11-14"),
        (None, "2023-11-14"),
        ("t", None),
        ("t", None),
    ]


def test_without_partitions_there_is_one_file(tmp_path: Path) -> None:
    rows = list(batches(["a", "b"], 3))
    files, _ = _write(new_root(tmp_path / "r"), rows, files=shape(partition=()))
    assert [file.path for file in files] == ["part-00000-0000.parquet"]
    assert files[0].row_count == 1500


def test_two_attempts_at_once_leave_one_result(tmp_path: Path) -> None:
    rows = list(batches(TOPICS, 4))
    root = new_root(tmp_path / "r")
    with ThreadPoolExecutor(4) as pool:
        tried = list(pool.map(lambda _: _write(root, rows)[0], range(4)))
    assert all(files == tried[0] for files in tried)
    once = new_root(tmp_path / "once")
    _write(once, rows)
    assert sums_of(root) == sums_of(once)


class Stopped(BaseException):
    """Something that ends a task in the middle."""


@pytest.mark.parametrize("method", ["write", "close"])
def test_a_task_that_ends_in_the_middle_leaves_only_whole_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    rows = list(batches(TOPICS, 4))
    calls = 0
    sound = getattr(FileWriter, method)

    def stopping(self: FileWriter, *given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 9:
            raise Stopped
        return sound(self, *given)

    root = new_root(tmp_path / "r")
    monkeypatch.setattr(FileWriter, method, stopping)
    with pytest.raises(Stopped):
        _write(root, rows)
    monkeypatch.undo()
    named = list(root.glob("topic=*/date=*/*"))
    assert named
    assert all(pq.ParquetFile(path).metadata.num_rows for path in named)
    assert list((root / TEMPORARY).iterdir()) == []
    files, _ = _write(root, rows)
    assert _found(root, files) == _expected(rows)
    assert len(list(root.glob("topic=*/date=*/*"))) == len(files)


def test_a_straggler_finds_nothing_to_write_to(tmp_path: Path) -> None:
    """The driver has published the directory: it must not come into being again."""
    rows = list(batches(["a"], 2))
    root = new_root(tmp_path / "building")
    with PartitionWriter(root, "0", shape(), memory_size=1 << 20) as writer:
        for batch in rows:
            writer.write(batch)
        root.rename(tmp_path / "published")
        with pytest.raises(StoreError):
            writer.close()
    assert not root.exists()
    with pytest.raises(StoreError, match="cannot be written"):
        _write(root, rows)
    assert not root.exists()


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pa, "OSFile", full)
    with pytest.raises(StoreError, match="No space left"):
        _write(new_root(tmp_path / "r"), list(batches(TOPICS, 4)), memory_size=1 << 18)


def test_spill_files_go_with_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    root = new_root(tmp_path / "r")
    with PartitionWriter(root, "0", shape(), memory_size=1 << 18) as writer:
        for batch in batches(TOPICS, 4):
            writer.write(batch)
        assert writer.spill_count
        assert len(list(tmp_path.glob("rocketfsck-export-*"))) == 1
    assert list(tmp_path.glob("rocketfsck-export-*")) == []
    Spill(SCHEMA).close()  # one that was never used


def test_small_files_of_a_partition_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, rows = new_root(tmp_path / "r"), list(batches(["a", "b", "é"], 6, step=DAY_MS // 1000))
    files = []
    for number, batch in enumerate(rows):
        files += _write(root, [batch], f"{number:05d}")[0]
    assert len({file.cell for file in files}) < len(files)
    kept, tasks = plan_merges(files, shape(), root)
    merged = [file for task in tasks for file in merge_files(task)]
    gone = {file.path for task in tasks for merge in task.merges for file in merge.sources}
    assert gone | {file.path for file in kept} == {file.path for file in files}
    assert {file.cell for file in (*kept, *merged)} == {file.cell for file in files}
    assert len(kept) + len(merged) == len({file.cell for file in files})
    assert _found(root, [*kept, *merged]) == _expected(rows)
    for file in merged:
        assert (np.diff(pq.ParquetFile(root / file.path).read()["offset"].to_numpy()) > 0).all()
    assert [merge_files(task) for task in tasks] == [merged] * len(tasks)  # an attempt more is the same
    monkeypatch.setattr(exportmerge, "MERGED_SIZE", 1)
    assert plan_merges(files, shape(), root)[1] == []  # none may be put together
    monkeypatch.setattr(exportmerge, "TASK_SIZE", 1)
    monkeypatch.setattr(exportmerge, "MERGED_SIZE", 1 << 30)
    assert len(plan_merges(files, shape(), root)[1]) == len(merged)


def test_what_cannot_be_merged_is_said(tmp_path: Path) -> None:
    root = new_root(tmp_path / "r")
    cell = Cell(("t", None))
    gone = tuple(DataFile(name, cell, 1, 1) for name in ("gone", "gone, too"))
    task = exportmerge.MergeTask(root, shape(), (exportmerge.Merge(cell, gone, "to"),))
    with pytest.raises(StoreError, match="cannot be read"):
        merge_files(task)
    assert [path.name for path in root.rglob("*")] == [TEMPORARY]
