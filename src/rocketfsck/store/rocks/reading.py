"""Rows of a RocksDB in a store: from a scratch directory with links, by a child process with limits.

    scratch := CURRENT MANIFEST-n (copies)  n.sst n.blob n.log (symbolic links)

RocksDB writes next to what it opens, even for reading; so the store's directory is never opened. What it says
becomes a `RocksError` that names the file. Reference 11.4.

The way of rows into a new database: a process of its own writes them (`rowchild`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import IO, Literal

import numpy as np

from rocketfsck.common.outputs import scratch_parent
from rocketfsck.errors import StoreError, install_hint
from rocketfsck.formats.dtypes import Longs
from rocketfsck.formats.rocks import MARKS
from rocketfsck.store.model import Other, Store
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.reading import named_errors, read_whole
from rocketfsck.store.rocks import child, rowchild
from rocketfsck.store.rocks.families import DEFAULT, MESSAGE_DATABASE, database_at

Mode = Literal["strict", "tolerant", "estimate", "mark"]

INSTALL = f"run {install_hint('rocksdb')}"
MANIFEST_LIMIT = 256 << 20
PATIENCE = 60.0
"""Seconds without a byte from the child after which it is given up."""
BATCH_LIMIT = 1 << 30
PIPE_SIZE = 1 << 20
TEXT_LIMIT = 16 << 10
ALL_KEYS = ("0", "")

_LINKED = re.compile(r"\d+\.(sst|blob|log)")
_COPIED = re.compile(r"CURRENT|MANIFEST-\d+")
_NAMED = re.compile(r"\d{6,}\.(?:sst|log|blob)|MANIFEST-\d+|CURRENT")
_CHILD = Path(child.__file__)


class RocksError(StoreError):
    """A database, or a part of it, cannot be read. `file` names the file at fault, if known; `from_rocksdb`
    whether RocksDB itself says so."""

    def __init__(
        self, message: str, *, path: str, file: str | None = None, from_rocksdb: bool = False
    ) -> None:
        super().__init__(message, path=path)
        self.message = message
        self.file = file
        self.from_rocksdb = from_rocksdb


@dataclass(frozen=True, slots=True)
class KeysWith:
    """Keys that have one of the texts at `pos`; none of the texts begins with another. RocksDB goes straight
    to them: keys are sorted, so that those with the same bytes before `pos` are neighbours."""

    texts: tuple[bytes, ...]
    pos: int = 0

    @property
    def words(self) -> tuple[str, str]:
        """What the child has to know. Nothing where a text is too long for a command line: all rows, then."""
        is_short = max(map(len, self.texts), default=0) <= TEXT_LIMIT
        return (str(self.pos), ",".join(text.hex() for text in self.texts)) if is_short else ALL_KEYS


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a family in the order of their keys: all keys in one text, all values in another, and
    where each begins (one number more than rows)."""

    family: str
    keys: bytes
    key_starts: Longs
    values: bytes
    value_starts: Longs

    def __len__(self) -> int:
        return len(self.key_starts) - 1

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """Key and value of each row."""
        keys, values = self.key_starts.tolist(), self.value_starts.tolist()
        for row in range(len(keys) - 1):
            yield self.keys[keys[row] : keys[row + 1]], self.values[values[row] : values[row + 1]]


def why_not_readable(other: Other) -> str | None:
    """Why nothing of a database can be read here, whatever is in it; None where it can be tried."""
    if is_remote(other.path):
        return "RocksDB databases can only be read on this machine: copy the store to a local directory"
    if find_spec("rocksdict") is None:
        return f"reading RocksDB needs rocksdict: {INSTALL}"
    return None


def read_rows(
    other: Other,
    families: Collection[str] = (),
    *,
    mode: Mode = "tolerant",
    patience: float = PATIENCE,
    keys: KeysWith | None = None,
) -> Generator[Rows]:
    """Yield the rows of the families asked for (none: of all); of each family that is there at least one
    batch. `keys` leaves other rows out, unless it has a very long text.

    Raises RocksError, also in the midst, where RocksDB cannot go on, takes too long, or dies; StoreError
    where the scratch directory cannot be made.
    """
    if (reason := why_not_readable(other)) is not None:
        raise RocksError(reason, path=str(other.path))
    words = ALL_KEYS if keys is None else keys.words
    with _scratch(other) as directory, _child(directory, mode, families, patience, words) as stream:
        try:
            yield from _batches(stream, families)
        except _ChildError as failure:
            raise _explained(failure, directory, other) from None


def count_rows(other: Other, families: Collection[str] = (), *, patience: float = PATIENCE) -> dict[str, int]:
    """The number of rows of these families (none: of all), counted. Raises as `read_rows`."""
    counts: dict[str, int] = {}
    for rows in read_rows(other, families, patience=patience):
        counts[rows.family] = counts.get(rows.family, 0) + len(rows)
    return counts


def has_index_rows(store: Store) -> bool:
    """Whether the database of messages has rows of an index. Raises as `read_rows`."""
    other = database_at(store, MESSAGE_DATABASE)
    return other is not None and any(
        key not in MARKS[DEFAULT] for rows in read_rows(other, [DEFAULT]) for key, _ in rows.pairs()
    )


