"""Nothing that a plan, a journal, a record or a link says leads a writer out of its directories."""

from __future__ import annotations

import ast
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.errors import NoStoreError, RocketfsckError, StoreError, UsageError
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.undoing import undo
from rocketfsck.repair.area.journal import find_areas, make_area
from rocketfsck.repair.build.files import make_directory, write_part
from rocketfsck.repair.plan.arguments import NewSize
from rocketfsck.repair.plan.model import Action, Plan
from rocketfsck.repair.plan.planning import describe_store
from rocketfsck.store import open_store
from rocketfsck.store.inuse import JOURNAL
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace, enter_root, open_root, place_at

from tests.conftest import NIGHTLY
from tests.unit.repair.core.plans import REPAIRS, plan_of, snapshot

SOURCE = Path(__file__).parents[4] / "src" / "rocketfsck"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A directory that nobody named for writing."""
    root = tmp_path / "victim"
    (root / "inner").mkdir(parents=True)
    (root / "empty").mkdir()
    for name in ("precious", "inner/precious", "00000000000000000000"):
        (root / name).write_bytes(b"precious" * 1000)
    return root


def state(root: Path) -> dict[str, tuple[int, ...]]:
    """All of a directory, and of its own status, that a change of anything would change."""
    return {
        str(path): (status.st_mode, status.st_uid, status.st_size, status.st_mtime_ns, status.st_nlink)
        for path in (root, *root.rglob("*"))
        for status in (path.lstat(),)
    } | {f"{path}!": (hash(path.read_bytes()),) for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["..", "../x", "a/../b", "/x", "a//b", "./a", "a/", "a\0b"])
def test_names_that_lead_out_are_no_places(tmp_path: Path, name: str) -> None:
    with open_root(tmp_path) as root, pytest.raises(UsageError):
        root / name
    with pytest.raises(UsageError):
        place_at(f"{tmp_path}/x")  # nothing is open any more


def test_only_what_a_root_was_opened_for(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    root = open_root(tmp_path, only=frozenset({"mine"}))
    fileops.create(root / "mine/file", 0)
    for name in ("other", "minea", "other/mine"):
        with pytest.raises(UsageError, match="outside of what"):
            root / name
    with pytest.raises(UsageError, match="opened for writing"):
        place_at(tmp_path / "other")
    assert place_at(tmp_path / "mine" / "other").root is root
    inner = enter_root(root / "mine")
    assert place_at(tmp_path / "mine" / "other") == inner / "other"
    with pytest.raises(UsageError, match="does not write there"):
        inner.place_of(f"{tmp_path}/mine2/x")


OPERATIONS: list[Callable[[ConfinedPlace, ConfinedPlace], object]] = [
    lambda place, _: fileops.create(place, 1),
    lambda place, _: fileops.write(place, 0, b"x"),
    lambda place, _: fileops.truncate(place, 0),
    lambda place, _: fileops.punch(place, 0, 4),
    lambda place, _: fileops.unlink(place),
    lambda place, _: fileops.make_directory(place),
    lambda place, _: fileops.remove_directory(place),
    lambda place, _: fileops.remove_tree(place),
    lambda place, _: fileops.set_times(place, 1, 1),
    lambda place, _: fileops.set_mode(place, 0),
    lambda place, _: fileops.write_new(place, b"x"),
    lambda place, _: fileops.write_part(place, b"x", 0, 3, 1),
    lambda place, _: fileops.symlink("x", place),
    lambda place, own: fileops.rename(own, place),
    lambda place, own: fileops.rename(place, own),
    lambda place, own: fileops.exchange(place, own),
    lambda place, own: fileops.link(own, place),
    lambda place, own: fileops.copy(own, place),
    lambda place, _: fileops.make_directories(place / "deeper"),
]


@pytest.mark.parametrize("number", range(len(OPERATIONS)))
@pytest.mark.parametrize("name", ["link/precious", "link/new", "link/empty", "link/inner/precious", "file"])
def test_no_operation_goes_through_a_link(tmp_path: Path, victim: Path, number: int, name: str) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "link").symlink_to(victim)
    (mine / "file").symlink_to(victim / "precious")
    (mine / "own").write_bytes(b"own")
    before = state(victim)
    root = open_root(mine)
    try:
        OPERATIONS[number](root / name, root / "own")
    except OSError:
        pass
    else:
        assert name == "file" or number == 7  # the link itself is what was named; nothing to remove
    assert state(victim) == before


def test_directories_that_become_links_meanwhile(tmp_path: Path, victim: Path) -> None:
    mine = tmp_path / "mine"
    (mine / "a" / "b").mkdir(parents=True)
    root, before = open_root(mine), state(victim)
    (mine / "a").rename(mine / "was")
    (mine / "a").symlink_to(victim)
    (victim / "b").mkdir()
    before = state(victim)
    with pytest.raises(OSError, match="directory"):
        fileops.create(root / "a/b/file", 1)
    mine.rename(tmp_path / "moved")
    mine.symlink_to(victim)
    fileops.create(root / "was/file", 1)
    assert (tmp_path / "moved" / "was" / "file").exists()  # the handle stays with its directory
    assert state(victim) == before
    with pytest.raises(OSError, match="directory"):
        open_root(mine)


@pytest.mark.parametrize("name", ["../victim/x", "consumequeue/../../victim/precious", "link/precious"])
def test_names_made_of_what_records_say(tmp_path: Path, victim: Path, name: str) -> None:
    """A topic of a record becomes a directory, which is in the one being built whatever its name."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "link").symlink_to(victim)
    before = state(victim)
    with open_root(mine):
        with pytest.raises((UsageError, StoreError)):
            write_part(mine / name, b"x", 0, 1, None)
        with pytest.raises((UsageError, StoreError)):
            make_directory(mine / name)
    assert state(victim) == before


