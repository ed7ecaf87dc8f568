"""Tells people and programs what a command is doing and how far it is (`rocketfsck.progress` knows it).

A thread looks twice a second, so that something moves whatever the work does: a line on standard error where
that is a terminal, or lines of JSON on a descriptor. The thread also answers SIGUSR1 with one line on
standard error, and SIGUSR2 turns the line on and off: the signals reach the thread through a pipe, so that
they are answered while a kernel runs, too. Nothing here may hold up or end the command: what cannot be
written at once is left out.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any

from rocketfsck import progress
from rocketfsck.cli.lang import said
from rocketfsck.cli.output import SCHEMA_VERSION, to_json
from rocketfsck.cli.show.text import LEAST, MOST, byte_size, shorten, visible, width
from rocketfsck.common.wording import duration

DELAY_SECONDS = 1.0
"""A command that is done by then shows no line."""
LOOK_SECONDS = 0.5
SAID_SECONDS = 1.0
PLAIN_SECONDS = 10.0
"""Between two lines on a terminal that cannot go back to the beginning of one."""
RATE_SECONDS = 15.0
"""The rate is that of the last seconds."""
FAREWELL_SECONDS = 0.5
"""How long the last line of JSON waits for a reader that is busy."""

_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)
_COUNTS = "/proc/self/io"
_BAR_COLUMNS = 20
_SPINNER = "|/-\\"


class Meter:
    """Rate and remaining time of the phase under way, from what was seen of it."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self._number = -1
        self._seen: deque[tuple[float, int]] = deque()
        self._read = bytes_read()

    def look(self, now: progress.State | None) -> dict[str, Any]:
        """What there is to say now, as the members of a line of JSON."""
        moment = time.monotonic()
        document: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "type": "progress",
            "phase": "" if now is None else now.phase,
            "done": 0,
            "total": None,
            "unit": "bytes",
            "rate": 0.0,
            "elapsed_seconds": round(moment - self.started, 1),
            "eta_seconds": None,
            "note": "" if now is None else now.note,
        }
        if now is None:
            return document
        if now.number != self._number:
            self._number, self._read = now.number, bytes_read()
            self._seen.clear()
            self._seen.append((now.started, 0))
        done = now.done
        if now.total is None and not done and now.unit == "bytes":
            done = bytes_read() - self._read
        if now.is_held_up:  # the time that the rate is made from begins behind this
            self._seen.clear()
        self._seen.append((moment, done))
        while len(self._seen) > 1 and moment - self._seen[1][0] > RATE_SECONDS:
            self._seen.popleft()
        then, before = self._seen[0]
        rate = (done - before) / (moment - then) if moment > then else 0.0
        left = None if now.total is None or rate <= 0 else round((now.total - done) / rate, 1)
        return document | {
            "done": done,
            "total": now.total,
            "unit": now.unit,
            "rate": round(rate, 1),
            "eta_seconds": left,
        }


