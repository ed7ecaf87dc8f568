"""Files in the making: full length, sparse, with the mtime of the last message in them. Reference 1.2.

A broker expires files by their mtime, so it is that of the last storeTimestamp, not of the rebuilding.

A directory that appears whole, and whose making can go on after it was killed.

The directory is built in `.NAME.rebuilding` next to its place. Now and then the state of the work is written
there; a process that finds it, with the same inputs and since the same start of the machine, continues from
it. (Files that were written before a kill are in the system's memory; after a power failure nobody knows, so
that the work begins again.) Two processes cannot work on it at once.

The checkpoint of verified data: times and offsets as a broker that has flushed everything writes them.

physicMsgTimestamp is the last record's, logicsMsgTimestamp that of the newest record with a unit and
logicsPhysicalOffset where it is, indexMsgTimestamp the end of the last full index file. Fields that the
version does not write stay as they are. Reference 5.1; fault catalogue K1 to K3.

What a rebuilding says of its work.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rocketfsck.common.documents import LIMITS, parse_text
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.checkpoint import CHECKPOINT, CHECKPOINT_SIZE, Checkpoint, decode_checkpoint
from rocketfsck.reader.heads import RecordHead
from rocketfsck.reader.index import readable_headers
from rocketfsck.reader.records import LogReader
from rocketfsck.reader.shortqueues import read_short_queues
from rocketfsck.reader.units import Kind, UnitReader, kinds_of
from rocketfsck.repair.log import LogEnd, read_log_end
from rocketfsck.store.model import ConsumeQueue, Store
from rocketfsck.store.reading import FileReader, named_errors, read_whole
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace, Root, enter_root, open_root, place_at
from rocketfsck.writer.disk.publish import sync_tree


@dataclass(frozen=True, slots=True)
class QueueGap:
    """Queue offsets `start:end` of which the log has no record: pre-blank units are in their places."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class BuiltQueue:
    """One queue as it was rebuilt. Queue offsets are half-open; `unit_count` leaves filling units out.

    `duplicate_count` records had a queue offset that was taken: the dispatcher skips them. `misplaced_count`
    units are not at their record's queue offset: the dispatcher appends a record of queue offset 0 always,
    and one whose offset the log cannot explain where the queue ends.
    """

    topic: str
    queue_id: int
    kind: Literal["file", "batch"]
    start_queue_offset: int
    end_queue_offset: int
    unit_count: int
    file_count: int
    duplicate_count: int = 0
    misplaced_count: int = 0
    gap_count: int = 0
    gaps: tuple[QueueGap, ...] = ()
    ext_unit_count: int = 0


@dataclass(frozen=True, slots=True)
class QueueBuild:
    """All queues that were rebuilt, by topic and queueId.

    `refused_count` records could not get a unit: no file can have their topic as its name, or their queue
    offset in it. `without_bit_maps`: consumequeue_ext was rebuilt, but its filter bit maps cannot be, as they
    depend on what consumers had subscribed to then; a broker without them filters when it delivers.
    `database` is the RocksDB (its path below the root) whose rows the units are, None where they are files.
    """

    queues: tuple[BuiltQueue, ...]
    record_count: int
    unit_count: int
    refused_count: int = 0
    without_bit_maps: bool = False
    notes: tuple[str, ...] = ()
    database: str | None = None


@dataclass(frozen=True, slots=True)
class BuiltIndexFile:
    """One index file as it was rebuilt."""

    name: str
    entry_count: int
    begin_physical_offset: int
    end_physical_offset: int
    begin_timestamp: int
    end_timestamp: int


@dataclass(frozen=True, slots=True)
class IndexBuild:
    """All index files that were rebuilt, in order."""

    files: tuple[BuiltIndexFile, ...]
    record_count: int
    entry_count: int
    notes: tuple[str, ...] = ()


MAX_SIZE = 1 << 20