def journal_of(root: Path) -> Path:
    (area,) = find_areas(str(root), None)
    return Path(area.at(JOURNAL))


def hostile(victim: Path) -> list[dict[str, Any]]:
    """What a journal could say to make undo, or apply, write to another directory."""
    times = {"mode": 0o777, "atime_ns": 1, "mtime_ns": 1}
    found: list[dict[str, Any]] = []
    ways = [
        *((0, path) for path in (str(victim / "precious"), "../victim/precious", "a/../../victim/precious")),
        *((0, path) for path in ("leak/precious", "leak/new", "leak/inner/precious", "leak/empty")),
        *((base, path) for base in (1, 2, -1, 1 << 40) for path in ("precious", "new", "inner", "")),
    ]
    for base, path in ways:
        for staged, saved in (("before/0", None), (None, "before/0"), ("before/0", "before/0"), (None, None)):
            change = {"base": base, "path": path, "staged": staged, "saved": saved}
            found.append({"changes": [change]})
        item = {"base": base, "path": path, **times}
        found += [{name: [item]} for name in ("made", "removed", "touched")]
    return found


@pytest.mark.parametrize("state_name", ["ready", "applied", "undoing"])
@pytest.mark.parametrize("outside", [False, True])
def test_a_hostile_journal_writes_nowhere_else(
    damaged: Path, victim: Path, tmp_path: Path, state_name: str, outside: bool
) -> None:
    (damaged / "leak").symlink_to(victim)
    plan = replace(plan_of(damaged, only=["move-stray"]))
    before = state(victim)
    for number, change in enumerate(hostile(victim)):
        area = make_area(str(damaged), None, "in-place", "00")
        document = json.loads(Path(area.at(JOURNAL)).read_text())
        (area.path / "before").mkdir()
        (area.path / "before" / "0").write_text("hostile")
        manifest = {"before": {}, "after": area.list_store()}
        (area.path / "manifests.json").write_text(json.dumps(manifest))
        document |= {"state": state_name, **change}
        document |= {"outside": [str(victim)]} if outside else {}
        Path(area.at(JOURNAL)).write_text(json.dumps(document))
        for call in (
            lambda: apply_plan(plan, in_place=True, repairs=REPAIRS),
            lambda: undo(damaged, force=True),
        ):
            with suppress(RocketfsckError):
                call()
        assert state(victim) == before, (number, change)
        for path in tmp_path.glob("store.before-*"):
            shutil.rmtree(path)


