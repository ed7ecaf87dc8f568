"""The oracle's Python side, where there is no need of the real code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rocketfsck.store.circumstances import Geometry

from tests.oracle import broker, jvm


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        ((), "no java and no mvn on this machine"),
        (("java",), "no mvn on this machine"),
        (("mvn",), "no java on this machine"),
    ],
)
def test_what_is_missing_is_said(
    there: tuple[str, ...], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}" if name in there else None)
    assert jvm.available("5.3.3") == reason


def test_a_build_that_fails_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = tmp_path / "build"
    build.write_text("#!/bin/sh\necho '[ERROR] no such artifact' >&2\nexit 1\n")
    build.chmod(0o755)
    monkeypatch.setattr(jvm, "BUILD", build)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    reason = "rocketmq-store 9.9.9 could not be built: [ERROR] no such artifact"
    assert jvm.available("9.9.9") == reason
    with pytest.raises(jvm.OracleError, match="no such artifact"):
        broker.run("9.9.9", tmp_path, Geometry())


def test_settings_have_the_names_of_their_version() -> None:
    geometry = Geometry(commitlog_file_size=4096, consumequeue_file_size=200, batch_file_size=460)
    old, new = broker.settings_for("4.4.0", geometry), broker.settings_for("5.3.3", geometry)
    assert (old["mapedFileSizeCommitLog"], old["mapedFileSizeConsumeQueue"]) == (4096, 200)
    assert (new["mappedFileSizeCommitLog"], new["mappedFileSizeConsumeQueue"]) == (4096, 200)
    assert new["mapperFileSizeBatchConsumeQueue"] == 460
    assert "mapperFileSizeBatchConsumeQueue" not in old
