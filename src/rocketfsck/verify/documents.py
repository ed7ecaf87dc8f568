"""JSON files beside stores, read with care: what is too large is refused before anything of it is parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from rocketfsck.documents import from_document, parse_text, printable
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.store.reading import os_error_text

T = TypeVar("T")
Document = Literal["plan", "report", "journal", "baseline", "state of a check", "state of a build"]


@dataclass(frozen=True, slots=True)
class Limit:
    """What a document of a kind may have: bytes, and JSON values in it, each of which may cost 100 bytes of
    memory however short its text is."""

    byte_count: int
    value_count: int


LIMITS: Mapping[Document, Limit] = {
    "plan": Limit(256 << 20, 8_000_000),
    "report": Limit(256 << 20, 16_000_000),
    "journal": Limit(64 << 20, 4_000_000),
    "baseline": Limit(128 << 20, 2_000_000),
    "state of a check": Limit(512 << 20, 32_000_000),
    "state of a build": Limit(64 << 20, 4_000_000),
}
"""A million findings, or files, fit into each of them."""


def read_document(path: Path | str, kind: Document = "report") -> Any:
    """The JSON in a file. Raises UsageError if there is none in it, StoreError if it cannot be read, or is
    too large for its kind."""
    data = read_bytes(path, kind)
    try:
        return parse_text(data, str(path))
    except MemoryError as error:
        raise StoreError("does not fit into memory", path=str(path)) from error


def read_bytes(path: Path | str, kind: Document) -> bytes:
    """The bytes of a document, be it a file or a pipe. Raises StoreError as `read_document` does."""
    limit = LIMITS[kind]
    try:
        with Path(path).open("rb") as file:
            data = file.read(limit.byte_count + 1)
    except (OSError, ValueError) as error:
        reason = os_error_text(error) if isinstance(error, OSError) else str(error)
        raise StoreError(f"cannot be read: {reason}", path=str(path)) from error
    demand_small(data, kind, str(path))
    return data


def demand_small(data: bytes, kind: Document, name: str) -> None:
    """Raise StoreError where a document has more bytes, or more values, than one of its kind."""
    limit = LIMITS[kind]
    if len(data) > limit.byte_count:
        raise StoreError(f"has more than {limit.byte_count:,} bytes: too large for a {kind}", path=name)
    count = sum(data.count(mark) for mark in (b",", b"[", b"{"))
    if count > limit.value_count:
        raise StoreError(f"may have {count:,} values; a {kind} has at most {limit.value_count:,}", path=name)


def read_kept(kind: type[T], path: Path, what: Document) -> T:
    """The dataclass in a file that a check wrote; raises UsageError if it cannot be read or is not `what`."""
    name = printable(str(path))
    try:
        data = read_bytes(path, what)
    except StoreError as error:
        raise UsageError(str(error)) from error
    return from_document(kind, parse_text(data, str(path)), f"{name} is not a {what}")
