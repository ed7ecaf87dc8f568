"""The working tree: reads like the store, takes every change, and none of them reaches the store."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.repair.area.worktree import WorkTree
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace

MTIME = 1_600_000_000_123_456_789
Make = Callable[..., WorkTree]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    for name, data in {
        "commitlog/00000000000000000000": b"a" * 5000,
        "commitlog/00000000000000005000": b"b" * 5000,
        "consumequeue/t/0/00000000000000000000": b"c" * 60,
        "checkpoint": b"d" * 24,
        os.fsdecode(b"config/\xff.json"): b"{}",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, ns=(MTIME, MTIME))
    with (root / "sparse").open("wb") as stream:
        stream.truncate(1 << 22)
        stream.seek(1 << 21)
        stream.write(b"x" * 100)
    (root / "nowhere").symlink_to("/no/such/file")
    (root / "circle").symlink_to(".")
    return root


@pytest.fixture
def make(source: Path, tmp_path: Path) -> Make:
    def clone(borrow: bool = False) -> WorkTree:
        area = tmp_path / "area"
        area.mkdir()
        return WorkTree.clone(source, area, borrow=borrow)

    return clone


def no_links(name: str, _path: str) -> None:
    if name == "link":
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


def state(root: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path.relative_to(root)): (path.stat().st_mtime_ns, path.stat().st_ino, path.read_bytes())
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("kind", ["link", "copy", "borrow"])
def test_clone_reads_like_the_store_and_takes_no_change_back(
    make: Make, source: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(source)
    if kind != "link":
        monkeypatch.setattr(fileops, "watch", no_links)
    tree = make(borrow=kind == "borrow")
    monkeypatch.setattr(fileops, "watch", None)
    log = "commitlog/00000000000000000000"
    assert {name: (data, mtime) for name, (mtime, _, data) in state(tree.root).items()} == {
        name: (data, mtime) for name, (mtime, _, data) in before.items()
    }
    assert tree.is_shared(log) == (kind != "copy")
    assert (tree.root / "nowhere").readlink() == Path("/no/such/file")
    assert (tree.root / "circle").readlink() == Path()
    assert tree.links == []

    tree.write(log, 10, b"NEW")
    tree.write("checkpoint", 24, b"more")
    tree.zero("commitlog/00000000000000005000", 100, 4900)
    tree.resize("sparse", 1 << 21)
    tree.set_mtime("consumequeue/t/0/00000000000000000000", 5)
    assert state(source) == before
    assert not tree.is_shared(log)
    assert tree.read(log, 8, 6) == b"aaNEWa"
    assert tree.size("checkpoint") == 28
    assert tree.read("commitlog/00000000000000005000", 99, 4802) == b"b" + bytes(4800) + b"b"
    assert tree.size("sparse") == 1 << 21
    assert (tree.root / "consumequeue/t/0/00000000000000000000").stat().st_mtime_ns == 5
    assert (tree.root / log).stat().st_mtime_ns == MTIME  # a broker deletes old files by it
    assert not (tree.area / "own.part").exists()


def test_own_copy_is_sparse(make: Make) -> None:
    tree = make()
    tree.write("sparse", 0, b"y")
    assert (tree.root / "sparse").stat().st_blocks * 512 < 1 << 21
    assert tree.read("sparse", 1 << 21, 100) == b"x" * 100


def test_zero_without_hole_punching(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fileops, "_punch_hole", lambda *_: False)
    tree = make()
    tree.zero("commitlog/00000000000000000000", 1, 4999)
    assert tree.read("commitlog/00000000000000000000", 0, 5000) == b"a" + bytes(4998) + b"a"
    tree.zero("checkpoint", 3, 3)
    assert tree.is_shared("checkpoint")
    with pytest.raises(StoreError, match="has no bytes 0 to 25"):
        tree.zero("checkpoint", 0, 25)


def test_create_rename_set_aside_adopt(make: Make, source: Path) -> None:
    before = state(source)
    tree = make()
    tree.create("consumequeue/new/3/00000000000000000000", 6000)
    assert tree.size("consumequeue/new/3/00000000000000000000") == 6000
    with pytest.raises(StoreError, match="File exists"):
        tree.create("checkpoint", 1)
    tree.rename("commitlog/00000000000000005000", "commitlog/00000000000000009000")
    assert tree.names("commitlog") == ["00000000000000000000", "00000000000000009000"]
    with pytest.raises(StoreError, match="exists"):
        tree.rename("checkpoint", "sparse")
    assert tree.set_aside("consumequeue/t") == "consumequeue/t"
    assert not tree.exists("consumequeue/t")
    assert (tree.set_aside_root / "consumequeue/t/0/00000000000000000000").read_bytes() == b"c" * 60

    place = tree.scratch()
    (place / "t/1").mkdir(parents=True)
    (place / "t/1/00000000000000000000").write_bytes(b"n")
    tree.adopt(place / "t", "consumequeue/t")
    assert tree.names("consumequeue/t") == ["1"]
    assert tree.set_aside("consumequeue/t") == "consumequeue/t.2"
    (place / "file").write_bytes(b"new")
    tree.adopt(place / "file", "checkpoint")
    assert tree.read("checkpoint", 0, 3) == b"new"
    assert (tree.set_aside_root / "checkpoint").read_bytes() == b"d" * 24
    assert tree.scratch() != place
    assert state(source) == before


def test_a_directory_of_many_topics_is_not_listed_for_each(
    make: Make, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is next to a new directory is looked up once, and each new one is like it."""
    (source / "consumequeue/t").chmod(0o750)
    tree = make()
    listed: list[str] = []
    names = fileops.list_names

    def list_names(place: ConfinedPlace) -> list[str]:
        listed.append(os.fspath(place))
        return names(place)

    monkeypatch.setattr(fileops, "list_names", list_names)
    for number in range(20):
        tree.create(f"consumequeue/new{number}/0/00000000000000000000", 20)
    assert sum(path.endswith("/consumequeue") for path in listed) == 1
    made = [path for path in (tree.root / "consumequeue").iterdir() if path.name != "t"]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o750] * 20