NAMES = ("store", "spare", "before", "after", "outside", "set-aside", "manifests.json")
LINKED = [
    (state_name, name, in_place)
    for number, (state_name, name) in enumerate(
        product(("building", "ready", "applied", "undoing", "undone"), NAMES)
    )
    for in_place in ((False, True) if NIGHTLY else (number % 2 == 0,) if number % 3 == 0 else ())
]


@pytest.mark.parametrize(("state_name", "name", "in_place"), LINKED)
def test_links_in_an_area_are_not_followed(
    damaged: Path, victim: Path, state_name: str, name: str, in_place: bool
) -> None:
    before, plan = state(victim), plan_of(damaged, only=["move-stray"])
    report = apply_plan(plan, in_place=in_place, check=False, repairs=REPAIRS)
    kept = Path(report.kept)
    path = kept / name
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()
    path.symlink_to(victim)
    text = (kept / JOURNAL).read_text().replace('"state": "applied"', f'"state": "{state_name}"')
    (kept / JOURNAL).write_text(text)
    for call in (lambda: undo(damaged, force=True), lambda: apply_plan(plan, check=False, repairs=REPAIRS)):
        with suppress(RocketfsckError):
            call()
    assert state(victim) == before


ACTIONS = [
    Action("move-stray", "{victim}/precious", ""),
    Action("move-stray", "{victim}", ""),
    Action("move-stray", "../victim/precious", ""),
    Action("move-stray", "leak/precious", ""),
    Action("resize-segment", "{victim}/00000000000000000000", "", NewSize(5)),
    Action("resize-segment", "leak/00000000000000000000", "", NewSize(5)),
]


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: f"{action.name} {action.target}")
@pytest.mark.parametrize("named", [False, True], ids=["unnamed", "as-log"])
@pytest.mark.parametrize("in_place", [False, True])
def test_a_hostile_plan_changes_no_other_directory(
    damaged: Path, victim: Path, action: Action, named: bool, in_place: bool
) -> None:
    (damaged / "leak").symlink_to(victim)
    planned = describe_store(open_store(damaged))
    if named:
        planned = replace(planned, commitlog_paths=(str(victim),))
    action = replace(action, target=action.target.format(victim=victim))
    before = state(victim), snapshot(damaged)
    with pytest.raises(RocketfsckError) as caught:
        apply_plan(Plan(planned, "quick", "0", (action,)), in_place=in_place, check=False)
    assert (state(victim), snapshot(damaged)) == before
    if named:
        assert "--outside" in str(caught.value)


@pytest.mark.parametrize("in_place", [False, True])
def test_a_plan_for_a_directory_that_is_no_store(damaged: Path, victim: Path, in_place: bool) -> None:
    planned = replace(describe_store(open_store(damaged)), root=str(victim / "inner"))
    before = state(victim)
    plan = Plan(planned, "quick", "0", (Action("move-stray", "precious", ""),))
    with pytest.raises(NoStoreError, match="no RocketMQ store is here"):
        apply_plan(plan, in_place=in_place, check=False)
    after = state(victim)
    assert {name: found for name, found in after.items() if name.endswith("precious")} == {
        name: found for name, found in before.items() if name.endswith("precious")
    }


