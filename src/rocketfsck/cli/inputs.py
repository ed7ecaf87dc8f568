"""What a command reads like a file and is not one: standard input (`-`), pipes, `<(…)`.

Documents, files of a store and images are read at any place, so that what comes from a pipe is kept in a file
first, where intermediate files go (`store.scratch`); the file is deleted when the command ends.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from rocketfsck.common.outputs import STDIN
from rocketfsck.errors import StoreError

PIECE_SIZE = 1 << 20


def as_file(path: Path, context: click.Context | None) -> Path:
    """The path, or that of a file with all that comes out of the pipe there. Raises StoreError."""
    try:
        if not stat.S_ISFIFO(path.stat().st_mode) or context is None or context.resilient_parsing:
            return path
    except OSError:
        return path  # whoever opens it says what is wrong
    from rocketfsck.store.scratch import scratch_parent

    folder = TemporaryDirectory(prefix="rocketfsck-", dir=scratch_parent())
    context.call_on_close(folder.cleanup)
    kept = Path(folder.name) / ("stdin" if path == STDIN else path.name)
    try:
        with path.open("rb", buffering=0) as source, kept.open("xb", buffering=0) as target:
            shutil.copyfileobj(source, target, PIECE_SIZE)
    except OSError as error:
        text = f"cannot be read into {folder.name}: {error.strerror}"
        raise StoreError(text, path=os.fspath(path)) from error
    return kept
