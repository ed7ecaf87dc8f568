"""Where the user's cache is: one rule for compiled kernels, wrappers and intermediate files.

$ROCKETFSCK_CACHE_DIR        this one alone, where it is set
$XDG_CACHE_HOME/rocketfsck   else
~/.cache/rocketfsck          else, where there is a home directory
"""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "ROCKETFSCK_CACHE_DIR"


def cache_directory() -> Path | None:
    """The directory, which need not exist; None where the user has no home directory."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "rocketfsck"
    except RuntimeError:
        return None
