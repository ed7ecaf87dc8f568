"""Baselines: the fingerprints of findings that are known and accepted.

{"schema_version": 1, "fingerprints": ["<16 hex digits>", ...]}      sorted, each once
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from rocketfsck.errors import UsageError
from rocketfsck.verify.documents import read_document, write_atomically
from rocketfsck.verify.finding import Finding

SCHEMA_VERSION = 1
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


def read_baseline(path: Path) -> frozenset[str]:
    """The fingerprints in a file; raises UsageError if it cannot be read or is not a baseline."""
    prints = read_document(path, "a baseline", SCHEMA_VERSION).get("fingerprints")
    if not isinstance(prints, list) or not all(
        isinstance(item, str) and _FINGERPRINT.fullmatch(item) for item in prints
    ):
        raise UsageError(f"{path}: has fingerprints that are not 16 hex digits")
    return frozenset(prints)


def write_baseline(path: Path, findings: Iterable[Finding]) -> int:
    """Write the fingerprints of findings, whole or not at all; returns how many. Raises StoreError."""
    prints = sorted({finding.fingerprint for finding in findings})
    document = {"schema_version": SCHEMA_VERSION, "fingerprints": prints}
    write_atomically(path, json.dumps(document, indent=1) + "\n")
    return len(prints)
