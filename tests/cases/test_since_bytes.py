"""What `check --since` reads of a store, in bytes of its files: what is new, and little besides."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.engine import LocalEngine
from rocketfsck.repair.verdict import judge_store
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry, LiveState, LockState
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.verify.finding import Severity
from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store

from tests.cases.test_since import BEGIN, NOW, files_of, said

COUNT, NEW_COUNT = 6000, 100
BODY_SIZE = 700
OPTIONS = WriteOptions(
    sync=False, geometry=Geometry(16 << 20, 400_000, slot_count=20_000, entry_count=80_000)
)
CONSTANT = 400 << 10
"""Bytes that a check may read whatever is new: samples of files, the first records, small files."""

ReadBy = Callable[[Callable[[], Any]], int]


def messages(start: int, end: int) -> Iterator[OutgoingMessage]:
    for number in range(start, end):
        body = bytes([number % 251]) * BODY_SIZE
        properties = {"TAGS": f"tag{number % 3}", "KEYS": f"key{number}"}
        yield OutgoingMessage(f"T{number % 4}", body, BEGIN + number * 5, properties=properties)


def grow(store: Path, other: Path) -> None:
    """Make the files of a store those of another one, in place; what is a hole stays one, as in a map."""
    for name, data in files_of(other).items():
        with (store / name).open("r+b") as file:
            for pos in range(0, len(data), 4096):
                file.seek(pos)
                if file.read(4096) != data[pos : pos + 4096]:
                    file.seek(pos)
                    file.write(data[pos : pos + 4096])


@pytest.fixture
def read_by(monkeypatch: pytest.MonkeyPatch) -> ReadBy:
    """The bytes that a call reads of files of stores and states, all of which are read by position."""
    counts: list[int] = []
    preadv, pread = os.preadv, os.pread

    def counted(*given: Any) -> int:
        counts.append(preadv(*given))
        return counts[-1]

    def counted_bytes(*given: Any) -> bytes:
        data = pread(*given)
        counts.append(len(data))
        return data

    monkeypatch.setattr(os, "preadv", counted)
    monkeypatch.setattr(os, "pread", counted_bytes)

    def count(call: Callable[[], Any]) -> int:
        counts.clear()
        call()
        return sum(counts)

    return count


def checked(store: Path, state: Path | None) -> Report:
    """A check next to a running broker, with its verdict."""
    opened = replace(open_store(store), live=LiveState(LockState.HELD, "a test says so"))
    report = check_store(opened, CheckOptions(now_timestamp=NOW, since=state), engine=LocalEngine(1))
    assert judge_store(opened, report).state == "running"
    assert (report.worst or Severity.INFO) is Severity.INFO
    return report


def test_a_check_of_a_live_store_reads_what_is_new(tmp_path: Path, read_by: ReadBy) -> None:
    store, new, state = tmp_path / "store", tmp_path / "new", tmp_path / "state"
    write_store(store, messages(0, COUNT), OPTIONS)
    shutil.copytree(store, new)
    write_store(new, messages(COUNT, COUNT + NEW_COUNT), OPTIONS, append=True)
    (store / "abort").write_text("4711")  # a predicted start would read the log
    used = COUNT * BODY_SIZE
    assert read_by(lambda: checked(store, state)) > used > 10 * CONSTANT
    assert read_by(lambda: checked(store, state)) < CONSTANT
    grow(store, new)
    entries_and_slots = 20 * (COUNT + NEW_COUNT) * 2 + 4 * 20_000
    grown = read_by(lambda: checked(store, state))
    assert NEW_COUNT * BODY_SIZE < grown < CONSTANT + 4 * NEW_COUNT * BODY_SIZE + entries_and_slots
    assert read_by(lambda: checked(store, state)) < CONSTANT
    assert said(checked(store, state)) == said(checked(store, None))


def test_slots_are_read_where_somebody_has_written_to_the_index(tmp_path: Path) -> None:
    """The number of entries is the same; a slot leads nowhere."""
    store, state = tmp_path / "store", tmp_path / "state"
    write_store(store, messages(0, 100), OPTIONS)
    checked(store, state)
    (index,) = (store / "index").iterdir()
    with index.open("r+b") as file:
        data = file.read()
        slot = next(pos for pos in range(40, 40 + 4 * 20_000, 4) if any(data[pos : pos + 4]))
        file.seek(slot)
        file.write(bytes(4))
    report = check_store(open_store(store), CheckOptions(now_timestamp=NOW, since=state))
    assert report.exit_code == 4
    assert said(report) == said(check_store(open_store(store), CheckOptions(now_timestamp=NOW)))


def test_notes_on_keys_are_made_again_where_the_log_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two keys with one hash; then the record of one of them is damaged."""
    store, state = tmp_path / "store", tmp_path / "state"
    keys = ["Aa", "BB", "other"]
    write_store(
        store,
        (
            OutgoingMessage("T", b"x" * 50, BEGIN + number, properties={"KEYS": key})
            for number, key in enumerate(keys)
        ),
        replace(OPTIONS, geometry=Geometry(16_384, 800, slot_count=97, entry_count=300)),
    )

    def check(since: Path | None) -> Report:
        return check_store(open_store(store), CheckOptions(now_timestamp=NOW, since=since))

    assert "IX025" in check(state).counts
    with monkeypatch.context() as without:
        without.setattr("rocketfsck.verify.since.proving.spread_notes", lambda *_: pytest.fail("made again"))
        assert said(check(state)) == said(check(None))
    log = store / "commitlog" / f"{0:020}"
    data = log.read_bytes()
    log.write_bytes(data.replace(b"KEYS\x01BB", b"KEYS\x01BA"))
    damaged = check(state)
    assert said(damaged) == said(check(None)) and "IX025" not in damaged.counts
