"""What this process is doing, how far it is, and whether anybody still wants it.

    with phase("comparing the stores", total) as at:    what is done; phases nest
        with part(size, "the commit log"):              a piece of it, on any thread
            moved_to(position)                          how far that thread is in its piece

Nothing here draws or prints. `state` says at any time what is under way (the command line asks it once a
second), and `watched` calls a function at every change. Work that runs elsewhere, on a cluster, reports when
it is back.

    with stoppable(ask):    the work of this thread calls `ask` again and again, which raises to end it

Every read of a file asks (`store.reading`), and whatever says how far it is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

Unit = Literal["bytes", "files", "queues", "rows"]


@dataclass(frozen=True, slots=True)
class State:
    """How far the innermost phase is. `number` tells phases of the same name apart.

    `phase` joins the names of all phases that are open by ": ". `total` is None where nobody knows it; `done`
    is then 0 where the phase does not count. `started` is a `time.monotonic()` value; `note` is what happens
    elsewhere, like "Spark: 3 of 12 tasks", or "". `is_held_up`: the phase waits for what `phase` names.
    """

    phase: str
    done: int
    total: int | None
    unit: Unit
    started: float
    note: str
    number: int
    is_held_up: bool = False


class PhasePart:
    """A piece of a phase, which one thread works on: positions from `start` on, `size` of them."""

    __slots__ = ("_before", "done", "name", "outer", "size", "start")

    def __init__(self, size: int, name: str, start: int, outer: PhasePart | None) -> None:
        self.size = size
        self.name = name
        self.start = start
        self.outer = outer
        self.done = 0
        self._before = 0 if outer is None else outer.done

    def reach(self, done: int) -> None:
        """Say that so much of it is done; less than before changes nothing."""
        piece: PhasePart | None = self
        while piece is not None:
            piece.done = max(piece.done, min(done, piece.size))
            done = piece._before + piece.done
            piece = piece.outer


class Phase:
    """One phase. `at` and `add` may be called from any thread."""

    __slots__ = ("_done", "_lock", "name", "note", "number", "parts", "started", "total", "unit")

    def __init__(self, name: str, total: int | None, unit: Unit, number: int, done: int) -> None:
        self.name = name
        self.total = total
        self.unit: Unit = unit
        self.number = number
        self.note = ""
        self.started = time.monotonic()
        self.parts: list[PhasePart] = []
        self._done = done
        self._lock = threading.Lock()

    @property
    def done(self) -> int:
        """What is done, with the pieces under way."""
        with self._lock:
            done = self._done + sum(part.done for part in self.parts)
        return done if self.total is None else min(done, self.total)

    def at(self, done: int) -> None:
        """Say what is done in all, without the pieces under way; less than before changes nothing."""
        with self._lock:
            self._done = max(self._done, done)
        _changed()

    def add(self, count: int) -> None:
        """Say that so much more is done."""
        with self._lock:
            self._done += count
        _changed()

    def begin(self, part: PhasePart) -> None:
        """Take a piece in."""
        with self._lock:
            self.parts.append(part)

    def end(self, part: PhasePart) -> None:
        """The piece is done as a whole, or given up."""
        with self._lock:
            self.parts.remove(part)
            self._done += part.size


class _Here(threading.local):
    """What this thread works on, and what it asks whether to go on."""

    part: PhasePart | None = None
    ask: Callable[[], None] | None = None


_here = _Here()
_lock = threading.Lock()
_phases: list[Phase] = []
_notices: list[str] = []
_watchers: list[Callable[[State | None], None]] = []
_numbers = 0


@contextmanager
def stoppable(ask: Callable[[], None] | None) -> Iterator[None]:
    """Do work of this thread that ends as soon as `ask` raises; None asks nothing."""
    before, _here.ask = _here.ask, ask
    try:
        yield
    finally:
        _here.ask = before


def asked_here() -> Callable[[], None] | None:
    """What this thread asks whether to go on, for another thread that does a part of its work."""
    return _here.ask


def go_on() -> None:
    """Raise what `stoppable` was given to raise, where nobody wants the work of this thread any more."""
    if _here.ask is not None:
        _here.ask()


@contextmanager
def phase(name: str, total: int | None = None, unit: Unit = "bytes", *, done: int = 0) -> Iterator[Phase]:
    """Do something that has a name, of `total` units, of which some are `done` already.

    Inside a `part` the phase is nobody's but the caller's: the driver of the work names what happens.
    """
    global _numbers
    go_on()
    with _lock:
        _numbers += 1
        new = Phase(name, total, unit, _numbers, done)
        if _here.part is None:
            _phases.append(new)
    _changed()
    try:
        yield new
    finally:
        with _lock:
            if new in _phases:
                _phases.remove(new)
        _changed()


@contextmanager
def part(size: int, name: str = "", start: int = 0) -> Iterator[None]:
    """Do a piece of `size` units of the phase under way, on this thread. Parts nest.

    `name` stands for the phase's own while the piece is under way, `start` is the position that `moved_to`
    counts from.
    """
    outer = _here.part
    mine = PhasePart(size, name, start, outer)
    with _lock:
        whole = _phases[-1] if _phases and outer is None else None
    if whole is not None:
        whole.begin(mine)
        _changed()
    _here.part = mine
    try:
        yield
    finally:
        _here.part = outer
        if whole is not None:
            whole.end(mine)
        mine.reach(size)
        _changed()


def moved_to(position: int) -> None:
    """Say how far this thread is in its part; without one nothing happens."""
    go_on()
    mine = _here.part
    if mine is not None:
        mine.reach(position - mine.start)
        _changed()


def moved_by(count: int) -> None:
    """Say that this thread has done so much more of its part."""
    go_on()
    mine = _here.part
    if mine is not None:
        mine.reach(mine.done + count)
        _changed()


def say(note: str) -> None:
    """Say of the phase under way what happens where no count tells it."""
    with _lock:
        inner = _phases[-1] if _phases else None
    if inner is not None:
        inner.note = note
        _changed()


@contextmanager
def notice(text: str) -> Iterator[None]:
    """Something that holds the work up has this name for as long as it takes, whatever phase is under way."""
    with _lock:
        _notices.append(text)
    _changed()
    try:
        yield
    finally:
        with _lock:
            _notices.remove(text)
        _changed()


def state() -> State | None:
    """What is under way now; None for nothing."""
    with _lock:
        phases, notices = tuple(_phases), tuple(_notices)
    if not phases:
        return None
    inner = phases[-1]
    names = [phase.name for phase in phases]
    running = next(iter(inner.parts), None)
    if running is not None and running.name:
        names[-1] = running.name
    text = notices[-1] if notices else ": ".join(names)
    return State(
        text, inner.done, inner.total, inner.unit, inner.started, inner.note, inner.number, bool(notices)
    )


@contextmanager
def watched(stated: Callable[[State | None], None]) -> Iterator[None]:
    """Call `stated` with the state at every change, from the thread that makes it: it must be quick, and may
    not raise."""
    _watchers.append(stated)
    try:
        yield
    finally:
        _watchers.remove(stated)


def _changed() -> None:
    if _watchers:
        now = state()
        for stated in tuple(_watchers):
            stated(now)
