"""Acts that take bytes from another copy, and the view in which they are tried: what they refuse."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from rocketfsck.errors import StoreError
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.undoing import undo
from rocketfsck.repair.heal.plan import HealOptions, _wanted, plan_heal
from rocketfsck.repair.plan.arguments import CopiedRanges, RangeArgument
from rocketfsck.repair.plan.model import Action, Extent
from rocketfsck.repair.plan.tried import TriedStore
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.views.messages import read_messages
from rocketfsck.store import open_store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace

from tests.conftest import Directory

LOG = "commitlog/00000000000000000000"
DATA = b"bytes of the other copy"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "other"
    path.write_bytes(DATA)
    return path


def action(other: Path, *ranges: tuple[int, int], digest: str = "", size: int = len(DATA)) -> Action:
    sha256 = digest or hashlib.sha256(DATA[:size]).hexdigest()
    arguments = CopiedRanges(tuple(RangeArgument(*pair) for pair in ranges), 0, 65536, 0)
    return Action("heal-log", LOG, "", arguments, sources=(Extent(str(other), 0, size, sha256),))


@pytest.fixture
def view(store_dir: Directory, tmp_path: Path) -> TriedStore:
    place = tmp_path / "view"
    place.mkdir()
    return TriedStore(open_store(store_dir("5.1.3-basic")), place, ())


def test_bytes_are_taken_and_the_old_ones_kept(view: TriedStore, other: Path, store_dir: Directory) -> None:
    root = store_dir("5.1.3-basic")
    before = (root / LOG).read_bytes()
    view.carry_out([action(other, (1000, 1000 + len(DATA)))])
    tried = Path(view.reopen().root) / LOG
    assert tried.read_bytes() == before[:1000] + DATA + before[1000 + len(DATA) :]
    assert tried.stat().st_mtime_ns == (root / LOG).stat().st_mtime_ns
    [aside] = [path for path in (tried.parents[2] / "set-aside").rglob("*") if path.is_file()]
    assert aside.read_bytes() == before[1000 : 1000 + len(DATA)]
    assert (root / LOG).read_bytes() == before and (root / LOG).stat().st_nlink == 1


@pytest.mark.parametrize(
    ("ranges", "says"),
    [
        ((), "length differs"),
        (((1000, 1022),), "length differs"),
        (((1000, 1010), (1010, 1023)), "length differs"),
        (((1000, 1000),), "does not have these ranges"),
        (((-5, 18),), "does not have these ranges"),
        (((1023, 1000),), "does not have these ranges"),
        (((65530, 65553),), "does not have these ranges"),
        (((2000, 2010), (1000, 1013)), "does not have these ranges"),
    ],
)
def test_ranges_that_cannot_be(
    view: TriedStore, other: Path, ranges: tuple[tuple[int, int], ...], says: str
) -> None:
    with pytest.raises(StoreError, match=says):
        view.carry_out([action(other, *ranges)])
    assert (Path(view.reopen().root) / LOG).is_symlink()  # still the store's own


def test_what_changes_while_it_is_read(view: TriedStore, other: Path) -> None:
    with pytest.raises(StoreError, match="changed while it was read"):
        view.carry_out([action(other, (0, len(DATA)), digest="00")])


def test_a_view_says_what_the_store_says(view: TriedStore, store_dir: Directory) -> None:
    options = CheckOptions(now_timestamp=1_800_000_000_000, jobs=1)
    there = check_store(open_store(store_dir("5.1.3-basic")), options)
    here = check_store(view.reopen(), options)
    assert here.counts == there.counts
    assert [finding.fingerprint for finding in here.findings] == [
        finding.fingerprint for finding in there.findings
    ]
    assert view.name_of(f"{view.reopen().root}/{LOG}") == view.name_of(LOG) == LOG


def test_links_to_directories_are_followed_and_circles_not(store_copy: Directory, tmp_path: Path) -> None:
    root = store_copy("5.1.3-basic")
    (root / "commitlog").rename(tmp_path / "log")
    (root / "commitlog").symlink_to(tmp_path / "log")
    (root / "config" / "circle").symlink_to(root)
    place = tmp_path / "view"
    place.mkdir()
    store = open_store(root)
    tried = TriedStore(store, place, ()).reopen()
    assert [file.name for file in tried.commitlog.files] == [file.name for file in store.commitlog.files]
    assert (place / "store" / "commitlog").is_dir() and not (place / "store" / "commitlog").is_symlink()
    assert (place / "store" / "config" / "circle").is_symlink()


def test_a_log_outside_of_the_root(store_copy: Directory, store_dir: Directory, tmp_path: Path) -> None:
    """It is healed where it is; the view has it beside."""
    root = store_copy("4.9.8-multiseg")
    (root / "commitlog").rename(tmp_path / "log")
    names = sorted((tmp_path / "log").iterdir())
    before = names[1].read_bytes()
    with FileReader(names[1]) as reader:
        message = next(m for m in read_messages(reader, 131072, ScanOptions()) if m.body_size > 40)
    with names[1].open("r+b") as stream:
        stream.seek(message.body_pos)
        stream.write(b"damaged")
    store = open_store(root, commitlog_paths=[tmp_path / "log"])
    plan, _ = plan_heal(store, open_store(store_dir("4.9.8-multiseg")), HealOptions())
    assert [item.target for item in plan.actions] == [str(names[1])]
    assert names[1].read_bytes() != before
    assert apply_plan(plan, in_place=True, outside=[tmp_path / "log"]).published
    assert names[1].read_bytes() == before
    undo(root, outside=[tmp_path / "log"])
    assert names[1].read_bytes() != before


def test_no_room(store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: Path) -> None:
    store = open_store(store_dir("5.1.3-basic"))
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_bavail=1, f_frsize=4096))
    with pytest.raises(StoreError, match="4,096 are free; name another place with --work-dir"):
        TriedStore(store, tmp_path, [action(other, (0, 23))])


def test_a_place_that_cannot_be_written(
    store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_source: str, target: ConfinedPlace) -> None:
        raise OSError(28, os.strerror(28), str(target))

    monkeypatch.setattr(fileops, "symlink", fail)
    with pytest.raises(StoreError, match="cannot be written: No space left"):
        TriedStore(open_store(store_dir("5.1.3-basic")), tmp_path, ())
    shutil.rmtree(tmp_path / "store")


def test_what_needs_an_action_that_a_heal_leaves_out_is_left_out_too() -> None:
    """A heal leaves damage of the log to other copies; queues are not cut at an end that is not made."""
    tail = Action("zero-stale-tail", "commitlog/0", "", why=("tail",))
    cut = Action("cut-queue", "consumequeue/T/0", "", why=("new",))
    index = Action("rebuild-index", "index", "", why=("new",))
    assert list(_wanted([tail, cut, index], {"new"})) == [index]
    assert list(_wanted([cut, index], {"new"})) == [cut, index]
