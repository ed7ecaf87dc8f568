"""What the tasks of one check have in common in a process: made once, by the task that asks first.

A value costs a step for each queue of the store, say, which no task may take again. Values never travel: on
another machine, or in another process, the tasks that run there make their own.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar, cast

from rocketfsck.store.model import Store

Made = TypeVar("Made")


class Shared:
    """Values by what makes them, and of which store. Safe to use by several threads."""

    __slots__ = ("_lock", "_made", "asked")

    def __init__(self) -> None:
        self._lock = Lock()
        self.asked: dict[str, int] = {}
        self._made: dict[tuple[Callable[[Store], Any], int], tuple[Store, Any]] = {}

    def __reduce__(self) -> tuple[type[Shared], tuple[()]]:
        return Shared, ()

    def made(self, maker: Callable[[Store], Made], store: Store) -> Made:
        """What `maker(store)` gave the first time that it was asked for."""
        key = maker, id(store)  # the store is kept with the value, so that no other one gets its id
        with self._lock:
            if key not in self._made:
                self._made[key] = store, maker(store)
            return cast(Made, self._made[key][1])

    def ask(self, rule: str, count: int) -> None:
        """Count places of which a check of the driver asked a rule; tasks have their `Collector.ask`."""
        with self._lock:
            self.asked[rule] = self.asked.get(rule, 0) + count
