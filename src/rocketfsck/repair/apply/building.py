"""Builds what a plan says in the area: clone, acts, check, ledger; and makes it durable and ready to publish.

The store is only read. Where the result is not what the plan promised, the report says so and nothing is
ready.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from rocketfsck.common.documents import printable, to_document
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.progress import phase
from rocketfsck.repair.apply import judging
from rocketfsck.repair.apply.ledger import Ledger, make_ledger
from rocketfsck.repair.apply.publish import save_before, sync_tree
from rocketfsck.repair.apply.results import NAME as ACTIONS
from rocketfsck.repair.apply.results import ApplyReport, logged_actions, write_actions
from rocketfsck.repair.apply.undoing import Differences, demand_room, part_from_kept
from rocketfsck.repair.area import manifests
from rocketfsck.repair.area.journal import Area, Manifests, StoreLock, real_root, write_file, write_manifests
from rocketfsck.repair.area.worktree import WorkTree
from rocketfsck.repair.plan.document import plan_to_json
from rocketfsck.repair.plan.law import all_assumptions, total_notices
from rocketfsck.repair.plan.model import Action, Extent, Plan
from rocketfsck.repair.plan.planning import open_planned
from rocketfsck.repair.plan.table import ActScene, Row, hash_bytes
from rocketfsck.repair.state import check_status, fates_after, state_of
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.inuse import Mode
from rocketfsck.store.model import Store, StoreFile
from rocketfsck.store.rocks.lifting import kept_databases
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.report import Report
from rocketfsck.verify.run import check_store
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import traits_of


@dataclass(frozen=True, slots=True)
class Work:
    """One run of `apply_plan`: the plan, its repairs, where, and how; `settings` of the broker, if given.

    `named` are the real paths of the directories outside of the store that the user allows to be changed,
    `answer` says how the user agreed (`repair.apply.results`). `whole` is the plan that was asked for,
    where `plan` is what holds of it (`repair.apply.holding`).
    """

    plan: Plan
    digest: str
    root: str
    in_place: bool
    work_dir: Path | None
    repairs: Mapping[str, Row]
    now_timestamp: int
    settings: Settings | None = None
    named: tuple[str, ...] = ()
    answer: str = "plan"
    whole: Plan | None = None

    def conf(self, store: Store) -> Settings:
        """The settings of the broker: the store's, and those that were given."""
        given = {} if self.settings is None else self.settings.values
        return replace(store.settings, values={**store.settings.values, **given})

    @property
    def mode(self) -> Mode:
        return "in-place" if self.in_place else "beside"

    @property
    def outside(self) -> list[Path]:
        """Commitlog directories that are not below the root."""
        return manifests.outside_directories(self.plan.store.root, self.plan.store.commitlog_paths)

    @property
    def logs(self) -> dict[str, int]:
        """The commitlog directories outside of the root by the number, from 1, of the one that was named.

        Raises UsageError for one that was not: a plan may come from anybody.
        """
        found = {}
        for path in map(os.fspath, self.outside):
            if real_root(path) not in self.named:
                raise UsageError(
                    f"the plan changes files in {printable(path)}, outside the store: if you want that, "
                    f"apply with --in-place --outside {printable(shlex.quote(path))}"
                )
            found[path] = self.named.index(real_root(path)) + 1
        return found

    def list_store(self) -> dict[str, str]:
        """The store's manifest."""
        return manifests.list_files(self.root, {os.fspath(path): os.fspath(path) for path in self.outside})


def check_preconditions(action: Action, work: Work) -> None:
    """Raises StoreError, naming the file and the bytes, where the store is not as the plan says."""
    outside = [os.fspath(path) for path in work.outside]
    for extent in action.preconditions:
        file = extent.file
        inside = not file.startswith("/") and ".." not in file.split("/")
        if not (inside or any(file.startswith(f"{path}/") for path in outside)):
            raise UsageError(f"plan: {printable(file)} is not a file of the store")
        path = file if file.startswith("/") else f"{work.root}/{file}"
        _check_extent(extent, path, "the store")
    for extent in action.sources:
        _check_extent(extent, extent.file, "the other copy")


