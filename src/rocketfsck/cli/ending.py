"""Signals that end a command: SIGTERM and SIGHUP end it as Ctrl-C does, and nothing is left of its work."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Handler = Callable[[int, Any], Any] | int | None
"""What the signal module says of a signal: what is called, or what the system does."""
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class TerminatedError(KeyboardInterrupt):
    """Somebody wants the process to end, who is not at the keyboard."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raise TerminatedError at the first signal within the block; more of them do not stop the cleaning up.

    A signal that whoever started the process wants ignored (`nohup`) stays ignored.
    """
    before: dict[int, Handler] = {}

    def end(_number: int, _frame: object) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise TerminatedError

    try:
        for number in _SIGNALS:
            if signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, end)
    except ValueError:  # not the main thread: whoever runs us there handles signals
        pass
    try:
        yield
    finally:
        for changed, handler in before.items():
            signal.signal(changed, handler)
