"""JSON files next to stores, read with care.

Baselines: the fingerprints of findings that are known and accepted.

{"schema_version": 1, "fingerprints": ["<16 hex digits>", ...]}      sorted, each once
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta

from rocketfsck.common.documents import (
    DocumentKind,
    from_document,
    json_text,
    printable,
    to_document,
)
from rocketfsck.common.outputs import write_text
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.store.reading import read_document
from rocketfsck.verify.finding import Finding

T = TypeVar("T")


def read_given(path: Path, kind: DocumentKind) -> Any:
    """The JSON in a file that an option of a check names; raises UsageError where `read_document` fails."""
    try:
        return read_document(path, kind)
    except StoreError as error:
        raise UsageError(f"the {kind} cannot be read: {printable(str(error))}") from error


def read_kept(kind: type[T], path: Path, what: DocumentKind) -> T:
    """The dataclass in a file that a check wrote; raises UsageError if it cannot be read or is not `what`."""
    return from_document(kind, read_given(path, what), f"{printable(str(path))} is not a {what}")


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
    write_text(path, json_text(to_document(Baseline(1, tuple(prints))), indent=1) + "\n")
    return len(prints)
