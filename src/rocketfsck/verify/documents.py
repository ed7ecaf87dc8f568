"""JSON files that a check keeps beside stores: read with care, replaced as a whole.

{"schema_version": n, ...}
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from rocketfsck.errors import StoreError, UsageError


def read_document(path: Path, what: str, schema_version: int) -> dict[str, Any]:
    """The object in a file; raises UsageError if it cannot be read or is not `what` of this version."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is not {what}: {error}") from error
    if not isinstance(document, dict) or document.get("schema_version") != schema_version:
        raise UsageError(f"{path}: is not {what} of schema version {schema_version}")
    return document


def write_atomically(path: Path, text: str) -> None:
    """Replace a file by one with `text`, synced: a crash leaves the old or the new. Raises StoreError."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise StoreError(f"cannot be written: {error.strerror}", path=str(path)) from error
