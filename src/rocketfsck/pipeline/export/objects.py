"""Objects below a URL: what an export puts into an object store, reads back, lists and deletes, by fsspec.

An object appears with all its bytes or not at all, and nothing is renamed. Object stores have no directories:
a name here is the part of the URL below the root, and a directory is what names begin with.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rocketfsck.store.places.remote import mtime_ns
from rocketfsck.store.places.urls import ask, file_system, options_for
from rocketfsck.store.scratch import scratch_parent

WORK = "_work"
"""Where the workers write what the driver then takes, or what is merged."""


WRITING, READING, LISTING, DELETING = (
    f"cannot be {what}" for what in ("written", "read", "listed", "deleted")
)
_NO_FOLDERS = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "memory"})
"""File systems that need no directory for an object."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects below the URL `root`. All methods raise StoreError where the store does not do it."""

    root: Path

    def below(self, name: str) -> Objects:
        """Those below a directory."""
        return Objects(self.root / name)

    def put(self, name: str, data: bytes) -> None:
        """Make or replace an object."""
        self._write(name, lambda system, path: system.pipe_file(path, data))

    def put_new(self, name: str, data: bytes) -> bool:
        """Make an object; False if there is one already. At once (a conditional put) where the store can."""

        def new(system: Any, path: str) -> bool:
            if system.exists(path):
                return False
            try:
                system.pipe_file(path, data, mode="create")
            except FileExistsError:
                return False
            return True

        return self._write(name, new)

    def put_file(self, name: str, local: Path) -> None:
        """Make or replace an object with the bytes of a file of this machine."""
        self._write(name, lambda system, path: system.put_file(str(local), path))

    def copy(self, source: str, target: str) -> None:
        """Copy an object without reading it here, where the store can."""
        _, path = self._at(source)
        self._write(target, lambda system, to: system.cp_file(path, to))

    def get(self, name: str) -> bytes | None:
        """The bytes of an object; None if there is no such object."""

        def whole(system: Any, path: str) -> bytes | None:
            try:
                found: bytes = system.cat_file(path)
            except FileNotFoundError:
                return None
            return found

        return self._ask(name, READING, whole)

    def exists(self, name: str) -> bool:
        """Whether there is an object of this name."""
        return bool(self._ask(name, READING, lambda system, path: system.isfile(path)))

    def top_names(self) -> list[str]:
        """The first parts of all names, in order."""

        def listed(system: Any, path: str) -> list[str]:
            with suppress(FileNotFoundError):
                names = system.ls(path, detail=False)
                return sorted(str(name).rstrip("/").rpartition("/")[2] for name in names)
            return []

        return self._ask("", LISTING, listed)

    def last_change(self, name: str) -> float:
        """When the newest object of a directory, or the object, was written: seconds by the store's clock."""

        def newest(system: Any, path: str) -> float:
            return max(map(mtime_ns, system.find(path, detail=True).values()), default=0) / 1e9

        return self._ask(name, READING, newest)

    def delete(self, name: str) -> None:
        """Delete an object, or all objects of a directory; nothing if there is none."""

        def gone(system: Any, path: str) -> None:
            with suppress(FileNotFoundError):
                system.rm(path, recursive=True)

        self._ask(name, DELETING, gone)

    def keep_only(self, names: Container[str]) -> None:
        """Delete all objects but those."""

        def listed(system: Any, path: str) -> list[str]:
            with suppress(FileNotFoundError):
                return [str(found).removeprefix(path.rstrip("/") + "/") for found in system.find(path)]
            return []

        for name in self._ask("", LISTING, listed):
            if name not in names:
                self.delete(name)

    def _at(self, name: str) -> tuple[Any, str]:
        return file_system(self.url(name))

    def url(self, name: str) -> str:
        """The URL of an object."""
        root = os.fspath(self.root)
        return f"{root}/{name}" if name else root

    def _ask(self, name: str, what: str, question: Callable[[Any, str], Answer]) -> Answer:
        system, path = self._at(name)
        return ask(lambda: question(system, path), self.url(name), what, options_for(self.url(name)))

    def _write(self, name: str, write: Callable[[Any, str], Answer]) -> Answer:
        def written(system: Any, path: str) -> Answer:
            if self.url("").partition("://")[0] not in _NO_FOLDERS:
                system.makedirs(path.rpartition("/")[0], exist_ok=True)
            return write(system, path)

        return self._ask(name, WRITING, written)


def local_part() -> Path:
    """A new file of this machine, to be written and then put. Raises OSError."""
    descriptor, name = tempfile.mkstemp(".parquet", "rocketfsck-export-", scratch_parent())
    os.close(descriptor)
    return Path(name)


def held(path: str) -> str:
    """Where a file waits that is to be merged with others; readers leave out such names."""
    return f"{WORK}/{path}"


def final(path: str) -> str:
    """Where such a file stays if it is merged with none."""
    return path.removeprefix(f"{WORK}/")