def build_checkpoint(
    store: Store, end: LogEnd | None = None, *, newest_offset: int | None = None, zero_tail: bool = False
) -> Checkpoint:
    """The checkpoint that fits the store; `end` is the log's end, if it is known. Raises StoreError.

    `newest_offset` is the physical offset of the newest record with a unit, -1 for none; with None the queues
    are read for it. With `zero_tail` all after the fields of the store's version is damage, even a newer
    version's field. In a file of another length a field tells no version: only what fits the log stays.
    """
    before = read_checkpoint(store)
    known = store.dialect.checkpoint_fields
    is_whole = store.checkpoint is not None and store.checkpoint.size == CHECKPOINT_SIZE
    end = read_log_end(store) if end is None else end
    flushed, confirmed = before.master_flushed_offset, before.confirm_physical_offset
    log_end = end.end_offset if end is not None else 0
    if not 0 <= flushed <= log_end and ("masterFlushedOffset" in known or not is_whole):
        flushed = 0
    if ("confirmPhyOffset" in known or not is_whole) and not _is_zero_or_record(store, confirmed):
        confirmed = end.record_offset if end is not None and "confirmPhyOffset" in known else 0
    if newest_offset is None:
        logics = last_in_queues(store, end)
    else:
        logics = _head_at(store, newest_offset)
    logics_offset = 0 if zero_tail else before.logics_physical_offset
    if not is_whole and not _is_zero_or_record(store, logics_offset):
        logics_offset = 0
    if "logicsPhysicalOffset" in known:
        logics_offset = logics.physical_offset if logics is not None else 0
    return Checkpoint(
        end.store_timestamp if end is not None else 0,
        logics.store_timestamp if logics is not None else 0,
        index_timestamp(store),
        flushed,
        confirmed,
        logics_offset,
    )


def _is_zero_or_record(store: Store, offset: int) -> bool:
    """Whether an offset can stay: 0, as a broker that never recovered has it, or the start of a record."""
    with LogReader(store.commitlog) as log:
        return offset == 0 or log.head(offset) is not None


def read_checkpoint(store: Store) -> Checkpoint:
    """What the checkpoint says now; zeros where there is none, or less of it. Raises StoreError."""
    if store.checkpoint is None:
        return Checkpoint()
    data = read_whole(store.checkpoint.path, MAX_SIZE) if store.checkpoint.size <= MAX_SIZE else b""
    return decode_checkpoint(data[: CHECKPOINT.size].ljust(CHECKPOINT.size, b"\0"))


def last_in_queues(store: Store, end: LogEnd | None) -> RecordHead | None:
    """The newest live record that a unit points to; None without any. Raises StoreError."""
    if end is None:
        return None
    queues = [queue for queue in store.queues if queue.files]
    newest, known = _last_in_short_queues(queues, end.end_offset)
    for number, queue in enumerate(queues):
        if number in known:
            continue
        with UnitReader(queue) as reader:
            last = reader.find_offset(end.end_offset) - 1
            if last < reader.first_index:
                continue
            unit = reader.units(last, 1)
            if int(kinds_of(unit)[0]) == Kind.UNIT:
                newest = max(newest, int(unit["offset"][0]))
    return _head_at(store, newest)


def _head_at(store: Store, offset: int) -> RecordHead | None:
    """The record at a physical offset; None for -1. Raises StoreError."""
    with LogReader(store.commitlog) as log:
        return log.head(offset) if offset >= 0 else None


def _last_in_short_queues(queues: Sequence[ConsumeQueue], end_offset: int) -> tuple[int, set[int]]:
    """The highest physical offset in the sound short queues that end in front of one, and which these are."""
    numbers = [
        number for number, queue in enumerate(queues) if queue.kind == "file" and len(queue.files) == 1
    ]
    files = [queues[number].files[0] for number in numbers]
    short = read_short_queues([file.location for file in files], [file.size for file in files])
    inside = short.last_offset < end_offset
    newest = int(short.last_offset[inside].max(initial=-1))
    return newest, {numbers[place] for place in short.place[inside].tolist()}


def index_timestamp(store: Store) -> int:
    """The endTimestamp of the last full index file: all but the last are; 0 without any."""
    headers = readable_headers(store.indexes)
    return headers[-2][1].end_timestamp if len(headers) > 1 else 0


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
