"""The tree that the acts of a repair change: a copy beside the store whose untouched files are hard links."""

from __future__ import annotations

from pathlib import Path


class WorkTree:
    """A directory that reads like the store and takes every change that an act makes."""

    root: Path
