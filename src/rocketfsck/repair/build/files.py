"""Files in the making: full length, sparse, with the mtime of the last message in them. Reference 1.2.

A broker expires files by their mtime, so it is that of the last storeTimestamp, not of the rebuilding.

A directory that appears whole, and whose making can go on after it was killed.

The directory is built in `.NAME.rebuilding` next to its place. Now and then the state of the work is written
there; a process that finds it, with the same inputs and since the same start of the machine, continues from
it. (Files that were written before a kill are in the system's memory; after a power failure nobody knows, so
that the work begins again.) Two processes cannot work on it at once.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rocketfsck.common.documents import LIMITS, parse_text
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.store.reading import FileReader, named_errors, read_whole
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace, Root, enter_root, open_root, place_at
from rocketfsck.writer.disk.publish import sync_tree

STATE_NAME = "rebuild-state.json"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

State = dict[str, Any]


class ResumableDirectory:
    """`path` is where to build; `state` what a run before had saved, None to begin from nothing."""

    def __init__(self, path: Path, inputs: State) -> None:
        self.path = path
        self._inputs = inputs
        self.state: State | None = self._load()
        self.has_saved = self.state is not None
        if self.state is None:
            for name in fileops.list_names(place_at(path)):
                fileops.remove_tree(place_at(path / name))

    def save(self, state: State) -> None:
        """Keep the state of the work for a later run, unless none would read one so long. Raises OSError."""
        document = {"inputs": self._inputs, "boot": boot_id(), "state": state}
        data = json.dumps(document).encode("ascii")
        if len(data) > LIMITS["rebuild state"]:
            return
        part = self.path / f"{STATE_NAME}.part"
        fileops.write_new(place_at(part), data)
        fileops.rename(
            place_at(part), place_at(self.path / STATE_NAME)
        )  # at once: a kill leaves the old state or the new one
        self.has_saved = True

    def forget(self) -> None:
        """The saved state is good no more: a later run begins again. Raises OSError."""
        for name in (STATE_NAME, f"{STATE_NAME}.part"):
            if fileops.exists(place_at(self.path / name)):
                fileops.unlink(place_at(self.path / name))
        self.has_saved = False

    def _load(self) -> State | None:
        """Raises StoreError for what is not a regular file, or too long to be a state: nothing is deleted."""
        path = self.path / STATE_NAME
        if not path.exists():
            return None
        data = read_whole(path, LIMITS["rebuild state"])
        try:
            document = parse_text(data, str(path))
            same = document["inputs"] == json.loads(json.dumps(self._inputs))
            if same and document["boot"] == boot_id() is not None:
                state: State = document["state"]
                return state
        except (UsageError, ValueError, KeyError, TypeError):
            pass  # it was not saved by us
        return None


@contextmanager
def resumable_directory(target: Path, inputs: State, *, sync: bool) -> Iterator[ResumableDirectory]:
    """Yield the directory to build in; it becomes `target` when the block ends without an error.

    `inputs` (JSON values) say what is built of what. With an error it stays if its state was saved, else it
    is deleted. Raises UsageError if `target` exists, StoreError if another process builds it or the system
    refuses something.
    """
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} exists, and rocketfsck does not overwrite it")
    name = f".{target.name[:200]}.rebuilding"
    with named_errors(target, "cannot be made"):
        folder = os.path.realpath(target.parent)
        shelf = open_root(folder, only=frozenset({name, target.name}))
        if not fileops.exists(shelf / name):
            fileops.make_directory(shelf / name)
        with shelf, enter_root(shelf / name) as building:
            _lock(building.descriptor, Path(building))
            work = ResumableDirectory(Path(building), inputs)
            try:
                yield work
                work.forget()
                if sync:
                    sync_tree(building)
                if target.exists():
                    raise UsageError(
                        f"{target} was created by another program during the work; the result is lost"
                    )
                fileops.rename(shelf / name, shelf / target.name)
            except BaseException:
                if not work.has_saved:
                    with suppress(OSError):
                        fileops.remove_tree(shelf / name)
                raise
            if sync:
                fileops.sync(shelf.itself)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StoreError("another process is building here", path=str(path)) from error


def boot_id() -> str | None:
    """What the system calls the time since its start; None where it does not say."""
    try:
        return BOOT_ID.read_text("ascii").strip()
    except OSError:
        return None


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
