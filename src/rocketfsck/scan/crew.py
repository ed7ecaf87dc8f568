"""Tasks done by several threads, whose results come in the order of the tasks.

Whoever waits for a result does another task meanwhile, so that no thread stands between those that work and
the one that wants their results: with two cores, two threads are busy, not two of three.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from queue import SimpleQueue
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

AHEAD = 2
"""Results that may wait to be taken, besides one for each thread."""

Task = TypeVar("Task")
Asked = TypeVar("Asked", contravariant=True)
Done = TypeVar("Done")
Given = TypeVar("Given", covariant=True)


class Hand(Protocol[Asked, Given]):
    """What one thread works with, from task to task."""

    def run(self, task: Asked) -> Given: ...

    def close(self) -> None: ...


def in_order(
    tasks: Sequence[Task], new_hand: Callable[[int], Hand[Task, Done]], *, jobs: int
) -> Generator[Done, None, None]:
    """Do all tasks on `jobs` threads, the asking one among them, and yield what came of them in their order.

    At most `jobs` + AHEAD results are in memory. Hands are made where they are used, and numbered from 1 on.
    What a task raises is raised here, when it is its turn; nothing is done after that, nor after the
    iteration was left.
    """
    with _Crew(new_hand, min(jobs, len(tasks)) - 1) as crew:
        ordered = 0
        for wanted in range(len(tasks)):
            while ordered < min(wanted + jobs + AHEAD, len(tasks)):
                crew.order(ordered, tasks[ordered])
                ordered += 1
            yield crew.result(wanted)


def taken(orders: deque[Task]) -> Task | None:
    """The oldest order, taken out; None if other threads have taken all."""
    try:
        return orders.popleft()
    except IndexError:
        return None


class _Crew(Generic[Task, Done]):
    """The threads, and the hand of whoever waits for them. A context manager: leaving it ends them."""

    def __init__(self, new_hand: Callable[[int], Hand[Task, Done]], thread_count: int) -> None:
        numbers = itertools.count(1)
        self._new_hand = lambda: new_hand(next(numbers))
        self._own = _Lazy(self._new_hand)
        self._orders: deque[tuple[int, Task]] = deque()  # not begun yet
        self._bell: SimpleQueue[bool] = SimpleQueue()  # True: look for an order, False: end
        self._answers: SimpleQueue[tuple[int, Done | BaseException]] = SimpleQueue()
        self._ready: dict[int, Done | BaseException] = {}
        self._threads = [
            threading.Thread(target=self._serve, name="rocketfsck-scan", daemon=True)
            for _ in range(thread_count)
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._orders.clear()
        for _ in self._threads:
            self._bell.put(False)
        for thread in self._threads:
            thread.join()
        self._own.close()

    def order(self, number: int, task: Task) -> None:
        self._orders.append((number, task))
        self._bell.put(True)

    def result(self, wanted: int) -> Done:
        """What came of a task; raises what was raised there."""
        while wanted not in self._ready:
            order = taken(self._orders)
            if order is None:
                self._accept()
            else:
                self._ready[order[0]] = self._own.do(order[1])
            while not self._answers.empty():
                self._accept()
        found = self._ready.pop(wanted)
        if isinstance(found, BaseException):
            raise found
        return found

    def _accept(self) -> None:
        number, found = self._answers.get()
        self._ready[number] = found

    def _serve(self) -> None:
        hand = _Lazy(self._new_hand)
        while self._bell.get():
            order = taken(self._orders)
            if order is not None:
                self._answers.put((order[0], hand.do(order[1])))
        hand.close()


class _Lazy(Generic[Task, Done]):
    """One thread's hand, made when there is work."""

    def __init__(self, new_hand: Callable[[], Hand[Task, Done]]) -> None:
        self._new_hand = new_hand
        self._hand: Hand[Task, Done] | None = None

    def do(self, task: Task) -> Done | BaseException:
        """What comes of the task, or what it raises: the thread that asks for it raises it again."""
        try:
            if self._hand is None:
                self._hand = self._new_hand()
            return self._hand.run(task)
        except BaseException as error:  # noqa: BLE001
            return error

    def close(self) -> None:
        if self._hand is not None:
            self._hand.close()
