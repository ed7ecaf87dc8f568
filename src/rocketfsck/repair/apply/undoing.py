"""Takes the last repair of a store back: its bytes, names and times as they were.

Can be interrupted and run again like `apply`. What was written since by somebody else is never deleted: it
needs `force`, and is kept. Before the journal says that an undo is on its way, it is known that it can be
done.

Which files the repaired store may share with the kept one: those that no broker writes to.

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

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rocketfsck.common.documents import printable
from rocketfsck.common.outputs import free_size
from rocketfsck.common.wording import count_of
from rocketfsck.errors import RocketfsckError, StoreError, UsageError
from rocketfsck.formats.consumequeue import UNIT_SIZE
from rocketfsck.progress import phase
from rocketfsck.query.start.model import QueueStart, Start
from rocketfsck.query.start.verdict import predict_each, start_classes, versions_of
from rocketfsck.repair.apply import publish
from rocketfsck.repair.apply.results import UndoReport, spoiled_messages, undo_command
from rocketfsck.repair.area import journal as area_journal
from rocketfsck.repair.area.manifests import Manifest, changed_files, find_tells, list_files, side_of, some_of
from rocketfsck.repair.plan.document import read_plan
from rocketfsck.repair.plan.model import Plan
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.model import ConsumeQueue, MappedFile, Store, StoreFile
from rocketfsck.store.opening import open_store
from rocketfsck.store.reading import FileReader, first_unequal, os_error_text
from rocketfsck.verify.report import Report
from rocketfsck.verify.tasks.task import RegionTotal
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace, Root


class Differences:
    """What must be done in place: filled by going through the store and the tree side by side."""

    def __init__(self, area: area_journal.Area, bases: Sequence[Root]) -> None:
        self._area = area
        self._bases = bases
        self.changes: list[area_journal.StagedChange] = []
        self.made: list[area_journal.Directory] = []
        self.removed: list[area_journal.Directory] = []
        self._touched: dict[tuple[int, str], area_journal.Directory] = {}

    @property
    def touched(self) -> tuple[area_journal.Directory, ...]:
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
            elif _is_directory(right) and os.path.isdir(left):  # noqa: PTH112
                self.compare(os.path.realpath(left), right)  # a link to one elsewhere is gone into
            elif _is_directory(right) or _is_directory(left):
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
            self.changes.append(area_journal.StagedChange(*self._where(path), None, self._saved()))
            return
        for name in sorted(_entries(path)):
            self._gone(f"{path}/{name}")
        self.removed.append(self._directory(path))

    def _new(self, path: str, image: str) -> None:
        self._touch(path)
        if not _is_directory(image):
            self.changes.append(area_journal.StagedChange(*self._where(path), self._staged(image), None))
            return
        mode = stat.S_IMODE(os.lstat(image).st_mode)
        self.made.append(area_journal.Directory(*self._where(path), mode, 0, 0))
        for name in sorted(_entries(image)):
            self._new(f"{path}/{name}", f"{image}/{name}")

    def _replace(self, path: str, image: str) -> None:
        self._touch(path)
        self.changes.append(area_journal.StagedChange(*self._where(path), self._staged(image), self._saved()))

    def _saved(self) -> str:
        return f"before/{len(self.changes)}"

    def _staged(self, image: str) -> str:
        """The image's name in the area; it is made our own if it is only lent from the store."""
        status = os.lstat(image)
        lent = stat.S_ISLNK(status.st_mode) and os.path.isfile(image)  # noqa: PTH113
        place = self._area.root.place_of(image)
        if lent or (stat.S_ISREG(status.st_mode) and status.st_nlink > 1):
            publish.own(place)
        return place.name

    def _touch(self, path: str) -> None:
        above = os.path.dirname(path)  # noqa: PTH120
        if os.path.isdir(above) and self._where(above) not in self._touched:  # noqa: PTH112
            self._touched[self._where(above)] = self._directory(above)

    def _directory(self, path: str) -> area_journal.Directory:
        status = os.stat(path)  # noqa: PTH116
        return area_journal.Directory(
            *self._where(path), status.st_mode & 0o7777, status.st_atime_ns, status.st_mtime_ns
        )


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
"""Bytes for journals and directories."""
_FAR = 1 << 62
SAID_SIZE = 64 << 20
"""Copies of this size are said before a repair asks whether it may begin."""