def _check_extent(extent: Extent, path: str, what: str) -> None:
    """Raises StoreError where the bytes at a path are not those of the extent."""
    file = extent.file
    end = "the end" if extent.end is None else extent.end
    then = f"{what} changed since the plan was made"
    changed = f"{then}: bytes {extent.start} to {end} of {file!a}"
    if extent.sha256 is None:
        if os.path.lexists(path):
            raise StoreError(f"{then}: {file!a} exists now; make a new plan", path=path)
        return
    try:
        found = hash_bytes(path, extent.start, extent.end)
    except StoreError as error:
        raise StoreError(f"{changed} cannot be read ({error})", path=path, offset=extent.start) from error
    if found != extent.sha256:
        raise StoreError(f"{changed} differ; make a new plan", path=path, offset=extent.start)


def open_as_planned(work: Work, root: Path, tree: WorkTree | None, area: Area) -> Store:
    paths = [Path(path) for path in work.plan.store.commitlog_paths]
    prefix = work.plan.store.root + "/"
    moved = []
    for path in paths:
        text = os.fspath(path)
        if text.startswith(prefix):
            moved.append(root / text.removeprefix(prefix))
        else:
            moved.append(path if tree is None else Path(tree.outside[text]))
    return open_planned(work.plan.store, root, moved, area.place("broker.conf"))


def build(
    work: Work,
    area: Area,
    lock: StoreLock,
    before: Store,
    then: manifests.Manifest,
    check: bool,
) -> tuple[ApplyReport, Area]:
    """The finished, checked and durable tree in the area, its journal "ready"; or a report of a problem."""
    with phase("copying the store"):
        tree = _clone(work, area, lock)
    refuse_changed(then, work)
    scene = ActScene(tree, lambda: open_as_planned(work, tree.root, tree, area))
    with phase("repairing"):
        for action in work.plan.actions:
            work.repairs[action.name].act(scene, action, action.arguments)
    report = ApplyReport(
        work.root,
        work.mode,
        work.digest,
        tuple(f"{action.name} {action.target}".strip() for action in work.plan.actions),
        before=work.plan.counts,
        left=work.plan.unanswered,
        refused_actions=work.plan.refused_actions,
        kept=os.fspath(area.path),
        ledger=Ledger(notices=total_notices(work.plan.actions)),
        assumptions=all_assumptions(work.plan.actions),
        outside=work.named if work.in_place else (),
    )
    after, found = scene.reopen(), None
    with kept_databases():
        if check:
            report, found = _checked(work, report, before, after, tree)
        if not report.problem:
            report = _judged_by_start(work, report, before, after, found)
    if report.problem:
        return report, area
    if not work.in_place:
        part_from_kept(area, tree.at("store"), after, found, work.conf(before))
    with phase("writing to disk"):
        return _make_ready(work, area, tree, replace(report, published=True), then)


def _clone(work: Work, area: Area, lock: StoreLock) -> WorkTree:
    outside = work.outside
    near = os.lstat(area.path).st_dev == os.lstat(work.root).st_dev
    if not work.in_place and (outside or not near):
        what = f"commit log files in {outside[0]}" if outside else f"another file system than {area.path}"
        options = " ".join(["--in-place", *(f"--outside {shlex.quote(str(path))}" for path in outside)])
        raise UsageError(f"the store has {what}: it cannot be published as a whole; apply with {options}")
    demand_room(area, sum(action.write_byte_count for action in work.plan.actions))
    content = lock.content()
    tree = WorkTree.clone(
        Path(work.root),
        area.path,
        outside=outside,
        borrow=work.in_place,
        without=() if content is None else ("lock",),
    )
    if tree.links and not work.in_place:
        name = printable(tree.links[0])
        raise UsageError(
            f"{name} is a symbolic link: the store cannot be published as a whole; apply with --in-place"
        )
    if content is not None:
        status = os.fstat(lock.descriptor)
        tree.create("lock", 0)
        tree.write("lock", 0, content)
        fileops.set_traits(tree.on_disk(tree.place("lock")), traits_of(lock.descriptor))
        tree.set_mtime("lock", status.st_mtime_ns)
    return tree


