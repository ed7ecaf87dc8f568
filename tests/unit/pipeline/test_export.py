"""Exports of whole stores: rows lead back to their bytes, damage is told, and it is whole or not there."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from pyarrow import parquet as pq

from rocketfsck.api import iter_messages
from rocketfsck.cli.app import run
from rocketfsck.engine import LocalEngine
from rocketfsck.errors import NoStoreError, StoreError, UsageError
from rocketfsck.pipeline.export import job, tasks
from rocketfsck.pipeline.export import work as exportwork
from rocketfsck.pipeline.export.file import escape
from rocketfsck.pipeline.export.manifest import write_manifest
from rocketfsck.pipeline.export.model import ExportOptions, ExportTask
from rocketfsck.pipeline.export.plan import merge_files
from rocketfsck.pipeline.export.work import export_part
from rocketfsck.pipeline.export.write import PartitionWriter
from rocketfsck.pipeline.sources import find_sources
from rocketfsck.pipeline.views import VIEW_NAMES, WantedRows, plan_parts, read_part
from rocketfsck.store import open_store

from tests.conftest import Directory
from tests.unit.pipeline.exporting import (
    LONG,
    ODD_TOPICS,
    export,
    manifest_of,
    odd_topics_store,
    rows_of,
    sums_of,
)
from tests.unit.pipeline.viewing import hide

ROOT = Path(__file__).parents[3]
SEVERAL = ("5.3.3-multiseg", "4.9.8-ipv6")


def _names(into: Path) -> set[str]:
    return {path.name for path in into.iterdir()}


@pytest.mark.parametrize("name", ["5.3.3-multiseg", "4.4.0-basic", "4.9.8-ipv6"])
def test_every_row_leads_back_to_its_bytes(store_dir: Directory, tmp_path: Path, name: str) -> None:
    store = store_dir(name)
    result = export(tmp_path / "out", store)
    rows = rows_of(tmp_path / "out")
    messages = list(iter_messages(open_store(store), live_only=True))
    assert len(rows) == len(messages) == result.row_count > 0
    for row, message in zip(rows, messages, strict=True):
        data = (store / row["file"]).read_bytes()[row["pos"] : row["pos"] + row["size"]]
        assert int.from_bytes(data[:4], "big") == row["size"] == len(data) == message.total_size
        assert int.from_bytes(data[28:36], "big") == row["offset"] == message.physical_offset
        assert row["topic"].encode() in data
        assert row["body"] in data
        assert (row["broker"], row["body"], row["topic"]) == (store.parent.name, message.body, message.topic)
        assert row["store_timestamp"] == message.store_timestamp


def test_the_manifest_and_the_footers_say_what_there_is(store_dir: Directory, tmp_path: Path) -> None:
    out, stores = tmp_path / "out", [store_dir(name) for name in SEVERAL]
    result = export(out, *stores)
    assert not result.has_problems
    assert _names(out) >= {"_SUCCESS", "_manifest.json"}
    assert not [name for name in _names(out) if name.startswith(".") or name == "_temporary"]
    manifest = manifest_of(out)
    assert [store["broker"] for store in manifest["stores"]] == list(SEVERAL)
    assert [store["dialect"][:3] for store in manifest["stores"]] == ["5.3", "4.9"]
    assert sum(file["row_count"] for file in manifest["files"]) == manifest["row_count"] == result.row_count
    on_disk = {path.relative_to(out).as_posix() for path in out.rglob("*.parquet")}
    assert {file["path"] for file in manifest["files"]} == on_disk
    for file in manifest["files"]:
        parquet = pq.ParquetFile(out / file["path"])
        assert parquet.metadata.num_rows == file["row_count"]
        about = json.loads(parquet.schema_arrow.metadata[b"rocketfsck"])
        assert about["stores"] == manifest["stores"]
        assert about["version"] == manifest["version"]
        offsets = parquet.read(["offset"])["offset"].to_pylist()
        assert (file["offset"]["min"], file["offset"]["max"]) == (min(offsets), max(offsets))
        folders = f"topic={file['partition']['topic']}/date={file['partition']['date']}"
        assert file["path"].replace("%25", "%").startswith(folders)


def test_files_are_the_same_however_many_run_at_once(
    store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "TASK_SIZE", 1)  # a task for every log file
    stores = [store_dir(name) for name in SEVERAL]
    one = export(tmp_path / "one", *stores, engine=LocalEngine(1))
    many = export(tmp_path / "many", *stores, engine=LocalEngine(3))
    assert one.task_count == many.task_count > 6
    assert one.merged_count > 0
    assert sums_of(tmp_path / "one") == sums_of(tmp_path / "many")
    assert len({file.cell for file in one.files}) == len(one.files)
    apart = export(tmp_path / "apart", *stores, merge=False)
    assert len(apart.files) > len(one.files)
    assert rows_of(tmp_path / "apart") == rows_of(tmp_path / "one")


def test_damage_is_beside_the_table_and_counted(restart_dir: Directory, tmp_path: Path) -> None:
    store = restart_dir("4.9.8-basic--torn-tail")
    result = export(tmp_path / "out", store)
    assert (result.damage_count, result.has_problems) == (1, True)
    (damage,) = pq.read_table(tmp_path / "out" / "_damage").to_pylist()
    said = json.loads(damage["_corrupt_record"])
    assert (said["kind"], said["start"], said["end"] - said["start"]) == (
        "torn",
        damage["pos"],
        damage["size"],
    )
    assert damage["size"] == result.damaged_byte_count
    assert all(row["topic"] for row in rows_of(tmp_path / "out"))
    assert len(manifest_of(tmp_path / "out")["damage"]) == 1


def test_modes(restart_dir: Directory, tmp_path: Path) -> None:
    store = restart_dir("5.1.3-basic--flip-last-file")
    kept = export(tmp_path / "kept", store)
    rows = rows_of(tmp_path / "kept")
    assert (kept.corrupt_count, sum(row["_corrupt_record"] is not None for row in rows)) == (1, 1)
    dropped = export(tmp_path / "dropped", store, wanted=WantedRows(mode="DROPMALFORMED"))
    assert (dropped.corrupt_count, dropped.row_count) == (1, kept.row_count - 1)
    assert dropped.has_problems
    assert "_corrupt_record" not in rows_of(tmp_path / "dropped")[0]
    with pytest.raises(StoreError, match="CRC"):
        export(tmp_path / "failed", store, wanted=WantedRows(mode="FAILFAST"))
    assert not (tmp_path / "failed").exists()
    unread = export(tmp_path / "unread", store, bodies=False)
    assert not unread.has_problems
    assert {"body", "body_crc_ok"}.isdisjoint(rows_of(tmp_path / "unread")[0])


def test_a_file_that_cannot_be_read_is_an_error(
    store_copy: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is exported that lacks a file, unless it says so."""
    store = store_copy("4.9.8-multiseg")
    whole = export(tmp_path / "whole", store)
    name = "commitlog/00000000000000131072"
    hide(store / name, monkeypatch, is_link=True)
    for mode in ("PERMISSIVE", "DROPMALFORMED", "FAILFAST"):
        with pytest.raises(StoreError, match=f"{name}: cannot be read"):
            export(tmp_path / mode, store, wanted=WantedRows(mode=mode))
        assert not (tmp_path / mode).exists()
    stated = export(tmp_path / "stated", store, wanted=WantedRows(on_unreadable="row", topic="Seg0"))
    assert (stated.damage_count, stated.has_problems) == (1, True)
    assert 0 < stated.row_count < whole.row_count
    (row,) = pq.read_table(tmp_path / "stated" / "_damage").to_pylist()
    assert row["file"] == name
    assert json.loads(row["_corrupt_record"])["kind"] == "unreadable"


