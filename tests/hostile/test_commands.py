"""Stores that have stopped a command: odd names and numbers, logs that lie elsewhere, giants of holes."""

from __future__ import annotations

import json
import os
import struct
import time
from pathlib import Path

import pytest

from rocketfsck.cli.app import run
from rocketfsck.query.view import STALE_LIMIT
from rocketfsck.repair.plan import table
from rocketfsck.repair.plan.table import hash_bytes

from tests.conftest import Directory

LONG_MAX = (1 << 63) - 1
BASE_POS = 28  # of msgBaseOffset in a unit of a batch queue
BATCH_UNIT_SIZE = 46
GIANT_SIZE = 1 << 40
LONGEST_SECONDS = 60
SHORT_SECONDS = 10


@pytest.mark.parametrize("base", [LONG_MAX, LONG_MAX - 1, -LONG_MAX - 1])
def test_a_batch_base_at_the_end_of_all_longs(base: int, store_copy: Directory, tmp_path: Path) -> None:
    """The next base is a sum that wraps, as the broker's own does, at the seam of two files."""
    store = store_copy("5.0.0-innerbatch")
    path = store / "batchconsumequeue" / "Ib" / "0" / f"{0:020}"
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - BATCH_UNIT_SIZE + BASE_POS)
        file.write(struct.pack(">q", base))
    assert run(["check", str(store)]) == 4
    assert run(["plan", str(store), "-o", str(tmp_path / "plan.json")]) in (0, 4)


@pytest.mark.parametrize(
    ("source", "queue"),
    [("4.9.8-multiseg", "consumequeue/Seg1/1"), ("5.0.0-innerbatch", "batchconsumequeue/Ib/1")],
)
def test_queue_files_whose_names_are_no_places_of_units(
    source: str, queue: str, store_copy: Directory, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = store_copy(source) / queue
    for path in (min(folder.iterdir()), max(folder.iterdir())):
        for name in ("7", "1007", "-5"):
            moved = path.rename(path.with_name(name))
            for broker in ("4.9.8", "5.1.3"):
                assert run(["simulate", "--as-broker", broker, str(folder.parents[2])]) < 16
            moved.rename(path)
    assert "Internal" not in capsys.readouterr().err


@pytest.mark.parametrize("order", [0, 1])
def test_healing_needs_two_logs(
    order: int,
    store_copy: Directory,
    store_dir: Directory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store, other = store_dir("5.3.3-basic"), store_copy("5.3.3-multiseg")
    for path in (other / "commitlog").iterdir():
        path.rename(tmp_path / path.name)
    pair = [str(store), str(other)]
    pair = pair[order:] + pair[:order]
    for more in ([], ["--heal"], ["--heal", "--into", str(tmp_path / "healed")]):
        assert run(["compare", *pair, *more]) == 16
        assert "no commit log to compare" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "is_written"), [("consumequeue", False), ("consumequeue", True), ("commitlog", False)]
)
def test_a_file_with_a_terabyte_of_holes(
    kind: str, is_written: bool, store_copy: Directory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither `apply` nor its ledger reads the holes; data at the end of the file changes nothing of that."""
    store = store_copy("5.3.3-basic")
    path = max(path for path in (store / kind).rglob("*") if path.is_file())
    try:
        os.truncate(path, GIANT_SIZE)
    except OSError:
        pytest.skip("the file system has no such files")
    if is_written:
        with path.open("r+b") as file:
            file.seek(GIANT_SIZE - 40)
            file.write(bytes([0, 0, 1, 1]) * 10)
    plan = tmp_path / "plan.json"
    started = time.monotonic()
    assert run(["check", str(store)]) == 4
    assert run(["plan", str(store), "-o", str(plan)]) in (0, 4)
    code = run(["apply", str(plan)])
    assert time.monotonic() - started < LONGEST_SECONDS
    assert not code & 128
    if code in (8, 16):  # too large a copy, or a file; a file size that nothing confirms
        error = capsys.readouterr().err
        reasons = ("the repair needs", "the plan makes assumptions", "the limit for a queue's file")
        assert any(reason in error for reason in reasons), error
    else:
        assert run(["undo", str(store)]) == (16 if code == 4 else 0)  # 4: nothing was changed
        assert path.stat().st_size == GIANT_SIZE


@pytest.mark.parametrize("count", [2, 70_000])
def test_the_end_of_a_queue_behind_a_terabyte_of_holes(
    count: int, store_copy: Directory, capsys: pytest.CaptureFixture[str]
) -> None:
    """Units at the end of a giant that claim records of 16 MiB, where small ones of other queues stand."""
    store = store_copy("5.3.3-basic")
    path = max(path for path in (store / "consumequeue").rglob("*") if path.is_file())
    arguments = ["query", "offsets", str(store), "--topic", path.parts[-3], "--format", "jsonl"]
    assert run(arguments) == 0
    sound = capsys.readouterr().out
    try:
        os.truncate(path, GIANT_SIZE)
    except OSError:
        pytest.skip("the file system has no such files")
    with path.open("r+b") as file:
        file.seek(GIANT_SIZE // 20 * 20 - 20 * count)
        file.write(b"".join(struct.pack(">qiq", number % 5000, 16 << 20, 7) for number in range(count)))
    started = time.monotonic()
    assert run(arguments) == 0
    assert time.monotonic() - started < SHORT_SECONDS
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    queues = [row for row in found if row.get("stale_count")]
    assert [row["stale_count"] for row in queues] == ([count] if count < STALE_LIMIT else [])
    if count < STALE_LIMIT:  # else too many to compare: the queue is taken as it is
        queues[0]["stale_count"] = 0
        assert found == [json.loads(line) for line in sound.splitlines()]


def test_a_hash_does_not_read_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the zeros of a giant are stored makes no difference to its hash, their place does."""
    monkeypatch.setattr(table, "LONGEST_PLAIN", 3 << 20)
    content = bytearray(5 << 20)
    content[2_500_000:2_500_008] = b"somebody"
    (tmp_path / "data").write_bytes(content)
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(len(content))
        file.seek(2_500_000)
        file.write(b"somebody")
    expected = hash_bytes(str(tmp_path / "data"))
    assert hash_bytes(str(tmp_path / "holes")) == expected
    for place in (2_500_001, 2_500_000 + (1 << 20)):
        other = bytearray(5 << 20)
        other[place : place + 8] = b"somebody"
        (tmp_path / "other").write_bytes(other)
        assert hash_bytes(str(tmp_path / "other")) != expected
    (tmp_path / "longer").write_bytes(content + b"\0")
    assert hash_bytes(str(tmp_path / "longer")) != expected
    assert hash_bytes(str(tmp_path / "longer"), 0, 5 << 20) == hash_bytes(str(tmp_path / "data"), 0, 5 << 20)
