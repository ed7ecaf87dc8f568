"""Exports to an object store: a server of S3's protocol, killed drivers, two runs at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("s3fs")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

import pyarrow as pa
import pyarrow.dataset as ds

from rocketfsck.cli.app import run
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.pipeline.export import job
from rocketfsck.pipeline.export.files import Place, delta_options, iceberg_options
from rocketfsck.pipeline.export.job import export_stores
from rocketfsck.pipeline.export.local import Written, write_here
from rocketfsck.pipeline.export.model import ExportOptions, ExportResult
from rocketfsck.pipeline.export.tables import TableChangedError
from rocketfsck.pipeline.sources import find_sources
from rocketfsck.pipeline.views.model import WantedRows
from rocketfsck.store.places.locations import locate
from rocketfsck.store.places.urls import file_system

from tests.conftest import Directory
from tests.s3 import KEY, SECRET, s3_client, s3_server_apart
from tests.unit.pipeline.exporting import ODD_TOPICS, export, odd_topics_store, rows_of
from tests.unit.pipeline.test_export_append import cut

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

ROOT = Path(__file__).parents[3]
STORE = "5.3.3-multiseg"
DELTA = {"aws_allow_http": "true"}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server_apart() as url:
        s3_client(url)
        yield url


@pytest.fixture
def target(server: str, request: pytest.FixtureRequest) -> Path:
    """A URL of the test's own."""
    assert server
    return locate(f"s3://bucket/{abs(hash(request.node.nodeid))}/tables")


def _names(target: Path) -> list[str]:
    """The names of all objects below a URL."""
    system, path = file_system(str(target))
    return sorted(name.removeprefix(f"{path}/") for name in system.find(path))


def _rows(target: Path) -> list[dict[str, Any]]:
    """What Arrow finds by listing: the rows in the order of the log."""
    system, path = file_system(str(target))
    fields = pa.schema([pa.field("topic", pa.string()), pa.field("date", pa.string())])
    names = ds.partitioning(fields, flavor="hive")
    rows = ds.dataset(path, filesystem=system, format="parquet", partitioning=names).to_table().to_pylist()
    return sorted(rows, key=lambda row: (row["broker"], row["offset"]))


class Table:
    """A table of one format below a URL."""

    def __init__(self, table_format: str, target: Path, folder: Path) -> None:
        self.table_format, self.target = table_format, target
        self.catalog = {"type": "sql", "uri": f"sqlite:///{folder / 'catalog.db'}"}

    @property
    def options(self) -> dict[str, Any]:
        properties = self.catalog if self.table_format == "iceberg" else {}
        return {"table_format": self.table_format, "properties": properties}

    def append(self, *stores: Path, **options: Any) -> ExportResult:
        sources = find_sources(stores, brokers=("a", "b")[: len(stores)])
        chosen = ExportOptions(**self.options, **options)
        return export_stores(sources, self.target, chosen, append=True)

    def read(self) -> pa.Table:
        if self.table_format == "delta":
            from deltalake import DeltaTable

            return DeltaTable(str(self.target), storage_options=DELTA).to_pyarrow_table()
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("rocketfsck", **{**iceberg_options(self.target), **self.catalog})
        return catalog.load_table("rocketmq.messages").scan().to_arrow()

    def offsets(self) -> list[int]:
        return sorted(self.read()["offset"].to_pylist())

    def arguments(self) -> list[str]:
        given = [f"{name}={value}" for name, value in self.options["properties"].items()]
        pairs = [word for text in given for word in ("--catalog", text)]
        return ["--into", str(self.target), "--table-format", self.table_format, *pairs]


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, target: Path, tmp_path: Path) -> Table:
    return Table(request.param, target, tmp_path)


def _runs(target: Path) -> set[str]:
    return {name.partition("/")[0] for name in _names(target) if name.startswith("run-")}


