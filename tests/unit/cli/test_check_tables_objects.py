"""check --tables in an object store: every run once, whatever is killed."""

from __future__ import annotations

import json
import os
import shutil
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
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from rocketfsck import CheckOptions, check_stores
from rocketfsck.engine import LocalEngine
from rocketfsck.errors import StoreError
from rocketfsck.pipeline.export import tables
from rocketfsck.pipeline.export.files import Place, iceberg_options
from rocketfsck.pipeline.fleet.model import FleetReport
from rocketfsck.pipeline.fleet.tables import RunTables
from rocketfsck.store.places.locations import locate
from rocketfsck.store.places.urls import file_system

from tests.conftest import NIGHTLY, Directory
from tests.s3 import s3_client, s3_server_apart
from tests.unit.cli.conftest import Cli

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

ROOT = Path(__file__).parents[3]
SOUND, KILLED = "5.3.3-basic", "4.9.8-killed"
FORMATS = ("parquet", "delta", "iceberg")
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
    return locate(f"s3://bucket/{abs(hash(request.node.nodeid))}/checks")


@pytest.fixture
def fleet(store_dir: Directory, tmp_path: Path) -> Path:
    shutil.copytree(store_dir(SOUND), tmp_path / "fleet" / "broker-a" / "store")
    shutil.copytree(store_dir(KILLED), tmp_path / "fleet" / "broker-b" / "store")
    return tmp_path / "fleet"


def _checked(fleet: Path) -> FleetReport:
    return check_stores([fleet / "broker-*"], CheckOptions(level="quick"), LocalEngine(1), finding_limit=9)


class Checks:
    """The tables of checks in one format below a URL."""

    def __init__(self, table_format: str, target: Path, folder: Path) -> None:
        self.table_format, self.target = table_format, target
        self.catalog = {"type": "sql", "uri": f"sqlite:///{folder / 'catalog.db'}"}

    @property
    def tables(self) -> RunTables:
        catalog = self.catalog if self.table_format == "iceberg" else {}
        return RunTables(self.target, self.table_format, catalog)

    def arguments(self) -> list[str]:
        given = [f"{name}={value}" for name, value in self.tables.properties.items()]
        pairs = [word for text in given for word in ("--catalog", text)]
        return ["--tables", str(self.target), "--table-format", self.table_format, *pairs]

    def rows(self, name: str) -> list[dict[str, Any]]:
        rows = self._read(name).to_pylist()
        return sorted(rows, key=lambda row: [str(row[name]) for name in sorted(row)])

    def _read(self, name: str) -> pa.Table:
        place = self.target / name
        if self.table_format == "delta":
            return DeltaTable(str(place), storage_options=DELTA).to_pyarrow_table()
        if self.table_format == "iceberg":
            catalog = load_catalog("rocketfsck", **{**iceberg_options(self.target), **self.catalog})
            return catalog.load_table(f"rocketmq.check_{name}").scan().to_arrow()
        system, path = file_system(str(place))
        return pq.read_table(path, filesystem=system)

    def run_ids(self, name: str) -> list[str]:
        """The runs that have rows in a table."""
        return sorted({row["run_id"] for row in self.rows(name)})

    def objects(self) -> list[str]:
        system, path = file_system(str(self.target))
        return sorted(name.removeprefix(f"{path}/") for name in system.find(path))

    def data(self) -> list[str]:
        return [name for name in self.objects() if "Z-" in name]


@pytest.fixture(params=FORMATS)
def checks(request: pytest.FixtureRequest, target: Path, tmp_path: Path) -> Checks:
    return Checks(request.param, target, tmp_path)


def test_every_run_is_appended_once(cli: Cli, fleet: Path, checks: Checks, tmp_path: Path) -> None:
    line = ("check", fleet / "broker-*", "--level", "quick", "--format", "json")
    documents = []
    for _ in range(2):
        ended = cli(*line, *checks.arguments())
        assert (ended.code, ended.err) == (0, "")
        documents.append(json.loads(ended.out))
    wanted = sorted(document["run_id"] for document in documents)
    assert checks.run_ids("stores") == checks.run_ids("findings") == wanted
    rows = [row for document in documents for row in document["rows"]]
    found = [{name: row[name] for name in rows[0]} for row in checks.rows("stores")]
    assert sorted(found, key=str) == sorted(rows, key=str)
    assert cli(*line, "--tables", tmp_path / "local").code == 0
    (local,) = (tmp_path / "local" / "findings").iterdir()
    findings = [row | {"run_id": ""} for row in checks.rows("findings")]
    expected = [row | {"run_id": ""} for row in pq.read_table(local).to_pylist()] * 2
    assert sorted(findings, key=str) == sorted(expected, key=str) != []
    report = _checked(fleet)
    checks.tables.append(report)
    with pytest.raises(StoreError, match=f"has the run {report.run_id} already"):
        checks.tables.append(report)
    assert len(checks.rows("stores")) == 6