def test_what_is_selected(store_dir: Directory, tmp_path: Path) -> None:
    store = store_dir("5.3.3-multiseg")
    everything = list(iter_messages(open_store(store), live_only=True))
    wanted = WantedRows(topic="Seg1", queue_id=1, columns=("tags",))
    result = export(tmp_path / "out", store, wanted=wanted, compression="snappy")
    matching = [one for one in everything if (one.topic, one.queue_id) == ("Seg1", 1)]
    assert result.row_count == len(matching) > 0
    assert not result.damage_told
    (row, *_) = rows_of(tmp_path / "out")
    assert set(row) == {
        "broker", "file", "offset", "pos", "size", "store_timestamp", "tags",
        "_corrupt_record", "topic", "topic_text", "date",
    }  # fmt: skip
    low, high = everything[10].physical_offset, everything[20].physical_offset
    ranged = export(tmp_path / "ranged", store, wanted=WantedRows(begin_offset=low, end_offset=high))
    assert ranged.row_count == 10
    begin, end = everything[5].store_timestamp, everything[50].store_timestamp
    timed = export(tmp_path / "timed", store, wanted=WantedRows(begin_timestamp=begin, end_timestamp=end))
    assert timed.row_count == sum(begin <= one.store_timestamp < end for one in everything)


@pytest.mark.parametrize(
    ("partition", "folders"),
    [
        (("date",), {"date=2023-12-31", "date=2024-01-01"}),
        (("broker", "tags"), {"broker=5.3.3-multiseg"}),
        ((), set()),
    ],
)
def test_other_partitions(
    store_dir: Directory, tmp_path: Path, partition: tuple[str, ...], folders: set[str]
) -> None:
    result = export(tmp_path / "out", store_dir("5.3.3-multiseg"), partition=partition)
    assert {name for name in _names(tmp_path / "out") if "=" in name} == folders
    if not partition:
        assert {"topic", "date"} & set(
            pq.ParquetFile(tmp_path / "out" / result.files[0].path).schema.names
        ) == {"topic"}


NOTHING = ("damage", "lost", "offsets", "subscriptions")
"""Views without a row for a sound store without configs."""


@pytest.mark.parametrize("view", VIEW_NAMES)
def test_every_view(store_dir: Directory, tmp_path: Path, view: str) -> None:
    sources = find_sources([store_dir("5.3.3-multiseg")])
    rows = [
        row for part in plan_parts(view, sources) for batch in read_part(part) for row in batch.to_pylist()
    ]
    assert bool(rows) == (view not in NOTHING)
    result = export(tmp_path / "out", store_dir("5.3.3-multiseg"), view=view, partition=())
    assert not result.has_problems
    found = [row for file in result.files for row in pq.read_table(tmp_path / "out" / file.path).to_pylist()]
    assert found == [{**row, "broker": "5.3.3-multiseg"} for row in rows]


def test_damage_of_another_view_is_a_row(restart_dir: Directory, tmp_path: Path) -> None:
    store = restart_dir("4.9.8-basic--torn-tail")
    result = export(tmp_path / "out", store, view="regions")
    assert (result.damage_count, result.damaged_byte_count, result.aside) == (1, 256, ())
    rows = pq.read_table(tmp_path / "out" / result.files[0].path).to_pylist()
    assert [row["kind"] for row in rows if row["_corrupt_record"]] == ["torn"]
    dropped = export(tmp_path / "dropped", store, view="regions", wanted=WantedRows(mode="DROPMALFORMED"))
    assert (dropped.damage_count, dropped.row_count) == (1, result.row_count - 1)


def test_an_empty_selection_is_whole(store_dir: Directory, tmp_path: Path) -> None:
    result = export(tmp_path / "out", store_dir("4.4.0-basic"), wanted=WantedRows(topic="none such"))
    assert (result.row_count, result.files) == (0, ())
    assert _names(tmp_path / "out") == {"_SUCCESS", "_manifest.json"}


def test_rows_of_too_many_partitions_are_not_lost(
    store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def few(*given: Any, **options: Any) -> PartitionWriter:
        return PartitionWriter(*given, **options, max_cells=2)

    monkeypatch.setattr(exportwork, "PartitionWriter", few)
    result = export(tmp_path / "out", store_dir("4.4.0-basic"))
    crowded = pq.read_table(tmp_path / "out" / "_crowded").to_pylist()
    assert result.has_problems
    assert len(result.files) == 2
    assert result.row_count + len(crowded) == 152
    assert all(row["topic"] for row in crowded)


def test_every_topic_is_in_the_files_and_has_a_directory_of_its_own(tmp_path: Path) -> None:
    """Arrow reads the table: names of directories that fit are the topics, the others are still distinct."""
    export(tmp_path / "out", odd_topics_store(tmp_path / "store"))
    rows = rows_of(tmp_path / "out")
    assert [row["topic_text"] for row in rows] == list(ODD_TOPICS)
    assert len({row["topic"] for row in rows}) == len(rows)
    cut = [row["topic_text"] for row in rows if row["topic"] != row["topic_text"]]
    assert cut == [topic for topic in ODD_TOPICS if unquote(escape(topic, 249)) != topic]
    assert LONG in cut
    for row in rows:
        if row["topic_text"] in cut:
            start, _, digest = row["topic"].rpartition("-")
            assert row["topic_text"].startswith(start)
            assert digest == hashlib.sha256(row["topic_text"].encode()).hexdigest()
    assert max(len(name.encode()) for name in _names(tmp_path / "out")) <= 255


def test_the_text_of_other_partition_columns(store_dir: Directory, tmp_path: Path) -> None:
    result = export(tmp_path / "out", store_dir("5.3.3-multiseg"), partition=("broker", "date"))
    for file in result.files:
        names = pq.ParquetFile(tmp_path / "out" / file.path).schema_arrow.names
        assert {"broker", "broker_text", "date", "date_text", "topic"} & set(names) == {
            "broker_text",
            "topic",
        }
    read = pq.read_table(tmp_path / "out")
    assert set(read["broker_text"].to_pylist()) == {"5.3.3-multiseg"} == set(read["broker"].to_pylist())


def test_a_hostile_topic_of_a_log_stays_inside(store_copy: Directory, tmp_path: Path) -> None:
    store = store_copy("5.3.3-multiseg")
    before = len(list(iter_messages(open_store(store), topic="Seg1", live_only=True)))
    for path in (store / "commitlog").iterdir():
        path.write_bytes(path.read_bytes().replace(b"\4Seg1", b"\4../="))
    out = tmp_path / "deep" / "out"
    out.parent.mkdir()
    export(out, store)
    assert {path.name for path in out.parent.iterdir()} == {"out"}
    assert {name for name in _names(out) if "=" in name} == {"topic=Seg0", "topic=..%2F%3D", "topic=Seg2"}
    assert sum(row["topic"] == "../=" for row in rows_of(out)) == before > 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"table_format": "csv"}, "the format"),
        ({"compression": "rar"}, "the compression"),
        ({"table": "a.b"}, "only Iceberg has a catalog"),
        ({"memory_size": 5}, "at least 1 MiB"),
        ({"partition": ("nonsense",)}, "has no column"),
        ({"partition": ("topic", "topic")}, "names a column twice"),
        ({"partition": ("queue_id",)}, "holds no text"),
        ({"wanted": WantedRows(columns=("nonsense",))}, "no column nonsense"),
        ({"view": "nonsense"}, "no view has the name"),
    ],
)
def test_refusals(store_dir: Directory, tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        export(tmp_path / "out", store_dir("4.4.0-basic"), **options)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_replaced_only_when_asked(store_dir: Directory, tmp_path: Path) -> None:
    store = store_dir("4.4.0-basic")
    export(tmp_path / "out", store)
    before = sums_of(tmp_path / "out")
    with pytest.raises(UsageError, match="already exists"):
        export(tmp_path / "out", store, wanted=WantedRows(topic="none such"))
    assert sums_of(tmp_path / "out") == before
    export(tmp_path / "out", store, wanted=WantedRows(topic="none such"), replace=True)
    assert _names(tmp_path / "out") == {"_SUCCESS", "_manifest.json"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


class Attempts:
    """An engine that makes every task twice, one attempt after the other, as speculation does."""

    job_count = 1

    def run(self, kernel: Any, tasks: Any, *, deadline: float | None = None) -> Any:
        for _ in range(2):
            outcomes = list(LocalEngine(2).run(kernel, tasks, deadline=deadline))
        yield from outcomes


def test_attempts_leave_no_duplicates(
    store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "TASK_SIZE", 1)
    store = store_dir("5.3.3-multiseg")
    export(tmp_path / "once", store)
    export(tmp_path / "twice", store, engine=Attempts())
    assert sums_of(tmp_path / "once") == sums_of(tmp_path / "twice")


class Late:
    """An engine with a straggler: one attempt ends when the driver has published."""

    job_count = 1

    def __init__(self) -> None:
        self.task: ExportTask | None = None

    def run(self, kernel: Any, tasks: Any, *, deadline: float | None = None) -> Any:
        if kernel is export_part:
            self.task = tasks[0]
        yield from LocalEngine(1).run(kernel, tasks, deadline=deadline)


def test_an_attempt_that_comes_late_changes_nothing(store_dir: Directory, tmp_path: Path) -> None:
    late = Late()
    export(tmp_path / "out", store_dir("4.4.0-basic"), engine=late)
    before = sums_of(tmp_path / "out")
    assert late.task is not None
    with pytest.raises(StoreError, match="cannot be written"):
        export_part(late.task)
    assert sums_of(tmp_path / "out") == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


class Stragglers:
    """An engine whose attempts go on: all that were made once end again when their files are merged."""

    job_count = 1

    def __init__(self) -> None:
        self.tasks: list[ExportTask] = []

    def run(self, kernel: Any, tasks: Any, *, deadline: float | None = None) -> Any:
        yield from LocalEngine(1).run(kernel, tasks, deadline=deadline)
        if kernel is export_part:
            self.tasks = list(tasks)
        elif kernel is merge_files:
            for task in self.tasks:
                export_part(task)


def test_attempts_that_end_after_the_merge_leave_no_duplicates(
    store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "TASK_SIZE", 1)
    store, stragglers = store_dir("5.3.3-multiseg"), Stragglers()
    once = export(tmp_path / "once", store)
    assert once.merged_count > 0
    export(tmp_path / "late", store, engine=stragglers)
    assert stragglers.tasks
    assert sums_of(tmp_path / "once") == sums_of(tmp_path / "late")
    sound = write_manifest  # when the driver has taken what it wants

    def later(*given: Any) -> None:
        sound(*given)
        for task in stragglers.tasks:
            with pytest.raises(StoreError, match="cannot be written"):
                export_part(task)

    monkeypatch.setattr(job, "write_manifest", later)
    export(tmp_path / "later", store, engine=stragglers)
    assert sums_of(tmp_path / "once") == sums_of(tmp_path / "later")


KILLED = """
import os, signal, sys
from rocketfsck.cli.app import run
from rocketfsck.pipeline.export import job as export
from rocketfsck.pipeline.export import file as exportfile
def killing(*_): os.kill(os.getpid(), signal.SIGKILL)
place, count, *arguments = sys.argv[1:]
owner = exportfile.FileWriter if place in ("write", "close") else export
sound, calls = getattr(owner, place), []
def stopping(*given):
    calls.append(1)
    if len(calls) > int(count):
        killing()
    return sound(*given)
setattr(owner, place, stopping)
run(arguments)
"""


@pytest.mark.parametrize(
    ("place", "count"), [("write", 3), ("close", 4), ("accept_files", 0), ("write_manifest", 0)]
)
def test_killed_it_is_not_there(
    store_dir: Directory, tmp_path: Path, place: str, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The worker in the middle of a file, the driver before its commit: real SIGKILLs."""
    out = tmp_path / "out"
    arguments = ["export", str(store_dir("5.3.3-multiseg")), "--into", str(out)]
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, place, str(count), *arguments],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"ROCKETFSCK_KERNELS": "plain"},
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert not out.exists()
    left = list(tmp_path.iterdir())
    assert left
    assert all(path.name.startswith(".out.") for path in left)
    capsys.readouterr()
    assert run(arguments) == 0
    said = capsys.readouterr().out
    assert all(f"removed {path.name}, which a killed run left" in said for path in left)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    whole = sums_of(out)
    assert sum(name.endswith(".parquet") for name in whole) == 6
    assert "_SUCCESS" in whole


def test_the_command(restart_dir: Directory, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, out = restart_dir("4.9.8-basic--torn-tail"), tmp_path / "out"
    assert run(["export", str(store), "--into", str(out), "--no-bodies", "--format", "json"]) == 4
    said = json.loads(capsys.readouterr().out)
    assert (said["row_count"], said["damage_count"], said["corrupt_count"]) == (181, 1, 0)
    assert said["manifest"] == f"{out}/_manifest.json"
    assert run(["export", str(store), "--into", str(out)]) == 16
    assert "already exists" in capsys.readouterr().err
    assert run(["export", str(store), "--into", str(out), "--replace", "--mode", "dropmalformed"]) == 4
    assert "1 range of the commit log, 256 B, dropped" in capsys.readouterr().out
    assert run(["export", str(store), "--into", str(out), "--replace", "--topic", "ShopOrder"]) == 0
    assert "not checked for damage" in capsys.readouterr().out
    for arguments in (
        ["--into", str(store / "export")],
        ["--into", str(store.parent), "--replace"],
        ["--into", str(tmp_path / "x"), "--catalog", "nonsense", "--table-format", "iceberg"],
        ["--into", str(tmp_path / "x"), "--master", "local"],
    ):
        assert run(["export", str(store), *arguments]) == 16
        assert capsys.readouterr().out == ""
    assert not (store / "export").exists()


def test_options_that_make_no_sense_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(NoStoreError, match="neither a store"):
        export(tmp_path / "out", tmp_path)
    with pytest.raises(UsageError, match="at least 1 MiB"):
        ExportOptions(memory_size=0)
