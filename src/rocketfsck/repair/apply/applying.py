"""Carries out a plan: builds the result next to the store, checks it, and only then puts it in its place.

    lock -> preconditions -> clone -> acts -> check -> ledger -> sync -> publish -> release

Until it publishes, the store is only read. What goes wrong before leaves it as it was; what is interrupted
after is finished by applying the same plan again, or taken back by `undo`. Design, section 5.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from rocketfsck.common.documents import printable
from rocketfsck.errors import RocketfsckError, StoreError, UsageError
from rocketfsck.progress import phase
from rocketfsck.repair.apply.building import Work, build, check_preconditions, open_as_planned, refuse_changed
from rocketfsck.repair.apply.holding import held_plan
from rocketfsck.repair.apply.publish import bring, perform, standing, take_back
from rocketfsck.repair.apply.results import NAME as ACTIONS
from rocketfsck.repair.apply.results import ApplyReport, undo_command
from rocketfsck.repair.area import journal as area_journal
from rocketfsck.repair.area.manifests import changed_files
from rocketfsck.repair.plan.document import plan_digest, read_plan
from rocketfsck.repair.plan.law import confirmed
from rocketfsck.repair.plan.model import Plan
from rocketfsck.repair.plan.planning import all_repairs
from rocketfsck.repair.plan.table import Row
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.model import Store
from rocketfsck.store.reading import os_error_text
from rocketfsck.writer.disk import fileops

KEPT = ("journal.json", "set-aside", "plan.json", "result.json", "ledger.json", "manifests.json", ACTIONS)
"""What stays where no old store is to be kept."""


def apply_plan(
    plan: Plan,
    *,
    in_place: bool = False,
    work_dir: Path | None = None,
    keep: bool = True,
    check: bool = True,
    repairs: Mapping[str, Row] | None = None,
    assume: Iterable[str] = (),
    settings: Settings | None = None,
    outside: Sequence[Path | str] = (),
    answer: str = "plan",
) -> ApplyReport:
    """Do exactly what the plan says, or nothing.

    What the plan assumes must be confirmed: by name in `assume` (`NAME` or `NAME=VALUE`), or by the
    `settings` of the broker's broker.conf (`repair.plan.law`).

    `in_place` replaces single files of the store instead of the store as a whole. `work_dir` is where it is
    built (else next to the store); on another file system only in place. Without `keep` there is no undo: the
    old bytes are deleted in the end, what was set aside is not. Without `check` the result is not checked and
    no ledger made. `outside` are directories outside of the store in which files may be changed, too: a plan
    cannot name them itself, since it may come from anybody. `answer` says in the log of repairs how the user
    agreed.

    Raises UsageError for a plan that cannot be carried out this way; StoreError if the store is not as the
    plan says, a broker holds it, or something cannot be read or written (the store is then as it was, or the
    message says how to go on).
    """
    table = all_repairs() if repairs is None else repairs
    for action in plan.actions:
        if action.name not in table:
            raise UsageError(f"the plan has {printable(action.name)!r}, but no repair has this name")
        if type(action.arguments) is not table[action.name].arguments:
            raise UsageError(f"the plan gives {action.name} the arguments of another repair")
    root = area_journal.real_root(plan.store.root)
    named = tuple(sorted({area_journal.real_root(path) for path in outside}))
    now = int(time.time() * 1000)
    digest = plan_digest(plan)
    work = Work(plan, digest, root, in_place, work_dir, table, now, named=named, answer=answer)
    if work_dir is not None:
        place = area_journal.real_root(work_dir)
        if any(
            f"{place}/".startswith(f"{area_journal.real_root(path)}/")
            for path in (root, *map(str, work.outside), *named)
        ):
            raise UsageError(f"{printable(place)} is inside the store; choose another place to work")
    with area_journal.only_repair(root), _os_errors(root):
        finished = _finish_interrupted(work)
        if finished is not None:
            return finished
        work = replace(work, plan=confirmed(plan, assume, settings), settings=settings)
        if not plan.actions:
            return ApplyReport(
                root, work.mode, work.digest, (), left=plan.unanswered, refused_actions=plan.refused_actions
            )
        return _apply(work, keep, check)


def interrupted_plan(root: Path, work_dir: Path | None = None) -> Plan | None:
    """The plan of a repair that was interrupted while it was published; None where nothing is to be finished.

    Raises StoreError where what is there cannot be read.
    """
    name = area_journal.real_root(root)
    with area_journal.only_repair(name), _os_errors(name):
        for area in area_journal.find_areas(name, work_dir):
            if area.journal.state == "ready" and not _is_unpublished(area):
                return read_plan(Path(area.at("plan.json")))
    return None


def interrupted_area(root: Path | str) -> area_journal.Area | None:
    """The directory next to a store of a repair or an undo that was interrupted; None without one. The search
    only reads, and what cannot be read does not count."""
    name = area_journal.real_root(root)
    with suppress(RocketfsckError, OSError):
        for area in area_journal.find_areas(name, None, tidy=False):
            if area.journal.state == "undoing" or (
                area.journal.state == "ready" and not _is_unpublished(area)
            ):
                return area
    return None


def _is_unpublished(area: area_journal.Area) -> bool:
    """Whether a finished result is still next to the store, which is as it was."""
    return area.journal.mode == "beside" and standing(area) == "old"


def _finish_interrupted(work: Work) -> ApplyReport | None:
    """Bring what an earlier run left behind to an end: the report, if it was this plan's."""
    for area in area_journal.find_areas(work.root, work.work_dir):
        journal = area.journal
        if journal.state == "undoing":
            text = "an undo was interrupted; finish it with"
            raise StoreError(f"{text}: {_undo_command(area, work)}", path=str(area.path))
        if journal.state in ("applied", "final"):
            if journal.plan_digest == work.digest and _is_as_left(area):
                _drop_trees(area)
                return replace(_saved_report(area), finished=True)
            continue
        if journal.state in ("building", "undone") or (journal.state == "ready" and _is_unpublished(area)):
            area.remove()
            continue
        if journal.plan_digest != work.digest:
            text = "another plan was interrupted here; apply it again to finish it, or take it back with"
            raise StoreError(f"{text}: {_undo_command(area, work)}", path=str(area.path))
        area = area.confirmed(work.named)
        lock = area_journal.StoreLock(work.root)
        try:
            lock.take()
            _publish(area)
        finally:
            lock.release()
        return replace(_saved_report(area), finished=True)
    return None


