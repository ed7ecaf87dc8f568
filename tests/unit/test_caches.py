"""Where the user's cache is."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketfsck.common.outputs import cache_directory


def test_the_first_that_is_set_is_the_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETFSCK_CACHE_DIR", "/ours")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_directory() == Path("/ours")
    monkeypatch.delenv("ROCKETFSCK_CACHE_DIR")
    assert cache_directory() == Path("/xdg/rocketfsck")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path("/home/me/.cache/rocketfsck")


def test_who_has_no_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROCKETFSCK_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def no_home() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", no_home)
    assert cache_directory() is None
