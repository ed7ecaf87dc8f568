"""Who a broker in controller mode takes itself for: CP029 and CP030, and where they say nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.finding import Finding

from tests.conftest import Directory

SOUND = b"RealCluster#broker-a#1"


@pytest.fixture
def root(store_dir: Directory, tmp_path: Path) -> Path:
    """A store with the identity that a broker of 5.5.0 wrote in controller mode."""
    target = tmp_path / "store"
    shutil.copytree(store_dir("5.3.3-basic"), target)
    (target / "brokerIdentity").write_bytes(SOUND)
    return target


def found(root: Path, conf: Path | None = None) -> list[Finding]:
    report = check_store(open_store(root, broker_conf=conf), CheckOptions(level="quick"))
    return [finding for finding in report.findings if finding.rule in ("CP029", "CP030")]


def test_what_a_broker_wrote_is_sound(root: Path) -> None:
    assert found(root) == []


@pytest.mark.parametrize(
    "data", [b"", b"RealCluster#broker-a#1\n", b"RealCluster#broker-a", b"\xff\xfe", bytes(22)]
)
def test_one_that_no_broker_takes_is_found(data: bytes, root: Path) -> None:
    (root / "brokerIdentity").write_bytes(data)
    (finding,) = found(root)
    assert (finding.rule, finding.where.file) == ("CP029", "brokerIdentity")


def test_a_forerunner_counts_where_the_identity_does_not(root: Path) -> None:
    (root / "brokerIdentity-temp").write_bytes(b"RealCluster#broker-a")
    assert found(root) == []  # the identity is read, and nothing else
    (root / "brokerIdentity").unlink()
    (finding,) = found(root)
    assert finding.where.file == "brokerIdentity-temp"
    (root / "brokerIdentity-temp").write_bytes(SOUND + b"#127.0.0.1:10911;1700000000000")
    assert found(root) == []


def test_names_must_be_those_of_the_settings(root: Path, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerClusterName=RealCluster\nbrokerName=broker-b\n")
    (finding,) = found(root, conf)
    assert (finding.rule, finding.found, finding.expected) == (
        "CP030",
        {"name": "brokerName", "value": "broker-a"},
        {"value": "broker-b"},
    )
    conf.write_text("brokerClusterName=RealCluster\nbrokerName=broker-a\n")
    assert found(root, conf) == []


def test_a_file_that_cannot_be_read_is_not_judged(root: Path) -> None:
    (root / "brokerIdentity").write_bytes(SOUND + bytes(1 << 17))
    report = check_store(open_store(root), CheckOptions(level="quick"))
    assert "brokerIdentity" in [item.what for item in report.not_checked]
