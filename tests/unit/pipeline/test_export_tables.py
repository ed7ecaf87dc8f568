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
from rocketfsck.pipeline.export.write import PartitionWriter
from rocketfsck.pipeline.views import WantedRows

from tests.conftest import Directory
from tests.unit.pipeline.exporting import HOSTILE, batches, export, new_root, rows_of, shape

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


def _hostile(root: Path, table_format: str) -> tuple[pa.Schema, list[Any], list[dict[str, Any]]]:
    """Files of hostile topics, as a task of an export of that format writes them."""
    iceberg = table_format == "iceberg"
    (rows,) = batches(HOSTILE, 1)
    dates = pa.array(["2023-11-14"] * len(rows)).cast(pa.date32())
    rows = rows.append_column("date", dates)
    wide = pa.schema([*shape().schema, pa.field("topic", pa.string()), pa.field("date", pa.date32())])
    files = shape(schema=wide if iceberg else shape().schema, plain_names=True)
    with PartitionWriter(new_root(root), "0", files) as writer:
        assert writer.write(rows) is None
        return wide, writer.close(), rows.to_pylist()


@pytest.mark.parametrize("table_format", READERS)
def test_hostile_topics_come_back(tmp_path: Path, table_format: str) -> None:
    root = tmp_path / ("a b#c" if table_format == "delta" else "a b#c%20")
    schema, files, rows = _hostile(root, table_format)
    about = {"view": "messages"}
    if table_format == "delta":
        tables.commit_delta(root, schema, ("topic", "date"), files, about)
        table = _read_delta(root)
    else:
        tables.commit_iceberg(
            root, schema, ("topic", "date"), files, about, name="rocketmq.messages", properties={}
        )
        table = _read_iceberg(root)
    found = {(row["offset"], row["topic"] or None, row["body"]) for row in table.to_pylist()}
    assert found == {(row["offset"], row["topic"] or None, row["body"]) for row in rows}
    assert {path.parent.parent for path in root.glob("*/*/*.parquet")} == set(root.glob("topic=*"))


def test_deltas_log_has_bounds_and_escaped_paths(store_dir: Directory, tmp_path: Path) -> None:
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
        assert action["partitionValues"]["topic"] == file.cell.values[0]


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
    assert all("/topic=Seg1/" in task.file.file_path for task in tasks)
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
