"""Stores with symbolic links, stores in several places: what is changed where, and what is typed to go on."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from rocketfsck.cli.app import run
from rocketfsck.errors import StoreError
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.undoing import undo
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.repairs.reasons import LINKED
from rocketfsck.store import open_store
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.run import check_store
from rocketfsck.writer.disk import fileops

from tests.cases.test_repair_kill import KilledError, State, counted, killed_at, state
from tests.conftest import NIGHTLY, Directory

MODES = pytest.mark.parametrize("in_place", [False, True], ids=["beside", "in-place"])
NAME = "4.9.8-multiseg"


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


@MODES
def test_a_queue_file_that_links_to_a_file_beside_it_keeps_it(store_copy: Directory, in_place: bool) -> None:
    root = store_copy(NAME)
    file = min((root / "consumequeue" / "Seg0" / "0").iterdir())
    data = file.read_bytes()
    file.rename(file.with_name("real"))
    file.symlink_to("real")
    (root / "commitlog" / "odd.txt").write_text("stray")
    store = open_store(root)
    plan = make_plan(store, check_store(store, CheckOptions(jobs=1)))
    assert [action.target for action in plan.actions] == ["commitlog/odd.txt"]
    assert [(item.rule, item.reason) for item in plan.unanswered] == [("ST003", LINKED)]
    old = state(root)
    assert apply_plan(plan, in_place=in_place).published
    assert file.is_symlink() and file.read_bytes() == data
    assert not (root / "commitlog" / "odd.txt").exists()
    undo(root)
    assert state(root) == old


@MODES
def test_a_log_file_that_links_to_a_directory_above(store_copy: Directory, in_place: bool) -> None:
    """What changes above the store, such as the repair itself, is no change of the store."""
    root = store_copy(NAME)
    (root / "commitlog" / "00000000000099999744").symlink_to("../..")
    (root / "commitlog" / "odd.txt").write_text("stray")
    store = open_store(root)
    plan = make_plan(store, check_store(store, CheckOptions(jobs=1)))
    old = state(root)
    assert apply_plan(plan, in_place=in_place).published
    assert (root / "commitlog" / "00000000000099999744").is_symlink()
    undo(root)
    assert state(root) == old


def stores(place: Path) -> State:
    """All but the time of the directory in which repairs are kept."""
    return {name: found for name, found in state(place).items() if name != "work"}


@pytest.fixture
def scattered(store_copy: Directory, tmp_path: Path) -> Path:
    """A store whose commit log is partly on another disk, with strays in both; its root."""
    root = store_copy(NAME)
    other = tmp_path / "disk two"
    other.mkdir()
    last = max(path for path in (root / "commitlog").iterdir() if path.name.isdigit())
    last.rename(other / last.name)
    for place in (other, root / "commitlog"):
        (place / "odd.txt").write_text("stray")
    (tmp_path / "work").mkdir()
    assert run([
        "plan", str(root), "-o", str(tmp_path / "plan.json"),
        "--commitlog-path", str(root / "commitlog"), "--commitlog-path", str(other),
    ]) == 4  # fmt: skip
    return root


def command_in(text: str) -> list[str]:
    """The command that a message ends with."""
    found = re.search(r"rocketfsck (undo .*)", text.replace("\n", " "))
    assert found is not None, text
    return shlex.split(found[1].removesuffix(" again"))


@pytest.mark.usefixtures("scattered")
def test_the_command_that_is_printed_takes_it_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, other = str(tmp_path / "plan.json"), tmp_path / "disk two"
    before = stores(tmp_path)
    capsys.readouterr()
    assert run(["apply", plan]) == 16
    assert "--in-place --outside" in capsys.readouterr().err.replace("\n", " ")
    assert run(["apply", plan, "--in-place"]) == 16
    assert "--outside" in capsys.readouterr().err
    assert stores(tmp_path) == before
    options = ["--in-place", "--outside", str(other), "--work-dir", str(tmp_path / "work")]
    assert run(["apply", plan, *options]) == 1
    assert not (other / "odd.txt").exists()
    line = next(text for text in capsys.readouterr().out.splitlines() if "rocketfsck undo" in text)
    assert run(command_in(line)) == 0
    assert stores(tmp_path) == before
    capsys.readouterr()


@pytest.mark.parametrize("what", ["undo", "apply"])
def test_the_command_that_an_interrupted_repair_names_finishes(
    scattered: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    plan, other, work = str(tmp_path / "plan.json"), tmp_path / "disk two", tmp_path / "work"
    shutil.copyfile(plan, tmp_path / "other.json")
    assert run(["plan", str(scattered), "-o", str(tmp_path / "other.json"), "--only", "move-stray"]) in (0, 4)
    options = ["--in-place", "--outside", str(other), "--work-dir", str(work)]
    before = stores(tmp_path)

    def once() -> None:
        if what == "apply":
            run(["apply", plan, *options])
        else:
            undo(scattered, work_dir=work, outside=[other])

    if what == "undo":
        run(["apply", plan, *options])
    with counted() as names:
        once()
    with suppress(Exception):
        undo(scattered, work_dir=work, outside=[other])
    assert stores(tmp_path) == before
    named = 0
    half = len(names) // 2
    moments = (
        range(half) if what == "undo" else range(half, len(names))
    )  # what is killed before leaves nothing
    for number in moments[:: 1 if NIGHTLY else max(half // 7, 1)]:
        if what == "undo":
            run(["apply", plan, *options])
        with killed_at(number), suppress(KilledError):
            once()
        capsys.readouterr()
        again = run(["apply", str(tmp_path / "other.json"), *options])
        error = capsys.readouterr().err
        if "interrupted" in error:
            named += 1
            assert again == 8
            assert run(command_in(error)) == 0, error
        else:
            with suppress(Exception):
                undo(scattered, work_dir=work, outside=[other])
            if list(work.iterdir()):
                undo(scattered, work_dir=work, outside=[other])
        assert stores(tmp_path) == before, (number, error)
        capsys.readouterr()
    assert named > 0


def test_a_failed_undo_names_itself(scattered: Path, tmp_path: Path) -> None:
    other, work = tmp_path / "disk two", tmp_path / "work"
    before = stores(tmp_path)
    options = ["--in-place", "--outside", str(other), "--work-dir", str(work)]
    run(["apply", str(tmp_path / "plan.json"), *options])

    def full(name: str, path: str) -> None:
        if name == "rename":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fileops, "watch", full)
        with pytest.raises(StoreError) as caught:
            undo(scattered, work_dir=work, outside=[other])
    said = str(caught.value)
    assert re.search(
        r"undo needs at most [\d,]+ bytes there, and [\d,]+ are free: free [\d,]+ bytes, and run", said
    )
    assert run(command_in(said)) == 0
    assert stores(tmp_path) == before
