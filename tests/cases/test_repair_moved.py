"""A repaired store is copied, moved, mounted elsewhere, or half repaired when that happens: undo still works.

Nothing in a journal may depend on device or inode numbers: `cp -a` gives all files others, as a remount gives
other device numbers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.undoing import undo
from rocketfsck.repair.plan.arguments import Arguments
from rocketfsck.repair.plan.model import Action
from rocketfsck.repair.plan.table import ActScene, Repair
from rocketfsck.writer.disk import fileops

from tests.cases.test_repair_kill import (
    REPAIRS,
    KilledError,
    State,
    apply,
    areas,
    content,
    counted,
    killed_at,
    make_store,
    plan_for,
    state,
)
from tests.conftest import NIGHTLY

MODES = pytest.mark.parametrize("in_place", [False, True], ids=["beside", "in-place"])
Move = Callable[[Path], Path]
Act = Callable[[ActScene, Action], None]


def copied(store: Path) -> Path:
    """`cp -a` of the directory above, the original gone."""
    target = store.parent.with_name("copy")
    subprocess.run(["cp", "-a", store.parent, target], check=True)
    shutil.rmtree(store.parent)
    return target / store.name


def copied_alone(store: Path) -> Path:
    """`cp -a` of the store and then of its areas: no hard link between them is left."""
    target = store.parent.with_name("apart")
    target.mkdir()
    for path in sorted(store.parent.iterdir()):
        subprocess.run(["cp", "-a", path, target], check=True)
    return target / store.name


def moved(store: Path) -> Path:
    """Both under another directory, with the same inodes."""
    return store.parent.rename(store.parent.with_name("moved")) / store.name


MOVES = pytest.mark.parametrize("move", [copied, copied_alone, moved])


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = tmp_path / "place" / "store"
    make_store(root)
    return root


def files(found: State) -> State:
    """Without directories and links, which are made anew."""
    return {name: value for name, value in found.items() if value[1] not in (b"", b"nowhere")}


@MODES
@MOVES
def test_undo_after_a_move(store: Path, move: Move, in_place: bool) -> None:
    old = state(store)
    apply(plan_for(store), in_place)
    there = move(store)
    report = undo(there)
    assert report.store == str(there) and report.kept == ""
    assert state(there) == old and areas(there) == []


@MODES
@MOVES
def test_a_move_between_a_kill_and_its_end(store: Path, move: Move, in_place: bool, tmp_path: Path) -> None:
    """Wherever apply or undo was killed, undo brings the moved store back."""
    old, plan = state(store), plan_for(store)
    with counted() as applied:
        apply(plan, in_place)
    new = content(state(store))
    with counted() as taken_back:
        undo(store)
    first = next(number for number, name in enumerate(applied) if name in ("exchange", "unlink", "rename"))
    step, last = (5, 1) if NIGHTLY else (20, 3)
    cases = [
        (True, number)
        for number in (*range(first, len(applied), 2 * step), *range(len(applied) - 12, len(applied), last))
    ]
    cases += [(False, number) for number in range(0, len(taken_back), step)]
    for during_apply, number in cases:
        for path in tmp_path.iterdir():
            shutil.rmtree(path)
        make_store(store)
        if during_apply:
            with killed_at(number), pytest.raises(KilledError):
                apply(plan, in_place)
        else:
            apply(plan, in_place)
            with killed_at(number), pytest.raises(KilledError):
                undo(store)
        there = move(store)
        try:
            undo(there)
        except UsageError as error:
            assert "has no repair to undo" in str(error)
        found = state(there)
        assert found == old, (during_apply, number)
        assert apply(plan_for(there), in_place).published  # and apply goes on as well
        assert content(state(there)) == new


def only_bytes(scene: ActScene, _action: Action, _arguments: Arguments) -> None:
    scene.tree.write("commitlog/00000000000000004096", 5, b"NEW")


def only_times(scene: ActScene, _action: Action, _arguments: Arguments) -> None:
    scene.tree.set_mtime("commitlog/00000000000000004096", 7)


def nothing(_scene: ActScene, _action: Action, _arguments: Arguments) -> None:
    pass


@pytest.mark.parametrize("act", [only_bytes, only_times, nothing])
@MODES
def test_repairs_that_change_little(
    store: Path, in_place: bool, act: Callable[[ActScene, Action, Arguments], None]
) -> None:
    """Old and new are told apart where names and lengths are the same, too."""
    old, plan = state(store), plan_for(store)
    repairs = {"change": replace(REPAIRS["change"], act=act)}
    with counted() as names:
        apply_plan(plan, in_place=in_place, check=False, repairs=repairs)
    new = state(store)
    undo(store)
    assert state(store) == old
    for number in range(len(names) - 14, len(names)):
        with killed_at(number), pytest.raises(KilledError):
            apply_plan(plan, in_place=in_place, check=False, repairs=repairs)
        if number % 2:
            apply_plan(plan, in_place=in_place, check=False, repairs=repairs)
            assert files(state(store)) == files(new), number
        try:
            undo(store)
        except UsageError as error:
            assert "has no repair to undo" in str(error)
        assert state(store) == old, number


def test_a_copy_without_times_needs_force(store: Path) -> None:
    """Nothing but the times tells whether somebody wrote to the store that was kept: it comes first."""
    old = content(state(store))
    apply(plan_for(store), False)
    there = store.parent.with_name("copy")
    subprocess.run(["cp", "-r", store.parent, there], check=True)
    shutil.rmtree(store.parent)
    copied = content(state(there / store.name))
    with pytest.raises(StoreError, match=r"the kept store changed since: .*--force undoes the repair"):
        undo(there / store.name)
    assert content(state(there / store.name)) == copied
    report = undo(there / store.name, force=True)
    assert content(state(there / store.name)) == old
    assert set(report.not_restored) >= {name for name in old if name.startswith("commitlog/")}
    assert report.kept and Path(report.kept).is_dir()


def test_another_store_of_the_same_name_has_no_repair(store: Path, tmp_path: Path) -> None:
    apply(plan_for(store), False)
    other = tmp_path / "other" / "store"
    (other / "commitlog").mkdir(parents=True)
    (other / "commitlog" / "00000000000000000000").write_bytes(b"another store")
    (area,) = areas(store)
    area.rename(other.parent / area.name)
    with pytest.raises(UsageError, match="has no repair to undo"):
        undo(other)


def test_an_area_on_another_disk_is_moved_first(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names cannot be exchanged over file systems: that is said before the journal changes its state."""
    old = state(store)
    report = apply(plan_for(store), False)
    real = os.lstat

    def elsewhere(path: str | Path) -> os.stat_result:
        status = real(path)
        if str(path).startswith(report.kept):
            return os.stat_result((*status[:2], status.st_dev + 1, *status[3:10]))
        return status

    monkeypatch.setattr(os, "lstat", elsewhere)
    with pytest.raises(UsageError, match="move the directory next to the store"):
        undo(store)
    monkeypatch.undo()
    assert '"applied"' in (Path(report.kept) / "journal.json").read_text()
    undo(store)
    assert state(store) == old


