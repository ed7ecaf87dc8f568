"""A job over many stores, submitted to a real cluster with all that it needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rocketfsck import CheckOptions, check_stores
from rocketfsck.engine.archive import write_archive

from tests.conftest import Directory
from tests.spark.cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.nightly]


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
