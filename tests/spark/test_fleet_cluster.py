"""Jobs over many stores on a real cluster give what they give on threads, whatever dies."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from rocketfsck import CheckOptions, check_stores
from rocketfsck.cli.app import run
from rocketfsck.engine.archive import write_archive
from rocketfsck.pipeline.fleet.records import RECORDS

from tests.conftest import Directory
from tests.spark import faultydisk
from tests.spark.cluster import PATIENCE_SECONDS, Cluster, wait_until
from tests.unit.pipeline.exporting import contents_of

pytestmark = [pytest.mark.spark, pytest.mark.nightly]  # the suite of every run kills the check of a store

OF_THE_RUN = ("stores/", "findings/", f"{RECORDS}/")
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1",
    "spark.speculation.minTaskRuntime": "1ms",
}
VARYING = (
    *("run_id", "seconds", "started_timestamp", "path", "into", "manifest", "leftovers"),
    *("removed_runs", "taken_over_from", "file_count", "size"),
)
NAMES = ("5.3.3-basic", "4.9.8-killed", "5.0.0-innerbatch", "4.4.0-trans")
JOBS: dict[str, Callable[[Path, Path], list[str]]] = {
    "check": lambda stores, into: ["check", f"{stores}/broker-*", "--tables", str(into), "--format", "json"],
    "rebuild": lambda stores, into: [
        *("rebuild", "all", f"{stores}/broker-*", "--into", str(into), "--no-sync", "--format", "json")
    ],
    "export": lambda stores, into: ["export", str(stores), "--into", str(into), "--format", "json"],
    "count": lambda stores, _: ["count", str(stores), "--keys", "20", "--format", "json"],
}


@pytest.fixture
def fleet(many_segments: Path, store_dir: Directory, tmp_path: Path) -> Path:
    """Stores of brokers, and a larger one with damage."""
    stores = tmp_path / "stores"
    for number, name in enumerate(NAMES):
        shutil.copytree(store_dir(name), stores / f"broker-{number}", copy_function=os.link)
    shutil.copytree(many_segments, stores / f"broker-{len(NAMES)}", copy_function=os.link)
    return stores


def _held_file(stores: Path) -> Path:
    """A sound commit log file of the larger store, amid the others."""
    return sorted((stores / f"broker-{len(NAMES)}" / "commitlog").iterdir())[7]


def confs(settings: Mapping[str, str]) -> list[str]:
    return [part for name, value in settings.items() for part in ("--spark-conf", f"{name}={value}")]


def said_of(text: str) -> Any:
    document = json.loads(text)
    rows = [{name: row[name] for name in row if name not in VARYING} for row in document.get("rows", [])]
    return {name: document[name] for name in document if name not in VARYING} | {"rows": rows}


def made(into: Path) -> dict[str, Any]:
    """The sum of every file; records, and tables of checks, have names and values of the run.

    Of an export the rows: each engine has its own writer.
    """
    if (into / "_manifest.json").exists():
        return contents_of(into)
    files = (path for path in into.rglob("*") if path.is_file())
    found = {str(path.relative_to(into)): sha256(path.read_bytes()).hexdigest() for path in files}
    return {name: value for name, value in found.items() if not name.startswith(OF_THE_RUN)}


def done_here(name: str, stores: Path, into: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    status = run(JOBS[name](stores, into))
    return status, said_of(capsys.readouterr().out), made(into)


def _started(cluster: Cluster, line: list[str], folder: Path, **environment: str) -> subprocess.Popen[bytes]:
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        return subprocess.Popen(line, env=cluster.environment | environment, stdout=out, stderr=err)


@contextmanager
def _held_up(
    cluster: Cluster, name: str, stores: Path, into: Path, folder: Path
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The job, which waits in a task that opens a file, and the folder that says who waits."""
    gate = folder / "gate"
    settings = {**SPECULATION, **faultydisk.holding(gate, _held_file(stores))}
    job = _started(cluster, [*cluster.line(*JOBS[name](stores, into)), *confs(settings)], folder)
    try:
        wait_until(lambda: faultydisk.held(gate) or job.poll() is not None, "a task reads the store")
        assert job.poll() is None, (folder / "err").read_text("utf-8")
        yield job, gate
    finally:
        faultydisk.let_go(gate)
        job.kill()
        cluster.restart_dead_workers()


