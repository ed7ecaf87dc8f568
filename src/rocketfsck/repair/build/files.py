"""Files in the making: full length, sparse, with the mtime of the last message in them. Reference 1.2.

A broker expires files by their mtime, so it is that of the last storeTimestamp, not of the rebuilding.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rocketfsck.store.reading import FileReader, named_errors
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace, Root, place_at

LAST_TIME = 253_402_300_799_999
"""The end of the year 9999 in ms: later times in a file are not times."""


def write_part(
    path: Path | ConfinedPlace, data: memoryview | bytes, pos: int, file_size: int, timestamp: int | None
) -> None:
    """Write `data` at `pos` of a file, made with `file_size` zero bytes if it is not there yet.

    `timestamp` (ms) becomes the file's mtime. Raises StoreError if it cannot be written.
    """
    with named_errors(path, "cannot be written"):
        mtime_ns = None if timestamp is None else _nanoseconds(timestamp)
        place = path if isinstance(path, ConfinedPlace) else place_at(path)
        fileops.write_part(place, data, pos, file_size, mtime_ns)


def copy_part(source: str, path: Path) -> None:
    """Take a file of the store over as a part that is written on; holes stay holes.

    Raises StoreError if it cannot be read or the part cannot be written.
    """
    with named_errors(path, "cannot be written"):
        place = place_at(path)
        descriptor = fileops.open_part(place)
        try:
            with FileReader(source) as reader:
                fileops.copy_data(reader, descriptor, place)
        finally:
            os.close(descriptor)


def opened(path: Path) -> Root:
    """Lets a directory be written, and made, as a context; those above it are made. Raises StoreError.

    The root is the directory above, in which no other name can be written.
    """
    with named_errors(path, "cannot be made"):
        return fileops.open_directory(path.parent, only=frozenset({path.name}))


def take_owner(built: Path, root: Path, *, all_new: bool = False) -> None:
    """Let all that was built belong to the owner and the group of a store's directory, if we are root.

    Else what is rebuilt by root and moved into the store could not be written by its broker. `all_new`:
    nothing in it is a copy that has an owner of its own. Raises OSError.
    """
    if os.geteuid() != 0 or not root.is_dir():
        return
    status = root.stat()
    if all_new and _is_ours(built, status):
        return
    for folder, _, names in fileops.walk(place_at(built)):
        for place in (folder, *(folder / name for name in names)):
            fileops.set_owner(place, status.st_uid, status.st_gid)


def _is_ours(built: Path, wanted: os.stat_result) -> bool:
    """Whether what this process makes in a directory's place has the owner and the group wanted as it is."""
    ours = (wanted.st_uid, wanted.st_gid) == (os.geteuid(), os.getegid())
    return ours and not built.parent.stat().st_mode & stat.S_ISGID


def set_time(path: Path, timestamp: int) -> None:
    """Give a file the time of a message (ms) as its mtime; what is not a time counts as the nearest one."""
    fileops.set_times(place_at(path), _nanoseconds(timestamp), _nanoseconds(timestamp))


def _nanoseconds(timestamp: int) -> int:
    return min(max(timestamp, 0), LAST_TIME) * 1_000_000


def make_new_directory(place: ConfinedPlace) -> None:
    """`make_directory` for one that is most likely missing, in one that is there: one call to the system."""
    with named_errors(place, "cannot be made"):
        try:
            fileops.make_directory(place)
        except (FileExistsError, FileNotFoundError):
            fileops.make_directories(place)


def make_directory(path: Path) -> None:
    """Make a directory and its parents; StoreError if that cannot be done."""
    with named_errors(path, "cannot be made"):
        fileops.make_directories(place_at(path))
