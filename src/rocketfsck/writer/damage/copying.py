"""An independent copy of a store: sparse files stay sparse, times of modification are kept.

Symbolic links are followed, so that nothing in the copy leads back to the source; what is no regular file or
directory is left out. Only data extents are read and written.
"""

from __future__ import annotations

import os
from pathlib import Path

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.store.reading import FileReader
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import place_at

_MAX_DEPTH = 64


def check_apart(source: Path, target: Path) -> None:
    """UsageError unless `target` is a new place outside `source`, and `source` outside it."""
    real_source, real_target = source.resolve(), target.resolve()
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} exists; damage is done to a new copy")
    if real_target.is_relative_to(real_source):
        raise UsageError(f"{target} is inside the store {source}; nothing is written there")
    if not target.parent.is_dir():
        raise UsageError(f"{target.parent} is not a directory")


def copy_store(source: Path, target: Path) -> None:
    """Copy the tree below `source` into the existing directory `target`.

    Raises StoreError where something cannot be read or written, or directory links lead in a circle.
    """
    try:
        _copy_directory(os.fspath(source), os.fspath(target), (), 0)
    except OSError as error:
        raise StoreError(f"cannot be copied: {error.strerror or error}", path=str(source)) from error


def _copy_directory(source: str, target: str, above: tuple[tuple[int, int], ...], depth: int) -> None:
    status = os.stat(source)  # noqa: PTH116 - names may be any bytes, and there are many
    identity = (status.st_dev, status.st_ino)
    if identity in above or depth > _MAX_DEPTH:
        raise StoreError("directory links lead in a circle", path=source)
    with os.scandir(source) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        place = f"{target}/{entry.name}"
        if os.path.isdir(entry.path):  # noqa: PTH112 - False for a link to itself
            fileops.make_directory(place_at(place))
            _copy_directory(entry.path, place, (*above, identity), depth + 1)
        elif os.path.isfile(entry.path):  # noqa: PTH113
            copy_file(entry.path, place)
    fileops.set_times(place_at(target), status.st_atime_ns, status.st_mtime_ns)


def copy_file(source: str, target: str) -> None:
    """Copy one regular file to a new name, with its holes and its time of modification."""
    place = place_at(target)
    with FileReader(source) as reader:
        fileops.copy_content(reader, place, 0o644)
        fileops.set_times(place, reader.mtime_ns, reader.mtime_ns)
