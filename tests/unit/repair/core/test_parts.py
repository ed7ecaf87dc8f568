"""What apply and undo are made of: areas, locks, manifests, single operations; and how they fail."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.common.documents import from_document, to_document
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.repair.apply.publish import bring, second_name, take_back
from rocketfsck.repair.apply.undoing import undo
from rocketfsck.repair.area.journal import Journal, StoreLock, find_areas, make_area, only_repair, read_file
from rocketfsck.repair.area.journal import write_file as write_json
from rocketfsck.repair.area.manifests import Cloner, changed_files, list_files, pins_of, some_of
from rocketfsck.store.inuse import JOURNAL, unfinished_repair
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import Traits, give_traits, lost_traits, open_root, traits_of


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "store").mkdir()
    return str(tmp_path / "store")


def test_areas_are_found_by_name_and_journal(root: str, tmp_path: Path) -> None:
    first = make_area(root, None, "beside", "aa")
    second = make_area(root, None, "in-place", "bb", ("/x",), {"/x": 1})
    begun = tmp_path / "store.before-20260101T000000Z-000000"
    foreign = tmp_path / "store.before-20260101T000000Z-000001"
    for path in (begun, foreign, tmp_path / "store.before-upgrade"):
        path.mkdir()
    (begun / "journal.json.part").write_text("{")
    (foreign / "precious").write_text("")
    (tmp_path / "store.before-20260101T000000Z-000002").write_text("")
    other = make_area(str(tmp_path / "store.before-x"), None, "beside", "cc")
    assert [area.journal for area in find_areas(root, None)] == [first.journal, second.journal]
    assert not begun.exists()
    assert foreign.exists() and other.path.exists() and (tmp_path / "store.before-upgrade").exists()
    assert from_document(Journal, to_document(second.journal), "journal") == second.journal
    with pytest.raises(StoreError, match="cannot be listed"):
        find_areas(root, tmp_path / "none")


def test_an_area_of_a_store_whose_name_is_not_utf8_is_found(tmp_path: Path) -> None:
    store = tmp_path / os.fsdecode(b"st\xf6re")
    store.mkdir()
    assert unfinished_repair(store) is None
    area = make_area(str(store), None, "beside", "aa")
    found = unfinished_repair(store)
    assert found is not None and found.directory == area.path.name and not found.is_mixed


@pytest.mark.parametrize(
    ("changes", "is_mixed"),
    [
        ({"schema_version": 9, "invented": 1}, True),  # by another version of this program
        ({"mode": "beside"}, False),
        ({"state": "applied"}, None),
        ({"state": "odd"}, None),
        ({"store": "/elsewhere"}, None),
    ],
)
def test_what_an_open_store_tells_of_a_journal(
    root: str, changes: dict[str, Any], is_mixed: bool | None
) -> None:
    area = make_area(root, None, "in-place", "aa").moved("ready")
    document = json.loads(Path(area.at(JOURNAL)).read_text())
    Path(area.at(JOURNAL)).write_text(json.dumps({**document, **changes}))
    found = unfinished_repair(Path(root))
    assert (None if found is None else found.is_mixed) is is_mixed


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("state", "odd", "state: invalid enum value"),
        ("mode", "odd", "mode: invalid enum value"),
        ("schema_version", 1, "another version"),
        ("changes", [{"base": 0, "path": "x", "staged": "../x", "saved": None}], "leads out"),
        ("changes", [{"base": 0, "path": "x", "staged": None, "saved": "/etc/passwd"}], "leads out"),
        ("changes", 3, "not a journal"),
        ("changes", [{"base": 1, "path": "x", "staged": None, "saved": None}], "leads out"),
        ("touched", [{"base": 0, "path": "..", "mode": 0, "atime_ns": 0, "mtime_ns": 0}], "leads out"),
        ("made", [{"base": 0, "path": "x", "mode": 1 << 40, "atime_ns": 0, "mtime_ns": 0}], "permissions"),
        ("logs", {"/x": 1}, "leads out"),
        ("outside", ["x\0"], "impossible paths"),
        ("store", "", "impossible paths"),
        ("tells", [{"file": "../x", "pos": None, "old": "", "new": ""}], "leads out"),
    ],
)
def test_a_journal_that_cannot_be_trusted(root: str, name: str, value: Any, says: str) -> None:
    area = make_area(root, None, "in-place", "aa")
    document = json.loads(Path(area.at(JOURNAL)).read_text())
    Path(area.at(JOURNAL)).write_text(json.dumps({**document, name: value}))
    with pytest.raises(StoreError, match=says):
        undo(root)
    assert Path(area.at(JOURNAL)).exists()


def test_an_area_whose_journal_cannot_be_written_is_not_left(root: str, tmp_path: Path) -> None:
    def full(name: str, path: str) -> None:
        if name == "create":
            raise OSError(errno.ENOSPC, "full", path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fileops, "watch", full)
        with pytest.raises(OSError, match="full"):
            make_area(root, None, "beside", "")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_json_files_appear_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "x.json")
    Path(path + ".part").write_text("left from before")
    write_json(open_root(tmp_path) / "x.json", {"a": "\udcff\x7f"})
    assert read_file(path, "journal") == {"a": "\udcff\x7f"}
    assert not Path(path + ".part").exists()
    Path(path).write_text("{")
    with pytest.raises(StoreError, match="not JSON"):
        read_file(path, "journal")


def test_trees_are_removed_without_following_links(tmp_path: Path) -> None:
    outside, tree = tmp_path / "outside", tmp_path / "tree"
    (outside / "inner").mkdir(parents=True)
    (tree / "closed").mkdir(parents=True)
    (tree / "closed" / "file").write_text("")
    (tree / "closed").chmod(0)
    (tree / "link").symlink_to(outside)
    (tree / "kept").mkdir()
    place = open_root(tmp_path) / "tree"
    fileops.remove_tree(place, ["kept"])
    assert [path.name for path in tree.iterdir()] == ["kept"]
    fileops.remove_tree(place)
    fileops.remove_tree(place)
    assert not tree.exists() and (outside / "inner").exists()


def test_undo_of_what_was_never_published(root: str) -> None:
    area = make_area(root, None, "beside", "aa")
    report = undo(root)
    assert report.finished and not area.path.exists()
    with pytest.raises(UsageError):
        undo(root)


def test_a_directory_that_is_gone_or_made_anew(root: str) -> None:
    area = make_area(root, None, "beside", "aa")
    with pytest.raises(StoreError, match="is missing"):
        bring(area, "old")
    Path(area.at("store")).mkdir()
    Path(area.at("spare")).mkdir()
    with pytest.raises(StoreError, match="was created again"):
        bring(area, "old")


def test_taking_nothing_back(root: str) -> None:
    take_back(make_area(root, None, "in-place", "aa"))


def no_links(name: str, path: str) -> None:
    if name == "link":
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)


def test_second_names(tmp_path: Path) -> None:
    root = open_root(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    second_name(root / "fifo", root / "other")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fileops, "watch", no_links)
        with pytest.raises(OSError, match="cross-device"):
            second_name(root / "fifo", root / "third")
    with pytest.raises(FileExistsError):
        second_name(root / "fifo", root / "other")


def test_renameat2_is_missing_or_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    root = open_root(tmp_path)
    first, second = root / "a", root / "b"
    assert fileops.exchange(first, second)
    with pytest.raises(FileNotFoundError):
        fileops.exchange(first, root / "none")

    class Library:
        def renameat2(self, *_arguments: object) -> int:
            ctypes.set_errno(errno.EINVAL)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_a, **_k: Library())
    assert not fileops.exchange(first, second)
    (tmp_path / "file").write_bytes(b"abc")
    fileops.punch(root / "file", 1, 2)  # no fallocate there: zeros are written
    assert (tmp_path / "file").read_bytes() == b"a\0c"
    monkeypatch.setattr(ctypes, "CDLL", lambda *_a, **_k: object())
    assert not fileops.exchange(first, second)


def test_owners_and_reflinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * 10)
    source.chmod(0o640)
    asked: list[tuple[int, int]] = []
    wanted = Traits(12345, 23456, 0o640, {})
    monkeypatch.setattr(os, "chown", lambda _place, user, group: asked.append((user, group)))
    with source.open("r+b") as stream:
        give_traits(stream.fileno(), wanted)
    assert asked == [(12345, 23456)]
    assert lost_traits(wanted, traits_of(str(source))) == ("owner 12345", "group 23456")

    def refuse(*_arguments: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "chown", refuse)
    with source.open("r+b") as stream:
        give_traits(stream.fileno(), wanted)  # `lost_traits` says so
    cloned: list[int] = []
    monkeypatch.setattr(fcntl, "ioctl", lambda _target, code, _source: cloned.append(code))
    fileops.copy(str(source), open_root(tmp_path) / "copy")
    assert cloned and (tmp_path / "copy").stat().st_mode & 0o777 == 0o640


def test_locks_that_cannot_be_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = StoreLock(str(tmp_path))
    lock.take()
    lock.renew()
    assert lock.content() is None
    (tmp_path / "lock").mkdir()
    lock.take()
    assert lock.content() is None
    (tmp_path / "lock").rmdir()
    (tmp_path / "lock").symlink_to("lock")
    lock.take()
    assert lock.content() is None
    (tmp_path / "lock").unlink()
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be opened"):
        StoreLock(str(tmp_path / "file")).take()
    (tmp_path / "lock").write_bytes(b"lock" * (1 << 20))
    lock.take()
    with pytest.raises(StoreError, match="move it away"):
        lock.content()
    lock.release()

    def no_locks(*_arguments: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "lockf", no_locks)
    with pytest.raises(StoreError, match="cannot be locked: no locks"):
        lock.take()
    lock.release()
    monkeypatch.setattr(fcntl, "flock", no_locks)
    with only_repair(str(tmp_path / "store")):
        pass
    with pytest.raises(StoreError, match="cannot be opened"), only_repair(str(tmp_path / "none" / "store")):
        pass


def test_manifests(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    (root / "inner").mkdir(parents=True)
    other.mkdir()
    (root / "inner" / "file").write_bytes(b"abc")
    (root / "circle").symlink_to(".")
    (root / "nowhere").symlink_to("gone")
    (other / "x").write_bytes(b"")
    found = list_files(str(root), {"/named": str(other)})
    assert set(found) == {"inner/file", "circle", "nowhere", "/named/x"}  # a link is no file, but is missed
    assert found["inner/file"].startswith("3 ")
    assert changed_files(found, {**found, "new": "", "inner/file": "4 0"}) == ["inner/file", "new"]
    assert some_of("abcde") == "a, b, c and 2 more"
    with pytest.raises(StoreError, match="cannot be read"):
        list_files(str(tmp_path / "none"))


def test_long_names(tmp_path: Path) -> None:
    root = tmp_path / ("ö" * 120)
    root.mkdir()
    area = make_area(str(root), None, "beside", "")
    assert [found.path for found in find_areas(str(root), None)] == [area.path]


def test_links_are_followed_only_to_files_of_the_store(tmp_path: Path) -> None:
    """A link to a disk of the store is followed; one into the machine is only a name."""
    root, disk, machine = tmp_path / "root", tmp_path / "disk", tmp_path / "usr"
    (root / "consumequeue").mkdir(parents=True)
    for folder in (disk / "0", disk / "lib", machine / "lib" / "deep"):
        folder.mkdir(parents=True)
    for file in (disk / "0" / f"{0:020}", disk / "lib" / "other", machine / "lib" / "deep" / "other"):
        file.touch()
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / f"{0:020}").touch()
    links = {
        "all": "/",
        "usr": str(machine),
        "commitlog2": str(logs),
        "consumequeue/topic": str(disk),
        "consumequeue/all": "/",
        "consumequeue/usr": str(machine),
        "checkpoint": str(disk / "lib" / "other"),
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    found = list_files(str(root))
    assert set(found) == {*links, f"commitlog2/{0:020}", f"consumequeue/topic/0/{0:020}"}
    pins = pins_of(str(root))
    assert {"all", "usr", "consumequeue/all"} <= set(pins)
    assert not {"commitlog2", "consumequeue/topic", "checkpoint"} & set(pins)
    with open_root(str(tmp_path)) as base:
        followed: list[str] = []
        Cloner(followed, {}, False).directory(
            str(root), base / "clone", "", (str(root.resolve()),), frozenset()
        )
    assert sorted(followed) == ["checkpoint", "commitlog2", "consumequeue/topic", "consumequeue/usr"]
    clone = tmp_path / "clone"
    assert (clone / "all").is_symlink() and (clone / "usr").is_symlink()
    assert [path.name for path in (clone / "consumequeue" / "topic").iterdir()] == ["0"]


@dataclass(frozen=True)
class Placed:
    """Something with a path."""

    path: Path


def test_a_path_of_a_document_is_a_path_again() -> None:
    for text in ("/a/b", "a b", "\udcff/x"):
        placed = Placed(Path(text))
        assert from_document(Placed, to_document(placed), "place") == placed
    with pytest.raises(UsageError, match=r"place: .*expected"):
        from_document(Placed, {"path": 3}, "place")
