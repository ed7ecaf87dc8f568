"""A file that no attempt on a cluster can read is named, and the rest done; one that passes is not seen."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Directory
from tests.spark import faultydisk
from tests.spark.cluster import Cluster
from tests.spark.test_fleet_cluster import JOBS, confs, done_here, made, said_of
from tests.unit.pipeline.exporting import rows_of

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

BROKEN, FILE = "broker-1", "00000000000000131072"
REASON = f"{FILE} at byte 0: cannot be read: Input/output error"
IN_PARTS = """\
from rocketfsck.cli import main
from rocketfsck.pipeline.fleet import stages
stages.WHOLE_WEIGHT = 0
stages.LEAST_WEIGHT = 1 << 18
main()
"""
"""The command, to which each store is a large one."""
QUERY = """\
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
frame = spark.read.format("rocketmq").load(sys.argv[1])
try:
    rows = frame.groupBy("broker").count().collect()
except Exception as error:
    print(error)
    sys.exit(1)
print(sorted(map(tuple, rows)))
"""


@pytest.fixture
def fleet(store_dir: Directory, tmp_path: Path) -> Path:
    stores = tmp_path / "stores"
    for number, name in enumerate(("5.3.3-basic", "4.9.8-multiseg", "5.0.0-innerbatch")):
        shutil.copytree(store_dir(name), stores / f"broker-{number}")
    return stores


@pytest.mark.parametrize("in_parts", [False, True], ids=["whole", "in parts"])
@pytest.mark.parametrize("attempts", [2, faultydisk.EVERY], ids=["passes", "stays"])
@pytest.mark.parametrize("name", JOBS)
def test_a_file_that_cannot_be_read(
    cluster: Cluster,
    fleet: Path,
    tmp_path: Path,
    name: str,
    attempts: int,
    in_parts: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if in_parts and name == "export":
        pytest.skip("an export is always in parts")
    into = tmp_path / "spark"
    fault = faultydisk.failing(
        tmp_path / "fault", fleet / BROKEN / "commitlog" / FILE, "read", attempts=attempts
    )
    line = [*cluster.line(*JOBS[name](fleet, into)), *confs(fault)]
    if in_parts:
        line[1:3] = ["-c", IN_PARTS]
    done = cluster.ran(line)
    if attempts < faultydisk.EVERY:
        found = (done.returncode, said_of(done.stdout), made(into))
        assert found == done_here(name, fleet, tmp_path / "local", capsys)
        return
    assert done.returncode == 8, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "\tat " not in done.stdout + done.stderr
    is_told = name in ("export", "count")
    (named,) = (line for line in (done.stderr if is_told else done.stdout).splitlines() if REASON in line)
    found = said_of(done.stdout)
    if is_told:
        assert named == f"Error: {BROKEN}: {fleet / BROKEN / 'commitlog'}/{REASON}"
        assert [failed["broker"] for failed in found["failed"]] == [BROKEN]
    else:
        (row,) = (row for row in found["rows"] if row["broker"] == BROKEN)
        assert REASON in (row["not_checked"] if name == "check" else row["error"])
    shutil.rmtree(fleet / BROKEN)
    status, here, files = done_here(name, fleet, tmp_path / "local", capsys)
    assert status == 0
    assert _others(found) == _others(here)
    if name == "export":
        assert rows_of(into) == rows_of(tmp_path / "local")
        assert len(rows_of(into)) == found["row_count"] > 0
    else:
        assert _others(found)["rows"]
        assert made(into) == files


def _others(found: dict[str, Any]) -> Any:
    """What is said of the sound stores."""
    rows = [row for row in found["rows"] if row["broker"] != BROKEN]
    return {name: value for name, value in found.items() if name in EQUAL} | {"rows": rows}


EQUAL = ("row_count", "file_count", "damage_count", "uncounted_queues", "uncounted_days", "keys")


@pytest.mark.parametrize("attempts", [2, faultydisk.EVERY], ids=["passes", "stays"])
def test_a_query_that_reads_it(cluster: Cluster, fleet: Path, tmp_path: Path, attempts: int) -> None:
    """By the data source: the error of the query is one line, with the file."""
    script = tmp_path / "query.py"
    script.write_text(QUERY, "utf-8")
    file = fleet / BROKEN / "commitlog" / FILE
    fault = faultydisk.failing(tmp_path / "fault", file, "read", attempts=attempts)
    done = cluster.submitted(str(fleet), script=script, conf=fault)
    if attempts < faultydisk.EVERY:
        assert done.stdout.splitlines()[-1] == str([("broker-0", 118), (BROKEN, 1300), ("broker-2", 80)])
        return
    assert done.returncode == 1, done.stderr
    named = [line for line in done.stdout.splitlines() if REASON in line]
    assert named
    assert f"StoreError: {file} at byte 0: cannot be read: Input/output error" in named[0]
    assert "Traceback" not in done.stdout
