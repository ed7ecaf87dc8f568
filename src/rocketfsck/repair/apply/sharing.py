"""Which files the repaired store may share with the kept one: those that no broker writes to.

    commit log      full files in front of everywhere that a start may cut, without the last two
    consume queues  full files in front of the first unit that a start may append, without the last three
    RocksDB         its tables and blobs, which are written once

All else is copied: index files (a broker writes the headers of all of them when it stops), checkpoint,
abort, config, timers, databases, DLedger's files, and what this version does not know. Starts are predicted
for every version that the store may have, after an orderly stop and after a kill. Reference 3.3, 4.4, 6.

What a repair in place must do: the store and the repaired tree, compared directory by directory.

Every file that differs is replaced as a whole. Nothing outside of the directories that the user named is ever
among the changes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rocketfsck.common.documents import printable
from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.consumequeue import UNIT_SIZE
from rocketfsck.progress import phase
from rocketfsck.query.start.model import QueueStart, Start
from rocketfsck.query.start.verdict import predict_each, start_classes, versions_of
from rocketfsck.repair.apply.publish import own, settle, settling_size
from rocketfsck.repair.area.journal import Area, Directory, StagedChange
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.model import ConsumeQueue, MappedFile, Store, StoreFile
from rocketfsck.store.reading import FileReader, first_unequal
from rocketfsck.store.scratch import free_size
from rocketfsck.verify.report import Report
from rocketfsck.verify.tasks.facts import RegionTotal
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace, Root


class Differences:
    """What must be done in place: filled by going through the store and the tree side by side."""

    def __init__(self, area: Area, bases: Sequence[Root]) -> None:
        self._area = area
        self._bases = bases
        self.changes: list[StagedChange] = []
        self.made: list[Directory] = []
        self.removed: list[Directory] = []
        self._touched: dict[tuple[int, str], Directory] = {}

    @property
    def touched(self) -> tuple[Directory, ...]:
        """Directories that are there before and after, whose entries change."""
        inner = {(directory.base, directory.path) for directory in (*self.made, *self.removed)}
        return tuple(found for key, found in sorted(self._touched.items()) if key not in inner)

    def compare(self, store: str, tree: str) -> None:
        """Find what differs between a directory of the store and its image. StoreError or OSError.

        Raises UsageError where a change would be in a directory that the user has not named.
        """
        here, there = _entries(store), _entries(tree)
        if store == self._area.store:
            here, there = here - {"lock"}, there - {"lock"}
        for name in sorted({*here, *there}):
            left, right = f"{store}/{name}", f"{tree}/{name}"
            if name not in there:
                self._gone(left)
            elif name not in here:
                self._new(left, right)
            elif _is_directory(right):
                if os.path.isdir(left):  # noqa: PTH112 - a link to one elsewhere is gone into
                    self.compare(os.path.realpath(left), right)
                else:
                    self._gone(left)
                    self._new(left, right)
            elif _is_directory(left):
                self._gone(left)
                self._new(left, right)
            elif not _same(left, right):
                regular = stat.S_ISREG(os.lstat(right).st_mode) and os.path.isfile(left)  # noqa: PTH113
                self._replace(os.path.realpath(left) if regular else left, right)

    def _where(self, path: str) -> tuple[int, str]:
        """The directory that a path is relative to, by its number, and the rest of the path."""
        holding = [number for number, base in enumerate(self._bases) if base.holds(path)]
        if not holding:
            above = os.path.dirname(path)  # noqa: PTH120
            raise UsageError(
                f"{printable(path)} is outside the store, and the repair would change "
                f"it; to allow this, add --outside {printable(above)}"
            )
        number = max(holding, key=lambda number: len(self._bases[number].path))
        return number, self._bases[number].place_of(path).name

    def _gone(self, path: str) -> None:
        self._touch(path)
        if not _is_directory(path):
            self.changes.append(StagedChange(*self._where(path), None, self._saved()))
            return
        for name in sorted(_entries(path)):
            self._gone(f"{path}/{name}")
        self.removed.append(self._directory(path))

    def _new(self, path: str, image: str) -> None:
        self._touch(path)
        if not _is_directory(image):
            self.changes.append(StagedChange(*self._where(path), self._staged(image), None))
            return
        mode = stat.S_IMODE(os.lstat(image).st_mode)
        self.made.append(Directory(*self._where(path), mode, 0, 0))
        for name in sorted(_entries(image)):
            self._new(f"{path}/{name}", f"{image}/{name}")

    def _replace(self, path: str, image: str) -> None:
        self._touch(path)
        self.changes.append(StagedChange(*self._where(path), self._staged(image), self._saved()))

    def _saved(self) -> str:
        return f"before/{len(self.changes)}"

    def _staged(self, image: str) -> str:
        """The image's name in the area; it is made our own if it is only lent from the store."""
        status = os.lstat(image)
        lent = stat.S_ISLNK(status.st_mode) and os.path.isfile(image)  # noqa: PTH113
        place = self._area.root.place_of(image)
        if lent or (stat.S_ISREG(status.st_mode) and status.st_nlink > 1):
            own(place)
        return place.name

    def _touch(self, path: str) -> None:
        above = os.path.dirname(path)  # noqa: PTH120
        if os.path.isdir(above) and self._where(above) not in self._touched:  # noqa: PTH112
            self._touched[self._where(above)] = self._directory(above)

    def _directory(self, path: str) -> Directory:
        status = os.stat(path)  # noqa: PTH116
        return Directory(*self._where(path), status.st_mode & 0o7777, status.st_atime_ns, status.st_mtime_ns)