def estimate_rows(other: Other, *, patience: float = PATIENCE) -> dict[str, int]:
    """About how many rows each family has, as RocksDB itself estimates. Raises as `read_rows`."""
    if (reason := why_not_readable(other)) is not None:
        raise RocksError(reason, path=str(other.path))
    counts: dict[str, int] = {}
    with _scratch(other) as directory, _child(directory, "estimate", (), patience) as stream:
        try:
            while (head := child.HEAD.unpack(stream.exactly(child.HEAD.size)))[0] == child.FAMILY:
                counts[os.fsdecode(stream.exactly(head[2]))] = head[3]
            if head[0] == child.ERROR:
                raise _ChildError(stream.exactly(head[2]).decode("utf-8", "replace"), from_rocksdb=True)
        except _ChildError as failure:
            raise _explained(failure, directory, other) from None
    return counts


def _explained(failure: _ChildError, directory: Path, other: Other) -> RocksError:
    """The error as the user can use it: with the store's names."""
    text = failure.text.replace(str(directory), other.relative)
    named = _NAMED.search(text)
    file = named[0] if named else None
    return RocksError(text, path=str(other.path), file=file, from_rocksdb=failure.from_rocksdb)


class _ChildError(Exception):
    def __init__(self, text: str, *, from_rocksdb: bool = False) -> None:
        super().__init__(text)
        self.text = " ".join(text.split())
        self.from_rocksdb = from_rocksdb


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """A directory of our own, removed at the end; raises StoreError if none can be made."""
    above = scratch_parent() or tempfile.gettempdir()
    with named_errors(above, "no scratch directory can be created"):
        directory = Path(tempfile.mkdtemp(prefix="rocketfsck-", dir=above))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _scratch(other: Other) -> Iterator[Path]:
    with scratch_directory() as directory:
        for file in other.files:
            if _LINKED.fullmatch(file.name):
                (directory / file.name).symlink_to(os.path.realpath(file.path))
            elif _COPIED.fullmatch(file.name):
                (directory / file.name).write_bytes(read_whole(file.path, MANIFEST_LIMIT))
        yield directory


@contextmanager
def _child(
    directory: Path, mode: Mode, families: Collection[str], patience: float, keys: Sequence[str] = ALL_KEYS
) -> Iterator[_Stream]:
    names = [os.fsencode(name) for name in families]
    with _process(_CHILD, [str(directory), mode, *keys, *names], subprocess.DEVNULL) as (process, output):
        stream = _Stream(process, output, patience)
        try:
            yield stream
        finally:
            stream.selector.close()


@contextmanager
def _process(
    script: Path, words: Sequence[str | bytes], source: int
) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """A process that runs a script which needs no other module, and its output; it ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-P", str(script), *words],
        stdin=source,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _batches(stream: _Stream, families: Collection[str]) -> Iterator[Rows]:
    name, count = "", -1
    while True:
        kind, rows, key_size, value_size = child.HEAD.unpack(stream.exactly(child.HEAD.size))
        if max(key_size, value_size) > BATCH_LIMIT:
            raise _ChildError(f"a row of more than {BATCH_LIMIT:,} bytes")
        if count == 0 and kind not in (child.ROWS, child.ERROR) and (not families or name in families):
            yield Rows(name, b"", np.zeros(1, np.int64), b"", np.zeros(1, np.int64))
        if kind == child.END:
            return
        if kind == child.ERROR:
            raise _ChildError(stream.exactly(key_size).decode("utf-8", "replace"), from_rocksdb=True)
        if kind == child.FAMILY:
            name, count = os.fsdecode(stream.exactly(key_size)), 0
            continue
        starts = [_starts(stream.exactly(4 * rows)) for _ in range(2)]
        keys = stream.exactly(key_size)
        yield Rows(name, keys, starts[0], stream.exactly(value_size), starts[1])
        count += rows


def _starts(sizes: bytes) -> Longs:
    found = np.frombuffer(sizes, "<u4")
    starts = np.zeros(len(found) + 1, np.int64)
    np.cumsum(found, out=starts[1:])
    return starts


class _Stream:
    """The output of a child, waited for no longer than `patience` seconds at a time."""

    def __init__(self, process: subprocess.Popen[bytes], pipe: IO[bytes], patience: float) -> None:
        self.process = process
        self.descriptor = pipe.fileno()
        self.patience = patience
        self.selector = DefaultSelector()
        self.selector.register(self.descriptor, EVENT_READ)

    def exactly(self, size: int) -> bytes:
        """The next `size` bytes. Raises _ChildError if they do not come."""
        parts: list[bytes] = []
        missing = size
        while missing:
            if not self.selector.select(self.patience):
                raise _ChildError(f"RocksDB did not answer within {self.patience:g} s")
            part = os.read(self.descriptor, min(missing, PIPE_SIZE))
            if not part:
                status = self.process.wait()
                raise _ChildError(f"RocksDB ended the process that read the database (status {status})")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)


PIPE_PATIENCE = 600.0
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
    words = [os.path.realpath(directory), *families]
    with _process(Path(rowchild.__file__), words, subprocess.PIPE) as (process, output):
        assert process.stdin is not None
        try:
            yield RowPipe(process.stdin, str(directory), families)
            process.wait(PIPE_PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise StoreError("RocksDB does not finish", path=str(directory)) from error
        said = output.read()
        if said != rowchild.OK:
            text = said.decode("utf-8", "replace") or f"status {process.returncode}"
            raise StoreError(f"RocksDB cannot write: {text}", path=str(directory))
