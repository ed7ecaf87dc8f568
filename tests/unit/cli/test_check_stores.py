"""check of several stores: which are meant, the forms of output, the tables, the exit status."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rocketfsck
from rocketfsck.cli.show.replication import stores_lines
from rocketfsck.cli.show.text import Palette, width
from rocketfsck.errors import StoreError
from rocketfsck.pipeline.fleet.model import ORDER, STORE_COLUMNS, FindingFile, FleetReport, StoreRow

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

SOUND, KILLED = "5.3.3-basic", "4.9.8-killed"


@pytest.fixture
def fleet(store_dir: Directory, tmp_path: Path) -> Path:
    shutil.copytree(store_dir(SOUND), tmp_path / "fleet" / "broker-a" / "store")
    shutil.copytree(store_dir(KILLED), tmp_path / "fleet" / "broker-b" / "store")
    (tmp_path / "fleet" / "broker-b" / "store" / "checkpoint").unlink()
    return tmp_path / "fleet"


def test_text(cli: Cli, fleet: Path) -> None:
    ended = cli("check", fleet / "broker-*", fleet / "none", "--level", "quick")
    assert (ended.code, ended.err) == (12, "")
    head, _, rest = ended.out.partition("\n\n")
    lines = rest.splitlines()
    assert head.startswith(f"Checked 3 stores below {fleet} (")
    assert " ".join(head.split()).endswith("1 failed, 1 damaged, 1 partial.")
    assert [line.split() for line in lines if line][:3] == [
        ["state", "errors", "warnings", "lost", "store"],
        ["failed", "-", "-", "-", "none"],
        ["damaged", "0", "8", "-", "broker-b/store"],
    ]
    assert "Could not be checked" in lines
    assert lines[-2:] == ["Next", f"  rocketfsck fix --level quick {fleet / 'broker-b' / 'store'}"]
    every = cli("check", "-v", fleet / "broker-*", "--level", "quick").out
    assert "partial       0         0     -  broker-a/store" in every
    quiet = cli("check", "-q", fleet / "broker-*", "--level", "quick").out
    assert " ".join(quiet.split()).endswith("1 damaged, 1 partial.")
    assert "state" not in quiet


def test_one_path_is_one_store(cli: Cli, fleet: Path) -> None:
    store = fleet / "broker-a" / "store"
    assert cli("check", store).out.startswith("Healthy: a broker may be started.\n")
    assert cli("check", fleet / "broker-a").out.startswith("Healthy: a broker may be started.\n")
    assert cli("check").code == 16
    assert "Missing argument 'PATH…'" in cli("check").err
    many = cli("check", f"{fleet}/*-a/store", "--format", "jsonl")  # one match, a table all the same
    assert [row["root"] for row in many.rows()] == [str(store)]
    ended = cli("check", store, "--tables", fleet / "tables", "--format", "jsonl")
    assert [row["root"] for row in ended.rows()] == [str(store)]


def test_a_list_of_stores(cli: Cli, fleet: Path, tmp_path: Path) -> None:
    listed = tmp_path / "stores"
    listed.write_text(f"# all\n{fleet}/broker-*\n{fleet}/none\n")
    ended = cli("check", "--stores-from", listed, fleet / "more", "--level", "quick", "--format", "jsonl")
    assert [Path(row["root"]).relative_to(fleet).parts[0] for row in ended.rows()] == [
        "more",
        "broker-a",
        "broker-b",
        "none",
    ]
    assert cli("check", "--stores-from", tmp_path / "missing").code == 8


def test_machine_forms(cli: Cli, fleet: Path, tmp_path: Path) -> None:
    def varying(row: dict[str, object]) -> dict[str, object]:
        return {name: value for name, value in row.items() if name not in ("run_id", "seconds")}

    def call(form: str, *more: object) -> str:
        ended = cli("check", fleet / "broker-*", "--level", "quick", "--format", form, *more)
        assert (ended.code, ended.err) == (4, "")
        return ended.out

    document = json.loads(call("json"))
    assert (document["kind"], document["exit_code"]) == ("rocketfsck.check.stores", 4)
    assert (document["store_count"], document["state_counts"]) == (2, {"damaged": 1, "partial": 1})
    assert [list(row) for row in document["rows"]] == [[column.name for column in STORE_COLUMNS]] * 2
    rows = [varying(row) for row in document["rows"]]
    lines = [json.loads(line) for line in call("jsonl").splitlines()]
    assert [varying(row) for row in lines] == [{"schema_version": 1, **row} for row in rows]
    assert call("csv").splitlines()[0].startswith("run_id,broker,broker_b64,root,")
    for form in ("arrow", "parquet"):
        call(form, "-o", tmp_path / form)
    with pa.OSFile(str(tmp_path / "arrow")) as stream:
        table = pa.ipc.open_stream(stream).read_all()
    for found in (table, pq.read_table(tmp_path / "parquet")):
        kept = [{name: row[name] for name in rows[0]} for row in found.to_pylist()]
        assert kept == rows


def test_tables_are_added_never_overwritten(
    cli: Cli, fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = tmp_path / "tables"
    for count in (1, 2):
        ended = cli("check", fleet / "broker-*", "--tables", tables, "--format", "json")
        document = json.loads(ended.out)
        for name in ("stores", "findings"):
            files = sorted((tables / name).iterdir())
            assert len(files) == count
            rows = pq.read_table(tables / name / f"{document['run_id']}.parquet").to_pylist()
            assert {row["run_id"] for row in rows} == {document["run_id"]}
    wanted = sum(row[f"{name}_count"] for row in document["rows"] for name in ("error", "warning", "info"))
    assert sum(row["count"] for row in rows) == wanted
    monkeypatch.setattr("rocketfsck.pipeline.fleet.run.make_run_id", lambda _now: document["run_id"])
    before = (tables / "stores" / f"{document['run_id']}.parquet").read_bytes()
    again = cli("check", fleet / "broker-*", "--tables", tables)
    assert again.code == 8
    assert "a run is appended once" in again.err
    assert (tables / "stores" / f"{document['run_id']}.parquet").read_bytes() == before
    inside = cli("check", fleet / "broker-*", "--tables", fleet / "broker-a" / "store" / "tables")
    assert inside.code == 16
    assert not (fleet / "broker-a" / "store" / "tables").exists()
    (tmp_path / "file").write_text("x")
    assert cli("check", fleet / "broker-*", "--tables", tmp_path / "file" / "t").code == 8


@pytest.mark.parametrize(
    "options",
    [
        ("--format", "sarif"),
        ("--commitlog-path", "x"),
        ("--write-baseline", "known.json"),
        ("--baseline", "known.json"),
        ("--resume", "state"),
        ("--max-duration", "5m"),
    ],
)
def test_what_is_for_one_store_is_refused(cli: Cli, fleet: Path, options: tuple[str, ...]) -> None:
    ended = cli("check", fleet / "broker-*", *options)
    assert ended.code == 16
    assert "is for the check of one store" in ended.err


def test_a_config_file_inside_a_store_is_not_read(
    cli: Cli, fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fleet / "broker-a" / "store" / "rocketfsck.toml").write_text('[check]\nlevel = "quick"\n')
    monkeypatch.chdir(fleet / "broker-a" / "store")
    ended = cli("check", fleet / "broker-*")
    assert "level full" in " ".join(ended.out.split())
    assert "is not read: the file is inside a store" in ended.err


def _report(rows: list[StoreRow]) -> FleetReport:
    return FleetReport("run", "full", 0, 1.0, tuple(rows), FindingFile())


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_text_fits_and_hides_nothing_bad(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    rows = [
        StoreRow(
            "run",
            f"b{number}",
            f"/data/{'long-directory/' * 12}broker-\x1b{number}/store",
            ORDER[number % len(ORDER)],
            4,
            error_count=number,
            warning_count=number * 1000,
            lost_record_count=number * 1_000_000,
            error="broken " * 30 if ORDER[number % len(ORDER)] == "failed" else None,
        )
        for number in range(400)
    ]
    rows.append(StoreRow("run", "x", "/other", "healthy", 0))
    lines = list(stores_lines(_report(rows), Palette(False), columns, everything=False, quiet=False))
    table = [line for line in lines if line.startswith(f"  {ORDER[0]}")]
    assert len(table) == 20
    worse = sum(row.state not in ("healthy", "unclean") for row in rows)
    assert f"  and {worse - 20} stores more: -v shows every store" in lines
    assert all(width(line) <= columns for line in lines if "/long" not in line)
    assert all(width(line) <= columns for line in table)
    assert all(line.isprintable() for line in lines)
    assert table[0].endswith("396/store")  # most errors first, told apart by the end
    every = list(stores_lines(_report(rows), Palette(False), columns, everything=True, quiet=False))
    assert sum(line.startswith("  healthy") for line in every) == 1 + 400 // len(ORDER)
    assert every.count("Could not be checked") == 1


def test_the_directory_of_all_stores() -> None:
    for roots, head in (
        (["/a/b/x", "/a/b/y"], "2 stores below /a/b ("),
        (["/a/b", "/a/b/y"], "2 stores below /a ("),
        (["/a", "/b"], "2 stores ("),
        (["s3://one/a", "s3://two/a"], "2 stores ("),
        (["s3://one/a", "s3://one/b"], "2 stores below s3://one ("),
        (["/a/b"], "1 store ("),
    ):
        rows = [StoreRow("run", root, root, "healthy", 0) for root in roots]
        [line] = stores_lines(_report(rows), Palette(False), 100, everything=False, quiet=False)
        assert head in line


EMPTY = {
    "an empty directory": (),
    "an empty store": ("store/",),
    "empty directories": ("commitlog/", "consumequeue/"),
    "config alone": ("config/topics.json", "config/consumerOffset.json"),
    "another program's": ("passwd", "ssl/certs"),
}
OPENING = (
    ("check",), ("check", "--level", "quick"), ("info",), ("plan",), ("fix", "--yes"), ("fix", "--dry-run"),
    ("simulate",), ("query", "offsets"), ("query", "timers"), ("count",), ("timeline",),
)  # fmt: skip


@pytest.mark.parametrize("entries", EMPTY.values(), ids=EMPTY)
def test_what_is_no_store_is_a_failure_for_every_command(
    cli: Cli, tmp_path: Path, store_dir: Directory, entries: tuple[str, ...]
) -> None:
    """As an unmounted disk is: never a store that may be started."""
    place = tmp_path / "disk"
    place.mkdir()
    for entry in entries:
        path = place / entry
        (path if entry.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not entry.endswith("/"):
            path.write_text("{}")
    for command in OPENING:
        ended = cli(*command, place)
        assert ended.code == 8, command
        assert "is a disk not mounted?" in ended.err or "no RocketMQ store is here" in ended.err
    with pytest.raises(StoreError):
        rocketfsck.open(place)
    several = cli("check", store_dir("4.9.8-basic"), place, "--format", "json")
    assert several.code == 8
    assert "no RocketMQ store is here" in several.out + several.err


@pytest.mark.parametrize("command", OPENING)
def test_a_link_that_leads_nowhere_and_a_file_are_failures(
    cli: Cli, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "link").symlink_to("/nowhere/at/all")
    assert cli(*command, tmp_path / "link").code == 8
    (tmp_path / "file").write_text("x")
    assert cli(*command, tmp_path / "file").code == (0 if command == ("info",) else 8)
