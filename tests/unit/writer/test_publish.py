"""A directory appears whole, or what was there stays; also where names cannot be exchanged at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketfsck.writer.disk import fileops, publish
from rocketfsck.writer.disk.confined import ConfinedPlace, open_root


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("sync", [False, True])
def test_new_directory(sync: bool, tmp_path: Path) -> None:
    with publish.building_directory(tmp_path / "new", replace=False, sync=sync) as building:
        (building / "sub").mkdir()
        (building / "sub" / "file").write_text("x")
        assert _names(tmp_path) == [building.name]
        assert building.name.startswith(".new.")
    assert _names(tmp_path) == ["new"]
    assert (tmp_path / "new" / "sub" / "file").read_text() == "x"


@pytest.mark.parametrize("exchange", [True, False])
def test_replaced_directory(exchange: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exchange:
        monkeypatch.setattr(fileops, "exchange", lambda *_: False)
    target = tmp_path / "store"
    target.mkdir()
    (target / "old").write_text("old")
    with publish.building_directory(target, replace=True, sync=False) as building:
        (building / "new").write_text("new")
        assert _names(target) == ["old"]
    assert _names(target) == ["new"]
    assert _names(tmp_path) == ["store"]


def test_existing_directory_is_refused_before_and_after(tmp_path: Path) -> None:
    target = tmp_path / "store"
    with (
        pytest.raises(FileExistsError),
        publish.building_directory(target, replace=False, sync=False),
    ):
        target.mkdir()
    with (
        pytest.raises(FileExistsError),
        publish.building_directory(target, replace=False, sync=False),
    ):
        raise AssertionError("not reached")
    assert _names(tmp_path) == ["store"]


def test_failed_rename_puts_the_old_one_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fileops, "exchange", lambda *_: False)
    target = tmp_path / "store"
    target.mkdir()
    (target / "old").write_text("old")
    real = fileops.rename

    def failing(source: ConfinedPlace, other: ConfinedPlace) -> None:
        if source.name.endswith(".part"):
            raise OSError("no")
        real(source, other)

    monkeypatch.setattr(fileops, "rename", failing)
    with (
        pytest.raises(OSError, match="no"),
        publish.building_directory(target, replace=True, sync=False),
    ):
        pass
    assert _names(target) == ["old"]
    assert _names(tmp_path) == ["store"]


def test_a_system_without_exchange(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_library(*_: object, **__: object) -> object:
        raise OSError

    monkeypatch.setattr("ctypes.CDLL", no_library)
    root = open_root(tmp_path)
    assert not fileops.exchange(root / "a", root / "b")
