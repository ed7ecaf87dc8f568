"""Jobs on a real cluster, in processes of their own, do what they do on one machine, whatever dies."""

from __future__ import annotations

import os
import signal
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.cli.app import run

from tests.conftest import RESTART_NAMES, STORE_NAMES, Directory
from tests.spark.cluster import PATIENCE_SECONDS, Cluster, wait_until
from tests.unit.pipeline.exporting import contents_of
from tests.unit.pipeline.test_export_tables import READERS

pytestmark = [pytest.mark.spark]

SLOWLY = ["--spark-conf", "spark.executorEnv.ROCKETFSCK_KERNELS=plain"]
"""In plain Python a task takes long enough to be killed in."""


JOBS = {
    "check": lambda root, folder: ["check", "--format", "csv", "--output", str(folder / "report"), str(root)],
    "rebuild": lambda root, folder: [
        "rebuild",
        "all",
        str(root),
        "--into",
        str(folder / "built"),
        "--no-sync",
    ],
    "export": lambda root, folder: ["export", str(root), "--into", str(folder / "tables")],
    "delta": lambda root, folder: [
        *("export", str(root), "--into", str(folder / "tables"), "--table-format", "delta", "--append")
    ],
}

EXPORTS = ("export", "delta")


def _done_here(name: str, root: Path, folder: Path) -> tuple[int, dict[str, Any]]:
    folder.mkdir()
    return run(JOBS[name](root, folder)), _made(folder)


def _made(folder: Path) -> dict[str, Any]:
    """What a job has made: the sum of every file, or the rows of an export."""
    if (folder / "tables" / "_delta_log").exists():
        return {"rows": READERS["delta"](folder / "tables").sort_by("offset").to_pylist()}
    if (folder / "tables").exists():
        return contents_of(folder / "tables")
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest() for path in files}


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


def _kill_all(cluster: Cluster, line: list[str], root: Path) -> None:
    """SIGKILL a job in the middle of its first tasks: its Python, its JVM, and in the end its executors."""
    job = subprocess.Popen(line, env=cluster.environment, start_new_session=True)
    try:
        wait_until(lambda: cluster.reading_pids(root) or job.poll() is not None, "a task reads the store")
        assert job.poll() is None
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    wait_until(lambda: not cluster.executor_pids(), "its executors have ended")


@pytest.mark.parametrize(
    "name",
    [
        "check",
        pytest.param("rebuild", marks=pytest.mark.nightly),
        "export",
        "delta",
    ],
)
def test_a_job_survives_what_is_killed(
    cluster: Cluster, many_segments: Path, tmp_path: Path, name: str
) -> None:
    """An executor is killed in mid-task, then a worker: the rest goes on in a new executor of the other.

    An export is killed as a whole before, and made again: it has every row once.
    """
    said, folder = tmp_path / "said", tmp_path / "spark"
    folder.mkdir()
    line = cluster.line(*JOBS[name](many_segments, folder), *SLOWLY)
    if name in EXPORTS:
        _kill_all(cluster, line, many_segments)
        assert not (folder / "tables").exists()
    killed = _killed_count(cluster)
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
    assert (status, _made(folder)) == _done_here(name, many_segments, tmp_path / "local"), said.read_text()
    assert _killed_count(cluster) == killed + 1


def _killed_count(cluster: Cluster) -> int:
    return sum(cluster.log(name).count("exitStatus 137") for name in cluster.workers)


@pytest.mark.parametrize("name", ["rebuild", pytest.param("export", marks=pytest.mark.nightly)])
def test_a_job_does_what_it_does_here(
    cluster: Cluster, many_segments: Path, tmp_path: Path, name: str
) -> None:
    _the_same(cluster, name, many_segments, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("name", STORE_NAMES)
def test_broker_stores(cluster: Cluster, store_dir: Directory, name: str, tmp_path: Path) -> None:
    _the_same(cluster, "check", store_dir(name), tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("name", RESTART_NAMES)
def test_damaged_stores(cluster: Cluster, restart_dir: Directory, name: str, tmp_path: Path) -> None:
    _the_same(cluster, "check", restart_dir(name), tmp_path)


def _the_same(cluster: Cluster, name: str, root: Path, folder: Path) -> None:
    made = folder / "spark"
    made.mkdir()
    done = cluster.command(*JOBS[name](root, made), *SLOWLY)
    assert (done.returncode, _made(made)) == _done_here(name, root, folder / "local"), done.stderr


def test_nothing_is_left_running(cluster: Cluster) -> None:
    """Of jobs that have ended: what remains is the master and the workers."""
    wait_until(lambda: not cluster.executor_pids(), "executors have ended")
    daemons = {cluster.master.pid, *(worker.pid for worker in cluster.workers.values())}
    wait_until(lambda: set(cluster.pids()) <= daemons, "their Pythons have ended")
