"""Apply and undo are killed, and fail, at every file operation they make: the store is old or new.

A kill is told to the process by an exception after which no file operation does anything any more; for the
file system that is the same as SIGKILL, which is sent for real, too, to the command itself.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.results import ApplyReport
from rocketfsck.repair.apply.undoing import undo
from rocketfsck.repair.plan.arguments import Arguments
from rocketfsck.repair.plan.model import Action, Plan
from rocketfsck.repair.plan.planning import describe_store
from rocketfsck.repair.plan.table import ActScene, Repair
from rocketfsck.store import open_store
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace

from tests.conftest import NIGHTLY, Directory

MTIME = 1_600_000_000_000_000_000
MODES = pytest.mark.parametrize("in_place", [False, True], ids=["beside", "in-place"])
STEP = 1 if NIGHTLY else 7
"""Every so many operations: all of them nightly, a seventh of them, in turn by the way, in between."""

WAYS = pytest.mark.parametrize("links", [True, False], ids=["links", "copies"], indirect=True)
State = dict[str, tuple[int, bytes]]


class KilledError(BaseException):
    """Nothing happens in this process any more."""


@contextmanager
def killed_at(number: int, *, torn: bool = False) -> Iterator[None]:
    """Let the process die at its operation `number`; `torn`: within it, if it writes."""
    count = 0

    def watch(_name: str, _path: str) -> None:
        nonlocal count
        count += 1
        if count > number + torn:
            raise KilledError

    write_all = fileops.write_all

    def half(descriptor: int, data: bytes | bytearray | memoryview, pos: int) -> None:
        if torn and count == number + 1:
            write_all(descriptor, data[: len(data) // 2], pos)
            raise KilledError
        write_all(descriptor, data, pos)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fileops, "watch", watch)
        patch.setattr(fileops, "write_all", half)
        yield


@contextmanager
def failing(code: int, wanted: Callable[[int, str], bool]) -> Iterator[None]:
    """Let the operations for whose number and name `wanted` is true fail with an error."""
    count = 0

    def watch(name: str, path: str) -> None:
        nonlocal count
        count += 1
        if wanted(count - 1, name):
            raise OSError(code, os.strerror(code), path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fileops, "watch", watch)
        yield


def at_once(number: int) -> Callable[[int, str], bool]:
    return lambda at, _name: at == number


def making_from(number: int) -> Callable[[int, str], bool]:
    """Everything that needs room on the disk, from an operation on."""
    return lambda at, name: at >= number and name in ("write", "create", "mkdir", "link", "symlink")


@contextmanager
def counted() -> Iterator[list[str]]:
    """The names of all operations that are made."""
    names: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fileops, "watch", lambda name, _path: names.append(name))
        yield names


def state(root: Path) -> State:
    """Every name below a directory with its time and its bytes."""
    found: State = {}
    for path in sorted(root.rglob("*")):
        data = os.fsencode(path.readlink()) if path.is_symlink() else b""
        found[str(path.relative_to(root))] = (
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() else data,
        )
    return found


def content(found: State) -> dict[str, bytes]:
    return {name: data for name, (_, data) in found.items()}


def make_store(root: Path) -> None:
    files = {
        "commitlog/00000000000000000000": b"a" * 4096,
        "commitlog/00000000000000004096": b"b" * 4096,
        "commitlog/00000000000000008192": b"c" * 4096,
        "commitlog/stray": b"s",
        "consumequeue/t/0/00000000000000000000": b"d" * 40,
        "consumequeue/old/0/00000000000000000000": b"e" * 40,
        "checkpoint": b"f" * 24,
        "lock": b"lock",
        "index/20261120090445904": b"g" * 60,
    }
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (root / "dangling").symlink_to("nowhere")
    for path in [*root.rglob("*"), root]:
        os.utime(path, ns=(MTIME, MTIME), follow_symlinks=False)


def change_all(scene: ActScene, _action: Action, _arguments: Arguments) -> None:
    """One of every kind of change."""
    tree = scene.tree
    tree.write("commitlog/00000000000000004096", 5, b"NEW")
    tree.resize("checkpoint", 4096)
    tree.set_aside("commitlog/stray")
    tree.set_aside("consumequeue/old")
    place = tree.scratch()
    (place / "1").mkdir()
    (place / "1" / "00000000000000000000").write_bytes(b"n" * 20)
    tree.adopt(place, "consumequeue/new")
    tree.rename("commitlog/00000000000000000000", "commitlog/x")
    tree.rename("commitlog/00000000000000008192", "commitlog/00000000000000000000")
    tree.rename("commitlog/x", "commitlog/00000000000000008192")
    tree.set_aside("index")
    tree.create("index", 3)


REPAIRS = {"change": Repair("change", 1, "", lambda _scene, _findings: (), change_all, Arguments)}


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that it wrote: the syncs are counted, and need not be waited for."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    make_store(root)
    return root


@pytest.fixture
def plan(store: Path) -> Plan:
    return plan_for(store)


def plan_for(store: Path) -> Plan:
    """Of a told version: the starts of all the others are no matter here, and half of the time."""
    opened = open_store(store, version="5.3.3")
    return Plan(describe_store(opened), "quick", "0", (Action("change", "", ""),))


def fresh(store: Path) -> None:
    """The store as it was, with nothing beside it."""
    for path in store.parent.iterdir():
        shutil.rmtree(path)
    make_store(store)


def apply(plan: Plan, in_place: bool) -> ApplyReport:
    return apply_plan(plan, in_place=in_place, check=False, repairs=REPAIRS)


def areas(store: Path) -> list[Path]:
    return [path for path in store.parent.iterdir() if path != store]


@pytest.fixture
def links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without hard links and without renameat2, where the parameter says so."""
    if request.param:
        return

    def link(_source: ConfinedPlace | str, target: ConfinedPlace) -> None:
        fileops._before("link", target)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(target))

    def exchange(_first: ConfinedPlace, second: ConfinedPlace) -> bool:
        fileops._before("exchange", second)
        return False

    monkeypatch.setattr(fileops, "link", link)
    monkeypatch.setattr(fileops, "exchange", exchange)