def test_a_directory_that_is_no_store_is_refused_before_it_is_listed(damaged: Path, tmp_path: Path) -> None:
    """Whatever is below it may be without end; here it is too deep for any path."""
    deep = tmp_path / "deep"
    deep.mkdir()
    descriptor = os.open(deep, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 255, dir_fd=descriptor)
        inner = os.open("d" * 255, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    plan = Plan(
        replace(describe_store(open_store(damaged)), root=str(deep)),
        "quick",
        "0",
        (Action("move-stray", "precious", ""),),
    )
    with pytest.raises(NoStoreError, match="no RocketMQ store is here"):
        apply_plan(plan, in_place=True, check=False)


def test_a_directory_of_the_store_becomes_a_link_while_it_is_repaired(
    damaged: Path, victim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also between the journal's last check and the rename: nothing is written where the link leads."""
    for name in ("commitlog", "consumequeue"):
        shutil.copytree(damaged / name, victim / name)
    before = state(victim)
    plan = plan_of(damaged)
    writes: list[str] = []
    monkeypatch.setattr(fileops, "watch", lambda name, path: writes.append(f"{name} {path}"))
    apply_plan(plan, in_place=True, repairs=REPAIRS)
    undo(damaged)
    into = [number for number, text in enumerate(writes) if f" {damaged}/" in text]
    for number in into[:: max(len(into) // 6, 1)]:
        count = 0

        def swap(_name: str, _path: str, at: int = number) -> None:
            nonlocal count
            count += 1
            if count == at + 1:
                for name in ("commitlog", "consumequeue"):
                    (damaged / name).rename(tmp_path / name)
                    (damaged / name).symlink_to(victim / name)

        monkeypatch.setattr(fileops, "watch", swap)
        with suppress(RocketfsckError):
            apply_plan(plan, in_place=True, repairs=REPAIRS)
        monkeypatch.setattr(fileops, "watch", None)
        assert state(victim) == before
        for name in ("commitlog", "consumequeue"):
            if (damaged / name).is_symlink():
                (damaged / name).unlink()
                (tmp_path / name).rename(damaged / name)
        with suppress(UsageError):  # nothing had been begun
            undo(damaged, force=True)
        for path in tmp_path.glob("store.before-*"):
            shutil.rmtree(path)


OPENERS = {"open", "write_bytes", "write_text", "unlink", "rename", "replace", "mkdir", "makedirs", "rmdir",
           "remove", "removedirs", "rmtree", "link", "symlink", "symlink_to", "hardlink_to", "chmod", "chown",
           "lchown", "utime", "truncate", "touch", "copy2", "copytree", "copyfile", "move", "mkdtemp",
           "TemporaryDirectory", "NamedTemporaryFile", "setxattr", "removexattr"}  # fmt: skip
"""Methods and functions that change a file system by a path, or may."""

ALLOWED = {
    ("writer/disk/fileops.py", "*"): "the one module",
    ("writer/disk/confined.py", "open"): "opens directories, by their handles",
    ("writer/disk/confined.py", "*"): "changes traits of files that are open",
    ("writer/disk/publish.py", "open"): "syncs a directory; opened for reading",
    ("writer/input/rows.py", "open"): "input, opened for reading",
    ("writer/commitlog.py", "open"): "reads back what was written",
    ("writer/damage/editing.py", "open"): "reads a file of the copy",
    (
        "repair/area/journal.py",
        "open",
    ): "the lock that a broker takes is locked, through a link, too; not written",
    ("writer/damage/databasefaults.py", "TemporaryDirectory"): "scratch space of its own",
    ("repair/apply/results.py", "open"): "reads the log of repairs",
    ("repair/heal/plan.py", "TemporaryDirectory"): "scratch space of its own",
    ("repair/plan/tried.py", "TemporaryDirectory"): "scratch space of its own",
    ("repair/area/worktree.py", "rename"): "of the tree that it is",
}


def test_only_one_module_changes_files() -> None:
    """What else in repair and writer names a file by a path and could change it is listed with its reason."""
    found: set[tuple[str, str]] = set()
    for path in sorted([*SOURCE.glob("writer/**/*.py"), *SOURCE.glob("repair/**/*.py")]):
        module = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            function = node.func
            if isinstance(function, ast.Name) and function.id == "open":
                found.add((module, "open"))
            if not isinstance(function, ast.Attribute) or function.attr not in OPENERS:
                continue
            owner = ast.unparse(function.value)
            if owner in ("fileops", "self.tree", "tree", "scene.tree", "job.editor") or owner.endswith(
                "editor"
            ):
                continue  # these are it, or end there
            if function.attr in ("replace", "copy2") and owner not in ("os", "part", "path"):
                continue  # of text and of dataclasses
            if function.attr in ("remove", "truncate", "move") and owner not in ("os", "shutil", "path"):
                continue  # of lists, tables and streams
            found.add((module, function.attr))
    left = {item for item in found if item not in ALLOWED and (item[0], "*") not in ALLOWED}
    assert left == set()
    assert {item for item in ALLOWED if item[1] != "*"} <= found  # the list has nothing that is gone


def test_a_root_is_closed_with_its_last_reference(tmp_path: Path) -> None:
    root = open_root(tmp_path)
    descriptor = root.descriptor
    del root
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(descriptor)
