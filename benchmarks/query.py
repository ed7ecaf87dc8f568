"""What is measured of queries: the processor time of one query by key, opening the store included.

The index is a full one of the default geometry; a key's chain has some four entries in it. Imports are not
counted.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rocketfsck.api import iter_messages
from rocketfsck.query import BrokerView, find_by_key
from rocketfsck.store import open_store

from benchmarks import data
from benchmarks.commands import made_store
from benchmarks.measure import Row

CPU_GOAL = 0.05
KEY_COUNT = 20


def query_rows(folder: Path, size: int, rounds: int, *, with_goals: bool) -> Iterator[Row]:
    """A key that is not in a full index, and keys of the messages of a made store."""
    goal = 1.0 if with_goals else None
    slots, entries = (data.SLOT_COUNT, data.ENTRY_COUNT) if with_goals else (5000, 20_000)
    root = data.full_index(folder, slots, entries).root
    yield _row("query by key, full index file, not found", rounds, goal, lambda: _ask(root, "nothing"))
    made = made_store(folder, size)
    messages = itertools.islice(iter_messages(open_store(made), max_body_size=0), KEY_COUNT)
    asked = itertools.cycle([(message.topic, message.unique_key or "") for message in messages])

    def found() -> None:
        topic, key = next(asked)
        assert find_by_key(open_store(made), topic, key, unique=True).found

    def answered() -> None:
        topic, key = next(asked)
        with BrokerView(open_store(made), "5.3.3") as broker:
            assert broker.index_query_offset(topic, key).offsets

    yield _row("query by unique key, made store, found", rounds, goal, found)
    yield _row("query by unique key, made store, as a broker's index", rounds, goal, answered)


def _ask(root: Path, key: str) -> None:
    find_by_key(open_store(root), "TopicTest", key, via="index")


def _row(job: str, rounds: int, goal: float | None, question: Callable[[], None]) -> Row:
    least = float("inf")
    for number in range(rounds + 1):
        started = time.process_time()
        question()
        if number:
            least = min(least, time.process_time() - started)
    return Row(job, least * 1000, f"{CPU_GOAL:g} s of CPU", least / CPU_GOAL, goal)
