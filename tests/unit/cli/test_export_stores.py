"""export of several stores: one that cannot be opened is named, and the others are exported."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from rocketfsck.errors import StoreError
from rocketfsck.pipeline.export import model, rows
from rocketfsck.pipeline.export.job import export_stores
from rocketfsck.pipeline.export.model import ExportOptions, ExportResult
from rocketfsck.pipeline.sources import find_sources
from rocketfsck.pipeline.views.model import WantedRows

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

SOUND, OTHER = "5.3.3-basic", "4.9.8-ipv6"


@pytest.fixture
def fleet(store_dir: Directory, tmp_path: Path) -> Path:
    """Two sound stores, and broker-b between them, whose commit log cannot be listed."""
    shutil.copytree(store_dir(SOUND), tmp_path / "fleet" / "broker-a")
    shutil.copytree(store_dir(OTHER), tmp_path / "fleet" / "broker-c")
    _break(tmp_path / "fleet" / "broker-b")
    return tmp_path / "fleet"


def _break(store: Path) -> None:
    store.mkdir()
    (store / "commitlog").symlink_to(store / "commitlog")  # a loop


def _brokers(into: Path) -> set[str]:
    table = ds.dataset(into, format="parquet", exclude_invalid_files=True).to_table(columns=["broker"])
    return set(table["broker"].to_pylist())


@pytest.mark.parametrize("table_format", ["parquet", "delta", "iceberg"])
def test_the_others_are_exported(cli: Cli, fleet: Path, tmp_path: Path, table_format: str) -> None:
    if table_format != "parquet":
        pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg"}[table_format])
    into = tmp_path / "tables"
    stores = (fleet / "none", *(fleet / f"broker-{name}" for name in "abc"))
    line = ("export", *stores, "--into", into, "--table-format", table_format, "--format", "json")
    ended = cli(*line)
    assert ended.code == 8
    document = json.loads(ended.out)
    assert [found["broker"] for found in document["failed"]] == ["none", "broker-b"]
    assert document["failed"][1]["error"].startswith(f"{fleet / 'broker-b'}")
    assert [text.partition(": ")[2].partition(": ")[0] for text in ended.err.splitlines()] == [
        "none",
        "broker-b",
    ]
    assert _brokers(into) == {"broker-a", "broker-c"}
    alone = cli("export", *stores[1::2], "--into", tmp_path / "two", "--format", "json")
    assert (alone.code, json.loads(alone.out)["failed"]) == (0, [])
    assert document["row_count"] == json.loads(alone.out)["row_count"] > 0


def test_a_store_that_is_back_is_appended(cli: Cli, fleet: Path, tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    line = (
        "export",
        *(fleet / f"broker-{name}" for name in "abc"),
        "--into",
        tmp_path / "tables",
        "--append",
    )
    line = (*line, "--table-format", "delta", "--format", "json")
    assert cli(*line).code == 8
    shutil.rmtree(fleet / "broker-b")
    shutil.copytree(fleet / "broker-a", fleet / "broker-b")
    shutil.rmtree(fleet / "broker-c")
    _break(fleet / "broker-c")
    ended = cli(*line)
    assert ended.code == 8
    document = json.loads(ended.out)
    assert [found["broker"] for found in document["failed"]] == ["broker-c"]
    assert document["row_count"] > 0
    assert _brokers(tmp_path / "tables") == {"broker-a", "broker-b", "broker-c"}


def test_without_any_store_nothing_is_written(cli: Cli, fleet: Path, tmp_path: Path) -> None:
    _break(fleet / "broker-d")
    for stores in ([fleet / "broker-b"], [fleet / "broker-b", fleet / "broker-d"]):
        ended = cli("export", *stores, "--into", tmp_path / "tables")
        assert ended.code == 8
        assert str(fleet / "broker-b") in ended.err
        assert not (tmp_path / "tables").exists()
    assert cli("export", fleet / "none", fleet / "no", "--into", tmp_path / "tables").code == 8
    assert not (tmp_path / "tables").exists()


def _appended(fleet: Path, into: Path, names: str = "abc", engine: Any = None) -> ExportResult:
    sources = find_sources([fleet / f"broker-{name}" for name in names])
    return export_stores(sources, into, ExportOptions(table_format="delta"), engine=engine, append=True)


def _manifest(folder: Path) -> Any:
    return json.loads((folder / "_manifest.json").read_text("utf-8"))


def test_a_log_that_was_cut_since_the_last_run_ends_its_store_alone(fleet: Path, tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    into = tmp_path / "tables"
    _appended(fleet, into)
    shutil.rmtree(fleet / "broker-b")
    shutil.copytree(fleet / "broker-a", fleet / "broker-b")
    shutil.rmtree(fleet / "broker-c" / "commitlog")
    (fleet / "broker-c" / "commitlog").mkdir()
    result = _appended(fleet, into)
    ((broker, error),) = result.failed
    assert (broker, "the log was cut or replaced, so nothing of it was appended" in error) == (
        "broker-c",
        True,
    )
    assert _brokers(into) == {"broker-a", "broker-b", "broker-c"}
    assert [one["broker"] for one in _manifest(into / result.run)["stores"]] == ["broker-a", "broker-b"]
    shutil.rmtree(fleet / "broker-a")
    shutil.rmtree(fleet / "broker-b")
    with pytest.raises(StoreError, match="the log was cut or replaced"):
        _appended(fleet, into, "c")


@pytest.fixture(params=["read", "mark"])
def cutting(request: pytest.FixtureRequest, fleet: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log of broker-c, which is cut when it was planned, or read, and the run asks for it again."""
    log = fleet / "broker-c" / "commitlog" / f"{0:020}"
    read, mark = rows.ExportRows.read, model.marks_of

    def cut() -> None:
        with log.open("r+b") as file:
            file.truncate(2000)

    def reading(self: rows.ExportRows, part: Any) -> Iterator[Any]:
        if part.source.broker == "broker-c":
            cut()
        yield from read(self, part)

    def marking(*given: Any) -> Any:
        if request.param == "mark":
            cut()
        return mark(*given)

    if request.param == "read":
        monkeypatch.setattr(rows.ExportRows, "read", reading)
    monkeypatch.setattr("rocketfsck.pipeline.export.model.marks_of", marking)
    return log


