"""Rows that wait for their file: in memory up to a budget, beyond it in Arrow files on the worker's disk.

    spill file := one record batch a partition that had rows, in the order of the partitions

Whatever the number of partitions, there is one file at a time and one sequential write: what a hostile log
with a topic in every record costs is disk, not memory or open files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from rocketfsck.errors import StoreError
from rocketfsck.pipeline.export.layout import Cell


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
            self._folder = tempfile.TemporaryDirectory(prefix="rocketfsck-export-")
        path = self._path(self._count)
        number = 0
        try:
            with pa.OSFile(str(path), "wb") as stream, pa.ipc.new_file(stream, self._schema) as writer:
                for item in waiting.values():
                    if not item.rows:
                        continue
                    writer.write_batch(pa.concat_batches(item.rows))
                    item.spilled.append((self._count, number))
                    item.rows, item.size = [], 0
                    number += 1
        except OSError as error:
            raise StoreError(f"cannot be written: {error.strerror or error}", path=str(path)) from error
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
