"""check --tables says what is new and gone since the last run of each store, from tables of any format."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text_format

from rocketfsck.pipeline.fleet import model
from rocketfsck.pipeline.fleet.model import StoreRow, run_timestamp
from rocketfsck.pipeline.fleet.run import make_run_id

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

FORMATS = ("parquet", "delta", "iceberg")
COUNTS = ("new_finding_count", "gone_finding_count")


@pytest.fixture
def fleet(store_dir: Directory, tmp_path: Path) -> Path:
    for broker, name in (("broker-a", "5.3.3-basic"), ("broker-b", "4.9.8-multiseg")):
        shutil.copytree(store_dir(name), tmp_path / "fleet" / broker / "store")
    return tmp_path / "fleet"


@pytest.fixture
def run(cli: Cli, fleet: Path, tmp_path: Path) -> Callable[..., tuple[int, dict[str, Any]]]:
    """A check of the fleet that is added to tables: its exit status and its document."""

    def check(*more: object) -> tuple[int, dict[str, Any]]:
        stores = (fleet / broker / "store" for broker in ("broker-a", "broker-b"))
        line = ("check", *stores, "--tables", tmp_path / "tables", "--format", "json")
        ended = cli(*line, *more)
        assert ended.err == ""
        return ended.code, json.loads(ended.out)

    return check


def _flip(fleet: Path, broker: str, pos: int) -> None:
    """Flip a bit of a body, or flip it back."""
    file = min(path for path in (fleet / broker / "store" / "commitlog").iterdir() if path.name.isdigit())
    content = bytearray(file.read_bytes())
    content[pos] ^= 1
    file.write_bytes(content)


def _counts(document: dict[str, Any]) -> list[list[int | None]]:
    return [[row[name] for name in COUNTS] for row in document["rows"]]


@pytest.mark.parametrize("table_format", FORMATS)
def test_new_and_gone(run: Callable[..., tuple[int, dict[str, Any]]], fleet: Path, table_format: str) -> None:
    for extra in ("delta", "iceberg"):
        if table_format == extra:
            pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg"}[extra])

    def call(*more: object) -> tuple[int, dict[str, Any]]:
        return run("--table-format", table_format, *more)

    code, first = call("--alert-on", "new")
    assert (code, _counts(first), first["compared_timestamp"]) == (0, [[None, None]] * 2, None)
    _flip(fleet, "broker-b", 65_536)
    code, second = call("--alert-on", "new")
    assert (code, _counts(second)) == (4, [[0, 0], [1, 0]])
    row = second["rows"][1]
    assert (row["compared_run_id"], row["compared_state"]) == (first["run_id"], "healthy")
    assert second["compared_timestamp"] == run_timestamp(first["run_id"])
    code, third = call("--alert-on", "new")
    assert (code, third["exit_code"], third["rows"][1]["exit_code"]) == (0, 0, 4)
    assert _counts(third) == [[0, 0], [0, 0]]
    assert call("--level", "quick")[1]["compared_store_count"] == 0  # looks for less: nothing is gone
    _flip(fleet, "broker-b", 65_536)
    _flip(fleet, "broker-a", 300)
    code, last = call()
    assert (code, _counts(last)) == (4, [[1, 0], [0, 1]])
    assert {row["compared_run_id"] for row in last["rows"]} == {third["run_id"]}
    assert (last["new_finding_count"], last["gone_finding_count"]) == (1, 1)


def test_the_same_damage_of_a_store_that_grows(cli: Cli, tmp_path: Path) -> None:
    """Facts of the finding change: how many records the queue would have."""
    store, counts, facts = tmp_path / "broker" / "store", [], []
    for size, lost in (("100KiB", 1), ("200KiB", 1), ("200KiB", 2)):
        shutil.rmtree(store.parent, ignore_errors=True)
        store.parent.mkdir()
        assert cli("write", "--into", store, "--synth", "--size", size, "--seed", "7").code == 0
        for topic in sorted((store / "consumequeue").iterdir())[:lost]:
            shutil.rmtree(topic)
        ended = cli("check", store, "--tables", tmp_path / "tables", "--format", "json")
        counts.append(_counts(json.loads(ended.out))[0])
        (file,) = (tmp_path / "tables" / "findings").glob(f"{json.loads(ended.out)['run_id']}.parquet")
        errors = pq.read_table(file, filters=[("severity", "=", "error")])
        facts.append(set(errors.column("fingerprint").to_pylist()))
    assert counts[:2] == [[None, None], [0, 0]]
    assert facts[0] != facts[1]
    assert (counts[2][0] or 0) > 0
    assert counts[2][1] == 0


def test_a_run_that_failed_is_not_compared(
    run: Callable[..., tuple[int, dict[str, Any]]], fleet: Path, cli: Cli, tmp_path: Path
) -> None:
    _flip(fleet, "broker-b", 65_536)
    run()
    (fleet / "broker-b").rename(fleet / "away")
    code, failed = run()
    assert (code, failed["compared_store_count"]) == (8, 1)
    (fleet / "away").rename(fleet / "broker-b")
    _, again = run()
    assert _counts(again) == [[0, 0], [0, 0]]
    text = cli("check", fleet / "broker-*", fleet / "none", "--tables", tmp_path / "tables").out
    assert "0 problems; gone: 0. Not compared: 1 store." in " ".join(text.split())


def test_what_is_not_listed_is_not_compared(
    run: Callable[..., tuple[int, dict[str, Any]]], fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _flip(fleet, "broker-b", 65_536)
    with monkeypatch.context() as patched:
        patched.setattr("rocketfsck.pipeline.fleet.run.FINDING_LIMIT", 0)
        run()
    assert _counts(run()[1]) == [[0, 0], [None, None]]


def test_text(cli: Cli, fleet: Path, tmp_path: Path) -> None:
    line = ("check", fleet / "broker-*", "--tables", tmp_path / "tables")
    assert "New since" not in cli(*line).out
    _flip(fleet, "broker-b", 65_536)
    text = cli(*line).out
    assert ": 1 problem in 1 store; gone: 0." in " ".join(text.partition("\n\n")[0].split())
    rows = [row.split() for row in text.splitlines()]
    assert ["state", "errors", "warnings", "lost", "new", "store"] in rows
    assert text.partition("\nNew\n")[2].startswith("  broker-b/store: CL004 record-body-crc in commitlog/")
    assert "\nNew\n" not in cli(*line).out


def test_tables_that_cannot_be_read_end_no_check(cli: Cli, fleet: Path, tmp_path: Path) -> None:
    stores = tmp_path / "tables" / "stores"
    stores.mkdir(parents=True)
    (stores / f"{make_run_id(1e9)}.parquet").write_bytes(b"PAR1")
    line = ("check", fleet / "broker-*", "--tables", tmp_path / "tables")
    assert cli(*line).code == 0  # too long ago to be looked at
    (newest,) = (path for path in stores.iterdir() if path.stat().st_size > 4)
    newest.write_bytes(b"PAR1")
    ended = cli(*line)
    assert (ended.code, "Not compared with earlier runs:" in ended.out) == (0, True)


def test_alerts_need_tables(cli: Cli, fleet: Path) -> None:
    ended = cli("check", fleet / "broker-*", "--alert-on", "new")
    assert (ended.code, "--alert-on new is for --tables" in ended.err) == (16, True)


@pytest.mark.parametrize(
    ("state", "compared", "new", "code"),
    [
        ("damaged", "damaged", 0, 8),
        ("damaged", "damaged", 1, 12),
        ("harmful", "damaged", 0, 12),
        ("damaged", "harmful", 0, 8),
        ("damaged", None, None, 12),
    ],
)
def test_what_is_news(
    state: model.FleetState, compared: model.FleetState | None, new: int | None, code: int
) -> None:
    row = StoreRow("run", "b", "/b", state, 12, compared_state=compared, new_finding_count=new)
    assert row.news_code == code


def test_openmetrics_of_a_fleet(cli: Cli, fleet: Path, tmp_path: Path) -> None:
    line = ("check", fleet / "broker-*", fleet / "none", "--tables", tmp_path / "tables")
    cli(*line)
    _flip(fleet, "broker-b", 65_536)
    ended = cli(*line, "--format", "openmetrics")
    assert (ended.code, ended.err) == (12, "")
    by_parser = []
    for read in (read_openmetrics, read_text_format):
        families = list(read(ended.out))
        by_parser.append(
            {
                (sample.name, *(v for k, v in sample.labels.items() if k != "store")): sample.value
                for family in families
                for sample in family.samples
            }
        )
        assert {sample.labels["store"] for family in families for sample in family.samples} == {
            str(fleet / name) for name in ("broker-a/store", "broker-b/store", "none")
        }
    samples = by_parser[0]
    assert samples == by_parser[1]
    assert samples["rocketfsck_store_state", "none", "failed"] == 1
    assert samples["rocketfsck_check_exit_code", "none"] == 8
    assert ("rocketfsck_may_start", "none") not in samples
    assert samples["rocketfsck_findings", "broker-b", "error"] == 1
    assert samples["rocketfsck_new_findings", "broker-b"] == 1
    assert samples["rocketfsck_new_findings", "broker-a"] == 0
    assert samples["rocketfsck_messages", "broker-b"] == 1300
    one = cli("check", fleet / "broker-b", "--format", "openmetrics").out
    alone = {sample.name for family in read_openmetrics(one) for sample in family.samples}  # type: ignore[no-untyped-call]
    of_tables = {"rocketfsck_new_findings", "rocketfsck_gone_findings"}
    assert {name for name, *_ in samples} <= alone | of_tables


@pytest.mark.parametrize("form", ["sarif", "junit"])
def test_other_forms_are_for_one_store(cli: Cli, fleet: Path, form: str) -> None:
    assert cli("check", fleet / "broker-*", "--format", form).code == 16
