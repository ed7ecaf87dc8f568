"""`rocketfsck.progress`: what is under way, reported by the work, from any thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from rocketfsck.progress import State, moved_by, moved_to, notice, part, phase, say, state, watched


def _done() -> tuple[int, int | None]:
    now = state()
    assert now is not None
    return now.done, now.total


def test_phases_nest_and_end() -> None:
    assert state() is None
    with phase("applying"):
        first = state()
        with phase("checking", 10, done=3) as inner:
            now = state()
            assert now is not None and now.phase == "applying: checking" and _done() == (3, 10)
            inner.at(2)
            assert _done() == (3, 10), "never backwards"
            inner.add(4)
            assert _done() == (7, 10)
            inner.add(40)
            assert _done() == (10, 10), "never beyond the end"
            say("Spark: 1 of 2 tasks")
            now = state()
            assert now is not None and now.note == "Spark: 1 of 2 tasks"
        assert first is not None and state() == first
    assert state() is None


def test_parts_of_several_threads_add_up() -> None:
    halfway, seen_it = Barrier(3, timeout=60), Barrier(3, timeout=60)

    def work(size: int) -> None:
        with part(size, f"part of {size}", start=1000):
            moved_to(1000 + size // 2)
            halfway.wait()
            seen_it.wait()
            moved_to(900)

    with phase("all", 300), ThreadPoolExecutor(2) as pool:
        tasks = [pool.submit(work, size) for size in (100, 200)]
        halfway.wait()
        seen = state()
        seen_it.wait()
        for task in tasks:
            task.result(60)
        assert seen is not None and seen.phase.startswith("part of") and seen.done == 150
        assert _done() == (300, 300)


def test_parts_nest_and_hide_phases_within() -> None:
    with phase("exporting", 100), part(60):
        with part(20), phase("reading", 7):
            moved_by(5)
            now = state()
            assert now is not None and (now.phase, now.done) == ("exporting", 5)
        assert _done() == (20, 100)
        with part(40, start=10):
            moved_to(30)
            assert _done() == (40, 100)
            moved_by(5)
            assert _done() == (45, 100)
        assert _done() == (60, 100)


def test_without_a_phase_or_part_nothing_happens() -> None:
    moved_to(5)
    moved_by(5)
    with part(10):
        moved_to(5)
        say("nobody listens")
        assert state() is None


def test_a_notice_takes_the_name() -> None:
    seen: list[State | None] = []
    with watched(seen.append), phase("checking", 10), notice("compiling"):
        pass
    assert [now and (now.phase, now.is_held_up) for now in seen] == [
        ("checking", False),
        ("compiling", True),
        ("checking", False),
        None,
    ]