def test_a_log_that_is_cut_while_it_is_read_ends_its_store_alone(
    fleet: Path, tmp_path: Path, cutting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("deltalake")
    whole, into = cutting.read_bytes(), tmp_path / "tables"
    result = _appended(fleet, into)
    assert [broker for broker, _ in result.failed] == ["broker-b", "broker-c"]
    assert str(fleet / "broker-c") in result.failed[1][1]
    assert (_brokers(into), set(result.marks)) == ({"broker-a"}, {"broker-a"})
    assert [one["broker"] for one in _manifest(into)["stores"]] == ["broker-a"]
    assert {path.name for path in into.rglob("*.parquet")} == {Path(file.path).name for file in result.files}
    monkeypatch.undo()
    cutting.write_bytes(whole)  # the next run has all of it
    again = _appended(fleet, into)
    assert [broker for broker, _ in again.failed] == ["broker-b"]
    assert _brokers(into) == {"broker-a", "broker-c"}
    alone = export_stores(find_sources([fleet / "broker-c"]), tmp_path / "alone")
    assert again.row_count == alone.row_count > 0


def test_what_is_wrong_with_the_table_ends_the_run(
    fleet: Path, tmp_path: Path, cutting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So does FAILFAST: nothing is left out silently."""
    sources = find_sources([fleet / f"broker-{name}" for name in "abc"])
    strict = ExportOptions(table_format="delta", wanted=WantedRows(mode="FAILFAST"))
    with pytest.raises(StoreError, match=r"broker-c"):
        export_stores(sources, tmp_path / "strict", strict)
    assert cutting.stat().st_size == 2000

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.dataset.write_dataset", full)
    with pytest.raises(StoreError, match="cannot be written: No space left"):
        export_stores(sources, tmp_path / "full")
    assert not (tmp_path / "strict").exists()
    assert not (tmp_path / "full").exists()
