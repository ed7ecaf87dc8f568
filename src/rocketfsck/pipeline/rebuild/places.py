"""Where tasks write: each attempt in a directory of its own, and what is whole appears by one rename.

So a task may run twice at once, or again after its worker died: both write the same, one of them counts.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rocketfsck.errors import StoreError
from rocketfsck.store.reading import named_errors, os_error_text
from rocketfsck.writer.disk.confined import open_root

Take = Callable[[Path, Path], Path]
"""Gives a file, or a directory of files, another name: `publish`, which moves it, or `linked`."""

REMOVALS = 5
"""Attempts at removing a directory that a task which nobody waits for may still write to."""


@contextmanager
def attempt_directory(parts: str, name: str) -> Iterator[Path]:
    """Yield a new directory in `parts`, gone at the end. Raises StoreError."""
    path = Path(parts) / f"{name}.{secrets.token_hex(8)}"
    with named_errors(path, "cannot be made"):
        path.mkdir()
        root = open_root(path)
    try:
        yield path
    finally:
        root.close()
        shutil.rmtree(path, ignore_errors=True)


def remove_tree(path: Path) -> None:
    """Remove a directory with all that is in it. Raises OSError."""
    for _ in range(REMOVALS - 1):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
    shutil.rmtree(path)


def publish(source: Path, target: Path) -> Path:
    """Give a file or directory its name; a directory that is there already is as good. Raises StoreError."""
    try:
        if not (source.is_dir() and target.is_dir()):
            source.rename(target)
    except OSError as error:
        if not target.is_dir():
            raise StoreError(f"cannot be named: {os_error_text(error)}", path=str(target)) from error
    return target


def linked(source: Path, target: Path) -> Path:
    """Give a file, or the files of a directory, a second name. Raises StoreError."""
    with named_errors(target, "cannot be named"):
        if not source.is_dir():
            _link(source, target)
            return target
        target.mkdir()
        for file in source.iterdir():
            _link(file, target / file.name)
    return target


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links, or with too many to this file
        shutil.copy2(source, target)
