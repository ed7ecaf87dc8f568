"""Tasks done by several threads, whose results come in the order of the tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count, islice
from typing import Protocol, TypeVar

from rocketfsck.common.budget import current, using
from rocketfsck.progress import asked_here, stoppable

AHEAD = 2
"""Results that may wait to be taken, besides one for each thread."""

Task = TypeVar("Task")
Asked = TypeVar("Asked", contravariant=True)
Done = TypeVar("Done")
Given = TypeVar("Given", covariant=True)


class Worker(Protocol[Asked, Given]):
    """What one thread works with, from task to task."""

    def run(self, task: Asked) -> Given: ...

    def close(self) -> None: ...


def in_order(
    tasks: Sequence[Task], new_worker: Callable[[int], Worker[Task, Done]], *, jobs: int
) -> Generator[Done, None, None]:
    """Do all tasks on `jobs` threads and yield their results in order; one job takes no thread.

    At most `jobs` + AHEAD results are in memory. Workers are numbered from 1 on. An error of a task is raised
    here, when it is the task's turn. No task starts after that, nor after the iteration was left.
    """
    idle: deque[Worker[Task, Done]] = deque()
    numbers = count(1)
    ask, budget = asked_here(), current()

    def work(task: Task) -> Done:
        try:
            worker = idle.pop()
        except IndexError:  # asking first would race: two threads may see the same last one
            worker = new_worker(next(numbers))
        try:
            with stoppable(ask), using(budget):
                return worker.run(task)
        finally:
            idle.append(worker)

    try:
        if jobs <= 1:
            yield from map(work, tasks)
        elif tasks:
            yield from _on_threads(tasks, work, jobs)
    finally:
        for worker in idle:
            worker.close()


def _on_threads(
    tasks: Sequence[Task], work: Callable[[Task], Done], jobs: int
) -> Generator[Done, None, None]:
    with ThreadPoolExecutor(min(jobs, len(tasks)), "rocketfsck-scan") as pool:
        pending: deque[Future[Done]] = deque()
        waiting = iter(tasks)
        try:
            while True:
                room = jobs + AHEAD - len(pending)
                pending.extend(pool.submit(work, task) for task in islice(waiting, room))
                if not pending:
                    return
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
