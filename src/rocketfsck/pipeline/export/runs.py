"""Runs in an object store: each has a directory of its own, and shows that its driver lives.

    URL/run-<16 hex digits>/_owner    written again every minute as long as the driver works
                           /…         the files of the run

There are no locks. A run that has written nothing for a quarter of an hour, by the clock of the store, is a
killed one: the next run deletes its objects unless a commit names it, first of all `_owner`. A driver commits
only while its own `_owner` is there and was written in time, and never writes a deleted one again, so a
driver that was stopped for as long commits nothing whose objects are gone.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rocketfsck.errors import StoreError
from rocketfsck.pipeline.export.existing import RUN_NAME
from rocketfsck.pipeline.export.model import SUCCESS
from rocketfsck.pipeline.export.objects import Objects

OWNER = "_owner"
BEAT_SECONDS = 60.0
LEASE_SECONDS = 900.0


@dataclass(slots=True)
class ObjectRun:
    """A run below the table's URL. With `keep` its objects stay, whatever error follows."""

    table: Objects
    name: str
    keep: bool = False
    _beaten: float = 0.0  # time.time(): a machine may sleep
    _done: threading.Event = field(default_factory=threading.Event)

    @property
    def objects(self) -> Objects:
        """The objects of the run."""
        return self.table.below(self.name)

    def beat(self) -> None:
        """Show that the driver lives. Raises StoreError."""
        at = time.time()
        self.objects.put(OWNER, b"")
        self._beaten = at

    @property
    def is_owned(self) -> bool:
        """Whether no other run can have taken this one for dead. Raises StoreError."""
        return time.time() - self._beaten < LEASE_SECONDS / 2 and self.objects.exists(OWNER)

    def beats(self) -> None:
        """Do so until the run is done; one that fails is made up for by the next."""
        while not self._done.wait(BEAT_SECONDS):
            try:
                if not self.is_owned:
                    return
                self.beat()
            except StoreError:
                continue

    def end(self) -> None:
        """No beat follows."""
        self._done.set()

    def demand_owned(self) -> None:
        """Raise StoreError if another run may have taken this one for dead."""
        if not self.is_owned:
            raise StoreError(
                "this run did not reach the object store for too long, so nothing was committed",
                path=self.table.url(self.name),
            )


@contextmanager
def object_run(table: Objects, name: str | None = None) -> Iterator[ObjectRun]:
    """A new run of this driver, called `run-…` unless it has a name.

    With an error nothing is left of it, unless `keep`. Raises StoreError.
    """
    run = ObjectRun(table, name or f"run-{secrets.token_hex(8)}")
    beating = threading.Thread(target=run.beats, name="rocketfsck-owner", daemon=True)
    try:
        run.beat()
        beating.start()
        yield run
    except BaseException:
        _end(run, beating)
        if not run.keep:
            _delete_quietly(run)
        raise
    _end(run, beating)
    run.objects.delete(OWNER)


def _end(run: ObjectRun, beating: threading.Thread) -> None:
    run.end()
    if beating.is_alive():
        beating.join()


def _delete_quietly(run: ObjectRun) -> None:
    try:
        run.table.delete(run.name)
    except StoreError:
        return  # the next run deletes the rest


def claim_dead(run: ObjectRun, pattern: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """The names of runs next to this one, without an end, that are dead, and of those that may be alive.

    The dead ones have no owner from then on. Raises StoreError.
    """
    table = run.table
    now = run.objects.last_change(OWNER)
    dead: list[str] = []
    active: list[str] = []
    for name in table.top_names():
        if not pattern.fullmatch(name) or name == run.name or table.exists(f"{name}/{SUCCESS}"):
            continue
        (active if now - table.last_change(name) < LEASE_SECONDS else dead).append(name)
    for name in dead:
        table.delete(f"{name}/{OWNER}")
    return dead, active


@dataclass(frozen=True, slots=True)
class Cleared:
    """Names of runs: those deleted, and those that may be alive."""

    leftovers: tuple[str, ...]
    active: tuple[str, ...]


def clear_object_runs(run: ObjectRun, committed: Callable[[], frozenset[str]]) -> Cleared:
    """Delete the runs of killed drivers that no commit names. Raises StoreError.

    `committed` is asked for the names of committed runs when the owners are known to be gone.
    """
    table = run.table
    dead, active = claim_dead(run, RUN_NAME)
    named = committed() if dead or active else frozenset()
    for name in dead:
        if name in named:
            table.put(f"{name}/{SUCCESS}", b"")
        else:
            table.delete(name)
    return Cleared(
        tuple(name for name in dead if name not in named),
        tuple(name for name in active if name not in named),
    )
