"""The log in pieces on threads is the log of one walk, whatever is wrong with it."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketfsck.common.budget import job_count, within
from rocketfsck.errors import StoreError
from rocketfsck.repair.build import walk
from rocketfsck.repair.build.walk import KeyThread, LogWalked, walk_log
from rocketfsck.scan.threads import pieces
from rocketfsck.scan.units import OFFSET, KeyRows
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader

from tests.reported import reported
from tests.unit.repair.build.making import (
    LOG_FILE_SIZE,
    START,
    change_log,
    make_store,
    message,
    records,
    reopen,
)


class Taken:
    """Takes everything, with queues by name."""

    def __init__(self) -> None:
        self.units: list[tuple[Any, ...]] = []
        self.keys: list[tuple[int, int, list[int]]] = []

    def take_units(self, rows: Any, table: int, raw_names: Any, name_count: int) -> None:
        assert table >= 0
        for row in rows.tolist():
            assert row[0] < name_count
            self.units.append((raw_names[row[0]], *row[1:]))

    def take_keys(self, rows: KeyRows) -> None:
        for row in range(len(rows)):
            hashes = rows.key_hash[rows.key_record == row].tolist()
            self.keys.append((int(rows.offset[row]), int(rows.time[row]), hashes))


def _walk(store: Store, *, compiled: bool, jobs: int = 1) -> tuple[Taken, LogWalked]:
    taken = Taken()
    with within(compiled=compiled, jobs=jobs):
        walked = walk_log(store, units=taken, keys=taken)
    return taken, walked


def _same(store: Store) -> LogWalked:
    """Walk in pieces and alone, plain and compiled; all must agree."""
    plain, expected = _walk(store, compiled=False)
    for jobs in (1, 3):
        found, walked = _walk(store, compiled=True, jobs=jobs)
        assert found.units == plain.units
        assert found.keys == plain.keys
        assert walked == expected
    return expected


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_SIZE", 500)


def _store(folder: Path, count: int = 60, **more: Any) -> Store:
    return make_store(folder, [message(number, queue_id=number % 2) for number in range(count)], **more)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where files were walked alone, in compiled walks with several jobs."""
    seen: list[int] = []
    real = walk._Walk.walk_alone

    def noted(self: Any, file: Any, start: int) -> None:
        if job_count() > 1:
            seen.append(start)
        real(self, file, start)

    monkeypatch.setattr(walk._Walk, "walk_alone", noted)
    return seen


def test_a_sound_log_is_never_walked_alone(tmp_path: Path, alone: list[int]) -> None:
    store = _store(tmp_path)
    walked = _same(store)
    assert alone == []
    assert walked.record_count == 60
    assert walked.file_count == len(store.commitlog.files) > 2
    assert walked.damaged_files == []
    place, size = records(store)[-1]
    assert walked.end_offset == place + size


def test_records_larger_than_pieces(tmp_path: Path, alone: list[int]) -> None:
    sent = [message(number, body=b"x" * (1800 if number % 3 == 0 else 10)) for number in range(30)]
    _same(make_store(tmp_path, sent))
    assert alone == []


def test_damage_is_walked_alone_from_there(tmp_path: Path, alone: list[int]) -> None:
    store = _store(tmp_path)
    place, size = records(store)[30]
    change_log(store, place, b"\xee" * (size - 20))
    walked = _same(reopen(tmp_path))
    assert len(alone) == 1
    assert 0 < alone[0] <= place % LOG_FILE_SIZE
    assert walked.record_count == 59
    assert len(walked.damaged_files) == 1


def test_zeros_in_the_middle(tmp_path: Path, alone: list[int]) -> None:
    store = _store(tmp_path)
    place, size = records(store)[30]
    change_log(store, place, bytes(size))
    assert _same(reopen(tmp_path)).record_count == 59
    assert len(alone) == 1


def test_a_blank_that_does_not_fit(tmp_path: Path, alone: list[int]) -> None:
    store = _store(tmp_path)
    place, _ = records(store)[30]
    change_log(store, place, struct.pack(">II", 100, 0xCBD43194))
    assert _same(reopen(tmp_path)).record_count == 59
    assert len(alone) == 1


def test_a_clock_that_steps_back_hides_nothing(tmp_path: Path, alone: list[int]) -> None:
    steps = {20: -5000, 21: -4999}
    sent = [message(number, timestamp=START + 100 * number + steps.get(number, 0)) for number in range(40)]
    assert _same(make_store(tmp_path, sent)).record_count == 40
    assert alone


