"""Stores that keep queues or the log where this version does not look: nothing there is called lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, Severity, check_store
from rocketfsck.verify.report import Report

from tests.unit.verify.storemaker import NOW

Copies = Callable[[str], Path]


def check(root: Path) -> Report:
    return check_store(open_store(root), CheckOptions(now_timestamp=NOW))


def test_queues_in_rocksdb_are_not_missing(store_copy: Copies) -> None:
    root = store_copy("5.3.3-basic")
    shutil.rmtree(root / "consumequeue")
    (root / "consumequeue").mkdir()
    assert {"XR002", "CF011", "CF022"} <= {finding.rule for finding in check(root).findings}
    for name in ("CURRENT", "IDENTITY", "000004.sst", "MANIFEST-000001"):
        (root / "consumequeue" / name).touch()
    report = check(root)
    assert report.worst == Severity.INFO
    assert not {"XR002", "CF011", "CF022"} & {finding.rule for finding in report.findings}
    assert "consumequeue" in {item.what for item in report.not_checked}


@pytest.mark.parametrize("kept", [0, 3])
def test_a_log_that_dledger_keeps_is_not_missing(store_copy: Copies, kept: int) -> None:
    root = store_copy("5.3.3-multiseg")
    data = root / "dledger-n0/data"
    data.mkdir(parents=True)
    for path in sorted((root / "commitlog").iterdir())[kept:]:
        path.rename(data / path.name)
    report = check(root)
    assert report.worst in (None, Severity.INFO), [finding.rule for finding in report.findings]
    assert "dledger-n0/data" in {item.what for item in report.not_checked}


def test_offsets_of_consumers_are_not_behind_where_the_log_is_elsewhere(store_copy: Copies) -> None:
    root = store_copy("5.3.3-basic")
    (root / "dledger-n0/data").mkdir(parents=True)
    path = root / "commitlog/00000000000000000000"
    path.rename(root / "dledger-n0/data" / path.name)
    assert {finding.rule for finding in check(root).findings} <= {"CF010", "IX028"}
