"""Baselines: the fingerprints of findings that are known and accepted.

{"schema_version": 1, "fingerprints": ["<16 hex digits>", ...]}      sorted, each once
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from rocketfsck.common.documents import json_text, to_document
from rocketfsck.common.outputs import write_text
from rocketfsck.verify.documents import read_kept
from rocketfsck.verify.finding import Finding


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
