"""Jobs over many stores on a real cluster give what they give on threads, whatever dies."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from rocketfsck import CheckOptions, check_stores
from rocketfsck.cli.app import run
from rocketfsck.engine.archive import write_archive

from tests.conftest import Directory
from tests.spark.cluster import PATIENCE_SECONDS, Cluster, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.nightly]  # the suite of every run kills the check of a store

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1",
    "spark.speculation.minTaskRuntime": "1ms",
}
SLOWLY = {"spark.executorEnv.ROCKETFSCK_KERNELS": "plain"}
VARYING = ("run_id", "seconds", "started_timestamp", "path", "into", "leftovers")
NAMES = ("5.3.3-basic", "4.9.8-killed", "5.0.0-innerbatch", "4.4.0-trans")
JOBS: dict[str, Callable[[Path, Path], list[str]]] = {
    "check": lambda stores, into: ["check", f"{stores}/broker-*", "--tables", str(into), "--format", "json"],
    "rebuild": lambda stores, into: [
        *("rebuild", "all", f"{stores}/broker-*", "--into", str(into), "--no-sync", "--format", "json")
    ],
}


@pytest.fixture
def fleet(many_segments: Path, store_dir: Directory, tmp_path: Path) -> Path:
    """Stores of brokers, and one that takes long, with damage."""
    stores = tmp_path / "stores"
    for number, name in enumerate(NAMES):
        shutil.copytree(store_dir(name), stores / f"broker-{number}", copy_function=os.link)
    shutil.copytree(many_segments, stores / f"broker-{len(NAMES)}", copy_function=os.link)
    return stores


def _confs(**settings: Any) -> list[str]:
    return [part for name, value in settings.items() for part in ("--spark-conf", f"{name}={value}")]


def _said(text: str) -> Any:
    document = json.loads(text)
    rows = [{name: row[name] for name in row if name not in VARYING} for row in document.get("rows", [])]
    return {name: document[name] for name in document if name not in VARYING} | {"rows": rows}


def _made(into: Path) -> dict[str, str]:
    """The sum of every file; those of tables of checks have names and values of the run."""
    files = (path for path in into.rglob("*") if path.is_file())
    found = {str(path.relative_to(into)): sha256(path.read_bytes()).hexdigest() for path in files}
    return {name: value for name, value in found.items() if not name.startswith(("stores/", "findings/"))}


def _done_here(name: str, stores: Path, into: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    status = run(JOBS[name](stores, into))
    return status, _said(capsys.readouterr().out), _made(into)


def _started(cluster: Cluster, line: list[str], folder: Path, **environment: str) -> subprocess.Popen[bytes]:
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        return subprocess.Popen(line, env=cluster.environment | environment, stdout=out, stderr=err)


@pytest.mark.parametrize("name", JOBS)
def test_a_fleet_survives_what_is_killed(
    cluster: Cluster, fleet: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An executor is killed while it reads, then a worker with its executor; speculation is on."""
    into = tmp_path / "spark"
    line = [*cluster.line(*JOBS[name](fleet, into)), *_confs(**SPECULATION, **SLOWLY)]
    job = _started(cluster, line, tmp_path)
    try:
        wait_until(lambda: cluster.reading_pids(fleet) or job.poll() is not None, "a task reads a store")
        assert job.poll() is None, (tmp_path / "err").read_text("utf-8")
        names = sorted(cluster.workers)
        first, second = (cluster.executor_pids_of(worker) for worker in names)
        victim, worker = (first[0], names[1]) if first else (second[0], names[0])
        os.kill(victim, signal.SIGKILL)
        cluster.workers[worker].kill()
        status = job.wait(PATIENCE_SECONDS)
    finally:
        job.kill()
        cluster.restart_dead_workers()
    said = (tmp_path / "out").read_text("utf-8")
    assert said, (tmp_path / "err").read_text("utf-8")
    assert (status, _said(said), _made(into)) == _done_here(name, fleet, tmp_path / "local", capsys)
    assert sorted(path.name for path in into.rglob(".*")) == [] if into.exists() else True


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
    assert done.returncode == expected.exit_code == 12, done.stderr
    found = json.loads(output.read_text("utf-8"))
    assert _rows(found["rows"]) == _rows([row.as_row() for row in expected.stores])
    assert sorted(path.parent.name for path in tables.rglob(f"{found['run_id']}.parquet")) == [
        "findings",
        "stores",
    ]