@MODES
def test_the_repair_is_on_disk_before_the_store_changes(
    store: Path, in_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory above the area is synced, then the journal, and only then a file of the store goes."""
    steps: list[tuple[str, str]] = []
    monkeypatch.setattr(fileops, "watch", lambda name, path: steps.append((name, path)))
    report = apply(plan_for(store), in_place)
    above, journal = str(store.parent), f"{report.kept}/journal.json"
    touched = [
        number
        for number, (name, path) in enumerate(steps)
        if name != "fsync" and (path == str(store) or path.startswith(f"{store}/"))
    ]
    made = steps.index(("mkdir", report.kept))
    synced = steps.index(("fsync", above), made)
    ready = [number for number, step in enumerate(steps[: touched[0]]) if step == ("rename", journal)][-1]
    assert made < synced < ready < touched[0]
    assert ("fsync", report.kept) in steps[ready : touched[0]]
    assert ("fsync", f"{journal}.part") in steps[ready - 3 : ready]
    if in_place:
        assert ("fsync", f"{report.kept}/before") in steps[:ready]
        changed = {os.path.dirname(steps[number][1]) for number in touched}  # noqa: PTH120
        last = [number for number, step in enumerate(steps) if step == ("rename", journal)][-1]
        synced_after = {path for name, path in steps[touched[0] : last] if name == "fsync"}
        assert {path for path in changed if os.path.isdir(path)} <= synced_after | {above}  # noqa: PTH112


def test_links_above_the_store_are_not_followed(store: Path) -> None:
    """What lies above the store changes with every repair: it is no part of the store."""
    (store / "commitlog" / "00000000000000012288").symlink_to("../..")
    (store / "consumequeue" / "up").symlink_to("..")
    old = state(store)
    apply(plan_for(store), True)
    undo(store)
    assert state(store) == old
    apply(plan_for(store), False)
    undo(store)
    assert state(store) == old and areas(store) == []


def test_a_link_in_the_store_stays_a_link(store: Path) -> None:
    (store / "config").mkdir()
    (store / "config" / "link").symlink_to("../commitlog/00000000000000012288")
    (store / "commitlog" / "00000000000000012288").write_bytes(b"linked")
    (store / "config" / "full").symlink_to(store / "commitlog" / "00000000000000012288")
    for in_place in (False, True):
        apply(plan_for(store), in_place)
        assert (store / "config" / "link").readlink() == Path("../commitlog/00000000000000012288")
        assert (store / "config" / "full").read_bytes() == b"linked"
        undo(store)


def move_target(scene: ActScene, _action: Action, _arguments: Arguments) -> None:
    scene.tree.set_aside("commitlog/stray")


def test_what_a_link_leads_to_is_not_moved(store: Path) -> None:
    (store / "consumequeue" / "t" / "0" / "00000000000000000040").symlink_to("../../../commitlog/stray")
    old = state(store)
    repairs = {"change": Repair("change", 1, "", lambda _scene, _findings: (), move_target, Arguments)}
    for in_place in (False, True):
        with pytest.raises(StoreError, match="leads here"):
            apply_plan(plan_for(store), in_place=in_place, check=False, repairs=repairs)
        assert state(store) == old and areas(store) == []
