"""A rebuilding on a real cluster, in processes of their own, makes the same bytes, whatever dies."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from rocketfsck.repair.build.run import rebuild_store
from rocketfsck.store import open_store

from tests.conftest import Directory
from tests.spark.cluster import PATIENCE_SECONDS, Cluster, wait_until
from tests.unit.pipeline.rebuilding import ALL, tree

pytestmark = [pytest.mark.spark, pytest.mark.nightly]  # the suite of every run kills a check


def test_a_cluster_survives_what_is_killed(cluster: Cluster, store_dir: Directory, tmp_path: Path) -> None:
    """In mid-job an executor is killed, and the other's worker: a new one goes on, in the same bytes."""
    root, target, said = store_dir("4.9.8-multiseg"), tmp_path / "built", tmp_path / "said"
    line = cluster.line("rebuild", "all", str(root), "--into", str(target), "--no-sync")
    scratch = tmp_path / ".built.rebuilding" / "scratch"
    with said.open("wb") as stream:
        job = subprocess.Popen(line, env=cluster.environment, stdout=stream, stderr=stream)
    try:
        wait_until(
            lambda: any(scratch.glob("keys-0*")) or job.poll() is not None, "a file of the log is read"
        )
        assert job.poll() is None, said.read_text("utf-8")
        for pid in cluster.executor_pids():
            os.kill(pid, signal.SIGKILL)
        cluster.workers["worker2"].kill()
        status = job.wait(PATIENCE_SECONDS)
    finally:
        job.kill()
        cluster.restart_dead_workers()
    rebuild_store(open_store(root), tmp_path / "expected", ALL)
    assert status == 0, said.read_text("utf-8")
    assert tree(target) == tree(tmp_path / "expected")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["built", "expected", "said"]
