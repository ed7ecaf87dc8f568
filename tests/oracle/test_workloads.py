"""Workloads of real brokers: clients that send, consume and fail, on one broker or a group.

Each row of the table (`workloads`) is written by real brokers of a version, checked, restarted by them,
damaged, repaired and restarted again (`legs`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.broker import ASKED
from tests.oracle.conftest import Needs
from tests.oracle.groups import has_small_disks
from tests.oracle.legs import legs_of
from tests.oracle.workloads import WORKLOADS, Workload

pytestmark = [pytest.mark.oracle, pytest.mark.nightly]

ROWS = [
    pytest.param(workload, version, id=f"{version}-{workload.name}")
    for workload in WORKLOADS
    for version in workload.versions
    if not ASKED or version in ASKED
]


@pytest.mark.parametrize(("workload", "version"), ROWS)
def test_a_workload(workload: Workload, version: str, needs_broker: Needs, tmp_path: Path) -> None:
    needs_broker(version, "brokers")
    if workload.disk_size and not has_small_disks():
        pytest.skip("this user may not mount a small disk")
    assert legs_of(workload, version, tmp_path) == {}
