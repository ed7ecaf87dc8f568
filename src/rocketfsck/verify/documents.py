"""JSON files next to stores, read with care."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from rocketfsck.common.documents import LIMITS, DocumentKind, from_document, parse_text, printable
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.store.reading import read_whole

T = TypeVar("T")


def read_document(path: Path | str, kind: DocumentKind) -> Any:
    """The JSON in a regular file. Raises UsageError if there is none in it, StoreError if it cannot be read
    or is longer than `LIMITS` allow."""
    try:
        return parse_text(read_whole(path, LIMITS[kind]), str(path))
    except MemoryError as error:
        raise StoreError("does not fit into memory", path=str(path)) from error


def read_given(path: Path, kind: DocumentKind) -> Any:
    """The JSON in a file that an option of a check names; raises UsageError where `read_document` fails."""
    try:
        return read_document(path, kind)
    except StoreError as error:
        raise UsageError(f"the {kind} cannot be read: {printable(str(error))}") from error


def read_kept(kind: type[T], path: Path, what: DocumentKind) -> T:
    """The dataclass in a file that a check wrote; raises UsageError if it cannot be read or is not `what`."""
    return from_document(kind, read_given(path, what), f"{printable(str(path))} is not a {what}")