def part_from_kept(
    area: area_journal.Area,
    tree: ConfinedPlace,
    after: Store,
    report: Report | None = None,
    conf: Settings | None = None,
) -> None:
    """Copy all files of a repaired store, the `tree` of an area, that a broker may write to.

    `after` is the store there; others as `shared_files` takes them. Raises StoreError where there is no room,
    or something cannot be read or written; OSError.
    """
    with phase("finding what a broker may write to"):
        shared = shared_files(after, report, conf)
        size = publish.settling_size(tree, shared)
    if not fileops.has_reflinks(area.root.itself):
        demand_room(area, size)
    with phase(f"copying what a broker may write to, {count_of(size, 'byte')}"):
        publish.settle(tree, shared)


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


def demand_room(area: area_journal.Area, size: int) -> None:
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


def undo(
    store_path: Path | str,
    *,
    work_dir: Path | None = None,
    force: bool = False,
    outside: Sequence[Path | str] = (),
) -> UndoReport:
    """Take back the last repair of a store, finished or interrupted.

    `work_dir` and `outside` are what `apply` was given; after a move, where these are now. Where the store
    changed after the repair (a broker wrote to it), `force` is needed; its state is then kept in the area.
    Raises UsageError if there is nothing to take back, or a directory outside of the store was not named;
    StoreError if a broker holds the store, it changed, or something cannot be read or written.
    """
    root = area_journal.real_root(store_path)
    named = [area_journal.real_root(path) for path in outside]
    with area_journal.only_repair(root):
        try:
            with phase("taking the repair back"):
                return _undo(root, work_dir, force, named)
        except OSError as error:
            path = os.fsdecode(error.filename) if error.filename else root
            again = f"{_room_wanted(error, root, work_dir)}run {undo_command(root, work_dir, named)} again"
            raise StoreError(f"cannot be written: {os_error_text(error)}; {again}", path=path) from error


