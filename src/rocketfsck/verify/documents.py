"""JSON files beside stores, read with care."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from rocketfsck.documents import from_document, parse_text, printable
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.store.reading import read_whole

T = TypeVar("T")
MAX_SIZE = 1 << 28
"""Bytes of a plan, a journal, a report or any other document that is read."""


def read_document(path: Path | str) -> Any:
    """The JSON in a file. Raises UsageError if there is none in it, StoreError if it cannot be read."""
    try:
        return parse_text(read_whole(path, MAX_SIZE), str(path))
    except MemoryError as error:
        raise StoreError("does not fit into memory", path=str(path)) from error


def read_kept(kind: type[T], path: Path, what: str) -> T:
    """The dataclass in a file that a check wrote; raises UsageError if it cannot be read or is not `what`."""
    name = printable(str(path))
    try:
        return from_document(kind, parse_text(path.read_bytes(), str(path)), f"{name} is not {what}")
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from error
