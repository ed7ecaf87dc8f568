"""Where intermediate files go, and how much room is there: what they hold is somebody's data, not for all.

TMPDIR, if it is set                        whoever set it chose
`scratch` in the user's cache               else, where it can be written (`common.outputs`)
the system's directory for temporary files  where there is no other; ours in it are the user's alone
"""

from __future__ import annotations

import os

from rocketfsck.common.outputs import cache_directory


def scratch_parent() -> str | None:
    """The directory in which directories for intermediate files are made; None for the system's own."""
    chosen = os.environ.get("TMPDIR")
    if chosen:
        return chosen
    cache = cache_directory()
    if cache is None:
        return None
    scratch = cache / "scratch"
    try:
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return str(scratch) if os.access(scratch, os.W_OK | os.X_OK) else None


def free_size(path: str | os.PathLike[str]) -> int:
    """Bytes that may still be written to the file system of a path. Raises OSError."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize
