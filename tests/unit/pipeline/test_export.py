"""Exports of whole stores: rows lead back to their bytes, damage is told, and it is whole or not there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from pyarrow import dataset as ds
from pyarrow import parquet as pq

from rocketfsck.api import iter_messages
from rocketfsck.cli.app import run
from rocketfsck.engine import LocalEngine
from rocketfsck.engine.seam import Outcome
from rocketfsck.errors import LostError, NoStoreError, StoreError, UsageError
from rocketfsck.pipeline.export import local
from rocketfsck.pipeline.export.model import ExportOptions
from rocketfsck.pipeline.export.rows import folder_name
from rocketfsck.pipeline.sources import find_sources
from rocketfsck.pipeline.views.model import Part, WantedRows
from rocketfsck.pipeline.views.table import VIEW_NAMES, plan_parts, read_part
from rocketfsck.store import open_store

from tests.conftest import Directory
from tests.unit.pipeline.exporting import (
    LONG,
    ODD_TOPICS,
    contents_of,
    damage_of,
    export,
    manifest_of,
    odd_topics_store,
    rows_of,
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
        assert row["topic_text"].encode() in data
        assert row["body"] in data
        assert (row["broker"], row["body"], row["topic_text"]) == (
            store.parent.name,
            message.body,
            message.topic,
        )
        assert row["store_timestamp"] == message.store_timestamp


def test_the_manifest_says_what_there_is(store_dir: Directory, tmp_path: Path) -> None:
    out, stores = tmp_path / "out", [store_dir(name) for name in SEVERAL]
    result = export(out, *stores)
    assert not result.has_problems
    assert _names(out) >= {"_SUCCESS", "_manifest.json"}
    manifest = manifest_of(out)
    assert [store["broker"] for store in manifest["stores"]] == list(SEVERAL)
    assert [store["dialect"][:3] for store in manifest["stores"]] == ["5.3", "4.9"]
    assert sum(file["row_count"] for file in manifest["files"]) == manifest["row_count"] == result.row_count
    on_disk = {path.relative_to(out).as_posix(): path for path in out.rglob("*.parquet")}
    assert {file["path"] for file in manifest["files"]} == set(on_disk)
    for file in manifest["files"]:
        offsets = pq.ParquetFile(on_disk[file["path"]]).read(["offset"])["offset"].to_pylist()
        assert file["row_count"] == len(offsets)
        assert (file["offset"]["min"], file["offset"]["max"]) == (min(offsets), max(offsets))


@pytest.mark.parametrize("memory_size", [1 << 20, 256 << 20])
def test_a_file_a_partition_in_the_order_of_the_log(
    store_dir: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory_size: int
) -> None:
    """Also where rows are handed over in many pieces, on several threads, with few files open."""
    stores = [store_dir(name) for name in SEVERAL]
    whole = export(tmp_path / "whole", *stores, engine=LocalEngine(1))
    pieces = export(tmp_path / "pieces", *stores, engine=LocalEngine(3), memory_size=memory_size)
    assert rows_of(tmp_path / "pieces") == rows_of(tmp_path / "whole")
    for result, name in ((whole, "whole"), (pieces, "pieces")):
        assert len({file.values for file in result.files}) == len(result.files)
        for file in result.files:
            rows = pq.ParquetFile(tmp_path / name / file.path).read(["broker", "offset"]).to_pylist()
            for broker in SEVERAL:
                offsets = [row["offset"] for row in rows if row["broker"] == broker]
                assert offsets == sorted(offsets)
    monkeypatch.setattr(ds, "write_dataset", _as_before_pyarrow_21(ds.write_dataset))
    export(tmp_path / "early", *stores, engine=LocalEngine(3), memory_size=memory_size)
    assert rows_of(tmp_path / "early") == rows_of(tmp_path / "whole")
    monkeypatch.setattr(local, "OPEN_FILES", 1)
    few = export(tmp_path / "few", *stores, memory_size=memory_size)
    assert len(few.files) >= len(whole.files)
    assert rows_of(tmp_path / "few") == rows_of(tmp_path / "whole")


def _as_before_pyarrow_21(write: Callable[..., None]) -> Callable[..., None]:
    """Which keeps the order on one thread alone."""

    def written(*given: Any, use_threads: bool, **named: Any) -> None:
        assert not use_threads
        write(*given, use_threads=False, preserve_order=True, **named)

    return written


def test_damage_is_beside_the_table_and_counted(restart_dir: Directory, tmp_path: Path) -> None:
    store = restart_dir("4.9.8-basic--torn-tail")
    result = export(tmp_path / "out", store)
    assert (result.damage.count, result.has_problems) == (1, True)
    (damage,) = damage_of(tmp_path / "out")
    said = json.loads(damage["_corrupt_record"])
    assert (said["kind"], said["start"], said["end"] - said["start"]) == (
        "torn",
        damage["pos"],
        damage["size"],
    )
    assert damage["size"] == result.damage.byte_count
    assert all(row["topic"] for row in rows_of(tmp_path / "out"))


def test_modes(restart_dir: Directory, tmp_path: Path) -> None:
    store = restart_dir("5.1.3-basic--flip-last-file")
    kept = export(tmp_path / "kept", store)
    rows = rows_of(tmp_path / "kept")
    assert (kept.damage.corrupt_count, sum(row["_corrupt_record"] is not None for row in rows)) == (1, 1)
    dropped = export(tmp_path / "dropped", store, wanted=WantedRows(mode="DROPMALFORMED"))
    assert (dropped.damage.corrupt_count, dropped.row_count) == (1, kept.row_count - 1)
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
    assert (stated.damage.count, stated.has_problems) == (1, True)
    assert 0 < stated.row_count < whole.row_count
    (row,) = damage_of(tmp_path / "stated")
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
    assert (result.damage.count, result.damage.byte_count, damage_of(tmp_path / "out")) == (1, 256, [])
    rows = pq.read_table(tmp_path / "out" / result.files[0].path).to_pylist()
    assert [row["kind"] for row in rows if row["_corrupt_record"]] == ["torn"]
    dropped = export(tmp_path / "dropped", store, view="regions", wanted=WantedRows(mode="DROPMALFORMED"))
    assert (dropped.damage.count, dropped.row_count) == (1, result.row_count - 1)


def test_an_empty_selection_is_whole(store_dir: Directory, tmp_path: Path) -> None:
    result = export(tmp_path / "out", store_dir("4.4.0-basic"), wanted=WantedRows(topic="none such"))
    assert (result.row_count, result.files) == (0, ())
    assert _names(tmp_path / "out") == {"_SUCCESS", "_manifest.json"}


def test_every_topic_is_in_the_files_and_has_a_directory_of_its_own(tmp_path: Path) -> None:
    """Arrow reads the table: where a directory has another name than the topic, the file has the topic."""
    export(tmp_path / "out", odd_topics_store(tmp_path / "store"))
    rows = rows_of(tmp_path / "out")
    assert [row["topic_text"] for row in rows] == list(ODD_TOPICS)
    assert [row["topic"] for row in rows] == [folder_name(topic) for topic in ODD_TOPICS]
    assert len({row["topic"] for row in rows}) == len(rows)
    assert folder_name(LONG) != LONG
    names = {name.partition("=")[2] for name in _names(tmp_path / "out") if "=" in name}
    assert {unquote(name) for name in names} == {folder_name(topic) for topic in ODD_TOPICS}


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
    before = rows_of(tmp_path / "out")
    with pytest.raises(UsageError, match="already exists"):
        export(tmp_path / "out", store, wanted=WantedRows(topic="none such"))
    assert rows_of(tmp_path / "out") == before
    export(tmp_path / "out", store, wanted=WantedRows(topic="none such"), replace=True)
    assert _names(tmp_path / "out") == {"_SUCCESS", "_manifest.json"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


KILLED = """
import os, signal, sys
from rocketfsck.cli.app import run
from rocketfsck.pipeline.export import job, rows
def killing(*_): os.kill(os.getpid(), signal.SIGKILL)
place, *arguments = sys.argv[1:]
sound, calls = rows.ExportRows.hand, []
def later(*given):
    calls.append(1)
    return sound(*given) if len(calls) < 4 else killing()
