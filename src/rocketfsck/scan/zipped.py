"""The sources of this folder, wherever they lie: a package may be imported from an archive (`--py-files`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent


def sources() -> list[tuple[str, bytes]]:
    """Name and content of every module of this folder, by name."""
    if _FOLDER.is_dir():
        return [(path.name, path.read_bytes()) for path in sorted(_FOLDER.glob("*.py"))]
    entries = _archive().iterdir()
    return sorted((entry.name, entry.read_bytes()) for entry in entries if entry.name.endswith(".py"))


def _archive() -> Any:
    from importlib import resources

    return resources.files(__package__)