def _room_wanted(error: OSError, root: str, work_dir: Path | None) -> str:
    """What to free first, where the disk is full: "" for any other error, or where nothing is known."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return ""
    needed = _SPARE_SIZE
    with suppress(OSError, RocketfsckError):
        area = _last_area(root, work_dir)
        saved = [change.saved for change in area.journal.changes if change.saved is not None]
        needed += sum(os.lstat(area.at(name)).st_size for name in saved)
    with suppress(OSError):
        free = free_size(root)
        return (
            f"undo needs at most {count_of(needed, 'byte')} there, and {free:,} are free: "
            f"free {count_of(max(needed - free, _SPARE_SIZE), 'byte')}, and "
        )
    return ""


def last_plan(store_path: Path | str, work_dir: Path | None = None) -> Plan | None:
    """The plan of the repair that `undo` would take back; None where there is none, or no readable plan."""
    try:
        root = area_journal.real_root(store_path)
        with area_journal.only_repair(root):
            return read_plan(Path(_last_area(root, work_dir).at("plan.json")))
    except (OSError, RocketfsckError):
        return None  # undo says what is wrong


def _undo(root: str, work_dir: Path | None, force: bool, named: Sequence[str]) -> UndoReport:
    area = _last_area(root, work_dir).confirmed(named)
    journal = area.journal
    finished = journal.state != "applied"
    unpublished = journal.state == "ready" and journal.mode == "beside" and publish.standing(area) == "old"
    if journal.state in ("building", "undone") or unpublished:
        area.remove()
        return UndoReport(root, journal.mode, journal.plan_digest, finished=True)
    lock = area_journal.StoreLock(root)
    try:
        lock.take()
        report = UndoReport(root, journal.mode, journal.plan_digest, finished=finished)
        if journal.mode == "beside":
            return _exchange_back(area, force, report)
        return _restore(area, force, report)
    finally:
        lock.release()


def _last_area(root: str, work_dir: Path | None) -> area_journal.Area:
    areas = [area for area in area_journal.find_areas(root, work_dir) if area.journal.state != "final"]
    if not areas:
        raise UsageError(f"{printable(root)} has no repair to undo")
    return areas[-1]


def _exchange_back(area: area_journal.Area, force: bool, report: UndoReport) -> UndoReport:
    here, kept = area.store, area.at("store")
    manifests = area_journal.read_manifests(area)
    published = publish.standing(area) == "new"
    if published and not os.path.lexists(kept):
        publish.bring(
            area, "new"
        )  # interrupted before its last rename: the old store is not in its place yet
    new = publish.repaired(area)
    changed = changed_files(manifests.after, list_files(new, near=[here])) if os.path.lexists(new) else []
    if published:
        spoiled = changed_files(manifests.before, list_files(kept, near=[here]))
        if spoiled:
            report = replace(report, messages=spoiled_messages(kept, here, spoiled))
        _refuse(spoiled, force, kept, "the kept store changed since", report.messages.words)
        _refuse(changed, force, here, "the store changed since it was repaired")
        _refuse_distance(area)
        tells = area.journal.tells
        if side_of(kept, tells) != "old" or side_of(here, tells) != "new":  # one was changed meanwhile
            tells = find_tells(kept, here)
        area = area.moved("undoing", tells=tells)
    publish.bring(area, "old")
    report = replace(report, not_restored=_not_restored(manifests.before, area))
    if changed:
        report = replace(report, kept=kept, kept_is_shared=not _part(area))
        area.moved("final")
    else:
        area.moved("undone").remove()
    return report


def _not_restored(before: Manifest, area: area_journal.Area) -> tuple[str, ...]:
    """The files of the store that are not as they were before the repair."""
    return tuple(changed_files(before, area.list_store()))


def _part(area: area_journal.Area) -> bool:
    """Let the store in the area share no file with the restored one that a broker may write to; False where
    that cannot be done: the repair is taken back all the same."""
    try:
        part_from_kept(area, area.place("store"), open_store(Path(area.store)))
    except (OSError, RocketfsckError):
        return False
    return True


def _refuse_distance(area: area_journal.Area) -> None:
    """Raises UsageError where the two cannot change names, as when one of them was moved to another disk."""
    if os.lstat(area.store).st_dev != os.lstat(area.at("store")).st_dev:
        raise UsageError(
            f"{printable(str(area.path))} is on another file system: move the directory next to the store"
        )


def _restore(area: area_journal.Area, force: bool, report: UndoReport) -> UndoReport:
    after, manifests = area.place("after"), area_journal.read_manifests(area)
    if area.journal.state == "applied":
        changed = changed_files(manifests.after, area.list_store())
        _refuse(changed, force, area.store, "the store changed since it was repaired")
        if changed:
            _keep_changed(area)
    area = area.moved("undoing")
    publish.take_back(area)
    report = replace(report, not_restored=_not_restored(manifests.before, area))
    if fileops.exists(after):
        area.moved("final")
        return replace(report, kept=str(after))
    area.moved("undone").remove()
    return report


def _keep_changed(area: area_journal.Area) -> None:
    """Give the files that will be replaced a second name."""
    after, bases = area.place("after"), area.open_bases()
    fileops.remove_tree(after)
    fileops.make_directory(after)
    for number, change in enumerate(area.journal.changes):
        place = bases[change.base] / change.path
        if fileops.is_file(place):
            publish.second_name(place, after / f"{number}-{os.path.basename(change.path)[:200]}")  # noqa: PTH119
    fileops.sync(after)


def _refuse(changed: list[str], force: bool, path: str, what: str, messages: str = "") -> None:
    if changed and not force:
        names = some_of(map(printable, changed))
        said = f"; {messages}" if messages else ""
        raise StoreError(
            f"{what}: {names}{said}; --force undoes the repair and keeps the present files elsewhere",
            path=path,
        )
