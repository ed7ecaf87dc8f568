"""Which store a path means that is part of one or above one."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketfsck.store import meant
from rocketfsck.store.meant import find_meant_stores


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "broker" / "store"
    for name in ("commitlog", "consumequeue/T/0", "index", "config"):
        (root / name).mkdir(parents=True)
    (root / "checkpoint").touch()
    (root / "commitlog" / "0".zfill(20)).touch()
    return root


@pytest.mark.parametrize(
    "part",
    ["commitlog", "consumequeue", "consumequeue/T", "consumequeue/T/0", "index", "config", "checkpoint",
     "commitlog/00000000000000000000"],
)  # fmt: skip
def test_a_part_means_its_store(root: Path, part: str) -> None:
    assert find_meant_stores(root / part) == (root,)


def test_a_directory_above_means_what_is_in_it(root: Path) -> None:
    assert find_meant_stores(root.parent) == (root,)
    (root.parent / "logs").mkdir()
    second = root.parent / "a second"
    (second / "commitlog").mkdir(parents=True)
    (second / "consumequeue").mkdir()
    assert find_meant_stores(root.parent) == (second, root)


def test_a_search_has_an_end(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        (root.parent / f"a{number}" / "b").mkdir(parents=True)
    assert find_meant_stores(root.parent) == (root,)
    monkeypatch.setattr(meant, "NAME_LIMIT", 1)  # too few to tell a store
    assert find_meant_stores(root.parent) == ()


def test_what_means_itself(root: Path, tmp_path: Path) -> None:
    assert find_meant_stores(root) == ()
    assert find_meant_stores(root.parent.parent) == (root,)  # two levels above
    (tmp_path / "far").mkdir()
    root.parent.rename(tmp_path / "far" / "broker")
    assert find_meant_stores(tmp_path) == ()  # three are too many
    (tmp_path / "far" / "broker").rename(root.parent)
    assert find_meant_stores(tmp_path / "nothing") == ()
    alone = tmp_path / "copies" / "commitlog"
    alone.mkdir(parents=True)
    (alone / "0".zfill(20)).touch()
    assert find_meant_stores(alone) == ()
    assert find_meant_stores(alone / "0".zfill(20)) == ()