@pytest.mark.parametrize("name", JOBS)
def test_a_fleet_survives_what_is_killed(
    cluster: Cluster, fleet: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An executor is killed in a task, then the worker of the next that does it; speculation is on."""
    into = tmp_path / "spark"
    with _held_up(cluster, name, fleet, into, tmp_path) as (job, gate):
        first = faultydisk.held(gate)
        workers: list[str] = []
        for worker in filter(None, map(cluster.worker_of, first)):
            for executor in cluster.executor_pids_of(worker):
                os.kill(executor, signal.SIGKILL)

        def is_done_again() -> bool:
            workers.extend(filter(None, map(cluster.worker_of, faultydisk.held(gate) - first)))
            return bool(workers) or job.poll() is not None

        wait_until(is_done_again, "another executor does the task")
        assert job.poll() is None, (tmp_path / "err").read_text("utf-8")
        cluster.workers[workers[0]].kill()
        faultydisk.let_go(gate)
        status = job.wait(PATIENCE_SECONDS)
    said = (tmp_path / "out").read_text("utf-8")
    assert said, (tmp_path / "err").read_text("utf-8")
    assert (status, said_of(said), made(into)) == done_here(name, fleet, tmp_path / "local", capsys)
    assert {path.name for path in into.rglob(".*")} <= {RECORDS}


def test_a_rebuild_whose_driver_is_killed_goes_on(
    cluster: Cluster, fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGKILL when results have their names and another store is held up; the next driver takes them over."""
    into = tmp_path / "spark"
    with _held_up(cluster, "rebuild", fleet, into, tmp_path) as (job, _):
        wait_until(lambda: any(into.glob("broker-*")) or job.poll() is not None, "a result has its name")
        assert job.poll() is None, (tmp_path / "err").read_text("utf-8")
        job.kill()
        job.wait(PATIENCE_SECONDS)
    done = cluster.command(*JOBS["rebuild"](fleet, into))
    assert done.stdout, done.stderr
    said = json.loads(done.stdout)
    assert any(row["taken_over_from"] for row in said["rows"]), done.stderr
    assert len(said["removed_runs"]) == 1
    found = (done.returncode, said_of(done.stdout), made(into))
    assert found == done_here("rebuild", fleet, tmp_path / "local", capsys)
    assert {path.name for path in into.rglob(".*")} == {RECORDS}


def test_an_export_whose_driver_is_killed_is_done_again(
    cluster: Cluster, fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the same command, which takes away what the first one left."""
    place = tmp_path / "tables"
    place.mkdir()
    into = place / "messages"
    with _held_up(cluster, "export", fleet, into, tmp_path) as (job, gate):
        job.kill()
        job.wait(PATIENCE_SECONDS)
        wait_until(lambda: not cluster.executor_pids(), "executors have ended")
        faultydisk.let_go(gate)
    left = [path.name for path in place.iterdir()]
    assert len(left) == 1
    assert left[0] != into.name
    done = cluster.command(*JOBS["export"](fleet, into))
    assert done.stdout, done.stderr
    assert json.loads(done.stdout)["leftovers"] == left
    found = (done.returncode, said_of(done.stdout), made(into))
    assert found == done_here("export", fleet, tmp_path / "local", capsys)
    assert [path.name for path in place.iterdir()] == [into.name]


def _rows(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in ("run_id", "seconds")} for row in said]


def test_a_fleet_is_submitted(cluster: Cluster, store_dir: Directory, tmp_path: Path) -> None:
    """The line of the guide, with speculation on; the package travels as an archive."""
    archive, script = write_archive(tmp_path / "zip")
    paths = [store_dir("5.3.3-basic"), store_dir("4.9.8-killed"), tmp_path / "missing"]
    output, tables = tmp_path / "stores.json", tmp_path / "tables"
    conf = {"spark.submit.pyFiles": str(archive), "spark.speculation": "true"}
    line = ["check", *map(str, paths), "--format", "json", "-o", str(output), "--tables", str(tables)]
    done = cluster.submitted(*line, script=script, conf=conf)
    expected = check_stores(paths, CheckOptions())
    assert done.returncode == expected.exit_code == 8, done.stderr  # a killed broker is to be started
    found = json.loads(output.read_text("utf-8"))
    assert _rows(found["rows"]) == _rows([row.as_row() for row in expected.stores])
    assert sorted(path.parent.name for path in tables.rglob(f"{found['run_id']}.parquet")) == [
        "findings",
        "stores",
    ]
