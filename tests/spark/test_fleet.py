"""The check of many stores on Spark gives the rows and findings of one on threads; workers open stores."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocketfsck import CheckOptions, check_stores
from rocketfsck.engine import LocalEngine
from rocketfsck.engine.spark import SparkEngine
from rocketfsck.pipeline import register
from rocketfsck.pipeline.fleet import stages
from rocketfsck.pipeline.fleet.counting import count_stores
from rocketfsck.pipeline.fleet.model import LATER_COLUMNS, FleetReport, FleetRequest
from rocketfsck.pipeline.fleet.rebuilding import rebuild_stores
from rocketfsck.pipeline.fleet.run import CheckJob
from rocketfsck.pipeline.fleet.stages import run_jobs
from rocketfsck.pipeline.sources import find_sources
from rocketfsck.repair.build.run import RebuildOptions
from rocketfsck.store.opening import open_store

from tests.conftest import Directory
from tests.spark.faultydisk import EVERY
from tests.spark.kernels import Deadly, FaultyJob, KillingJob
from tests.unit.pipeline.rebuilding import results

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

OPTIONS = CheckOptions(now_timestamp=1_800_000_000_000)


@pytest.fixture
def fleet(store_dir: Directory, restart_dir: Directory, tmp_path: Path) -> Path:
    for number, name in enumerate(("5.3.3-basic", "4.9.8-killed", "5.0.0-innerbatch", "4.4.0-trans")):
        shutil.copytree(store_dir(name), tmp_path / f"broker-{number}" / "store")
    for number, name in enumerate(("5.1.3-basic--flip-last-file", "4.9.8-multiseg--flip-older-file")):
        shutil.copytree(restart_dir(name), tmp_path / f"broker-{4 + number}" / "store")
    return tmp_path


def _said(report: FleetReport) -> dict[str, Any]:
    varying = ("run_id", "seconds", "started_timestamp", *LATER_COLUMNS)
    head = {name: value for name, value in report.head().items() if name not in varying}
    rows = [
        {name: value for name, value in row.as_row().items() if name not in varying} for row in report.stores
    ]
    return {**head, "rows": rows, "findings": [one | {"run_id": ""} for one in report.finding_rows()]}


def test_the_rows_and_findings_of_a_local_check(spark: SparkSession, fleet: Path) -> None:
    paths = [fleet / "broker-*", fleet / "missing"]
    said = _said(check_stores(paths, OPTIONS, SparkEngine(spark)))
    assert len(said["rows"]) == 7
    assert len(said["findings"]) > 10
    assert said["exit_code"] == 12
    assert said == _said(check_stores(paths, OPTIONS))


def test_a_second_night_reads_what_changed(spark: SparkSession, fleet: Path) -> None:
    """Workers read and write the states; rows and findings are those of a check without them."""
    paths = [fleet / "broker-*", fleet / "missing"]
    since = replace(OPTIONS, since=fleet / "states")
    expected = _said(check_stores(paths, OPTIONS))
    assert _said(check_stores(paths, since, SparkEngine(spark))) == expected
    states = sorted((fleet / "states").iterdir())
    assert len(states) == 6
    later = replace(since, now_timestamp=(OPTIONS.now_timestamp or 0) + 60_000)
    found = _said(check_stores(paths, later, SparkEngine(spark)))
    assert found["rows"] == expected["rows"]
    kept = [
        log["read_timestamp"] == OPTIONS.now_timestamp
        for state in states
        for log in json.loads(state.read_bytes())["logs"]
    ]
    assert sum(kept) >= 6
    assert found == _said(check_stores(paths, later))


def refuse(*_args: Any, **_options: Any) -> Any:
    raise AssertionError("the driver opened a store")


def test_the_driver_opens_no_store(spark: SparkSession, fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketfsck.pipeline.fleet.run.open_store", refuse)
    monkeypatch.setattr("rocketfsck.store.areas.list_directory", refuse)
    with pytest.raises(AssertionError):
        open_store(fleet / "broker-0")
    report = check_stores([fleet / "broker-0", fleet / "broker-1"], OPTIONS, SparkEngine(spark))
    assert [row.state for row in report.stores] == ["healthy", "unclean"]


def test_large_stores_are_cut(spark: SparkSession, fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "WHOLE_WEIGHT", 0)
    monkeypatch.setattr(stages, "LEAST_WEIGHT", 300 << 10)
    paths = [fleet / "broker-*", fleet / "missing"]
    assert _said(check_stores(paths, OPTIONS, SparkEngine(spark))) == _said(check_stores(paths, OPTIONS))


def test_a_store_whose_opening_kills_its_worker_is_named(spark: SparkSession, fleet: Path) -> None:
    deadly = Deadly(fleet / "broker.conf")
    deadly.driver = os.getpid()
    plain = FleetRequest("run", OPTIONS)
    killing = replace(plain, facts={"broker_conf": deadly})
    jobs = [
        CheckJob(fleet / f"broker-{number}" / "store", plain if number != 1 else killing)
        for number in range(3)
    ]
    found = {number: checked.row for number, checked, _ in run_jobs(SparkEngine(spark), jobs)}
    assert sorted(found) == [0, 1, 2]
    assert [found[number].state == "failed" for number in range(3)] == [False, True, False]
    assert found[1].root == str(fleet / "broker-1" / "store")
    assert found[1].error


def test_a_file_that_kills_its_worker_is_named(spark: SparkSession, fleet: Path) -> None:
    asked = FleetRequest("run", OPTIONS)
    jobs = [CheckJob(fleet / "broker-0", asked), KillingJob(fleet / "broker-5", asked)]
    found = {number: checked.row for number, checked, _ in run_jobs(SparkEngine(spark), jobs)}
    assert (found[0].state, found[0].not_checked) == ("healthy", None)
    [plain] = check_stores([fleet / "broker-5"], OPTIONS).stores
    name = sorted((fleet / "broker-5" / "store" / "commitlog").iterdir())[1].name
    assert (found[1].not_checked or "").startswith(f"commitlog/{name}: cannot be read by any worker: spark: ")
    assert (found[1].checked_byte_count or 0) > 0.8 * (plain.checked_byte_count or 0)
    assert (found[1].error, found[1].exit_code & 8) == (None, 8)


def test_a_fault_that_passes_is_not_seen(spark: SparkSession, fleet: Path) -> None:
    """It is gone at the third attempt; one that stays is named, and the rest of the store is checked."""
    file = sorted((fleet / "broker-5" / "store" / "commitlog").iterdir())[0]
    asked = FleetRequest("run", OPTIONS)
    jobs = [FaultyJob(fleet / "broker-5", asked, str(file), attempts) for attempts in (0, 2, EVERY)]
    rows = {number: checked.row for number, checked, _ in run_jobs(SparkEngine(spark), jobs)}
    assert (rows[1], rows[0].not_checked) == (rows[0], None)
    assert rows[2].not_checked == f"commitlog/{file.name} at byte 0: cannot be read: Input/output error"
    assert (rows[2].exit_code & 8, rows[2].error) == (8, None)
    assert (rows[2].checked_byte_count or 0) > 0.5 * (rows[0].checked_byte_count or 0)


def test_rebuilt_stores_are_those_of_a_local_run(
    spark: SparkSession, fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole on a worker, and the larger ones in parts; the driver opens none."""
    monkeypatch.setattr(stages, "WHOLE_WEIGHT", 1 << 20)
    options = RebuildOptions(sync=False)
    paths = [fleet / "broker-*", fleet / "missing"]
    said = []
    for name, engine in (("local", None), ("spark", SparkEngine(spark))):
        if engine is not None:
            monkeypatch.setattr("rocketfsck.pipeline.fleet.run.open_store", refuse)
        found = rebuild_stores(paths, tmp_path / name, "all", options, engine)
        rows = [replace(row, run_id="", seconds=0.0, into=None) for row in found.stores]
        said.append((found.exit_code, found.state_counts, rows, results(tmp_path / name)))
    assert said[0] == said[1]
    again = rebuild_stores(paths, tmp_path / "local", "all", options, SparkEngine(spark))  # on workers
    assert {row.state for row in again.stores if row.taken_over_from is None} == {"failed"}
    rows = [replace(row, run_id="", seconds=0.0, into=None, taken_over_from=None) for row in again.stores]
    assert (again.exit_code, again.state_counts, rows, results(tmp_path / "local")) == said[0]
    assert said[0][1]["rebuilt"] >= 4
    assert said[0][1]["failed"] == 1