def undone(store: Path) -> None:
    """The documented way back: undo, if there is anything to undo."""
    try:
        undo(store)
    except UsageError as error:
        assert "has no repair to undo" in str(error)


def outcomes(store: Path, plan: Plan, in_place: bool) -> tuple[State, dict[str, bytes], list[str], list[str]]:
    """The old state, the new content, and the names of the operations that apply and undo make."""
    old = state(store)
    with counted() as applied:
        report = apply(plan, in_place)
    assert report.published
    new = content(state(store))
    with counted() as taken_back:
        undo(store)
    assert state(store) == old and areas(store) == []
    assert {"fsync", "rename", "write", "create"} <= set(applied)
    return old, new, applied, taken_back


@MODES
@WAYS
@pytest.mark.parametrize("torn", [False, True], ids=["before", "within"])
@pytest.mark.usefixtures("links")
def test_apply_is_killed_at_every_operation(
    store: Path, plan: Plan, in_place: bool, torn: bool, request: pytest.FixtureRequest
) -> None:
    old, new, names, _ = outcomes(store, plan, in_place)
    exchanged = request.node.callspec.params["links"] and not in_place
    for number, name in enumerate(names):
        if torn and name not in ("write", "create"):
            continue  # nothing is written within the others
        if (number + in_place) % STEP:
            continue
        for finish in (True, False) if NIGHTLY else (number % 2 == 0,):
            fresh(store)
            with killed_at(number, torn=torn), pytest.raises(KilledError):
                apply(plan, in_place)
            if exchanged:
                assert content(state(store)) in (content(old), new), number
            if finish:
                assert apply(plan, in_place).published
                assert content(state(store)) == new, number
                assert len(areas(store)) == 1
            undone(store)
            assert state(store) == old, number
            assert areas(store) == [], number


@pytest.mark.parametrize("links", [False], indirect=True)
@pytest.mark.usefixtures("links")
def test_apply_is_killed_between_the_renames_and_taken_back(store: Path, plan: Plan) -> None:
    """Without renameat2 two directories change names in three steps."""
    old, _, names, _ = outcomes(store, plan, False)
    renames = [number for number, name in enumerate(names) if name == "rename"][-6:]
    for number in renames:
        fresh(store)
        with killed_at(number), pytest.raises(KilledError):
            apply(plan, False)
        undone(store)
        assert state(store) == old, number
        assert areas(store) == [], number


@pytest.mark.parametrize("links", [False], indirect=True)
@pytest.mark.parametrize("changed", [False, True], ids=["as left", "changed"])
@pytest.mark.usefixtures("links")
def test_undo_is_killed_between_the_renames(store: Path, plan: Plan, changed: bool) -> None:
    """Whatever was written since the repair is kept, and nothing else is."""
    old, _, _, names = outcomes(store, plan, False)
    swap = names.index("exchange")
    for number in range(swap, swap + 4):
        fresh(store)
        apply(plan, False)
        if changed:
            (store / "commitlog/late").write_bytes(b"since")
        with killed_at(number), pytest.raises(KilledError):
            undo(store, force=changed)
        kept = undo(store, force=changed).kept
        assert state(store) == old, number
        assert bool(kept) == changed == bool(areas(store)), number
        assert not changed or (Path(kept) / "commitlog/late").read_bytes() == b"since", number


@MODES
@WAYS
@pytest.mark.usefixtures("links")
def test_undo_is_killed_at_every_operation(store: Path, plan: Plan, in_place: bool) -> None:
    old, new, _, names = outcomes(store, plan, in_place)
    for number in range(int(in_place), len(names), STEP):
        fresh(store)
        apply(plan, in_place)
        with killed_at(number), pytest.raises(KilledError):
            undo(store)
        if number % 2:  # and once more, in the middle of what finishes it
            with killed_at(number % 7), suppress(KilledError, UsageError):
                undo(store)
        if number % 4 == 2 or NIGHTLY:
            try:
                again = apply(plan, in_place)
            except StoreError as error:
                assert "an undo was interrupted" in str(error)
            else:
                assert again.published and content(state(store)) == new
        undone(store)
        assert state(store) == old, number
        assert areas(store) == [], number


