"""Record batches in the log's order into files a partition, in bounded memory, however many partitions.

The rows of a batch are sorted by partition (stably: the order of the log stays) and wait for their file. A
partition whose rows fill a row group gets an open file, if one of `OPEN_FILES` is free; when more than the
budget waits, those that have none are spilled into Arrow files on the worker's disk (`Spill`). At the end
each gets its file, one after the other. So a task has at most one file a partition, but for those that grow
too long, and holds at most

    memory_size (half of it waiting rows, half of it row groups of open files) + one batch + one row group
    spill file := one record batch a partition that had rows, in the order of the partitions

There is one spill file at a time and one sequential write: what a hostile log with a topic in every record
costs is disk, not memory or open files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rocketfsck.pipeline.export.file import Cell, DataFile, FileShape, FileWriter, date_text, days_of
from rocketfsck.store.reading import named_errors
from rocketfsck.store.scratch import scratch_parent

MEMORY_SIZE = 256 << 20
MAX_CELLS = 10_000
"""Partitions of one task; rows of further ones are given back."""

COLUMN_OVERHEAD = 256
"""Bytes of memory that a column of a slice takes in addition to its values."""

DATE = "date"


@dataclass(frozen=True, slots=True)
class Codes:
    """A partition column of a batch: a number a row, and the text that each number stands for."""

    numbers: NDArray[np.int64]
    texts: list[str | None]


def codes_of(batch: pa.RecordBatch, name: str, time_column: str) -> Codes:
    """The values of a partition column: that of the batch, or the day of `time_column` for `date`."""
    if name == DATE:
        times = np.array(batch[time_column].cast(pa.int64()).fill_null(-1))
        days = pa.array(days_of(times)).dictionary_encode()
        texts = [date_text(day) for day in days.dictionary.to_pylist()]
        return Codes(np.array(days.indices, np.int64), texts)
    column = batch[name]
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    texts = [text or None for text in column.dictionary.to_pylist()]
    numbers = np.array(column.indices.fill_null(len(texts)), np.int64)
    return Codes(numbers, [*texts, None])


class PartitionWriter:
    """Writes the batches of one task. A context manager: with an error nothing is left but whole files."""

    def __init__(
        self,
        root: Path,
        task_name: str,
        shape: FileShape,
        *,
        time_column: str = "store_timestamp",
        memory_size: int = MEMORY_SIZE,
        max_cells: int = MAX_CELLS,
    ) -> None:
        self._root, self._task_name, self._shape = root, task_name, shape
        self._time_column = time_column
        self._budget = memory_size // 2
        self._open_count = max(memory_size // 2 // shape.row_group_size, 1)
        self._max_cells = max_cells
        self._waiting: dict[Cell, Waiting] = {}
        self._writers: dict[Cell, FileWriter] = {}
        self._numbers: dict[Cell, int] = {}
        self._received = 0  # bytes since memory was last given back
        self._schema = shape.schema
        self._spill = Spill(self._schema)
        self.files: list[DataFile] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._writers.values():
            writer.abort()
        self._writers.clear()
        self._waiting.clear()
        self._spill.close()

    @property
    def spill_count(self) -> int:
        """How often the budget was full."""
        return self._spill.file_count

    def write(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Take the rows of a batch that has the shape's columns and those of the partition.

        Gives those back, as they came, that would need more partitions than there may be.
        """
        if not batch.num_rows:
            return None
        pieces, refused = self._split(batch)
        for cell, rows in pieces:
            item = self._waiting.setdefault(cell, Waiting())
            item.rows.append(rows)
            size = rows.nbytes + COLUMN_OVERHEAD * rows.num_columns
            item.size += size
            self._received += size
            if item.size >= self._shape.row_group_size:
                self._flush(cell, item)
        if self._received >= self._budget:
            self._give_back()
        return refused

    def close(self) -> list[DataFile]:
        """Write what waits, partition by partition, and give all the files."""
        for cell in sorted(self._writers, key=lambda cell: cell.sort_key):
            self._end(cell)
        for cell in sorted(self._waiting, key=lambda cell: cell.sort_key):
            self._end(cell)
        self.files.sort(key=lambda file: file.path)
        return self.files

    def _split(
        self, batch: pa.RecordBatch
    ) -> tuple[list[tuple[Cell, pa.RecordBatch]], pa.RecordBatch | None]:
        """The rows of each partition, in their order, and those of partitions that are too many."""
        columns = [codes_of(batch, name, self._time_column) for name in self._shape.partition]
        wanted = batch.select(self._schema.names)
        if wanted.schema != self._schema:
            columns_now = [_as(wanted[item.name], item.type) for item in self._schema]
            wanted = pa.record_batch(columns_now, self._schema)
        if not columns:
            self._numbers.setdefault(Cell(()), 0)
            return [(Cell(()), wanted)], None
        key = columns[0].numbers
        for codes in columns[1:]:
            key = key * len(codes.texts) + codes.numbers
        keys = pa.array(key).dictionary_encode()
        cells: dict[Cell | None, int] = {}
        numbers = []
        for value in keys.dictionary.to_pylist():
            cell = self._known(self._cell(value, columns))
            numbers.append(cells.setdefault(cell, len(cells)))
        number = np.array(numbers)[np.array(keys.indices)]
        refused = None
        if None in cells:
            refused = batch.filter(pa.array(number == cells[None]))
        if len(cells) == 1:
            return ([] if refused else [(cell, wanted) for cell in cells if cell is not None]), refused
        ordered = wanted.take(pa.array(np.argsort(number, kind="stable")))
        ends = np.cumsum(np.bincount(number)).tolist()
        pieces = [
            (cell, ordered.slice(start, end - start))
            for cell, start, end in zip(cells, [0, *ends], ends, strict=False)
            if cell is not None
        ]
        return pieces, refused

    @staticmethod
    def _cell(value: int, columns: list[Codes]) -> Cell:
        texts = []
        for codes in reversed(columns):
            value, number = divmod(value, len(codes.texts))
            texts.append(codes.texts[number])
        return Cell(tuple(reversed(texts)))

    def _known(self, cell: Cell) -> Cell | None:
        """The partition itself, or None where there are too many."""
        if cell not in self._numbers:
            if len(self._numbers) >= self._max_cells:
                return None
            self._numbers[cell] = 0
        return cell

    def _flush(self, cell: Cell, item: Waiting) -> None:
        """Write what waits as a row group, where the partition has a file or may have one."""
        if cell not in self._writers and len(self._writers) >= self._open_count:
            return
        self._write_rows(cell, item)

    def _write_rows(self, cell: Cell, item: Waiting) -> None:
        """All rows of a partition into its file, in row groups of the size that the shape says."""
        limit = self._shape.row_group_size
        gathered: list[pa.RecordBatch] = []
        size = 0
        for rows in self._spill.give(item):
            gathered.append(rows)
            size += rows.nbytes
            if size >= limit:
                self._write_group(cell, gathered)
                gathered, size = [], 0
        if gathered:
            self._write_group(cell, gathered)

    def _write_group(self, cell: Cell, rows: list[pa.RecordBatch]) -> None:
        writer = self._writers.get(cell)
        if writer is None:
            writer = FileWriter(self._root, self._path(cell), cell, self._shape)
            self._numbers[cell] += 1
            self._writers[cell] = writer
        writer.write(pa.Table.from_batches(rows, self._schema))
        if writer.size >= self._shape.file_size:
            self._close(cell)

    def _end(self, cell: Cell) -> None:
        item = self._waiting.pop(cell, None)
        if item is not None:
            self._write_rows(cell, item)
        if cell in self._writers:
            self._close(cell)

    def _close(self, cell: Cell) -> None:
        self.files.append(self._writers[cell].close())
        del self._writers[cell]

    def _path(self, cell: Cell) -> str:
        return self._shape.path(cell, f"part-{self._task_name}-{self._numbers[cell]:04d}.parquet")

    def _give_back(self) -> None:
        """Spill what has no file; copy what has one, since a slice holds the whole batch it belongs to."""
        spilled = {
            cell: item for cell, item in self._waiting.items() if item.rows and cell not in self._writers
        }
        if spilled:
            self._spill.take(spilled)
        self._received = 0
        for cell in self._writers:
            item = self._waiting[cell]
            if item.rows:
                item.rows = [_copied(item.rows)]
                self._received += item.size


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)


