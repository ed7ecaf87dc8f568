"""The state file of a check that can be interrupted: the results of the tasks that finished.

    {"schema_version": 3, "identity": "<64 hex digits>", "digest": "<64 hex digits>",
     "tasks": {"<key>": {"stamp": "<64 hex digits>", "result": ...}}}

`identity` stands for the store (its real path, geometry, dialect) and for what the results depend on (level,
findings kept a rule); `stamp` for the length and modification time of every file that the task reads. A
finished task is skipped only while both are the same. `digest` is that of the tasks: a file that somebody
changed is refused. Results are in the form of `to_json`.

JSON files next to stores, read with care.

Baselines: the fingerprints of findings that are known and accepted.

{"schema_version": 1, "fingerprints": ["<16 hex digits>", ...]}      sorted, each once
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np
from msgspec import Meta

from rocketfsck.common import documents
from rocketfsck.common.outputs import write_text
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.store.model import Store, StoreFile
from rocketfsck.store.reading import read_document
from rocketfsck.verify.finding import Finding, Level
from rocketfsck.verify.tasks.task import TaskResult

T = TypeVar("T")


def read_given(path: Path, kind: documents.DocumentKind) -> Any:
    """The JSON in a file that an option of a check names; raises UsageError where `read_document` fails."""
    try:
        return read_document(path, kind)
    except StoreError as error:
        raise UsageError(f"the {kind} cannot be read: {documents.printable(str(error))}") from error


def read_kept(kind: type[T], path: Path, what: documents.DocumentKind) -> T:
    """The dataclass in a file that a check wrote; raises UsageError if it cannot be read or is not `what`."""
    return documents.from_document(
        kind, read_given(path, what), f"{documents.printable(str(path))} is not a {what}"
    )


@dataclass(frozen=True, slots=True)
class Baseline:
    """The fingerprints of findings that are not shown."""

    schema_version: Literal[1]
    fingerprints: tuple[Annotated[str, Meta(pattern="^[0-9a-f]{16}$", max_length=16)], ...]


def read_baseline(path: Path) -> frozenset[str]:
    """The fingerprints in a file; raises UsageError if it cannot be read or is not a baseline."""
    return frozenset(read_kept(Baseline, path, "baseline").fingerprints)


def write_baseline(path: Path, findings: Iterable[Finding]) -> int:
    """Write the fingerprints of findings, whole or not at all; returns how many. Raises StoreError."""
    prints = sorted({finding.fingerprint for finding in findings})
    write_text(path, documents.json_text(documents.to_document(Baseline(1, tuple(prints))), indent=1) + "\n")
    return len(prints)


SAVE_INTERVAL = 10.0
"""Seconds between two writes of the state file while tasks end."""


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task that is done: the stamp of the files that it read, and its result in the form of `to_json`."""

    stamp: str
    result: Any


@dataclass(frozen=True, slots=True)
class CheckState:
    """All that the file says."""

    schema_version: Literal[3]
    identity: str
    digest: str = ""
    tasks: Mapping[str, TaskState] = field(default_factory=dict)


def identity_of(store: Store, level: Level, detail_limit: int) -> str:
    """Hex digest of the store and of the options that change a task's result."""
    geometry = store.geometry
    sizes = [
        getattr(geometry, name)
        for name in type(geometry).__slots__
        if isinstance(getattr(geometry, name), int)
    ]
    parts = [str(store.root.resolve()), sizes, str(store.dialect), store.delay_levels, level, detail_limit]
    return hashlib.sha256(json.dumps(parts).encode("utf-8")).hexdigest()