def bytes_read() -> int:
    """How many bytes this process has read, as the system counts; 0 where it does not."""
    try:
        with open(_COUNTS, "rb") as file:  # noqa: PTH123 - twice a second
            return int(file.read().split(b"\n", 1)[0].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


class Monitor:
    """What one run of a command shows of its progress. `finish` ends it."""

    def __init__(self, form: str = "auto", descriptor: int | None = None, *, quiet: bool = False) -> None:
        """`descriptor` is for the form `json`, and the monitor's own."""
        self.meter = Meter()
        self._descriptor = descriptor if form == "json" else None
        self._shows = form == "auto" and not quiet and sys.stderr.isatty()
        self._hidden = 0
        self._is_plain = not sys.stderr.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "")
        self._drawn = False
        self._spun = 0
        self._said = self._stated = 0.0
        self._number = -1
        self._lock = threading.RLock()
        self._wake: tuple[int, int] | None = None
        self._thread: threading.Thread | None = None
        self._stack = ExitStack()

    def start(self) -> None:
        """Begin to look."""
        read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._wake = read, write
        self._stack.callback(os.close, read)
        self._stack.callback(os.close, write)
        for number in _SIGNALS:
            with suppress(ValueError):  # not the main thread: whoever runs us there handles signals
                before = signal.signal(number, self._signalled) or signal.SIG_DFL
                self._stack.callback(signal.signal, number, before)
        with suppress(ValueError):
            self._stack.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(write, warn_on_full_buffer=False))
        self._stack.enter_context(progress.watched(self._changed))
        self._thread = threading.Thread(
            target=self._run, args=(read,), name="rocketfsck-progress", daemon=True
        )
        self._thread.start()

    def finish(self, exit_status: int) -> None:
        """Take the line away and say how the command ended; a second time does nothing."""
        if self._thread is None:
            return
        assert self._wake is not None
        with suppress(OSError):
            os.write(self._wake[1], b"q")
        self._thread.join()
        self._thread = None
        with self._lock:
            self._erase()
            elapsed = round(time.monotonic() - self.meter.started, 1)
            self._put(
                {
                    "schema_version": SCHEMA_VERSION,
                    "type": "end",
                    "exit_status": exit_status,
                    "elapsed_seconds": elapsed,
                },
                FAREWELL_SECONDS,
            )
            self._stop_json()
        self._stack.close()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Draw nothing for as long as the terminal belongs to something else."""
        with self._lock:
            self._hidden += 1
            self._erase()
        try:
            yield
        finally:
            with self._lock:
                self._hidden -= 1

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        """The pipe has the number already; this only keeps the signal from ending the process."""

    def _run(self, pipe: int) -> None:
        while True:
            ready, _, _ = select.select([pipe], [], [], LOOK_SECONDS)
            asked = b""
            with suppress(BlockingIOError):
                asked = os.read(pipe, 4096) if ready else b""
            if b"q" in asked:
                return
            with self._lock:
                if signal.SIGUSR2 in asked:
                    self._shows = not self._shows
                    self._erase()
                if signal.SIGUSR1 in asked:
                    self._answer()
                self._look()

    def _changed(self, now: progress.State | None) -> None:
        """Called at every change, by the thread that makes it: a new phase is said at once, and where there
        is none any more, whoever writes next finds the line gone."""
        if now is None:
            if self._drawn:
                with self._lock:
                    self._erase()
        elif now.number != self._number and self._descriptor is not None:
            with self._lock:
                self._number = now.number
                self._put(self.meter.look(now))

    def _look(self) -> None:
        now, moment = progress.state(), time.monotonic()
        if self._descriptor is not None and moment - self._said >= SAID_SECONDS - LOOK_SECONDS / 2:
            self._said = moment
            self._put(self.meter.look(now))
        if not self._shows or self._hidden or now is None or moment - self.meter.started < DELAY_SECONDS:
            return
        document = self.meter.look(now)
        if not self._is_plain:
            self._draw(document)
        elif moment - self._stated >= PLAIN_SECONDS:
            self._stated = moment
            self._write(f"{plain_line(document)}\n")

    def _draw(self, document: dict[str, Any]) -> None:
        self._spun += 1
        text = bar_line(document, _columns(), _SPINNER[self._spun % len(_SPINNER)])
        self._write(f"\r{text}\x1b[K")
        self._drawn = True

    def _erase(self) -> None:
        if self._drawn:
            self._drawn = False
            self._write("\r\x1b[K")

    def _answer(self) -> None:
        self._erase()
        self._write(f"rocketfsck: {plain_line(self.meter.look(progress.state()))}\n")

    def _write(self, text: str) -> None:
        """Write to standard error, if it takes it at once."""
        with suppress(OSError, ValueError, AttributeError):
            descriptor = sys.__stderr__.fileno() if sys.__stderr__ is not None else 2
            if _takes(descriptor, 0.0):
                os.write(descriptor, text.encode(errors="backslashreplace"))

    def _put(self, document: dict[str, Any], seconds: float = 0.0) -> None:
        """Write a line of JSON, if whoever reads takes it; the first error is the end of all lines."""
        if self._descriptor is None:
            return
        line = to_json(document).encode() + b"\n"
        try:
            if _takes(self._descriptor, seconds):
                os.write(self._descriptor, line)
        except OSError:
            self._stop_json()

    def _stop_json(self) -> None:
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None


def _takes(descriptor: int, seconds: float) -> bool:
    """Whether a line can be written without waiting longer. A pipe that is ready takes 4096 bytes or more."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return any(event & select.POLLOUT or event & select.POLLERR for _, event in poll.poll(seconds * 1000))


def _columns() -> int:
    try:
        known = os.get_terminal_size(2).columns
    except OSError:
        known = 0
    return min(known or LEAST, MOST) - 1


def _amounts(document: dict[str, Any]) -> tuple[str, str, str, str]:
    """What is done, the percentage, the rate, and the time that is left; each may be ""."""
    done, total, unit, rate = (document[name] for name in ("done", "total", "unit", "rate"))
    show = byte_size if unit == "bytes" else lambda count: f"{count:,}"
    counted = show(done) if total is None else f"{show(done)} of {show(total)}"
    if unit != "bytes":
        counted += f" {unit}"
    elif total is None:
        counted = f"{counted} read" if done else ""
    percent = f"{done * 100 // total} %" if total else ""
    speed = f"{show(int(rate))}/s" if rate >= 1 else ""
    left = document["eta_seconds"]
    return counted, percent, speed, "" if left is None else f"{duration(left)} left"


def plain_line(document: dict[str, Any]) -> str:
    """One line with everything: what, how much, how fast, since when, how long."""
    elapsed = f"{duration(document['elapsed_seconds'])} so far"
    counted, percent, speed, left = _amounts(document)
    parts = [counted, percent, speed, elapsed, left, visible(document["note"])]
    amounts = ", ".join(part for part in parts if part)
    return f"{said(visible(document['phase'])) or 'working'}: {amounts}"


def bar_line(document: dict[str, Any], columns: int, spin: str) -> str:
    """The line of a terminal, at most `columns` wide: parts that do not fit are left out, the last first."""
    counted, percent, speed, left = _amounts(document)
    bar = ""
    if document["total"]:
        filled = min(document["done"] * _BAR_COLUMNS // document["total"], _BAR_COLUMNS)
        bar = f"[{'=' * filled}{' ' * (_BAR_COLUMNS - filled)}]"
    seconds = document["elapsed_seconds"]
    elapsed = f"{int(seconds)} s" if seconds < 10 else duration(seconds)
    wanted = (percent, elapsed, counted, left, speed, visible(document["note"]), bar)
    name = shorten(said(visible(document["phase"])), max(columns // 2, 20))
    room = columns - width(name) - 2
    kept: set[int] = set()
    for number, text in enumerate(wanted):
        if text and width(text) + 2 <= room:
            room -= width(text) + 2
            kept.add(number)
    order = (6, 0, 2, 4, 1, 3, 5)  # as people read: bar, percentage, amount, rate, elapsed, left, note
    return "  ".join([f"{spin} {name}", *(wanted[number] for number in order if number in kept)])