def _copied(rows: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The same rows in memory of their own."""
    whole = pa.concat_batches(rows)
    return whole.take(pa.array(np.arange(whole.num_rows))) if len(rows) == 1 else whole


@dataclass(slots=True)
class Waiting:
    """The rows of one partition that are in no file yet: first those spilled, then those in memory."""

    spilled: list[tuple[int, int]] = field(default_factory=list)  # (spill file, batch in it)
    rows: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0  # bytes in memory


class Spill:
    """The spill files of one task, in a directory of their own that `close` removes."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._count = 0
        self._readers: dict[int, tuple[pa.OSFile, pa.ipc.RecordBatchFileReader]] = {}

    @property
    def file_count(self) -> int:
        """How many files were written."""
        return self._count

    def take(self, waiting: dict[Cell, Waiting]) -> None:
        """Move what is in memory to disk. Raises StoreError where the disk does not take it."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="rocketfsck-export-", dir=scratch_parent())
        path = self._path(self._count)
        number = 0
        with (
            named_errors(path, "cannot be written"),
            pa.OSFile(str(path), "wb") as stream,
            pa.ipc.new_file(stream, self._schema) as writer,
        ):
            for item in waiting.values():
                if not item.rows:
                    continue
                writer.write_batch(pa.concat_batches(item.rows))
                item.spilled.append((self._count, number))
                item.rows, item.size = [], 0
                number += 1
        self._count += 1

    def give(self, item: Waiting) -> Iterator[pa.RecordBatch]:
        """The rows of a partition in their order; it has none afterwards."""
        for file, number in item.spilled:
            yield self._reader(file).get_batch(number)
        yield from item.rows
        item.spilled, item.rows, item.size = [], [], 0

    def close(self) -> None:
        """Remove the files."""
        self._let_go()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _path(self, number: int) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / f"{number}.arrow"

    def _reader(self, number: int) -> pa.ipc.RecordBatchFileReader:
        if number not in self._readers:
            # OSFile, not a map: what was read must outlive the file
            stream = pa.OSFile(str(self._path(number)), "rb")
            self._readers[number] = (stream, pa.ipc.open_file(stream))
        return self._readers[number][1]

    def _let_go(self) -> None:
        for stream, _ in self._readers.values():
            stream.close()
        self._readers.clear()
