"""The bound on memory: the jobs that fit, and the guard."""

from __future__ import annotations

import ctypes
import signal
import threading
import time

import pytest

from rocketfsck.common.budget import core_count, within
from rocketfsck.engine import LocalEngine
from rocketfsck.engine import passes as module
from rocketfsck.engine.passes import MIB, Need, bounded_memory, give_back_memory, memory_size
from rocketfsck.errors import StoreError, UsageError

NEED = Need(100 * MIB, 50 * MIB)


def test_jobs_follow_from_the_bound() -> None:
    assert [NEED.job_count(size * MIB) for size in (150, 199, 200, 1000)] == [1, 1, 2, 18]
    with pytest.raises(UsageError, match="at least 150 MiB"):
        NEED.job_count(150 * MIB - 1)


def test_no_more_threads_than_allowed() -> None:
    before = core_count()
    with within(jobs=1):
        assert core_count() == 1
        assert LocalEngine(8).job_count == 1
        assert LocalEngine().job_count == 1
        with within(jobs=8):
            assert LocalEngine(8).job_count == 1
    assert core_count() == before
    assert LocalEngine(8).job_count == 8


def test_what_is_free_is_given_back() -> None:
    """Between blocks in use the C library keeps what is free."""
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("only glibc has malloc_trim")
    blocks = [b"x" * 60_000 for _ in range(2000)]
    last = blocks[-1]
    blocks.clear()
    before = memory_size()
    give_back_memory()
    after = memory_size()
    assert before is not None
    assert after is not None
    assert before - after > 50 * MIB
    assert len(last) == 60_000


def test_the_guard_ends_what_goes_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "memory_size", lambda: 201 * MIB)
    started = time.monotonic()
    with pytest.raises(StoreError, match="more than the 200 MiB"), bounded_memory(200 * MIB, NEED):
        time.sleep(60)
    assert time.monotonic() - started < 30
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert core_count() == LocalEngine().job_count


def test_nothing_happens_within_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def size() -> int:
        looks.append(1)
        return 200 * MIB

    monkeypatch.setattr(module, "memory_size", size)
    before = signal.getsignal(signal.SIGALRM)
    with bounded_memory(200 * MIB, NEED) as jobs:
        assert jobs == 2
        time.sleep(0.7)
    assert looks
    assert signal.getsignal(signal.SIGALRM) == before


def test_another_thread_has_the_jobs_but_no_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "memory_size", lambda: 1 << 60)
    found: list[int] = []

    def work() -> None:
        with bounded_memory(200 * MIB, NEED) as jobs:
            time.sleep(0.5)
            found.append(jobs)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [2]