if place == "hand":
    rows.ExportRows.hand = later
else:
    setattr(job, place, killing)
run(arguments)
"""


@pytest.mark.parametrize("place", ["hand", "manifest_of"])
def test_killed_it_is_not_there(
    store_dir: Directory, tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the middle of writing, and before the new directory has its name: real SIGKILLs."""
    out = tmp_path / "out"
    arguments = ["export", str(store_dir("5.3.3-multiseg")), "--into", str(out)]
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, place, *arguments, "--memory", "1MiB"],
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
    assert (out / "_SUCCESS").exists()
    assert len(rows_of(out)) == manifest_of(out)["row_count"] > 0


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


def test_too_many_directories_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = odd_topics_store(tmp_path / "store")
    monkeypatch.setattr(local, "MOST_FOLDERS", len(ODD_TOPICS))
    assert export(tmp_path / "all", store).row_count == len(ODD_TOPICS)
    monkeypatch.setattr(local, "MOST_FOLDERS", len(ODD_TOPICS) - 1)
    with pytest.raises(UsageError, match="directories: give fewer columns"):
        export(tmp_path / "out", store)
    assert not (tmp_path / "out").exists()


class Elsewhere:
    """An engine whose workers are this process: the first attempt at each task dies after it wrote."""

    job_count = 2

    def run(self, kernel: Any, tasks: Any, **_: Any) -> Iterator[Any]:
        for number, task in enumerate(tasks):
            kernel(task)
            yield Outcome(number, task, kernel(task), 0.0)


def test_files_of_attempts_that_died_are_not_in_the_export(store_dir: Directory, tmp_path: Path) -> None:
    store = store_dir("4.9.8-multiseg")
    local, found = export(tmp_path / "local", store), export(tmp_path / "out", store, engine=Elsewhere())
    assert (found.row_count, found.damage) == (local.row_count, local.damage)
    assert contents_of(tmp_path / "out") == contents_of(tmp_path / "local")
    files = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.parquet")}
    assert files == {file.path for file in found.files}


class Killer(Elsewhere):
    """No worker survives one file of the log."""

    def run(self, kernel: Any, tasks: Any, **_: Any) -> Iterator[Any]:
        for number, task in enumerate(tasks):
            is_part = isinstance(task, Part) and "broken/store" in task.source.path
            if is_part and task.file.endswith("131072"):
                raise LostError("a worker died")
            yield Outcome(number, task, kernel(task), 0.0)


def test_a_file_that_no_worker_survives_leaves_its_store_out(store_dir: Directory, tmp_path: Path) -> None:
    broken = shutil.copytree(store_dir("4.9.8-multiseg"), tmp_path / "broken" / "store")
    sound = shutil.copytree(store_dir("4.9.8-multiseg"), tmp_path / "sound" / "store")
    result = export(tmp_path / "out", broken, sound, engine=Killer())
    ((broker, reason),) = result.failed
    assert broker == "broken"
    assert "00000000000000131072: cannot be read by any worker" in reason
    assert {row["broker"] for row in rows_of(tmp_path / "out")} == {"sound"}
    with pytest.raises(StoreError, match="cannot be read by any worker"):
        export(tmp_path / "alone", broken, engine=Killer())
    assert not (tmp_path / "alone").exists()