def stamp_of(files: Iterable[StoreFile], also: str = "") -> str:
    """Hex digest of the names, lengths and modification times of files, and of another stamp."""
    digest = hashlib.sha256(also.encode("ascii"))
    for file in files:
        line = f"{file.relative}\0{file.size}\0{file.mtime_ns}\n"
        digest.update(line.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


class ResumeState:
    """Finished tasks, in memory and in a file. Without a path it remembers nothing."""

    def __init__(self, path: Path | None, identity: str) -> None:
        """Reads the file if it is there; raises UsageError if it belongs to another store or other options,
        or cannot be read."""
        self._path = path
        self._identity = identity
        self._tasks: dict[str, TaskState] = {}
        self._saved = time.monotonic()
        if path is not None and path.exists():
            self._tasks = _read(path, identity)

    def result(self, key: str, stamp: str) -> Any:
        """What a task found when its files were as they are now, in the form of `to_json`; None where it has
        to be run."""
        entry = self._tasks.get(key)
        return None if entry is None or entry.stamp != stamp else entry.result

    def add(self, key: str, stamp: str, result: TaskResult) -> None:
        """Remember a finished task; writes the file now and then. Raises StoreError if it cannot."""
        if self._path is None:
            return
        self._tasks[key] = TaskState(stamp, to_json(result))
        if time.monotonic() - self._saved >= SAVE_INTERVAL:
            self.save()

    def save(self) -> None:
        """Write the file, whole or not at all. Raises StoreError."""
        if self._path is None:
            return
        state = CheckState(3, self._identity, _digest_of(self._tasks), self._tasks)
        write_text(self._path, _json_of(state))
        self._saved = time.monotonic()


def _read(path: Path, identity: str) -> dict[str, TaskState]:
    name = documents.printable(str(path))
    try:
        state: CheckState = documents.convert(CheckState, read_given(path, "check state"))
    except ValueError as error:
        raise UsageError(f"{name}: is not the state of a check: {documents.printable(str(error))}") from error
    if state.identity != identity:
        raise UsageError(f"{name}: belongs to another store or to a check with other options")
    if state.digest != _digest_of(state.tasks):
        raise UsageError(f"{name}: has changed since a check wrote the file")
    return dict(state.tasks)


def _digest_of(tasks: Mapping[str, TaskState]) -> str:
    return hashlib.sha256(_json_of(tasks).encode("utf-8")).hexdigest()


def _json_of(value: Any) -> str:
    return json.dumps(value, default=lambda item: {name: getattr(item, name) for name in item.__slots__})


# Results of tasks <-> JSON, exactly: for the files in which an interrupted check keeps what it has done.
#
# The types of a result say what is what; an array is [dtype, shape, base64]. `common.documents` is not
# used here: it knows no arrays, and its forms of text that is not UTF-8 are for readers outside of this
# package.

_ARRAY_KINDS = "biuf"
R = TypeVar("R", bound=TaskResult)


def to_json(result: TaskResult) -> Any:
    """The JSON form of a result; raises TypeError for one that has none."""
    return msgspec.to_builtins(result, enc_hook=_array_to_json)


def from_json(kind: type[R], value: Any) -> R:
    """The result of a JSON form; raises UsageError where `to_json` cannot have made it of such a result."""
    try:
        return msgspec.convert(value, kind, dec_hook=_array_from_json)
    except msgspec.ValidationError as error:
        raise UsageError(f"not a result of a check: {error}") from error


def _array_to_json(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray) or value.dtype.kind not in _ARRAY_KINDS:
        raise TypeError(f"{type(value).__name__} has no JSON form")
    data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode("ascii")
    return [value.dtype.str, list(value.shape), data]


def _array_from_json(_kind: type, value: Any) -> Any:
    try:
        name, shape, data = msgspec.convert(value, tuple[str, tuple[int, ...], bytes])
        dtype = np.dtype(name)
        if dtype.kind not in _ARRAY_KINDS:
            raise ValueError(f"arrays of {dtype} have no JSON form")
        return np.frombuffer(data, dtype).reshape(shape).copy()
    except (TypeError, SyntaxError, OverflowError) as error:
        raise ValueError(f"not an array: {error}") from error