def test_counts_are_those_of_a_local_run(
    spark: SparkSession, fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = find_sources([fleet])
    said = []
    for engine, limit in ((LocalEngine(1), 1 << 40), (SparkEngine(spark), 1 << 40), (SparkEngine(spark), 0)):
        monkeypatch.setattr(stages, "WHOLE_WEIGHT", limit)
        found = count_stores(sources, engine=engine, key_count=5)
        said.append(
            (list(found.brokers), found.total, found.topics, found.topic_days, found.keys, found.failed)
        )
    assert said[0] == said[1] == said[2]
    assert len(said[0][0]) == 6
    register(spark)
    columns = "broker,topic,queue_id,queue_offset,size"
    messages = spark.read.format("rocketmq").option("columns", columns).load(str(fleet))
    messages.createOrReplaceTempView("counted")
    by_query = spark.sql("""
        SELECT broker, topic, queue_id, count(*), sum(size), min(queue_offset), max(queue_offset) + 1
        FROM counted GROUP BY ALL ORDER BY ALL
    """).collect()
    by_command = [
        (broker, queue.topic, queue.queue_id, tally.message_count, tally.byte_count, *offsets)
        for broker, log in said[0][0]
        for queue in log.queues
        for tally, offsets in [(queue.tally, (queue.min_offset, queue.max_offset))]
    ]
    assert [tuple(row) for row in by_query] == sorted(by_command)