@MODES
@WAYS
@pytest.mark.usefixtures("links")
def test_every_operation_fails_once(store: Path, plan: Plan, in_place: bool) -> None:
    old, new, names, _ = outcomes(store, plan, in_place)
    for number in range(int(in_place), len(names), STEP):
        code = (errno.ENOSPC, errno.EIO)[number % 2]
        fresh(store)
        with failing(code, at_once(number)):
            try:
                published = apply(plan, in_place).published  # an optional operation may fail
            except StoreError as error:
                assert os.strerror(code) in str(error)
                published = False
        found = state(store)
        assert found == old or content(found) == new, number
        if found == old:
            assert not published and areas(store) == [], number
        assert apply(plan, in_place).published
        assert content(state(store)) == new
        with failing(code, at_once(number)):
            try:
                undo(store)
            except StoreError as error:
                assert "again" in str(error)
        undone(store)
        assert state(store) == old, number
        assert areas(store) == []


@MODES
def test_a_disk_that_stays_full(store: Path, plan: Plan, in_place: bool) -> None:
    old, new, names, _ = outcomes(store, plan, in_place)
    for number in range(0, len(names), 1 if NIGHTLY else 5):
        fresh(store)
        with failing(errno.ENOSPC, making_from(number)):
            try:
                apply(plan, in_place)
            except StoreError as error:
                assert "No space left" in str(error)
        if not in_place:
            assert content(state(store)) in (content(old), new), number
        assert apply(plan, in_place).published
        undone(store)
        assert state(store) == old, number
        assert areas(store) == []


@MODES
@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_directory_that_cannot_be_written(store: Path, plan: Plan, in_place: bool, code: int) -> None:
    old = state(store)
    with failing(code, lambda _at, _name: True), pytest.raises(StoreError, match=os.strerror(code)):
        apply(plan, in_place)
    assert state(store) == old and areas(store) == []
    apply(plan, in_place)
    new = state(store)
    with failing(code, lambda _at, _name: True), pytest.raises(StoreError, match=os.strerror(code)):
        undo(store)
    assert state(store) == new
    undo(store)
    assert state(store) == old


def test_another_plan_does_not_finish_an_interrupted_one(store: Path, plan: Plan) -> None:
    old, new, names, _ = outcomes(store, plan, True)
    number = len(names)
    while content(state(store)) in (content(old), new):
        number -= 1
        fresh(store)
        with killed_at(number), pytest.raises(KilledError):
            apply(plan, True)
    with pytest.raises(StoreError, match="another plan was interrupted here"):
        apply(replace(plan, tool_version="1"), True)
    undo(store)
    assert state(store) == old


COMMAND = (
    "import sys; from rocketfsck.cli.app import run; print('ready', flush=True); sys.exit(run(sys.argv[1:]))"
)


def start(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", COMMAND, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def run_to_the_end(*arguments: str) -> tuple[int, float]:
    """Exit status, and how long it took from its start on."""
    with start(*arguments) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        begun = time.monotonic()
        process.communicate()
        return process.returncode, time.monotonic() - begun


def run_and_kill(delay: float, *arguments: str) -> int:
    with start(*arguments) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        try:
            process.communicate(timeout=delay)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        return process.returncode


def kill_for_real(root: Path, moments: list[float], in_place: bool) -> None:
    plan_path, mode = str(root.parent / "plan.json"), ["--in-place"] if in_place else []
    old = state(root)
    assert run_to_the_end("plan", str(root), "-o", plan_path)[0] == 4
    code, seconds = run_to_the_end("apply", plan_path, *mode)
    assert code & 1
    new = content(state(root))
    assert run_to_the_end("undo", str(root))[0] == 0
    for moment in moments:
        run_and_kill(moment * seconds, "apply", plan_path, *mode)
        assert run_to_the_end("apply", plan_path, *mode)[0] == code
        assert content(state(root)) == new
        run_and_kill(moment * seconds / 2, "undo", str(root))
        assert run_to_the_end("undo", str(root))[0] in (0, 16)  # 16: it had been at its end
        assert state(root) == old
        assert {path.name for path in root.parent.iterdir()} == {root.name, "plan.json"}


@pytest.fixture
def torn(restart_dir: Directory, tmp_path: Path) -> Path:
    return Path(shutil.copytree(restart_dir("4.9.8-basic--torn-tail"), tmp_path / "place" / "store"))


@MODES
def test_the_command_is_killed(torn: Path, in_place: bool) -> None:
    kill_for_real(torn, [0.9] if in_place else [0.5, 3.0], in_place)  # the last: after its end


@pytest.mark.nightly
@MODES
def test_the_command_is_killed_at_many_moments(torn: Path, in_place: bool) -> None:
    kill_for_real(torn, [random.random() * 1.1 for _ in range(60)], in_place)
