"""Takes the last repair of a store back: its bytes, names and times as they were.

Can be interrupted and run again like `apply`. What was written since by somebody else is never deleted: it
needs `force`, and is kept.
"""

from __future__ import annotations

import os
from pathlib import Path

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.repair import fileops
from rocketfsck.repair.area import Area, find_areas, identity, read_file, real_root, remove_tree
from rocketfsck.repair.locking import StoreLock, only_repair
from rocketfsck.repair.manifests import changed_files, list_files, some_of
from rocketfsck.repair.publish import bring, second_name, take_back
from rocketfsck.repair.results import UndoReport
from rocketfsck.store.reading import os_error_text
from rocketfsck.verify.catalog import printable


def undo(store_path: Path | str, *, work_dir: Path | None = None, force: bool = False) -> UndoReport:
    """Take back the last repair of a store, finished or interrupted.

    `work_dir` is what `apply` was given. Where the store changed after the repair (a broker wrote to it),
    `force` is needed; its state is then kept in the area. Raises UsageError if there is nothing to take back,
    StoreError if a broker holds the store, it changed, or something cannot be read or written.
    """
    root = real_root(store_path)
    with only_repair(root):
        try:
            return _undo(root, work_dir, force)
        except OSError as error:
            path = os.fsdecode(error.filename) if error.filename else root
            again = f"run rocketfsck undo {root} again"
            raise StoreError(f"cannot be written: {os_error_text(error)}; {again}", path=path) from error


def _undo(root: str, work_dir: Path | None, force: bool) -> UndoReport:
    area = _last_area(root, work_dir)
    journal = area.journal
    unpublished = journal.mode == "beside" and identity(root) == journal.old
    if journal.state in ("building", "undone") or (journal.state == "ready" and unpublished):
        remove_tree(os.fspath(area.path))
        return UndoReport(root, journal.mode, journal.plan_digest, finished=True)
    lock = StoreLock(root)
    try:
        lock.take()
        if journal.mode == "beside":
            kept = _exchange_back(area, force)
        else:
            kept = _restore(area, force)
    finally:
        lock.release()
    return UndoReport(root, journal.mode, journal.plan_digest, finished=journal.state != "applied", kept=kept)


def _last_area(root: str, work_dir: Path | None) -> Area:
    areas = [area for area in find_areas(root, work_dir) if area.journal.state != "final"]
    if not areas:
        raise UsageError(f"there is no repair of {printable(root)} to take back")
    return areas[-1]


def _exchange_back(area: Area, force: bool) -> str:
    journal = area.journal
    manifests = read_file(area.at("manifests.json"))
    published = identity(journal.store) == journal.new
    new = journal.store if published else area.at("store")
    changed = changed_files(manifests["after"], list_files(new)) if identity(new) == journal.new else []
    if published:
        _refuse(changed, force, journal.store, "the store changed since it was repaired")
        old = list_files(area.at("store")) if identity(area.at("store")) == journal.old else {}
        spoiled = changed_files(manifests["before"], old) if old else []
        _refuse(spoiled, force, area.at("store"), "the kept store changed since")
    area = area.moved("undoing")
    bring(area, journal.old)
    if changed:
        area.moved("final")
        return area.at("store")
    remove_tree(os.fspath(area.moved("undone").path))
    return ""


def _restore(area: Area, force: bool) -> str:
    journal = area.journal
    after = area.at("after")
    if journal.state == "applied":
        changed = changed_files(read_file(area.at("manifests.json"))["after"], area.list_store())
        _refuse(changed, force, journal.store, "the store changed since it was repaired")
        if changed:
            _keep_changed(area, after)
    area = area.moved("undoing")
    take_back(area)
    if os.path.lexists(after):
        area.moved("final")
        return after
    remove_tree(os.fspath(area.moved("undone").path))
    return ""


def _keep_changed(area: Area, after: str) -> None:
    """Give the files that will be replaced a second name."""
    remove_tree(after)
    fileops.make_directory(after)
    for number, change in enumerate(area.journal.changes):
        if os.path.isfile(change.path):  # noqa: PTH113
            name = os.path.basename(change.path)  # noqa: PTH119
            second_name(change.path, f"{after}/{number}-{name[:200]}")
    fileops.sync(after)


def _refuse(changed: list[str], force: bool, path: str, what: str) -> None:
    if changed and not force:
        names = some_of(map(printable, changed))
        raise StoreError(
            f"{what}: {names}; with --force it is undone and what is there now is kept", path=path
        )
