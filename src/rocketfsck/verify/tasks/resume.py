"""The state file of a check that can be interrupted: the results of the tasks that finished.

    {"schema_version": 2, "identity": "<64 hex digits>", "digest": "<64 hex digits>",
     "tasks": {"<key>": {"stamp": "<64 hex digits>", "result": ...}}}

`identity` stands for the store (its real path, geometry, dialect) and for what the results depend on (level,
findings kept a rule); `stamp` for the length and modification time of every file that the task reads. A
finished task is skipped only while both are the same. `digest` is that of the tasks: a file that somebody
changed is refused. Results are in the form of `verify.tasks.jsonform`.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rocketfsck.errors import UsageError
from rocketfsck.store.model import Store, StoreFile
from rocketfsck.verify.documents import read_document, write_atomically
from rocketfsck.verify.rules.rule import Level
from rocketfsck.verify.tasks.jsonform import from_json, to_json
from rocketfsck.verify.tasks.task import TaskResult

SCHEMA_VERSION = 2
SAVE_INTERVAL = 10.0
"""Seconds between two writes of the state file while tasks end."""


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
        """Reads the file if it is there; raises UsageError if it is of another store or other options."""
        self._path = path
        self._identity = identity
        self._tasks: dict[str, dict[str, Any]] = {}
        self._saved = time.monotonic()
        if path is not None and path.exists():
            self._tasks = _read(path, identity)

    def result(self, key: str, stamp: str) -> TaskResult | None:
        """What a task found when its files were as they are now; None where it has to be run."""
        entry = self._tasks.get(key)
        if entry is None or entry["stamp"] != stamp:
            return None
        result = from_json(entry["result"])
        if not isinstance(result, TaskResult):
            raise UsageError(f"{self._path}: holds something else than a result for {key}")
        return result

    def add(self, key: str, stamp: str, result: TaskResult) -> None:
        """Remember a finished task; writes the file now and then. Raises StoreError if it cannot."""
        if self._path is None:
            return
        self._tasks[key] = {"stamp": stamp, "result": to_json(result)}
        if time.monotonic() - self._saved >= SAVE_INTERVAL:
            self.save()

    def save(self) -> None:
        """Write the file, whole or not at all. Raises StoreError."""
        if self._path is None:
            return
        document = {
            "schema_version": SCHEMA_VERSION,
            "identity": self._identity,
            "digest": _digest_of(self._tasks),
            "tasks": self._tasks,
        }
        write_atomically(self._path, json.dumps(document))
        self._saved = time.monotonic()


def _read(path: Path, identity: str) -> dict[str, dict[str, Any]]:
    document = read_document(path, "the state of a check", SCHEMA_VERSION)
    if document.get("identity") != identity:
        raise UsageError(f"{path}: belongs to another store or to a check with other options")
    tasks = document.get("tasks")
    if not isinstance(tasks, dict) or not all(
        isinstance(entry, dict) and entry.keys() == {"stamp", "result"} for entry in tasks.values()
    ):
        raise UsageError(f"{path}: has tasks that are not as a check writes them")
    if document.get("digest") != _digest_of(tasks):
        raise UsageError(f"{path}: was changed since a check wrote it")
    return tasks


def _digest_of(tasks: dict[str, dict[str, Any]]) -> str:
    return hashlib.sha256(json.dumps(tasks).encode("utf-8")).hexdigest()
