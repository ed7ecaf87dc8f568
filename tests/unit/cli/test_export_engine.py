"""What `export` says of the directory that executors of a cluster write to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketfsck.cli.app import run
from rocketfsck.engine import session

from tests.conftest import Directory


def test_a_relative_target_on_a_cluster_is_named_as_given(
    store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a cluster: the session is a stand-in that says it is one."""
    pytest.importorskip("pyspark")
    from rocketfsck.engine import spark

    def opened(*_: Any, **__: Any) -> object:
        return object()

    monkeypatch.setattr(spark, "open_session", opened)
    monkeypatch.setattr(session, "is_embedded", lambda _: False)
    monkeypatch.chdir(tmp_path)
    arguments = ["--into", "dk", "--engine", "spark", "--master", "spark://host:7077"]
    assert run(["export", str(store_dir("4.4.0-basic")), *arguments]) == 16
    said = capsys.readouterr().err
    assert f"dk: executors run elsewhere, so give the absolute path: {tmp_path / 'dk'}" in said
