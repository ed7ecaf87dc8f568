"""The local engine: every task once, deadlines, errors, and threads that really run side by side."""

from __future__ import annotations

import threading
import time

import pytest

from rocketfsck.engine import LocalEngine


def double(task: int) -> int:
    return task * 2


@pytest.mark.parametrize("jobs", [0, 1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 23])
def test_every_task_gives_one_outcome(jobs: int, count: int) -> None:
    outcomes = sorted(LocalEngine(jobs).run(double, list(range(count))), key=lambda outcome: outcome.index)
    assert [(outcome.index, outcome.task, outcome.result) for outcome in outcomes] == [
        (number, number, number * 2) for number in range(count)
    ]
    assert all(outcome.seconds >= 0 for outcome in outcomes)


@pytest.mark.parametrize("jobs", [1, 2])
def test_nothing_starts_after_the_deadline(jobs: int) -> None:
    started: list[int] = []
    outcomes = list(LocalEngine(jobs).run(started.append, [1, 2, 3], deadline=time.monotonic()))
    assert started == []
    assert [outcome.result for outcome in outcomes] == [None, None, None]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_in_a_kernel_is_raised(jobs: int) -> None:
    def fail(task: int) -> int:
        if task == 3:
            raise ValueError("task 3")
        return task

    with pytest.raises(ValueError, match="task 3"):
        list(LocalEngine(jobs).run(fail, list(range(8))))


def test_two_jobs_run_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=20)
    outcomes = list(LocalEngine(2).run(lambda _task: both.wait() >= 0, [1, 2]))
    assert [outcome.result for outcome in outcomes] == [True, True]


def test_leaving_early_does_not_run_the_rest() -> None:
    seen: list[int] = []
    for _outcome in LocalEngine(2).run(seen.append, list(range(1000))):
        break
    assert len(seen) < 1000
