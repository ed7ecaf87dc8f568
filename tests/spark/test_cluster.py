"""Jobs on a real cluster, in processes of their own, do what they do on one machine, whatever dies."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from rocketfsck.cli.app import run

from tests.conftest import RESTART_NAMES, STORE_NAMES, Directory
from tests.spark.cluster import PATIENCE_SECONDS, Cluster, wait_until

pytestmark = [pytest.mark.spark]

SLOWLY = ["--spark-conf", "spark.executorEnv.ROCKETFSCK_KERNELS=plain"]
"""In plain Python a task takes long enough to be killed in."""


def _checked_here(root: Path, folder: Path) -> tuple[int, bytes]:
    output = folder / "local.csv"
    status = run(["check", "--format", "csv", "--output", str(output), str(root)])
    return status, output.read_bytes()


def _kill_readers(cluster: Cluster, job: subprocess.Popen[bytes], root: Path, said: Path) -> set[int]:
    """SIGKILL an executor in the middle of a task, and a worker with its executor; the readers until then."""
    readers: set[int] = set()

    def reading() -> bool:
        readers.update(cluster.reading_pids(root))
        return bool(readers) or job.poll() is not None

    wait_until(reading, "a task reads the store")
    assert job.poll() is None, said.read_text("utf-8")
    names = sorted(cluster.workers)
    first, second = (cluster.executor_pids_of(name) for name in names)
    assert first or second
    victim, name = (first[0], names[1]) if first else (second[0], names[0])
    os.kill(victim, signal.SIGKILL)
    cluster.workers[name].kill()
    return readers


def test_a_check_survives_what_is_killed(cluster: Cluster, many_segments: Path, tmp_path: Path) -> None:
    """An executor is killed in mid-task, then a worker: the rest goes on in a new executor of the other."""
    output = tmp_path / "spark.csv"
    line = cluster.line("check", "--format", "csv", "--output", str(output), *SLOWLY, str(many_segments))
    said = tmp_path / "said"
    with said.open("wb") as stream:
        job = subprocess.Popen(line, env=cluster.environment, stdout=stream, stderr=stream)
    try:
        readers = _kill_readers(cluster, job, many_segments, said)
        wait_until(
            lambda: cluster.reading_pids(many_segments) - readers or job.poll() is not None,
            "another executor reads",
        )
        assert job.poll() is None, said.read_text("utf-8")
        status = job.wait(PATIENCE_SECONDS)
    finally:
        job.kill()
        cluster.restart_dead_workers()
    assert (status, output.read_bytes()) == _checked_here(many_segments, tmp_path), said.read_text("utf-8")
    assert (
        cluster.log("worker1").count("exitStatus 137") + cluster.log("worker2").count("exitStatus 137") == 1
    )


@pytest.mark.nightly
@pytest.mark.parametrize("name", STORE_NAMES)
def test_broker_stores(cluster: Cluster, store_dir: Directory, name: str, tmp_path: Path) -> None:
    _the_same(cluster, store_dir(name), tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("name", RESTART_NAMES)
def test_damaged_stores(cluster: Cluster, restart_dir: Directory, name: str, tmp_path: Path) -> None:
    _the_same(cluster, restart_dir(name), tmp_path)


def _the_same(cluster: Cluster, root: Path, folder: Path) -> None:
    output = folder / "spark.csv"
    done = cluster.command("check", "--format", "csv", "--output", str(output), str(root))
    assert (done.returncode, output.read_bytes()) == _checked_here(root, folder), done.stderr


def test_nothing_is_left_running(cluster: Cluster) -> None:
    """Of jobs that have ended: what remains is the master and the workers."""
    wait_until(lambda: not cluster.executor_pids(), "executors have ended")
    daemons = {cluster.master.pid, *(worker.pid for worker in cluster.workers.values())}
    wait_until(lambda: set(cluster.pids()) <= daemons, "their Pythons have ended")
