"""Nothing is read before it is looked at: what a store of 64 GiB costs, in bytes that are read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.cli.browse.model.files import FilePlace, OpenFile, Question, Shelf
from rocketfsck.cli.browse.model.search import find_offset, find_text, find_time, needle_of, search
from rocketfsck.query.view import StoreView
from rocketfsck.store import open_store

from tests.unit.cli.browse.pilot import Driver, drive
from tests.unit.cli.browse.stores import FILE_SIZE, FIRST_TIME, sparse_store

FILES = 64
MIB = 1 << 20

Cost = Callable[[], int]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """64 GiB of commit log, of which 40 records a file are there."""
    store = tmp_path_factory.mktemp("sparse") / "store"
    sparse_store(store, FILES)
    return store


@pytest.fixture
def cost(monkeypatch: pytest.MonkeyPatch) -> Cost:
    """Gives the bytes that were read since the last call."""
    real, read = os.preadv, [0]

    def counted(descriptor: int, buffers: Any, pos: int) -> int:
        count = real(descriptor, buffers, pos)
        read[0] += count
        return count

    def since() -> int:
        count, read[0] = read[0], 0
        return count

    monkeypatch.setattr(os, "preadv", counted)
    return since


def _open(shelf: Shelf, number: int) -> OpenFile:
    return shelf.open(shelf.rows[number])


def test_opening_reads_some_headers(root: Path, cost: Cost) -> None:
    shelf = Shelf(open_store(root))
    assert sum(row.size for row in shelf.rows) > FILES * FILE_SIZE
    assert 0 < cost() < MIB


def test_the_first_screen_costs_what_opening_does(root: Path, cost: Cost) -> None:
    async def script(at: Driver) -> None:
        assert "65 files, 64.0 GiB" in at.lines[0]
        assert cost() < MIB
        await at.press("enter", "pagedown", "enter")
        assert "k" in at.text
        assert cost() < 4 * MIB
        await at.press("end")
        assert "zero" in at.cursor
        assert cost() < 4 * MIB
        await at.press("backspace")
        await at.press("g")
        await at.type(str(30 * FILE_SIZE + FILE_SIZE // 2))
        assert at.cursor.split()[1] == str(FILE_SIZE // 2)
        assert cost() < 8 * MIB

    drive(root, script)


@pytest.mark.parametrize("pos", [0, 1000, FILE_SIZE // 4, FILE_SIZE // 2 + 90, FILE_SIZE - 1])
def test_any_place_of_a_file_costs_little(root: Path, cost: Cost, pos: int) -> None:
    file = _open(Shelf(open_store(root)), 17)
    cost()
    start = file.pages.locate(pos)
    assert start <= pos
    behind, ahead = file.pages.backward(start, 100), file.pages.forward(start, 100)
    assert not behind or behind[-1].end == start
    assert ahead[0].start == start
    assert ahead[0].end > pos
    assert cost() < 4 * MIB
    file.close()


def test_a_sparse_queue_is_entered_anywhere(root: Path, cost: Cost) -> None:
    shelf = Shelf(open_store(root))
    file = _open(shelf, FILES)
    cost()
    (zeros,) = file.pages.backward(file.source.size, 1)
    assert (zeros.kind, zeros.start) == ("zero", 20_000)
    assert file.pages.locate(file.source.size // 2) == zeros.start
    assert file.pages.backward(zeros.start, 3)[-1].values["queue_offset"] == 999
    assert cost() < MIB
    file.close()


def test_times_and_offsets_cost_some_headers(root: Path, cost: Cost) -> None:
    shelf = Shelf(open_store(root))
    with StoreView(shelf.store) as view:
        cost()
        name = f"commitlog/{33 * FILE_SIZE:020}"
        assert find_time(shelf, view, None, FIRST_TIME + 1000 * 40 * 33) == FilePlace(name, 0)
        assert find_time(shelf, view, None, FIRST_TIME + 1000 * (40 * 33 + 20)) == FilePlace(
            name, FILE_SIZE // 2
        )
        found = find_time(shelf, view, None, FIRST_TIME + 1000 * (40 * 33 + 25) - 999)
        assert found is not None
        assert found.name == name
        assert found.pos > FILE_SIZE // 2
        assert find_time(shelf, view, None, FIRST_TIME - 1) == FilePlace(f"commitlog/{0:020}", 0)
        assert find_time(shelf, view, None, FIRST_TIME + 1000 * 40 * FILES) is None
        assert find_offset(shelf, view, None, hex(50 * FILE_SIZE)) == FilePlace(
            f"commitlog/{50 * FILE_SIZE:020}"
        )
        assert cost() < 32 * MIB
        queue = _open(shelf, FILES)
        unit = find_time(shelf, view, queue, FIRST_TIME + 500_000)
        assert unit == FilePlace(queue.row.key, 10_000)
        queue.close()


def test_a_text_is_found_over_holes(root: Path, cost: Cost) -> None:
    shelf = Shelf(open_store(root))
    file = _open(shelf, 3)
    cost()
    found = find_text(shelf, file, 0, needle_of("KEYS\x01k310\x02"))
    assert found is not None
    assert found.name == f"commitlog/{7 * FILE_SIZE:020}"
    assert found.pos > FILE_SIZE // 2
    assert find_text(shelf, file, 0, b"k7\x02", backward=True) is not None
    assert find_text(shelf, file, 0, b"nowhere") is None
    assert cost() < 8 * MIB
    file.close()


def test_a_key_without_an_index_is_found_by_a_scan(tmp_path: Path) -> None:
    sparse_store(tmp_path / "store", 2)
    shelf = Shelf(open_store(tmp_path / "store"))
    with StoreView(shelf.store) as view:
        (place,) = search(shelf, view, Question("key", "k45", "Sparse"), None, -1)
        assert place.name == f"commitlog/{FILE_SIZE:020}"
        assert search(shelf, view, Question("unique", "k45"), None, -1) == []
        assert search(shelf, view, Question("key", "k4500"), None, -1) == []
