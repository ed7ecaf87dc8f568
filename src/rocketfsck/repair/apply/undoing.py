"""Takes the last repair of a store back: its bytes, names and times as they were.

Can be interrupted and run again like `apply`. What was written since by somebody else is never deleted: it
needs `force`, and is kept. Before the journal says that an undo is on its way, it is known that it can be
done.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rocketfsck.common.documents import printable
from rocketfsck.common.wording import count_of
from rocketfsck.errors import RocketfsckError, StoreError, UsageError
from rocketfsck.progress import phase
from rocketfsck.repair.apply.publish import bring, repaired, second_name, standing, take_back
from rocketfsck.repair.apply.results import UndoReport, spoiled_messages, undo_command
from rocketfsck.repair.apply.sharing import part_from_kept
from rocketfsck.repair.area.journal import Area, StoreLock, find_areas, only_repair, read_manifests, real_root
from rocketfsck.repair.area.manifests import Manifest, changed_files, find_tells, list_files, side_of, some_of
from rocketfsck.repair.plan.document import read_plan
from rocketfsck.repair.plan.model import Plan
from rocketfsck.store.opening import open_store
from rocketfsck.store.reading import os_error_text
from rocketfsck.store.scratch import free_size
from rocketfsck.writer.disk import fileops

_SPARE_SIZE = 1 << 20
"""Bytes for journals and directories."""


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
    root = real_root(store_path)
    named = [real_root(path) for path in outside]
    with only_repair(root):
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
        root = real_root(store_path)
        with only_repair(root):
            return read_plan(Path(_last_area(root, work_dir).at("plan.json")))
    except (OSError, RocketfsckError):
        return None  # undo says what is wrong


def _undo(root: str, work_dir: Path | None, force: bool, named: Sequence[str]) -> UndoReport:
    area = _last_area(root, work_dir).confirmed(named)
    journal = area.journal
    finished = journal.state != "applied"
    unpublished = journal.state == "ready" and journal.mode == "beside" and standing(area) == "old"
    if journal.state in ("building", "undone") or unpublished:
        area.remove()
        return UndoReport(root, journal.mode, journal.plan_digest, finished=True)
    lock = StoreLock(root)
    try:
        lock.take()
        report = UndoReport(root, journal.mode, journal.plan_digest, finished=finished)
        if journal.mode == "beside":
            return _exchange_back(area, force, report)
        return _restore(area, force, report)
    finally:
        lock.release()


def _last_area(root: str, work_dir: Path | None) -> Area:
    areas = [area for area in find_areas(root, work_dir) if area.journal.state != "final"]
    if not areas:
        raise UsageError(f"{printable(root)} has no repair to undo")
    return areas[-1]


def _exchange_back(area: Area, force: bool, report: UndoReport) -> UndoReport:
    here, kept = area.store, area.at("store")
    manifests = read_manifests(area)
    published = standing(area) == "new"
    if published and not os.path.lexists(kept):
        bring(area, "new")  # interrupted before its last rename: the old store is not in its place yet
    new = repaired(area)
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
    bring(area, "old")
    report = replace(report, not_restored=_not_restored(manifests.before, area))
    if changed:
        report = replace(report, kept=kept, kept_is_shared=not _part(area))
        area.moved("final")
    else:
        area.moved("undone").remove()
    return report


def _not_restored(before: Manifest, area: Area) -> tuple[str, ...]:
    """The files of the store that are not as they were before the repair."""
    return tuple(changed_files(before, area.list_store()))


def _part(area: Area) -> bool:
    """Let the store in the area share no file with the restored one that a broker may write to; False where
    that cannot be done: the repair is taken back all the same."""
    try:
        part_from_kept(area, area.place("store"), open_store(Path(area.store)))
    except (OSError, RocketfsckError):
        return False
    return True


def _refuse_distance(area: Area) -> None:
    """Raises UsageError where the two cannot change names, as when one of them was moved to another disk."""
    if os.lstat(area.store).st_dev != os.lstat(area.at("store")).st_dev:
        raise UsageError(
            f"{printable(str(area.path))} is on another file system: move the directory next to the store"
        )


def _restore(area: Area, force: bool, report: UndoReport) -> UndoReport:
    after, manifests = area.place("after"), read_manifests(area)
    if area.journal.state == "applied":
        changed = changed_files(manifests.after, area.list_store())
        _refuse(changed, force, area.store, "the store changed since it was repaired")
        if changed:
            _keep_changed(area)
    area = area.moved("undoing")
    take_back(area)
    report = replace(report, not_restored=_not_restored(manifests.before, area))
    if fileops.exists(after):
        area.moved("final")
        return replace(report, kept=str(after))
    area.moved("undone").remove()
    return report


def _keep_changed(area: Area) -> None:
    """Give the files that will be replaced a second name."""
    after, bases = area.place("after"), area.open_bases()
    fileops.remove_tree(after)
    fileops.make_directory(after)
    for number, change in enumerate(area.journal.changes):
        place = bases[change.base] / change.path
        if fileops.is_file(place):
            second_name(place, after / f"{number}-{os.path.basename(change.path)[:200]}")  # noqa: PTH119
    fileops.sync(after)


def _refuse(changed: list[str], force: bool, path: str, what: str, messages: str = "") -> None:
    if changed and not force:
        names = some_of(map(printable, changed))
        said = f"; {messages}" if messages else ""
        raise StoreError(
            f"{what}: {names}{said}; --force undoes the repair and keeps the present files elsewhere",
            path=path,
        )
