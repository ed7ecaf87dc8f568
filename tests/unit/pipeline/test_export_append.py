"""Appends to Delta and Iceberg tables: each message once, whatever is killed, run again or run at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.api import iter_messages
from rocketfsck.cli.app import run
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.smallfiles import EpochEntry, encode_epochs
from rocketfsck.pipeline.export import job as appending
from rocketfsck.pipeline.export import tables as tables_module
from rocketfsck.pipeline.export.job import export_stores
from rocketfsck.pipeline.export.local import Written, write_here
from rocketfsck.pipeline.export.model import ExportOptions, ExportResult, marks_from_json
from rocketfsck.pipeline.export.tables import TableChangedError
from rocketfsck.pipeline.sources import find_sources
from rocketfsck.pipeline.views.model import WantedRows
from rocketfsck.store import open_store

from tests.conftest import Directory
from tests.unit.pipeline.exporting import export
from tests.unit.pipeline.test_export_tables import READERS

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

ROOT = Path(__file__).parents[3]
STORE = "5.3.3-multiseg"


def _append(into: Path, *stores: Path, brokers: tuple[str, ...] = ("a",), **options: Any) -> ExportResult:
    sources = find_sources(stores, brokers=brokers[: len(stores)])
    return export_stores(sources, into, ExportOptions(**options), append=True)


def _offsets(into: Path, table_format: str) -> list[tuple[str, int]]:
    rows = READERS[table_format](into).select(["broker", "offset"]).to_pylist()
    return sorted((row["broker"], row["offset"]) for row in rows)


def _every(store: Path, broker: str = "a") -> list[tuple[str, int]]:
    return [(broker, one.physical_offset) for one in iter_messages(open_store(store), live_only=True)]


def cut(store: Path, count: int) -> Callable[[], None]:
    """Make the log end after `count` messages, as it did when they were written; gives what undoes that."""
    end = _every(store)[count][1]
    before = {path: path.read_bytes() for path in (store / "commitlog").iterdir()}
    for path, data in before.items():
        start = int(path.name)
        if start >= end:
            path.unlink()
        elif start + len(data) > end:
            path.write_bytes(data[: end - start].ljust(len(data), b"\0"))

    def undo() -> None:
        for path, data in before.items():
            path.write_bytes(data)

    return undo


@pytest.fixture(params=list(READERS))
def table_format(request: pytest.FixtureRequest) -> str:
    pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg"}[request.param])
    name: str = request.param
    return name


def test_each_run_adds_what_is_new(store_copy: Directory, tmp_path: Path, table_format: str) -> None:
    store, out = store_copy(STORE), tmp_path / "out"
    every = _every(store)
    grow = cut(store, 700)
    first = _append(out, store, table_format=table_format)
    assert (first.row_count, first.appended) == (700, False)
    grow()
    grow = cut(store, 900)
    second = _append(out, store, table_format=table_format)
    assert (second.row_count, second.appended) == (200, True)
    grow()
    _append(out, store, table_format=table_format)
    again = _append(out, store, table_format=table_format)
    assert (again.row_count, again.files, again.has_problems) == (0, (), False)
    assert _offsets(out, table_format) == every
    runs = sorted(path.name for path in out.glob("run-*"))  # the first run made the table
    assert len(runs) == 2
    assert all((out / name / "_SUCCESS").exists() for name in runs)
    assert {json.loads((out / name / "_manifest.json").read_text())["row_count"] for name in runs} == {
        200,
        len(every) - 900,
    }


def test_a_plain_export_is_appended_to_and_brokers_are_apart(
    store_copy: Directory, store_dir: Directory, tmp_path: Path, table_format: str
) -> None:
    store, other, out = store_copy(STORE), store_dir("4.9.8-ipv6"), tmp_path / "out"
    grow = cut(store, 700)
    plain = tmp_path / "a" / "store"
    plain.parent.mkdir()
    store.rename(plain)
    export(out, plain, table_format=table_format)
    plain.rename(store)
    grow()
    _append(out, other, brokers=("b",), table_format=table_format)
    _append(out, store, other, brokers=("a", "b"), table_format=table_format)
    assert _offsets(out, table_format) == _every(store) + _every(other, "b")


KILLED = """
import os, signal, sys
from rocketfsck.cli.app import run
from rocketfsck.pipeline.export import job, tables
place, *arguments = sys.argv[1:]
def killing(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
def after(sound):
    def then(*given):
        sound(*given)
        killing()
    return then
if place in ("marks_of", "sync_below"):
    setattr(job, place, killing)
else:
    for kind in (tables._Delta, tables._Iceberg):
        kind.append = killing if place == "commit" else after(kind.append)
run(arguments)
"""


@pytest.mark.parametrize(
    ("table_format", "place"),
    [
        ("iceberg", "marks_of"),
        ("delta", "commit"),
        ("iceberg", "committed"),
        pytest.param("delta", "marks_of", marks=pytest.mark.nightly),
        pytest.param("delta", "sync_below", marks=pytest.mark.nightly),
        pytest.param("iceberg", "sync_below", marks=pytest.mark.nightly),
        pytest.param("iceberg", "commit", marks=pytest.mark.nightly),
        pytest.param("delta", "committed", marks=pytest.mark.nightly),
    ],
    indirect=["table_format"],
)
def test_killed_runs_leave_the_table_and_no_message_twice(
    store_copy: Directory,
    tmp_path: Path,
    table_format: str,
    place: str,
) -> None:
    """Real SIGKILLs: with the data half or wholly written, and when the commit was made."""
    store, out = store_copy(STORE), tmp_path / "out"
    every = _every(store)
    arguments = ["export", str(store), "--into", str(out), "--append", "--table-format", table_format]
    arguments += ["--broker-name", "a"]
    grow = cut(store, 700)
    assert run(arguments) == 0
    grow()
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLED, place, *arguments],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"ROCKETFSCK_KERNELS": "plain"},
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    committed = place == "committed"
    assert _offsets(out, table_format) == (every if committed else every[:700])
    assert run(arguments) == 0
    assert _offsets(out, table_format) == every


def test_of_two_runs_at_once_one_loses_and_says_so(
    store_copy: Directory, tmp_path: Path, table_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, out = store_copy(STORE), tmp_path / "out"
    every = _every(store)
    grow = cut(store, 700)
    _append(out, store, table_format=table_format)
    grow()
    sound = write_here
    begun: list[int] = []

    def meanwhile(*given: Any) -> Written:
        if not begun:
            begun.append(1)
            assert _append(out, store, table_format=table_format).row_count == len(every) - 700
        return sound(*given)

    monkeypatch.setattr(appending, "write_here", meanwhile)
    with pytest.raises(TableChangedError, match="another run changed the table first"):
        _append(out, store, table_format=table_format)
    assert _offsets(out, table_format) == every
    assert len(list(out.glob("run-*"))) == 1
    assert _append(out, store, table_format=table_format).row_count == 0


def test_a_delta_table_of_a_former_version_is_mended(
    store_copy: Directory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without the property, deltalake takes columns without bounds for empty ones."""
    deltalake = pytest.importorskip("deltalake")
    transaction = pytest.importorskip("deltalake.transaction")
    store, out = store_copy(STORE), tmp_path / "out"
    sound = transaction.create_table_with_add_actions

    def former(*given: Any, **options: Any) -> None:
        sound(*given, **{**options, "configuration": None})

    def tagged() -> tuple[int, int]:
        table = deltalake.DeltaTable(out)
        tags = table.to_pyarrow_table(columns=["tags"])["tags"].to_pylist()
        return table.to_pyarrow_table(filters=[("tags", "=", "paid")]).num_rows, tags.count("paid")

    grow = cut(store, 700)
    with monkeypatch.context() as patch:
        patch.setattr(transaction, "create_table_with_add_actions", former)
        assert not _append(out, store, table_format="delta").mended
    found, wanted = tagged()
    assert found == 0 < wanted
    line = ["export", str(store), "--into", str(out), "--table-format", "delta", "--append"]
    assert run([*line, "--broker-name", "a"]) == 0  # nothing is new
    assert "mended: filters on columns of text found nothing" in capsys.readouterr().out
    assert tagged() == (wanted, wanted)
    grow()
    again = _append(out, store, table_format="delta")
    assert (again.mended, again.row_count) == (False, len(_every(store)) - 700)
    found, every = tagged()
    assert found == every > wanted
    assert _offsets(out, "delta") == _every(store)


def test_a_table_is_mended_once_and_before_its_marks_are_read(
    store_copy: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run commits just before the mending: its messages are not appended again."""
    pytest.importorskip("deltalake")
    transaction = pytest.importorskip("deltalake.transaction")
    store, out = store_copy(STORE), tmp_path / "out"
    sound, mend = transaction.create_table_with_add_actions, tables_module._Delta.mend
    grow = cut(store, 700)
    with monkeypatch.context() as patch:
        patch.setattr(
            transaction,
            "create_table_with_add_actions",
            lambda *given, **options: sound(*given, **{**options, "configuration": None}),
        )
        _append(out, store, table_format="delta")
    grow()
    others: list[ExportResult] = []

    def late(self: Any) -> bool:
        monkeypatch.setattr(tables_module._Delta, "mend", mend if others else lambda _: False)
        if not others:
            others.append(_append(out, store, table_format="delta"))
        return mend(self)

    monkeypatch.setattr(tables_module._Delta, "mend", late)
    result = _append(out, store, table_format="delta")
    assert (result.mended, result.row_count) == (True, 0)
    assert others[0].row_count > 0
    assert _offsets(out, "delta") == _every(store)


def test_a_log_that_was_cut_is_refused(store_copy: Directory, tmp_path: Path, table_format: str) -> None:
    store, out = store_copy(STORE), tmp_path / "out"
    _append(out, store, table_format=table_format)
    whole = _offsets(out, table_format)
    undo = cut(store, 700)
    with pytest.raises(StoreError, match="the log was cut or replaced, so nothing of it was appended"):
        _append(out, store, table_format=table_format)
    undo()
    at = _every(store)[-1][1]
    file = max(path for path in (store / "commitlog").iterdir() if int(path.name) <= at)
    data = bytearray(file.read_bytes())
    data[at - int(file.name) + 60] ^= 1  # another message at the same place
    file.write_bytes(data)
    with pytest.raises(StoreError, match="now other bytes are there"):
        _append(out, store, table_format=table_format)
    shutil.rmtree(store / "commitlog")
    (store / "commitlog").mkdir()
    with pytest.raises(StoreError, match="but the commit log is empty"):
        _append(out, store, table_format=table_format)
    assert _offsets(out, table_format) == whole
    assert not list(out.glob("run-*"))


def test_another_epoch_is_refused(store_copy: Directory, tmp_path: Path, table_format: str) -> None:
    store, out = store_copy(STORE), tmp_path / "out"
    epochs = store / "epochFileCheckpoint"
    at = _every(store)[699][1]
    epochs.write_bytes(encode_epochs([EpochEntry(3, 0), EpochEntry(7, 1 << 40)]))
    grow = cut(store, 700)
    _append(out, store, table_format=table_format)
    grow()
    epochs.write_bytes(encode_epochs([EpochEntry(3, 0), EpochEntry(4, at)]))
    with pytest.raises(StoreError, match=rf"offset {at} \(epoch 3\) of a, .* has the epoch 4"):
        _append(out, store, table_format=table_format)
    epochs.write_bytes(b"nonsense")
    with pytest.raises(StoreError):
        _append(out, store, table_format=table_format)
    epochs.write_bytes(encode_epochs([EpochEntry(3, 0), EpochEntry(4, at + 1)]))
    _append(out, store, table_format=table_format)
    assert _offsets(out, table_format) == _every(store)


def test_messages_that_were_deleted_before_a_run_are_a_gap(
    store_copy: Directory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("deltalake")
    store, out = store_copy(STORE), tmp_path / "out"
    arguments = ["export", str(store), "--into", str(out), "--append", "--table-format", "delta"]
    arguments += ["--broker-name", "a"]
    every = _every(store)
    grow = cut(store, 100)
    assert run(arguments) == 0
    grow()
    for path in sorted((store / "commitlog").iterdir())[:2]:
        path.unlink()
    capsys.readouterr()
    kept = _every(store)
    assert run([*arguments, "--format", "json"]) == 4
    (gap,) = json.loads(capsys.readouterr().out)["gaps"]
    assert gap == {"broker": "a", "start": every[100][1], "end": kept[0][1]}
    assert run(arguments) == 0
    assert _offsets(out, "delta") == every[:100] + kept


def test_a_damaged_end_is_told_by_each_run(restart_dir: Directory, tmp_path: Path, table_format: str) -> None:
    store, out = restart_dir("4.9.8-basic--torn-tail"), tmp_path / "out"
    _append(out, store, table_format=table_format)
    again = _append(out, store, table_format=table_format)
    assert (again.row_count, again.damage.count) == (0, 1)
    assert not list(out.glob("run-*"))


def test_a_selection_is_appended_to_by_the_same(
    store_copy: Directory, tmp_path: Path, table_format: str
) -> None:
    store, out = store_copy(STORE), tmp_path / "out"
    options: dict[str, Any] = {"table_format": table_format, "wanted": WantedRows(topic="Seg1")}
    grow = cut(store, 700)
    _append(out, store, **options)
    grow()
    with pytest.raises(UsageError, match="another selection"):
        _append(out, store, table_format=table_format)
    with pytest.raises(UsageError, match="other columns"):
        _append(out, store, bodies=False, **options)
    with pytest.raises(UsageError, match="partition columns topic, date"):
        _append(out, store, partition=("topic",), **options)
    _append(out, store, **options)
    topics = [one for one in iter_messages(open_store(store), live_only=True) if one.topic == "Seg1"]
    assert _offsets(out, table_format) == [("a", one.physical_offset) for one in topics]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"table_format": "parquet"}, "only Delta and Iceberg"),
        ({"table_format": "delta", "view": "regions"}, "only messages"),
        ({"table_format": "delta", "wanted": WantedRows(begin_offset=5)}, "no physical offsets"),
    ],
)
def test_refusals(store_dir: Directory, tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        _append(tmp_path / "out", store_dir(STORE), **options)
    assert list(tmp_path.iterdir()) == []


def test_tables_of_others_are_refused(store_dir: Directory, tmp_path: Path, table_format: str) -> None:
    store = store_dir(STORE)
    (tmp_path / "plain").mkdir()
    with pytest.raises(UsageError, match=r"not a Delta table|has no table"):
        _append(tmp_path / "plain", store, table_format=table_format)
    name: dict[str, Any] = {"table": "rocketmq.messages"} if table_format == "iceberg" else {}
    export(tmp_path / "files", store, table_format=table_format, view="files", **name)
    with pytest.raises(UsageError, match="not made by `rocketfsck export`"):
        _append(tmp_path / "files", store, table_format=table_format)
    assert run(["export", str(store), "--into", str(tmp_path / "x"), "--append", "--replace"]) == 16


@pytest.mark.parametrize("text", ["[]", "{", '{"a": 1}', '{"a": {"epoch": 0}}', '{"a": null}'])
def test_marks_that_are_damaged(text: str) -> None:
    with pytest.raises(ValueError):
        marks_from_json(text)
    with pytest.raises(ValueError):
        marks_from_json('{"a": {"epoch": 0, "offset": -5, "size": 1, "digest": 2}}')
