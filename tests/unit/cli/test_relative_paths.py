"""What commands say of relative paths, which mean something else to the executors of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketfsck.cli.app import run

from tests.conftest import Directory


@pytest.fixture
def on_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a cluster: no session is started for what is refused."""
    pytest.importorskip("pyspark")
    from rocketfsck.engine import spark

    monkeypatch.setattr(spark, "open_session", lambda *_, **__: pytest.fail("a session was started"))


RELATIVE = {
    "check": (["check", "a"], "a"),
    "check of several": (["check", "a", "/other"], "a"),
    "count": (["count", "a"], "a"),
    "compare": (["compare", "{a}", "b"], "b"),
    "export": (["export", "a", "--into", "{a}.exported"], "a"),
    "export into": (["export", "{a}", "--into", "dk"], "dk"),
    "rebuild": (["rebuild", "all", "a", "--into", "{a}.built"], "a"),
    "rebuild into": (["rebuild", "all", "{a}", "--into", "dk"], "dk"),
    "rebuild of several": (["rebuild", "all", "{a}", "{b}", "--into", "dk"], "dk"),
}


@pytest.mark.parametrize("name", RELATIVE)
@pytest.mark.usefixtures("on_a_cluster")
def test_a_relative_path_on_a_cluster_is_named_as_given(
    name: str,
    store_dir: Directory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for link in ("a", "b"):
        (tmp_path / link).symlink_to(store_dir("4.4.0-basic"))
    monkeypatch.chdir(tmp_path)
    words, refused = RELATIVE[name]
    arguments = [word.format(a=tmp_path / "a", b=tmp_path / "b") for word in words]
    assert run([*arguments, "--engine", "spark", "--master", "spark://host:7077"]) == 16
    said = capsys.readouterr().err
    assert f"{refused}: executors run elsewhere, so give the absolute path: {tmp_path / refused}" in said