def _entries(path: str) -> set[str]:
    return set(os.listdir(path))  # noqa: PTH208


def _is_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH112, PTH114


def _same(left: str, right: str) -> bool:
    """Whether a store's file and its image are the same: one file, or equal in bytes and time."""
    mine, other = os.lstat(left), os.lstat(right)
    if stat.S_ISLNK(other.st_mode):
        if stat.S_ISLNK(mine.st_mode) and os.readlink(left) == os.readlink(right):  # noqa: PTH115
            return True
        return os.path.isfile(right) and os.path.realpath(left) == os.path.realpath(right)  # noqa: PTH113
    if os.path.samestat(mine, other):
        return True
    if not stat.S_ISREG(other.st_mode) or not os.path.isfile(left):  # noqa: PTH113
        return False
    mine = os.stat(left)  # noqa: PTH116
    if os.path.samestat(mine, other):
        return True
    if (mine.st_size, mine.st_mtime_ns) != (other.st_size, other.st_mtime_ns):
        return False
    with FileReader(left) as one, FileReader(right) as two:
        return first_unequal(one, two) is None


IMMUTABLE = (".sst", ".blob")
"""How the names of files end that RocksDB writes once and then only deletes."""
_LOG_ACTIVE_COUNT = 2
"""The last files of a log that a broker continues to write: the one with the end, and one made in advance."""
_QUEUE_ACTIVE_COUNT = 3
"""As many files at a queue's end are recovered by a start, which may end the queue in each of them."""
_SOUND = frozenset({"records", "filler", "blank"})
_SPARE_SIZE = 1 << 20
_FAR = 1 << 62
SAID_SIZE = 64 << 20
"""Copies of this size are said before a repair asks whether it may begin."""


def part_from_kept(
    area: Area, tree: ConfinedPlace, after: Store, report: Report | None = None, conf: Settings | None = None
) -> None:
    """Copy all files of a repaired store, the `tree` of an area, that a broker may write to.

    `after` is the store there; others as `shared_files` takes them. Raises StoreError where there is no room,
    or something cannot be read or written; OSError.
    """
    with phase("finding what a broker may write to"):
        shared = shared_files(after, report, conf)
        size = settling_size(tree, shared)
    if not fileops.has_reflinks(area.root.itself):
        demand_room(area, size)
    with phase(f"copying what a broker may write to, {count_of(size, 'byte')}"):
        settle(tree, shared)


def copied_size(store: Store) -> int:
    """About how many bytes a repair copies so that the kept store is whole: those of all files that a broker
    may write to once the log is sound. Reflinks need none of them."""
    shared = _closed_files(store) | _immutable_files(store)
    return sum(file.data_size for file in store.all_files() if file.relative not in shared)


