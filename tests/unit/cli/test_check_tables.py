"""check --tables with Delta and Iceberg: every run appended once, and read back with their own libraries."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rocketfsck import CheckOptions, check_stores
from rocketfsck.common.rows import Column
from rocketfsck.engine import LocalEngine
from rocketfsck.errors import StoreError
from rocketfsck.pipeline.export.tables import TablePlace
from rocketfsck.pipeline.fleet import tables as tables_module
from rocketfsck.pipeline.fleet.model import LATER_COLUMNS, FleetReport
from rocketfsck.pipeline.fleet.tables import RunTables

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

SOUND, KILLED = "5.3.3-basic", "4.9.8-killed"
FORMATS = ("delta", "iceberg")


def _load(into: Path, name: str, table_format: str) -> Any:
    if table_format == "delta":
        return pytest.importorskip("deltalake").DeltaTable((into / name).as_uri())
    catalog = pytest.importorskip("pyiceberg.catalog").load_catalog(
        "rocketfsck", type="sql", uri=f"sqlite:///{quote(str(into))}/catalog.db"
    )
    return catalog.load_table(f"rocketmq.check_{name}")


def _read(into: Path, name: str, table_format: str) -> pa.Table:
    table = _load(into, name, table_format)
    return table.to_pyarrow_table() if table_format == "delta" else table.scan().to_arrow()


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: [str(row[name]) for name in sorted(row)])


@pytest.fixture
def fleet(store_dir: Directory, tmp_path: Path) -> Path:
    shutil.copytree(store_dir(SOUND), tmp_path / "fleet" / "broker-a" / "store")
    shutil.copytree(store_dir(KILLED), tmp_path / "fleet" / "broker-b" / "store")
    return tmp_path / "fleet"


@pytest.fixture
def checked(fleet: Path) -> Callable[[], FleetReport]:
    def check() -> FleetReport:
        return check_stores(
            [fleet / "broker-*"], CheckOptions(level="quick"), LocalEngine(1), finding_limit=9
        )

    return check


@pytest.mark.parametrize("table_format", FORMATS)
def test_every_run_is_appended(cli: Cli, fleet: Path, tmp_path: Path, table_format: str) -> None:
    into, plain = tmp_path / "a b#c", tmp_path / "plain"
    runs = []
    for _ in range(2):
        ended = cli(
            "check", fleet / "broker-*", "--tables", into, "--table-format", table_format, "--format", "json"
        )
        assert (ended.code, ended.err) == (0, "")
        document = json.loads(ended.out)
        runs.append(document["run_id"])
        stores = _read(into, "stores", table_format).to_pylist()
        assert sorted({row["run_id"] for row in stores}) == sorted(runs)
        kept = [row for row in stores if row["run_id"] == runs[-1]]
        assert [{name: row[name] for name in document["rows"][0]} for row in kept] == document["rows"]
    found = _read(into, "findings", table_format)
    assert cli("check", fleet / "broker-*", "--tables", plain).code == 0
    (file,) = (plain / "findings").iterdir()
    wanted = pq.read_table(file).drop_columns(["run_id"])
    assert found.num_rows == 2 * wanted.num_rows > 0
    for run_id in runs:
        one = found.filter(pc.field("run_id") == run_id).drop_columns(["run_id"])
        assert one.column_names == wanted.column_names
        assert _rows(one) == _rows(wanted)


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_run_is_appended_once(
    checked: Callable[[], FleetReport], tmp_path: Path, table_format: str
) -> None:
    report, into = checked(), tmp_path / "tables"
    RunTables(into, table_format).append(report)
    with pytest.raises(StoreError, match=f"has the run {report.run_id} already"):
        RunTables(into, table_format).append(report)
    assert _read(into, "stores", table_format).num_rows == len(report.stores)
    RunTables(into, table_format).append(checked())
    with pytest.raises(StoreError, match="appended once"):  # not the newest run, neither
        RunTables(into, table_format).append(report)
    assert _read(into, "stores", table_format).num_rows == 2 * len(report.stores)


@pytest.mark.parametrize("table_format", FORMATS)
def test_an_append_that_failed_between_the_tables_is_completed(
    checked: Callable[[], FleetReport], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_format: str
) -> None:
    report, into = checked(), tmp_path / "tables"
    commit = RunTables._commit

    def fail(self: RunTables, name: str, *rest: Any) -> None:
        if name == "stores":
            raise StoreError("no space left")
        commit(self, name, *rest)

    monkeypatch.setattr(RunTables, "_commit", fail)
    with pytest.raises(StoreError, match="no space left"):
        RunTables(into, table_format).append(report)
    assert not list((into / "stores").rglob("*.parquet"))
    monkeypatch.undo()
    RunTables(into, table_format).append(report)
    assert _read(into, "stores", table_format).num_rows == 2
    assert _read(into, "findings", table_format).num_rows == sum(1 for _ in report.finding_rows())


@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize("is_new", [True, False])
def test_another_run_commits_first(
    checked: Callable[[], FleetReport],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table_format: str,
    is_new: bool,
) -> None:
    into, reports = tmp_path / "tables", [checked() for _ in range(3)]
    if not is_new:
        RunTables(into, table_format).append(reports[2])
    find, others = TablePlace.find, [reports[0]]

    def slow(place: TablePlace) -> Any:
        """The table as it was before the other run."""
        table = find(place)
        if others and commits:
            RunTables(into, table_format).append(others.pop())
        return table

    commits: list[str] = []
    commit = RunTables._commit

    def committed(self: RunTables, name: str, *rest: Any) -> None:
        commits.append(name)
        into.mkdir(exist_ok=True)
        (into / "catalog.db").touch()
        commit(self, name, *rest)

    monkeypatch.setattr(RunTables, "_commit", committed)
    monkeypatch.setattr(TablePlace, "find", slow)
    RunTables(into, table_format).append(reports[1])
    assert not others
    for name in ("stores", "findings"):
        runs = {row["run_id"] for row in _read(into, name, table_format).to_pylist()}
        assert runs == {report.run_id for report in (reports[:2] if is_new else reports)}
    assert _read(into, "stores", table_format).num_rows == 2 * (2 if is_new else 3)


def _counted(table: pa.Table) -> pa.Table:
    """A table of stores with a column that none has today."""
    return table.append_column("lost_count", pa.nulls(table.num_rows, pa.int64()))


@pytest.mark.parametrize("table_format", FORMATS)
def test_other_columns_are_refused_before_the_check(
    cli: Cli,
    fleet: Path,
    checked: Callable[[], FleetReport],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table_format: str,
) -> None:
    into = tmp_path / "tables"
    columns = [column for column in tables_module._COLUMNS["stores"] if column.name != "seconds"]
    older = {**tables_module._COLUMNS, "stores": (*columns, Column("lost_count", "int"))}
    with monkeypatch.context() as patched:
        patched.setattr(tables_module, "_COLUMNS", older)
        patched.setattr(FleetReport, "finding_batches", lambda _self: iter(()))  # of a fleet without any
        to_arrow = FleetReport.to_arrow
        patched.setattr(FleetReport, "to_arrow", lambda report: _counted(to_arrow(report)))
        RunTables(into, table_format).append(checked())
    monkeypatch.setattr("rocketfsck.pipeline.fleet.run.check_stores", None)
    ended = cli("check", fleet / "broker-*", "--tables", into, "--table-format", table_format)
    assert ended.code == 16
    said = "other columns than this run writes: missing seconds; additional lost_count"
    assert said in ended.err
    assert _read(into, "findings", table_format).num_rows == 0


@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize("kept", [frozenset(), frozenset({"read_byte_count"})], ids=["none", "some"])
def test_a_table_of_an_earlier_version_keeps_its_columns(
    checked: Callable[[], FleetReport],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table_format: str,
    kept: frozenset[str],
) -> None:
    """A new version of rocketfsck never ends a nightly run."""
    into, columns = tmp_path / "tables", tables_module._COLUMNS["stores"]
    older = tuple(column for column in columns if column.name not in LATER_COLUMNS - kept)
    with monkeypatch.context() as patched:
        patched.setattr(tables_module, "_COLUMNS", {**tables_module._COLUMNS, "stores": older})
        RunTables(into, table_format).append(checked())
    RunTables(into, table_format).append(checked())
    found = _read(into, "stores", table_format)
    assert found.num_rows == 4
    assert LATER_COLUMNS & set(found.column_names) == kept


@pytest.mark.parametrize("held", ["parquet", *FORMATS])
def test_another_format_is_refused_before_the_check(
    cli: Cli, fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: str
) -> None:
    into = tmp_path / "tables"
    line = ("check", fleet / "broker-*", "--level", "quick", "--tables", into, "--table-format")
    assert cli(*line, held).code == 0
    monkeypatch.setattr("rocketfsck.pipeline.fleet.run.check_stores", None)
    for other in {"parquet", *FORMATS} - {held}:
        ended = cli(*line, other)
        assert ended.code == 16
        assert f"give another directory, or --table-format {held}" in ended.err


def test_what_is_refused(cli: Cli, fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = ("check", fleet / "broker-*", "--table-format")
    assert "--table-format is for --tables" in cli(*line, "delta").err
    into = ("--tables", tmp_path / "tables")
    assert "--catalog is for --table-format iceberg" in cli(*line, "delta", *into, "--catalog", "a=b").err
    assert "NAME=VALUE" in cli(*line, "iceberg", *into, "--catalog", "a").err
    monkeypatch.setattr("rocketfsck.pipeline.export.tables.find_spec", lambda _name: None)
    for table_format, package in (("delta", "deltalake"), ("iceberg", "pyiceberg")):
        ended = cli(*line, table_format, *into)
        assert ended.code == 16
        assert f"{table_format} needs {package}, which is not installed: run pip install" in ended.err
    assert not (tmp_path / "tables").exists()


def test_iceberg_in_a_catalog_of_the_user(cli: Cli, fleet: Path, tmp_path: Path) -> None:
    catalog = f"uri=sqlite:///{tmp_path}/mine.db"
    line = ("check", fleet / "broker-*", "--tables", tmp_path / "tables", "--table-format", "iceberg")
    for _ in range(2):
        assert cli(*line, "--catalog", "type=sql", "--catalog", catalog).code == 0
    assert not (tmp_path / "tables" / "catalog.db").exists()
    loaded = pytest.importorskip("pyiceberg.catalog").load_catalog(
        "rocketfsck", type="sql", uri=f"sqlite:///{tmp_path}/mine.db"
    )
    assert loaded.load_table("rocketmq.check_stores").scan().to_arrow().num_rows == 4


def test_page_of_delta_tables(cli: Cli, fleet: Path, tmp_path: Path) -> None:
    for name, table_format in (("d", "delta"), ("i", "iceberg")):
        line = ("check", fleet / "broker-*", "--tables", tmp_path / name, "--table-format", table_format)
        cli(*line, "--level", "quick")
        ended = cli(*line, "--report", tmp_path / f"{name}.json")
    assert cli("page", tmp_path / "d", "-o", tmp_path / "page.json").code == 0
    made = json.loads((tmp_path / "page.json").read_text())
    assert cli(*("check", fleet / "broker-a"), "--tables", tmp_path / "d").code == 16
    wanted = json.loads((tmp_path / "d.json").read_text())
    assert made == wanted
    assert ended.code == 0
    ended = cli("page", tmp_path / "i")  # Iceberg
    assert (ended.code, "reads Parquet and Delta tables" in ended.err) == (16, True)
    log = next((tmp_path / "d" / "stores" / "_delta_log").glob("*.json"))
    log.write_text("{")
    assert cli("page", tmp_path / "d").code == 8
