"""Keys taken on a thread of their own, in order, with few batches in between."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Protocol, Self

from rocketfsck.scan.build.rows import KeyRows

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

    __slots__ = ("_pool", "_taker", "_waiting")

    def __init__(self, taker: KeyTaker | None, *, threaded: bool) -> None:
        self._taker = taker
        self._pool = ThreadPoolExecutor(1, "rocketfsck-keys") if taker is not None and threaded else None
        self._waiting: deque[Future[None]] = deque()

    @property
    def wanted(self) -> bool:
        """Whether there is anybody who wants keys."""
        return self._taker is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.wait()
        finally:
            if self._pool is not None:
                self._pool.shutdown(cancel_futures=True)

    def take(self, rows: KeyRows) -> None:
        """Hand rows over."""
        if self._taker is None:
            return
        if self._pool is None:
            self._taker.take_keys(rows)
            return
        while len(self._waiting) > WAITING_COUNT:
            self._take_oldest()
        self._waiting.append(self._pool.submit(self._taker.take_keys, rows))

    def wait(self) -> None:
        """Until everything is taken."""
        while self._waiting:
            self._take_oldest()

    def _take_oldest(self) -> None:
        """Wait for the oldest batch; where it failed, those that wait are not taken any more."""
        try:
            self._waiting.popleft().result()
        except BaseException:
            for future in self._waiting:
                future.cancel()
            self._waiting.clear()
            raise