DIES = """
import os, signal, sys
from pathlib import Path
from rocketfsck import CheckOptions, check_stores
from rocketfsck.pipeline.fleet.tables import RunTables
from rocketfsck.store.places.locations import locate
from rocketfsck.pipeline.fleet import tables
place, store, target, table_format, *catalog = sys.argv[1:]
table, when = place.split("-")
def killing(): os.kill(os.getpid(), signal.SIGKILL)
write, commit = tables._write, RunTables._commit
def writing(place, *given):
    done = write(place, *given)
    if when == "written" and place.root.name == table: killing()
    return done
def committing(self, name, *given):
    commit(self, name, *given)
    if when == "committed" and name == table: killing()
tables._write, RunTables._commit = writing, committing
report = check_stores([store], CheckOptions(level="quick", jobs=1), finding_limit=9)
print(report.run_id, flush=True)
properties = dict(word.split("=", 1) for word in catalog)
RunTables(locate(target), table_format, properties).append(report)
"""


def _dies(place: str, store: Path, checks: Checks) -> str:
    """A check that is killed at a place; gives its run's name."""
    catalog = [f"{name}={value}" for name, value in checks.tables.properties.items()]
    words = [place, str(store), str(checks.target), checks.table_format, *catalog]
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DIES, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"ROCKETFSCK_KERNELS": "plain"},
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    return ended.stdout.strip()


PLACES = [("parquet", "findings-written"), ("delta", "stores-written")]
if NIGHTLY:
    PLACES += [("parquet", "stores-written"), ("delta", "findings-written")]
    PLACES += [("delta", "findings-committed"), ("delta", "stores-committed")]
    PLACES += [
        ("iceberg", f"{table}-{when}")
        for table in ("findings", "stores")
        for when in ("written", "committed")
    ]


@pytest.mark.parametrize(("table_format", "place"), PLACES)
def test_a_killed_run_spoils_no_table(
    fleet: Path, target: Path, tmp_path: Path, table_format: str, place: str
) -> None:
    """Real SIGKILLs; the run that dies is the first one, and makes the tables. Later ones are appended."""
    checks = Checks(table_format, target, tmp_path)
    left = _dies(place, fleet / "broker-b" / "store", checks)
    reports = [_checked(fleet) for _ in range(2)]
    for report in reports:
        checks.tables.append(report)
    is_file = table_format == "parquet"  # a file that is written is in the table
    in_stores = place == "stores-committed" or (is_file and place == "stores-written")
    in_findings = place != "findings-written" or is_file
    for name, is_in in (("findings", in_findings), ("stores", in_stores)):
        wanted = [*([left] if is_in else []), *(report.run_id for report in reports)]
        assert checks.run_ids(name) == sorted(wanted)
    assert len(checks.rows("stores")) == 4 + in_stores


def test_an_append_that_fails_leaves_nothing(
    fleet: Path, checks: Checks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(self: Place, name: str, local: Path) -> None:
        sound(self, name, local)
        raise StoreError("cannot be written: no space", path=name)

    sound = Place.put_file
    with monkeypatch.context() as patch:
        patch.setattr(Place, "put_file", failing)
        with pytest.raises(StoreError, match="no space"):
            checks.tables.append(_checked(fleet))
    assert checks.objects() == []


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_runs_that_end_at_the_same_time_are_both_appended(
    fleet: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_format: str
) -> None:
    checks = Checks(table_format, target, tmp_path)
    first, second, other = (_checked(fleet) for _ in range(3))
    checks.tables.append(first)
    kind = tables._Delta if table_format == "delta" else tables._Iceberg
    sound, others = kind.append, [other]

    def slow(self: Any, *given: Any) -> None:
        if others:
            checks.tables.append(others.pop())
        sound(self, *given)

    monkeypatch.setattr(kind, "append", slow)
    checks.tables.append(second)
    wanted = sorted(report.run_id for report in (first, second, other))
    assert checks.run_ids("stores") == checks.run_ids("findings") == wanted
    assert len(checks.rows("stores")) == 6


def test_what_is_refused_before_the_check(
    cli: Cli, fleet: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = ("check", fleet / "broker-*", "--level", "quick", "--tables")
    assert cli(*line, target).code == 0
    monkeypatch.setattr("rocketfsck.pipeline.fleet.run.check_stores", None)
    ended = cli(*line, target, "--table-format", "delta")
    assert (ended.code, "has Parquet files of earlier runs" in ended.err) == (16, True)
    ended = cli(*line, f"{target}-2", "--table-format", "iceberg")
    assert (ended.code, "needs a catalog: give --catalog" in ended.err) == (16, True)
    for table_format in ("parquet", "delta"):
        ended = cli(*line, "s3://no-such-bucket/checks", "--table-format", table_format)
        assert ended.code == 8
        assert len(ended.err.splitlines()) == 1
        assert "cannot be written: No such file, directory or bucket" in ended.err


@pytest.mark.parametrize("table_format", ["delta", pytest.param("parquet", marks=pytest.mark.nightly)])
def test_a_page_of_tables_in_an_object_store(
    cli: Cli, fleet: Path, target: Path, tmp_path: Path, table_format: str
) -> None:
    checks = Checks(table_format, target, tmp_path)
    line = ("check", fleet / "broker-*", "--level", "quick", *checks.arguments())
    assert cli(*line).code == 0
    assert cli(*line, "--report", tmp_path / "checked.json").code == 0
    assert cli("page", target, "-o", tmp_path / "page.json").code == 0
    assert json.loads((tmp_path / "page.json").read_text()) == json.loads(
        (tmp_path / "checked.json").read_text()
    )
    assert cli("page", f"{target}/none", "-o", tmp_path / "none.json").code in (8, 16)