def test_a_stale_tail_is_left_out(tmp_path: Path, alone: list[int]) -> None:
    """The log was cut and goes on over its older records: what is left of those is no part of it."""
    folder = tmp_path / "old"
    old = _store(folder, 18)
    new = make_store(
        tmp_path / "new",
        [message(number, timestamp=START + 10_000_000 + number) for number in range(10)],
    )
    place, size = records(new)[-1]
    data = new.commitlog.files[0].path.read_bytes()[: place + size]
    change_log(old, 0, data)
    walked = _same(reopen(folder))
    assert walked.record_count == 10
    assert walked.end_offset == place + size
    assert alone


@pytest.mark.parametrize("spread", [True, False])
def test_a_last_file_of_another_length(tmp_path: Path, spread: bool) -> None:
    store = _store(tmp_path)
    path = store.commitlog.files[-1].path
    place, size = records(store)[-1]
    with path.open("r+b") as file:
        file.truncate(LOG_FILE_SIZE * 2 if spread else place % LOG_FILE_SIZE + size - 5)
    _same(reopen(tmp_path))


@given(st.data())
@settings(max_examples=60)
def test_any_damage(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = _store(Path(folder), 25)
        size = sum(file.size for file in store.commitlog.files)
        for _ in range(data.draw(st.integers(1, 4))):
            place = data.draw(st.integers(0, size - 64))
            change = data.draw(st.binary(min_size=1, max_size=60))
            room = LOG_FILE_SIZE - place % LOG_FILE_SIZE
            change_log(store, place, change[:room])
        _same(reopen(Path(folder)))


def test_going_on_behind_files_that_are_done(tmp_path: Path) -> None:
    store = _store(tmp_path)
    whole, _ = _walk(store, compiled=True, jobs=2)
    rest = Taken()
    stated: list[int] = []
    with within(compiled=True, jobs=2):
        walked = walk_log(
            store,
            units=rest,
            walked=LogWalked(file_count=2, record_count=100),
            after_file=lambda done: stated.append(done.file_count),
        )
    assert rest.units == [row for row in whole.units if row[OFFSET] >= 2 * LOG_FILE_SIZE]
    assert rest.keys == []
    assert walked.record_count == 100 + len(rest.units)
    assert stated == list(range(3, len(store.commitlog.files) + 1))


@pytest.mark.parametrize("compiled", [False, True])
def test_progress_ends_at_the_whole(tmp_path: Path, compiled: bool) -> None:
    store = _store(tmp_path)
    seen: list[tuple[int, int]] = []
    with reported("reading the commit log", seen), within(compiled=compiled, jobs=2):
        walk_log(store, units=Taken())
    assert seen[-1] == (store.commitlog.size, store.commitlog.size)
    assert seen == sorted(seen)


def _rows() -> KeyRows:
    nothing = np.zeros(0, np.int32)
    return KeyRows(np.zeros(1, np.int64), np.zeros(1, np.int64), nothing, nothing)


@pytest.mark.parametrize("threaded", [False, True])
def test_what_a_taker_raises_comes_out(threaded: bool) -> None:
    class Failing:
        def take_keys(self, rows: KeyRows) -> None:
            raise ValueError(f"{len(rows)} row")

    def run() -> None:
        with KeyThread(Failing(), threaded=threaded) as thread:
            assert thread.wanted
            for _ in range(20):
                thread.take(_rows())
                thread.wait()

    with pytest.raises(ValueError, match="1 row"):
        run()

    def end() -> None:
        with KeyThread(Failing(), threaded=threaded) as thread:
            thread.take(_rows())

    with pytest.raises(ValueError, match="1 row"):
        end()


def test_an_error_of_the_walk_is_not_hidden() -> None:
    def run() -> None:
        with KeyThread(None, threaded=True) as thread:
            assert not thread.wanted
            thread.take(_rows())
            raise KeyError("walk")

    with pytest.raises(KeyError, match="walk"):
        run()


def test_a_file_that_goes_away_is_an_error(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.commitlog.files[1].path.unlink()
    for jobs in (1, 3):
        with pytest.raises(StoreError, match="cannot be opened"):
            _walk(store, compiled=True, jobs=jobs)
    with FileReader(store.commitlog.files[0].path) as reader:
        assert reader.size == LOG_FILE_SIZE
