"""Stores in RocksDB: time and memory of check, fix and queries.

The store is one of made-up messages whose consume queues and index are rows: `rebuild` makes both databases
from the log, and they take the places of the files.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import rocketfsck
from rocketfsck.errors import EXIT_CORRECTED

from benchmarks.commands import TOOL, run
from benchmarks.measure import Row

ABOUT = """\
Written by `python -m benchmarks databases`; not edited. Whole commands on a store whose consume queues and
index are in RocksDB, once each: time by the clock, and the most memory that one process has. Messages are
those of `rocketfsck write --synth plain,keys=1,body=128`.

- *check*: every rule at the level `full`, and the verdict; the goal is 3 s a million rows of the index.
- *fix*: the queues' database has lost its tables: it is made again from the log, judged, published.
- *query*: a message by its queue offset, and by its key.
"""
SECONDS = 3.0
"""Of a check, for a million rows of the index."""
SETTINGS = "storeType=defaultRocksDB\nindexRocksDBEnable=true\n"
QUEUES, MESSAGES = "consumequeue", "rocksdbstore"


def database_rows(folder: Path, count: int, *, with_goals: bool) -> Iterator[Row]:
    """The rows of one store of `count` messages, which is made and deleted again."""
    home = folder / "databases"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    try:
        index_count = _make(home, count)
        store = home / "store"
        rows = f"{count:,} messages, {index_count:,} rows of the index"
        message = next(rocketfsck.iter_messages(rocketfsck.open_store(store)))
        place = (message.topic, str(message.queue_id), str(message.queue_offset))
        key = (message.topic, message.keys[0])
        goal = SECONDS * index_count / 1e6 if with_goals else None
        yield _row("check", ["check", store], rows, goal)
        yield _row("query offset", ["query", "offset", store, *place], rows)
        yield _row("query key", ["query", "key", store, *key], rows)
        for table in (store / QUEUES).glob("*.sst"):
            table.unlink()
        repair = ["fix", store, "--yes"]
        yield _row("fix", repair, rows, exit_code=EXIT_CORRECTED)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _make(home: Path, count: int) -> int:
    """Write the store; how many rows its index has."""
    conf, store = home / "broker.conf", home / "store"
    conf.write_text(SETTINGS, "utf-8")
    mix = "plain,keys=1,body=128"
    _tool("write", "--synth", mix, "--messages", count, "--into", store, "--broker-version", "5.5.0")
    for name in (QUEUES, MESSAGES):
        said = _tool("rebuild", name, store, "--into", home / name, "--broker-conf", conf, "--format", "json")
    for name in (QUEUES, "index"):
        shutil.rmtree(store / name)
    for name in (QUEUES, MESSAGES):
        shutil.move(home / name / name, store / name)
    return int(json.loads(said)["message_rows"]["index_row_count"])


def _tool(*words: object) -> str:
    command = [*TOOL, *map(str, words), "--no-sync"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _row(job: str, words: Sequence[object], rows: str, goal: float | None = None, exit_code: int = 0) -> Row:
    used = run([*TOOL, *map(str, words)], (exit_code,))
    rate = f"{used.cpu:.1f} s of processors, {used.peak_size / (1 << 20):,.0f} MiB"
    return Row(f"{job}: {rows}", used.seconds * 1e3, "seconds", used.seconds, goal, rate=rate)
