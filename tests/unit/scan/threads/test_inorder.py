"""Tasks by several threads: results in order, errors in their turn, nothing left behind."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, field

import pytest

from rocketfsck.scan.threads.pieces import AHEAD, in_order


@dataclass
class Log:
    done: list[int] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    closed: list[int] = field(default_factory=list)


@dataclass
class Squarer:
    number: int
    log: Log

    def run(self, task: int) -> int:
        if task < 0:
            raise ValueError(f"no task: {task}")
        self.log.done.append(task)
        self.log.threads.add(threading.get_ident())
        time.sleep(task % 3 / 1000)
        return task * task

    def close(self) -> None:
        self.log.closed.append(self.number)


@pytest.mark.parametrize("jobs", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_results_come_in_order(jobs: int, count: int) -> None:
    log, before = Log(), threading.active_count()
    found = list(in_order(range(count), lambda number: Squarer(number, log), jobs=jobs))
    assert found == [number * number for number in range(count)]
    assert sorted(log.done) == list(range(count))
    assert threading.active_count() == before
    assert sorted(log.closed) == list(range(1, len(log.closed) + 1))
    assert len(log.closed) <= min(jobs, max(count, 1))
    if jobs == 1 and count:
        assert log.threads == {threading.get_ident()}


def test_a_worker_does_its_tasks_in_order() -> None:
    """Tables that grow from task to task tell by it what was met first."""
    done: dict[int, list[int]] = {}

    @dataclass
    class Noter:
        number: int

        def run(self, task: int) -> int:
            done.setdefault(self.number, []).append(task)
            return task

        def close(self) -> None: ...

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # a thread is stopped between any two steps
    try:
        assert list(in_order(range(5000), Noter, jobs=3)) == list(range(5000))
    finally:
        sys.setswitchinterval(usual)
    assert [tasks for tasks in done.values() if tasks != sorted(tasks)] == []


def test_no_more_is_done_than_may_wait() -> None:
    log = Log()
    found = in_order(range(100), lambda number: Squarer(number, log), jobs=3)
    for number in range(20):
        assert next(found) == number * number
        assert len(log.done) <= number + 3 + AHEAD
    found.close()
    done = len(log.done)
    time.sleep(0.01)
    assert len(log.done) == done < 100
    assert log.closed


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_error_comes_in_its_turn(jobs: int) -> None:
    log, before = Log(), threading.active_count()
    found = in_order([1, 2, -3, 4, 5], lambda number: Squarer(number, log), jobs=jobs)
    assert [next(found), next(found)] == [1, 4]
    with pytest.raises(ValueError, match="no task: -3"):
        next(found)
    assert threading.active_count() == before
    assert list(found) == []


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_worker_that_cannot_be_made_is_an_error(jobs: int) -> None:
    def none(number: int) -> Squarer:
        raise OSError(f"worker {number}")

    before = threading.active_count()
    with pytest.raises(OSError, match="worker"):
        list(in_order(range(5), none, jobs=jobs))
    assert threading.active_count() == before
