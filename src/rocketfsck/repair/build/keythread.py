"""Keys taken on a thread of their own, in order, with few batches in between."""

from __future__ import annotations

import threading
from queue import Queue
from types import TracebackType
from typing import Protocol, Self

from rocketfsck.scan.buildrows import KeyRows

WAITING_COUNT = 4
"""Batches that may wait to be taken."""


class KeyTaker(Protocol):
    """Whoever wants the records and their keys."""

    def take_keys(self, rows: KeyRows) -> None:
        """Take records and their keys."""


class KeyThread:
    """A context manager around a taker; `threaded` says whether it works on its own thread.

    What the taker raises, `take`, `wait` or the end of the block raises.
    """

    __slots__ = ("_error", "_queue", "_taker", "_thread")

    def __init__(self, taker: KeyTaker | None, *, threaded: bool) -> None:
        self._taker = taker
        self._queue: Queue[KeyRows | None] = Queue(WAITING_COUNT)
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        if taker is not None and threaded:
            self._thread = threading.Thread(target=self._serve, name="rocketfsck-keys", daemon=True)
            self._thread.start()

    @property
    def wanted(self) -> bool:
        """Whether there is anybody who wants keys."""
        return self._taker is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        if error is None:
            self._raise()

    def take(self, rows: KeyRows) -> None:
        """Hand rows over."""
        self._raise()
        if self._thread is not None:
            self._queue.put(rows)
        elif self._taker is not None:
            self._taker.take_keys(rows)

    def wait(self) -> None:
        """Until everything is taken."""
        self._queue.join()
        self._raise()

    def _serve(self) -> None:
        assert self._taker is not None
        while (rows := self._queue.get()) is not None:
            try:
                if self._error is None:
                    self._taker.take_keys(rows)
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that walks
                self._error = error
            finally:
                self._queue.task_done()

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error
