"""The way of rows into a new database: a process of its own writes them (`rowchild`)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from rocketfsck.errors import StoreError
from rocketfsck.store.rocks import rowchild
from rocketfsck.store.rocks.reading import INSTALL

PATIENCE = 600.0
"""Seconds that the process has to put everything on the disk."""


class RowPipe:
    """Sends rows to the process. Every method raises StoreError if that process is gone."""

    def __init__(self, pipe: IO[bytes], path: str, families: Sequence[str]) -> None:
        self.pipe = pipe
        self.path = path
        self.families = tuple(families)

    def put(self, family: str, key: bytes, value: bytes) -> None:
        """Put one row."""
        self.put_many(family, key, 0, value, 1)

    def put_many(self, family: str, prefix: bytes, tail_size: int, rows: bytes, count: int) -> None:
        """Put `count` rows of one size: `prefix` and the first `tail_size` bytes are the key of each."""
        value_size = len(rows) // count - tail_size
        head = rowchild.HEAD.pack(self.families.index(family), len(prefix), tail_size, value_size, count)
        try:
            self.pipe.write(head + prefix + rows)
        except OSError as error:
            raise self._gone() from error

    def end(self) -> None:
        """Say that all rows have been put."""
        try:
            self.pipe.write(rowchild.HEAD.pack(rowchild.END, 0, 0, 0, 0))
            self.pipe.close()
        except OSError as error:
            raise self._gone() from error

    def _gone(self) -> StoreError:
        return StoreError("the process that writes the database ended", path=self.path)


@contextmanager
def row_pipe(directory: Path, families: Sequence[str]) -> Iterator[RowPipe]:
    """Yield the pipe to a new database in `directory`; the database is whole when the block has ended.

    The block ends with `RowPipe.end`. Raises StoreError without rocksdict, and where RocksDB cannot write.
    """
    if find_spec("rocksdict") is None:
        raise StoreError(f"writing RocksDB needs rocksdict: {INSTALL}", path=str(directory))
    process = subprocess.Popen(
        [sys.executable, "-P", str(Path(rowchild.__file__)), os.path.realpath(directory), *families],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield RowPipe(process.stdin, str(directory), families)
        process.wait(PATIENCE)
        said = process.stdout.read()
        if said != rowchild.OK:
            text = said.decode("utf-8", "replace") or f"status {process.returncode}"
            raise StoreError(f"RocksDB cannot write: {text}", path=str(directory))
    except subprocess.TimeoutExpired as error:
        raise StoreError("RocksDB does not finish", path=str(directory)) from error
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
