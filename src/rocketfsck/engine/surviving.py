"""Runs tasks of which some may take their worker with them, whatever machine they run on.

Where the engine gives up as a whole (a worker died each time that it had a certain task), the tasks that are
left are tried again in halves, until the one that does it is alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rocketfsck.engine.seam import Engine, Result, Task
from rocketfsck.errors import LostError, StoreError


@dataclass(frozen=True, slots=True)
class Dead:
    """A task that no worker survived, and what the engine said."""

    error: StoreError


def surviving(
    engine: Engine,
    kernel: Callable[[Task], Result],
    tasks: Sequence[Task],
    halves: Callable[[Task], Sequence[Task]] = lambda _: (),
) -> Iterator[tuple[Task, Result | Dead, float]]:
    """Yield each task with its result, or that it is dead, and the seconds that it took; in any order.

    `halves` cuts a task that kills in two; it gives nothing for one that cannot be cut. Raises what a kernel
    raises.
    """
    left = dict(enumerate(tasks))
    try:
        for outcome in engine.run(kernel, tasks) if tasks else ():
            assert outcome.result is not None  # no deadline was given
            yield left.pop(outcome.index), outcome.result, outcome.seconds
        return
    except LostError as error:
        failure = error
    rest = list(left.values())
    if not rest:
        return
    if len(tasks) > 1:
        middle = (len(rest) + 1) // 2
        groups = [rest[:middle], rest[middle:]]
    else:
        groups = [[half] for half in halves(rest[0])]
        if not groups:
            yield rest[0], Dead(failure), 0.0
    for group in groups:
        yield from surviving(engine, kernel, group, halves)
