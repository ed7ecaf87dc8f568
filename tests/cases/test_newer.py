"""What is newer than this program: read as far as it is known, never predicted, never repaired unasked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rocketfsck.cli.app import run
from rocketfsck.formats.dialect import NEWEST_NAME, dialect_for, is_newer

from tests.conftest import Directory

NEWER = "5.6.0"


@pytest.fixture
def store(store_dir: Directory, tmp_path: Path) -> Path:
    """A store in which a unit is wrong."""
    root = Path(shutil.copytree(store_dir("5.3.3-basic"), tmp_path / "store"))
    unit = root / "consumequeue" / "GammaBulk0" / "0" / ("0" * 20)
    data = bytearray(unit.read_bytes())
    data[60:80] = bytes(20)
    unit.write_bytes(data)
    return root


def said(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capfd.readouterr()
    code = run([str(argument) for argument in arguments])
    return code, *capfd.readouterr()


def test_newer_than_the_newest() -> None:
    assert not is_newer(dialect_for(NEWEST_NAME).version)
    assert not is_newer(dialect_for("4.9.12").version)
    assert is_newer(dialect_for(NEWER).version)


def test_a_start_of_a_newer_version_is_not_predicted(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, _, complaint = said(capfd, "simulate", store, "--as-broker", NEWER)
    assert code == 8
    assert f"{NEWER} is newer than {NEWEST_NAME}" in complaint
    code, out, _ = said(capfd, "check", store, "--broker-version", NEWER, "--format", "json")
    assert code & 4
    assert json.loads(out)["verdict"]["may_start"] is None


def test_nothing_is_repaired_for_a_newer_version(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _, known, _ = said(capfd, "plan", store, "--broker-version", "5.3.3", "--format", "json")
    names = {action["name"] for action in json.loads(known)["actions"]}
    assert names
    _, newer, _ = said(capfd, "plan", store, "--broker-version", NEWER, "--format", "json")
    plan = json.loads(newer)
    assert plan["actions"] == []
    assert any("would write for a version newer than" in item["reason"] for item in plan["unanswered"])
    only = [f"--only={name}" for name in names]
    _, forced, _ = said(capfd, "plan", store, "--broker-version", NEWER, *only, "--format", "json")
    assert json.loads(forced)["actions"]


def test_a_kind_of_store_that_is_not_known(
    store: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    conf = tmp_path / "broker.conf"
    for value, known in (("default", True), ("futureStore", False)):
        conf.write_text(f"storeType={value}\n")
        _, out, _ = said(capfd, "check", store, "--broker-conf", conf, "--format", "json")
        assert (json.loads(out)["verdict"]["may_start"] is not None) == known
    _, out, _ = said(capfd, "check", store, "--broker-conf", conf, "-q")
    assert "storeType=futureStore is not known" in out
