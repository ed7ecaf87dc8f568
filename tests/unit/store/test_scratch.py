"""Intermediate files go where the user chose, or into the user's cache; into the system's directory last."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketfsck.common.outputs import scratch_parent


def test_where_intermediate_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMPDIR", "ROCKETFSCK_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    home = scratch_parent()
    assert home == str(tmp_path / "home" / ".cache" / "rocketfsck" / "scratch")
    assert Path(home).stat().st_mode & 0o077 == 0
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert scratch_parent() == str(tmp_path / "xdg" / "rocketfsck" / "scratch")
    monkeypatch.setenv("ROCKETFSCK_CACHE_DIR", str(tmp_path / "own"))
    assert scratch_parent() == str(tmp_path / "own" / "scratch")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "chosen"))
    assert scratch_parent() == str(tmp_path / "chosen")


def test_without_a_directory_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ROCKETFSCK_CACHE_DIR", str(tmp_path / "file"))
    assert scratch_parent() is None
    monkeypatch.setenv("ROCKETFSCK_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("os.access", lambda *_: False)
    assert scratch_parent() is None

    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.delenv("ROCKETFSCK_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert scratch_parent() is None