def _undo_command(area: area_journal.Area, work: Work) -> str:
    return undo_command(work.root, work.work_dir, area.journal.outside)


def _is_as_left(area: area_journal.Area) -> bool:
    return not changed_files(area_journal.read_manifests(area).after, area.list_store())


def _saved_report(area: area_journal.Area) -> ApplyReport:
    path = area.at("result.json")
    try:
        return ApplyReport.from_json(area_journal.read_file(path, "repair report"))
    except UsageError as error:
        raise StoreError(f"is not a report of a repair: {error}", path=path) from error


def _apply(work: Work, keep: bool, check: bool) -> ApplyReport:
    logs = work.logs if work.in_place else {}
    lock = area_journal.StoreLock(work.root)
    lock.take()  # a running broker is found out before anything else
    lock.release()
    _refuse_no_store(work)
    then = work.list_store()
    with phase("checking what the plan relies on"):
        for action in work.plan.actions:
            check_preconditions(action, work)
    area: area_journal.Area | None = None
    try:
        area = area_journal.make_area(work.root, work.work_dir, work.mode, work.digest, work.named, logs)
        before = open_as_planned(
            work, Path(work.root), None, area
        )  # before the lock: it opens and closes `lock`
        lock.take()
        report, area = build(work, area, lock, before, then, check)
        if report.problem:
            area.remove()
            area = None
            less = _what_holds(work, before, check)
            if less is None:
                return report
            work = less
            area = area_journal.make_area(work.root, work.work_dir, work.mode, work.digest, work.named, logs)
            before = open_as_planned(work, Path(work.root), None, area)
            lock.renew()  # stores were opened and closed
            refuse_changed(then, work)
            report, area = build(work, area, lock, before, then, check)
        if report.problem:
            area.remove()
            return report
        lock.renew()
        refuse_changed(then, work)
        with phase("publishing the repaired store"):
            area = _publish(area)
        if not keep:
            area.moved("final").remove(KEPT)
        return report
    except (OSError, RocketfsckError) as error:
        text = _clean_up(area, work)
        if text:
            raise StoreError(f"{error}; {text}") from error
        raise
    except BaseException:  # a bug, or the user's wish to stop
        _clean_up(area, work)
        raise
    finally:
        lock.release()


def _what_holds(work: Work, before: Store, check: bool) -> Work | None:
    """The work with the actions that hold, where those of the plan do not hold together; None without any."""
    if work.repairs != all_repairs():
        return None
    with phase("looking for what holds of the plan"):
        plan = held_plan(work.plan, before, conf=work.conf(before), check=check)
    return None if plan.actions in ((), work.plan.actions) else replace(work, plan=plan, whole=work.plan)


def _refuse_no_store(work: Work) -> None:
    """Raises UsageError for a directory that holds nothing of a store: a plan may name any directory, and
    one that is not a store may have any number of files to list."""
    store = open_store(Path(work.root), commitlog_paths=list(map(Path, work.plan.store.commitlog_paths)))
    if not (store.commitlog.files or store.queues or store.indexes):
        raise UsageError(f"{printable(str(store.root))} is not a message store: nothing was changed")


def _publish(area: area_journal.Area) -> area_journal.Area:
    """Put what is ready in the store's place."""
    if area.journal.mode == "beside":
        bring(area, "new")
        return area.moved("applied")
    perform(area)
    area_journal.write_manifests(area, replace(area_journal.read_manifests(area), after=area.list_store()))
    area = area.moved("applied")
    _drop_trees(area)
    return area


def _drop_trees(area: area_journal.Area) -> None:
    """In place: what was built has gone into the store."""
    if area.journal.mode == "in-place":
        for name in ("store", "outside"):
            fileops.remove_tree(area.place(name))


def _clean_up(area: area_journal.Area | None, work: Work) -> str:
    """After a failure: leave the store as it was. If that cannot be done either, how to go on."""
    if area is None:
        return ""
    try:
        (area,) = [
            found for found in area_journal.find_areas(work.root, work.work_dir) if found.path == area.path
        ]
        if area.journal.state == "ready":
            if area.journal.mode == "beside":
                bring(area, "old")
            else:
                take_back(area)
            area = area.moved("undone")
        if area.journal.state in ("building", "undone"):
            area.remove()
    except (OSError, RocketfsckError, ValueError):
        text = "the repair was interrupted; finish it by applying the plan again, or take it back with"
        return f"{text}: {undo_command(work.root, work.work_dir, work.named)}"
    return ""


@contextmanager
def _os_errors(root: str) -> Iterator[None]:
    """OSError as StoreError."""
    try:
        yield
    except OSError as error:
        path = os.fsdecode(error.filename) if error.filename else root
        raise StoreError(f"cannot be written: {os_error_text(error)}", path=path) from error