def test_plain_files_are_the_rows_of_a_directory_and_the_commit_comes_last(
    store_dir: Directory, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put: list[str] = []
    sound = Place.put

    def noted(self: Place, name: str, data: bytes) -> None:
        put.append(name)
        sound(self, name, data)

    monkeypatch.setattr(Place, "put", noted)
    stores = [store_dir(name) for name in (STORE, "4.9.8-ipv6")]
    local = export(tmp_path / "local", *stores)
    result = export(target, *stores)
    assert put[-2:] == ["_manifest.json", "_SUCCESS"]
    assert result.row_count == local.row_count
    assert _rows(target) == rows_of(tmp_path / "local")
    system, path = file_system(str(target))
    manifest = json.loads(system.cat_file(f"{path}/_manifest.json"))
    listed = {file["path"]: file["size"] for file in manifest["files"]}
    found = {name: system.size(f"{path}/{name}") for name in _names(target)}
    assert listed == {name: size for name, size in found.items() if name.endswith(".parquet")}
    assert set(found) - set(listed) == {"_manifest.json", "_SUCCESS"}


def _fail(*_: object) -> None:
    raise StoreError("on purpose")


def test_what_is_there_is_kept_unless_it_is_to_be_replaced(
    store_dir: Directory, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_dir(STORE)
    export(target, store)
    before = _names(target)
    with pytest.raises(UsageError, match="already exists"):
        export(target, store)
    assert _names(target) == before
    second = export(target, store, replace=True, wanted=WantedRows(topic="Seg1"))
    assert {row["topic"] for row in _rows(target)} == {"Seg1"}
    assert len(_rows(target)) == second.row_count
    before = _names(target)
    monkeypatch.setattr(job, "manifest_of", _fail)
    with pytest.raises(StoreError, match="on purpose"):
        export(target, store, replace=True)
    monkeypatch.undo()
    assert _names(target) == before
    system, path = file_system(str(target))
    system.pipe_file(f"{path}/mine.txt", b"not of an export")
    before = _names(target)
    with pytest.raises(UsageError, match="already exists"):
        export(target, store, replace=True)
    assert _names(target) == before


def test_of_two_plain_exports_at_once_one_loses(
    store_dir: Directory, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have seen that nothing is there."""
    store, sound = store_dir(STORE), job.plan_export
    first: list[ExportResult] = []

    def meanwhile(*given: Any) -> Any:
        monkeypatch.setattr(job, "plan_export", sound)
        first.append(export(target, store))
        return sound(*given)

    monkeypatch.setattr(job, "plan_export", meanwhile)
    with pytest.raises(UsageError, match="already exists"):
        export(target, store, wanted=WantedRows(topic="Seg1"))
    assert len(_rows(target)) == first[0].row_count


KILLED = """
import os, signal, sys
from rocketfsck.cli.app import run
from rocketfsck.pipeline.export import job, tables
place, *arguments = sys.argv[1:]
def killing(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
def after(sound):
    def then(*given, **options):
        sound(*given, **options)
        killing()
    return then
if place == "data":
    job.manifest_of = killing
elif place == "commit":
    tables._Delta.append = tables._Iceberg.append = tables.TablePlace.create = killing
else:
    for kind in (tables._Delta, tables._Iceberg):
        kind.append = after(kind.append)
run(arguments)
"""


def _killed(place: str, arguments: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLED, place, *arguments],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"ROCKETFSCK_KERNELS": "plain"},
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def test_a_killed_plain_export(
    store_dir: Directory, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Readers wait for the last object; the next export says what is there, and replaces it."""
    arguments = ["export", str(store_dir(STORE)), "--into", str(target)]
    _killed("data", arguments)
    assert "_SUCCESS" not in _names(target)
    assert len(_names(target)) > 1
    assert run(arguments) == 16
    assert "already exists" in capsys.readouterr().err
    assert run([*arguments, "--replace"]) == 0
    assert "_SUCCESS" in _names(target)
    rows = _rows(target)
    assert len(rows) == len({row["offset"] for row in rows}) > 1000


def test_each_run_adds_what_is_new(store_copy: Directory, table: Table) -> None:
    store = store_copy(STORE)
    grow = cut(store, 700)
    first = table.append(store)
    assert (first.row_count, first.appended) == (700, False)
    grow()
    grow = cut(store, 900)
    second = table.append(store)
    assert (second.row_count, second.appended) == (200, True)
    grow()
    third = table.append(store)
    again = table.append(store)
    assert (again.row_count, again.files, again.has_problems, again.run) == (0, (), False, "")
    offsets = table.offsets()
    assert len(offsets) == len(set(offsets)) == 900 + third.row_count > 1000
    assert _runs(table.target) == {first.run, second.run, third.run}
    names = _names(table.target)
    for one in (first, second, third):
        assert f"{one.run}/_manifest.json" in names
    with pytest.raises(UsageError, match="already exists"):
        export(table.target, store, **table.options)
    with pytest.raises(UsageError, match="another selection"):
        table.append(store, wanted=WantedRows(topic="Seg1"))


@pytest.mark.parametrize(
    ("table", "place"),
    [
        ("delta", "data"),
        ("iceberg", "commit"),
        ("delta", "committed"),
        pytest.param("iceberg", "data", marks=pytest.mark.nightly),
        pytest.param("delta", "commit", marks=pytest.mark.nightly),
        pytest.param("iceberg", "committed", marks=pytest.mark.nightly),
    ],
    indirect=["table"],
)
def test_killed_runs_leave_the_table_and_no_message_twice(
    store_copy: Directory,
    table: Table,
    place: str,
) -> None:
    """Real SIGKILLs: before the commit, and right after."""
    store = store_copy(STORE)
    arguments = ["export", str(store), *table.arguments(), "--append", "--broker-name", "a"]
    grow = cut(store, 700)
    assert run(arguments) == 0
    grow()
    _killed(place, arguments)
    assert (len(table.offsets()) > 700) == (place == "committed")
    assert run(arguments) == 0
    offsets = table.offsets()
    assert len(offsets) == len(set(offsets)) > 1000


def test_of_two_runs_at_once_one_loses_and_says_so(
    store_copy: Directory, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_copy(STORE)
    grow = cut(store, 700)
    table.append(store)
    grow()
    sound = write_here

    def meanwhile(*given: Any) -> Written:
        monkeypatch.setattr(job, "write_here", sound)
        assert table.append(store).row_count > 0
        return sound(*given)

    monkeypatch.setattr(job, "write_here", meanwhile)
    with pytest.raises(TableChangedError, match="another run changed the table first"):
        table.append(store)
    offsets = table.offsets()
    assert len(offsets) == len(set(offsets)) > 1000
    assert len(_runs(table.target)) == 2
    assert table.append(store).row_count == 0


def test_every_topic_comes_back(table: Table, tmp_path: Path) -> None:
    table.append(odd_topics_store(tmp_path / "store"))
    read = table.read().sort_by("offset")
    assert read["topic"].to_pylist() == list(ODD_TOPICS)


def test_what_cannot_be(store_dir: Directory, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_dir(STORE)
    with pytest.raises(UsageError, match="needs a catalog"):
        export(target, store, table_format="iceberg")
    with pytest.raises(UsageError, match="--replace is for Parquet files"):
        export(target, store, table_format="delta", replace=True)
    missing = locate("s3://no-such-bucket/tables")
    with pytest.raises(StoreError, match=r"no-such-bucket/tables.*cannot be written"):
        export(missing, store)

    def failing(*_: Any, **__: Any) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr(job, "manifest_of", failing)
    for table_format in ("parquet", "delta"):
        with pytest.raises(OSError, match="no space"):
            export(target, store, table_format=table_format)
        assert _names(target) == []


def test_options_of_the_file_system_are_those_of_the_tables(
    server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = locate("s3://bucket/told", {"endpoint_url": server, "key": KEY, "secret": SECRET, "anon": False})
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    assert delta_options(place) == {
        "aws_endpoint_url": server,
        "aws_access_key_id": KEY,
        "aws_secret_access_key": SECRET,
        "aws_region": "us-east-1",
        "aws_allow_http": "true",
    }
    export(place, odd_topics_store(tmp_path / "store"), table_format="delta")
    assert delta_options(tmp_path) is None
    config = tmp_path / "credentials"
    config.write_text("[dev]\naws_access_key_id = K\naws_secret_access_key = S\nregion = eu-west-1\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(config))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    profiled = locate("s3://bucket/profiled", {"profile": "dev"})
    assert iceberg_options(profiled) == {
        "s3.access-key-id": "K",
        "s3.secret-access-key": "S",
        "s3.region": "eu-west-1",
    }
    with pytest.raises(UsageError, match="profile"):
        iceberg_options(locate("s3://bucket/other", {"profile": "none such"}))
    assert delta_options(locate("memory://tables", {"some": 1})) == {"some": "1"}
    assert iceberg_options(locate("memory://tables")) == {}