def _checked(
    work: Work, report: ApplyReport, before: Store, after: Store, tree: WorkTree
) -> tuple[ApplyReport, Report]:
    """The report with what a check of the result and the ledger say, and that check."""
    options = CheckOptions(work.plan.level, now_timestamp=work.now_timestamp)
    with phase("checking the repaired store"):
        found = check_store(after, options)
    check_before = cache(lambda: _check_before(before, options))
    verdict: judging.Judgement = judging.judge(work.plan, found, tree.name_of, check_before)
    losses = [loss for action in work.plan.actions for loss in action.losses]
    now = work.plan.messages_now
    ledger = replace(make_ledger(before, after, losses, _same_file), notices=report.ledger.notices)
    report = replace(
        report,
        after={rule: count for rule, count in found.counts.items() if count},
        left=verdict.left,
        unmet=verdict.unmet,
        fresh=verdict.fresh,
        ledger=ledger,
        messages_before=now,
        messages_after=None
        if now is None or found.account is None
        else fates_after(now, found.account.fates),
    )
    if verdict.unmet:
        problem = "the check still finds what the plan should correct"
    elif verdict.fresh:
        problem = "the result has new problems"
    elif unread := _newly_unread(found, check_before, tree, work.root):
        problem = f"the check could not read the whole result: {unread}"
    elif not ledger.balanced:
        problem = "the loss ledger does not balance: the repair would lose more than the plan says"
    else:
        return report, found
    return replace(report, problem=problem, kept=""), found


def _check_before(before: Store, options: CheckOptions) -> Report:
    with phase("checking the store as it was"):
        return check_store(before, options)


def _judged_by_start(
    work: Work, report: ApplyReport, before: Store, after: Store, found: Report | None
) -> ApplyReport:
    """The report with what brokers do with the store as it was and with the result, `found` by its check.

    Where the result was checked and the plan was not made from a quick check, this reads the log once more
    than a start does.
    """
    wanted = found is not None and work.plan.level != "quick"
    starts = judging.compare_starts(
        judging.Former(before, work.conf(after), wanted), after, work.plan.actions
    )
    problem = judging.start_problem(starts)
    report = replace(report, starts=starts, problem=problem, kept="" if problem else report.kept)
    if found is None:
        return report
    state = state_of(after, found, [item.after for item in starts])
    return replace(report, state=state, check_exit_code=check_status(found, state))


def _newly_unread(found: Report, check_before: Callable[[], Report], tree: WorkTree, root: str) -> str:
    """What the check of the result could not read, and that of the store could; "" for nothing."""
    if not found.coverage.complete:
        return found.coverage.statement
    unread = {tree.name_of(item.what): item.reason for item in found.not_checked if item.operational}
    if unread:
        for item in check_before().not_checked:
            unread.pop(item.what.removeprefix(f"{root}/"), None)
    return next((f"{printable(name)} {reason}" for name, reason in sorted(unread.items())), "")


def _same_file(old: StoreFile, new: StoreFile) -> bool:
    """Whether two files are one, or one is lent to the other's place."""
    return old.path.samefile(new.location)


def _make_ready(
    work: Work, area: Area, tree: WorkTree, report: ApplyReport, then: manifests.Manifest
) -> tuple[ApplyReport, Area]:
    bases = area.open_bases()
    differences = Differences(area, bases)
    if work.in_place:
        differences.compare(work.root, os.fspath(tree.root))
        for name, place in tree.outside.items():
            differences.compare(os.path.realpath(name), place)
        save_before(area, bases, differences.changes)
    report = replace(report, not_kept=judging.account_for_traits(work.root, tree, work.in_place))
    fileops.remove_tree(area.place("scratch"))
    actions = logged_actions(work.plan, work.root, work.digest, work.answer, tree)
    write_actions(area.place(ACTIONS), actions)
    write_file(area.place("plan.json"), plan_to_json(work.whole or work.plan))
    write_file(area.place("result.json"), report.to_json())
    write_file(area.place("ledger.json"), {"kind": "rocketfsck.ledger", **to_document(report.ledger)})
    after = {} if work.in_place else manifests.list_files(os.fspath(tree.root), near=[work.root])
    write_manifests(area, Manifests(dict(then), after))
    sync_tree(area.root.itself)
    if work.in_place:
        return report, area.moved(
            "ready",
            changes=tuple(differences.changes),
            made=tuple(differences.made),
            removed=tuple(differences.removed),
            touched=differences.touched,
        )
    return report, area.moved("ready", tells=manifests.find_tells(work.root, os.fspath(tree.root)))


def refuse_changed(then: manifests.Manifest, work: Work) -> None:
    changed = manifests.changed_files(then, work.list_store())
    if changed:
        names = manifests.some_of(map(printable, changed))
        raise StoreError(f"the store changed while it was repaired: {names}", path=work.root)