def _closed_files(store: Store) -> set[str]:
    """The files that may be shared wherever a start cuts nothing and appends only at the end."""
    shared = {file.relative for file in _log_files(store, _FAR)}
    for queue in store.queues:
        shared.update(file.relative for file in _queue_files(queue, _FAR))
    return shared


def _immutable_files(store: Store) -> set[str]:
    return {file.relative for file in store.all_files() if file.relative.endswith(IMMUTABLE)}


def demand_room(area: Area, size: int) -> None:
    """Raises StoreError if this many bytes do not fit next to the store, and where the area is."""
    needed = size + _SPARE_SIZE
    for place in (os.path.dirname(area.path), area.store):  # noqa: PTH120 - they may be two file systems
        free = free_size(place)
        if free < needed:
            raise StoreError(
                f"the repair needs {count_of(needed, 'byte')}, and {free:,} are free", path=place
            )


def shared_files(store: Store, report: Report | None = None, conf: Settings | None = None) -> frozenset[str]:
    """The files, by their names below the root, that no start of `store`, nor a broker's work after it,
    writes to.

    `report` is that of a check of the store, `conf` the settings of its broker. Where a start cannot be
    predicted, or is refused, only what lies in front of the first place that is not sound is shared.
    Raises StoreError where a file cannot be read.
    """
    names = _immutable_files(store)
    if not _closed_files(store):
        return frozenset(names)
    starts = list(_starts(store, conf))
    known = [start for start in starts if start is not None and start.loads]
    cuts = [start.cut_offset for start in known if start.cut_offset is not None]
    if len(known) < len(starts) or len(cuts) < len(known):
        cuts.append(sound_end(store.commitlog.files, {} if report is None else report.regions))
    names.update(file.relative for file in _log_files(store, min(cuts, default=0)))
    if len(known) == len(starts):
        ends = [{(item.topic, item.queue_id): _append_pos(item) for item in start.queues} for start in known]
        for queue in store.queues:
            if queue.kind == "file":
                key = (queue.topic, queue.queue_id)
                end = min((found.get(key, 0) for found in ends), default=0)
                names.update(file.relative for file in _queue_files(queue, end))
    return frozenset(names)


def _starts(store: Store, conf: Settings | None) -> Iterator[Start | None]:
    """Every start that may come, None for one that cannot be predicted."""
    classes = start_classes(versions_of(store))
    with_abort = replace(store, abort=store.abort or StoreFile(f"{store.root}/abort", "abort", 0, 0, 0))
    for stopped in (replace(store, abort=None), with_abort):
        for prediction in predict_each(stopped, classes, conf=conf, losses=False):
            yield prediction.start


def _append_pos(queue: QueueStart) -> int:
    """The stream position of the first unit that a start appends to a queue."""
    return (queue.max_offset - queue.added_count) * UNIT_SIZE


def sound_end(files: Sequence[MappedFile], regions: Mapping[str, Sequence[RegionTotal]]) -> int:
    """The physical offset up to which a check found only sound records, to whole files; 0 for none."""
    end = 0
    for file in files:
        kinds = {region.kind for region in regions.get(file.relative, ())}
        if file.start_offset is None or not kinds or kinds - _SOUND or (end and file.start_offset != end):
            break
        end = file.start_offset + file.size
    return end


def _log_files(store: Store, end: int) -> Iterable[MappedFile]:
    files = store.commitlog.files[:-_LOG_ACTIVE_COUNT]
    return _full(files, store.commitlog.file_size, end)


def _queue_files(queue: ConsumeQueue, end: int) -> Iterable[MappedFile]:
    return _full(queue.files[:-_QUEUE_ACTIVE_COUNT], queue.mapped_files.file_size, end)


def _full(files: Iterable[MappedFile], file_size: int, end: int) -> Iterable[MappedFile]:
    """The files of the right length that end at a stream position or in front of it."""
    return (
        file
        for file in files
        if file.start_offset is not None and file.size == file_size and file.start_offset + file.size <= end
    )
