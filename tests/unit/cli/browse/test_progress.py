"""A search says what it reads and how far it is, and Escape ends it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from rocketfsck import progress
from rocketfsck.cli.browse.model.files import FilePlace, Question, SearchKind, Shelf
from rocketfsck.cli.browse.model.search import find_text, search
from rocketfsck.cli.browse.views.base import Session
from rocketfsck.query.view import StoreView
from rocketfsck.store import open_store

from tests.conftest import Directory
from tests.unit.cli.browse.pilot import Driver, drive

SECONDS = 30


async def until(at: Driver, text: str) -> None:
    """Wait until a text is on the screen."""
    for _ in range(SECONDS * 100):
        if text in at.text:
            return
        await at.pilot.pause()
        await asyncio.sleep(0.01)
    pytest.fail(f"{text} is not on the screen: {at.text}")


@pytest.mark.parametrize("leaves", [False, True])
def test_a_search_says_how_far_it_is(
    leaves: bool, store_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def slow(*_: object) -> list[FilePlace]:
        try:
            with progress.phase("searching", 200), progress.part(200, "searching commitlog/0"):
                progress.moved_to(84)
                while not ended.wait(0.01):
                    progress.go_on()
            return []
        finally:
            ended.set()

    monkeypatch.setattr(Session, "search", slow)

    async def script(at: Driver) -> None:
        await at.press("enter", "slash")
        await at.pilot.press("x", "enter")
        await until(at, "Searching: commitlog/0 42 %… Escape stops.")
        if leaves:
            await at.pilot.press("backspace")
            await until(at, "9 files")
        else:
            await at.pilot.press("escape")
            await until(at, "Stopped.")
        while not ended.is_set():  # the search hears of it through the loop that waits here
            await asyncio.sleep(0.01)
        await at.settle()
        for _ in range(100):
            await at.pilot.pause()
            await asyncio.sleep(0.01)
        assert "Searching" not in at.text

    drive(store_dir("5.3.3-trans"), script)


def _phases(shelf: Shelf, kind: SearchKind, text: str) -> list[progress.State]:
    seen: list[progress.State] = []

    def stated(state: progress.State | None) -> None:
        if state is not None:
            seen.append(state)

    with progress.watched(stated), StoreView(shelf.store) as view:
        assert search(shelf, view, Question(kind, text), None, -1) == []
    return seen


@pytest.mark.parametrize("kind", ["text", "key", "unique"])
def test_searches_count_what_they_read(kind: SearchKind, store_dir: Directory) -> None:
    shelf = Shelf(open_store(store_dir("5.3.3-multiseg")))
    seen = _phases(shelf, kind, "nowhere at all")
    logs = [state for state in seen if state.phase.startswith("searching commitlog/")]
    assert len({state.phase for state in logs}) == len(shelf.store.commitlog.files)
    assert logs[0].total == sum(file.size for file in shelf.store.commitlog.files)
    done = [state.done for state in logs]
    assert done == sorted(done)
    assert any(state.phase == "searching the index" for state in seen) == (kind != "text")


def test_a_search_backward_counts_too(store_dir: Directory) -> None:
    shelf = Shelf(open_store(store_dir("5.3.3-multiseg")))
    row = [row for row in shelf.rows if row.target.kind == "commitlog"][-1]
    file = shelf.open(row)
    seen: list[int] = []
    with progress.watched(lambda state: seen.append(0 if state is None else state.done)):
        assert find_text(shelf, file, file.source.size, b"nowhere at all", backward=True) is None
    assert max(seen) > 0
    file.close()
