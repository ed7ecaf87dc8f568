"""Delta and Iceberg tables, read back with their own libraries: the rows of the Parquet export, once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rocketfsck.cli.app import run
from rocketfsck.errors import StoreError, UsageError, install_hint
from rocketfsck.pipeline.export import tables
from rocketfsck.pipeline.views.model import WantedRows

from tests.conftest import Directory
from tests.unit.pipeline.exporting import ODD_TOPICS, export, odd_topics_store, rows_of

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

SEVERAL = ("5.3.3-multiseg", "4.9.8-ipv6")


def _read_delta(into: Path) -> pa.Table:
    deltalake = pytest.importorskip("deltalake")
    return deltalake.DeltaTable(into.as_uri()).to_pyarrow_table()


def _read_iceberg(into: Path, name: str = "rocketmq.messages", condition: str | None = None) -> pa.Table:
    catalog = pytest.importorskip("pyiceberg.catalog").load_catalog(
        "rocketfsck", type="sql", uri=f"sqlite:///{quote(str(into))}/catalog.db"
    )
    scan = catalog.load_table(name).scan()
    return (scan if condition is None else scan.filter(condition)).to_arrow()


READERS = {"delta": _read_delta, "iceberg": _read_iceberg}


def _ordered(table: pa.Table) -> list[dict[str, Any]]:
    rows = table.to_pylist()
    for row in rows:
        row["date"] = None if row["date"] is None else str(row["date"])
    return sorted(rows, key=lambda row: (row["broker"], row["offset"]))


@pytest.mark.parametrize("table_format", READERS)
def test_the_rows_are_those_of_the_parquet_export(
    store_dir: Directory, tmp_path: Path, table_format: str
) -> None:
    stores = [store_dir(name) for name in SEVERAL]
    export(tmp_path / "parquet", *stores)
    result = export(tmp_path / "table", *stores, table_format=table_format)
    rows = _ordered(READERS[table_format](tmp_path / "table"))
    assert len(rows) == result.row_count > 1400
    plain = rows_of(tmp_path / "parquet")
    assert all(row.pop("topic_text") == row["topic"] for row in plain)  # tables have it in their logs
    assert rows == plain
    assert (tmp_path / "table" / "_SUCCESS").exists()


def test_a_delta_table_may_be_filtered_by_columns_without_bounds(
    store_dir: Directory, tmp_path: Path
) -> None:
    export(tmp_path / "table", store_dir(SEVERAL[0]), table_format="delta")
    dataset = pytest.importorskip("deltalake").DeltaTable((tmp_path / "table").as_uri()).to_pyarrow_dataset()
    keys = [key for key in dataset.to_table(columns=["unique_key"])["unique_key"].to_pylist() if key]
    assert dataset.to_table(filter=pc.field("unique_key") >= "").num_rows == len(keys) > 0
    assert dataset.to_table(filter=pc.field("unique_key") == keys[0]).num_rows == 1


@pytest.mark.parametrize("table_format", READERS)
def test_odd_topics_come_back(tmp_path: Path, table_format: str) -> None:
    """Each whole, from a directory whose name needs an escape itself."""
    root = tmp_path / ("a b#c" if table_format == "delta" else "a b#c%20")
    export(root, odd_topics_store(tmp_path / "store"), table_format=table_format)
    rows = sorted(READERS[table_format](root).to_pylist(), key=lambda row: row["offset"])
    assert [row["topic"] for row in rows] == list(ODD_TOPICS)


def test_deltas_log_has_bounds(store_dir: Directory, tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    result = export(tmp_path / "out", store_dir("4.4.0-basic"), table_format="delta")
    (log,) = (tmp_path / "out" / "_delta_log").glob("*.json")
    actions = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    added = {action["add"]["path"]: action["add"] for action in actions if "add" in action}
    assert len(added) == len(result.files)
    (commit,) = (action["commitInfo"] for action in actions if "commitInfo" in action)
    assert json.loads(commit["rocketfsck"])["stores"][0]["broker"] == "4.4.0-basic"
    for file in result.files:
        action = added[file.path.replace("%", "%25")]
        statistics = json.loads(action["stats"])
        assert statistics["numRecords"] == file.row_count
        assert statistics["minValues"]["offset"] == file.bounds["offset"][0]
        assert statistics["maxValues"]["store_timestamp"] == file.bounds["store_timestamp"][1]
        assert action["partitionValues"]["topic"] == file.values[0]


def test_iceberg_prunes_by_topic_in_a_catalog_of_the_users(store_dir: Directory, tmp_path: Path) -> None:
    catalog = pytest.importorskip("pyiceberg.catalog")
    own = {"type": "sql", "uri": f"sqlite:///{tmp_path}/own.db", "warehouse": str(tmp_path)}
    options: dict[str, Any] = {
        "table_format": "iceberg",
        "properties": {**own, "name": "theirs"},
        "table": "forensics.log",
    }
    store = store_dir("5.3.3-multiseg")
    export(tmp_path / "out", store, **options)
    assert not (tmp_path / "out" / "catalog.db").exists()
    table = catalog.load_catalog("theirs", **own).load_table("forensics.log")
    tasks = list(table.scan(row_filter="topic == 'Seg1'").plan_files())
    assert len(tasks) == 2
    assert all("/in_topic=Seg1/" in task.file.file_path for task in tasks)
    with pytest.raises(UsageError, match="catalog already has"):
        export(tmp_path / "other", store, **options)
    assert not (tmp_path / "other" / "_SUCCESS").exists()


@pytest.mark.parametrize("table_format", READERS)
def test_an_empty_table(store_dir: Directory, tmp_path: Path, table_format: str) -> None:
    export(
        tmp_path / "out",
        store_dir("4.4.0-basic"),
        table_format=table_format,
        wanted=WantedRows(topic="none such"),
    )
    assert len(READERS[table_format](tmp_path / "out")) == 0


def test_a_commit_that_fails_leaves_no_table(
    store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transaction = pytest.importorskip("deltalake.transaction")

    def failing(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(transaction, "create_table_with_add_actions", failing)
    with pytest.raises(StoreError, match="cannot be created"):
        export(tmp_path / "out", store_dir("4.4.0-basic"), table_format="delta")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("pyiceberg.catalog.load_catalog", failing)
    with pytest.raises(StoreError, match="cannot be created"):
        export(tmp_path / "out", store_dir("4.4.0-basic"), table_format="iceberg")
    assert not (tmp_path / "out" / "_SUCCESS").exists()


@pytest.mark.parametrize("table_format", READERS)
def test_a_package_that_is_missing_is_named(
    store_dir: Directory,
    tmp_path: Path,
    table_format: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tables, "find_spec", lambda _: None)
    arguments = ["export", str(store_dir("4.4.0-basic")), "--into", str(tmp_path / "out")]
    assert run([*arguments, "--table-format", table_format]) == 16
    said = capsys.readouterr().err
    assert tables.PACKAGES[table_format] in said
    assert install_hint("tables") in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["messages", ".messages", "rocketmq."])
def test_a_table_of_iceberg_has_a_namespace(store_dir: Directory, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"namespace\.table"):
        export(tmp_path / "out", store_dir("4.4.0-basic"), table_format="iceberg", table=name)
    assert list(tmp_path.iterdir()) == []