def test_borrowed_files_are_copied_when_set_aside(
    make: Make, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fileops, "watch", no_links)
    tree = make(borrow=True)
    tree.set_aside("commitlog")
    tree.set_aside("checkpoint")
    tree.set_aside("nowhere")
    for name in ("commitlog/00000000000000005000", "checkpoint"):
        assert not (tree.set_aside_root / name).is_symlink()
        assert (tree.set_aside_root / name).read_bytes() == (source / name).read_bytes()
    assert (tree.set_aside_root / "nowhere").is_symlink()


@pytest.mark.parametrize(
    "name", ["../x", "a/../b", "./a", "a//b", "/etc/passwd", "a\0b", "commitlog/", "circle/checkpoint"]
)
def test_names_that_lead_out_are_refused(make: Make, name: str) -> None:
    tree = make()
    changes = (lambda: tree.write(name, 0, b"x"), lambda: tree.exists(name), lambda: tree.create(name, 1))
    for change in changes:
        with pytest.raises(UsageError):
            change()


def test_errors_name_the_file(make: Make) -> None:
    tree = make()
    for call in (
        lambda: tree.size("missing"),
        lambda: tree.read("missing", 0, 1),
        lambda: tree.names("missing"),
        lambda: tree.write("missing", 0, b""),
        lambda: tree.set_aside("missing"),
        lambda: tree.rename("missing", "other"),
        lambda: tree.adopt(tree.area / "missing", "other"),
    ):
        with pytest.raises(StoreError, match=r"missing|other"):
            call()
    with pytest.raises(StoreError, match="a directory, not a regular file"):
        tree.write("commitlog", 0, b"")
    with pytest.raises(UsageError, match="whole store"):
        tree.set_aside("")


def test_directories_outside_keep_their_full_names(source: Path, tmp_path: Path) -> None:
    second = tmp_path / "disk2"
    second.mkdir()
    (second / "00000000000000010000").write_bytes(b"z" * 10)
    area = tmp_path / "area"
    area.mkdir()
    tree = WorkTree.clone(source, area, outside=[second], without=["checkpoint"])
    name = f"{second}/00000000000000010000"
    assert tree.exists(name) and tree.names(str(second)) == ["00000000000000010000"]
    tree.write(name, 0, b"y")
    assert (second / "00000000000000010000").read_bytes() == b"z" * 10
    assert tree.read(name, 0, 2) == b"yz"
    assert tree.name_of(tree.place(name)) == name
    assert tree.name_of(tree.place("a/b")) == "a/b"
    assert tree.name_of(os.fspath(tree.root)) == ""
    assert tree.name_of("/elsewhere") == "/elsewhere"
    assert not tree.exists("checkpoint")
    with pytest.raises(UsageError):
        tree.exists(f"{second}x/00000000000000010000")


def test_links_out_of_the_store_are_followed_and_others_left_alone(source: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "disk2"
    (source / "commitlog").rename(elsewhere)
    (source / "commitlog").symlink_to(elsewhere)
    (source / "config" / "link").symlink_to("../checkpoint")
    area = tmp_path / "area"
    area.mkdir()
    tree = WorkTree.clone(source, area)
    assert tree.links == ["commitlog"]
    tree.write("commitlog/00000000000000000000", 0, b"A")
    assert (elsewhere / "00000000000000000000").read_bytes() == b"a" * 5000
    link, target, place = "config/link", "checkpoint", tree.scratch()
    calls: list[Callable[[], object]] = [
        *(partial(tree.write, name, 0, b"D") for name in (link, target)),
        *(partial(tree.resize, name, 3) for name in (link, target)),
        *(partial(tree.set_aside, name) for name in (link, target, "commitlog", "config", "circle")),
        *(partial(tree.rename, name, "other") for name in (link, target, "commitlog", "config")),
        *(partial(tree.adopt, place, name) for name in (link, target, "commitlog", "config")),
        *(partial(tree.set_mtime, name, 1) for name in (link, target)),
        *(partial(tree.create, f"{name}/inner", 1) for name in (link, "commitlog/../config/link")),
    ]
    for call in calls:
        with pytest.raises((StoreError, UsageError)):
            call()
    assert (tree.root / link).readlink() == Path("../checkpoint")
    assert (source / "checkpoint").read_bytes() == b"d" * 24 == tree.read("checkpoint", 0, 24)
    tree.set_aside("nowhere")  # nothing is behind it


def test_clone_fails_with_a_name(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(name: str, path: str) -> None:
        if name == "link" and path.endswith("checkpoint"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    area = tmp_path / "area"
    area.mkdir()
    monkeypatch.setattr(fileops, "watch", full)
    with pytest.raises(StoreError, match="checkpoint: cannot be copied: No space left"):
        WorkTree.clone(source, area)
