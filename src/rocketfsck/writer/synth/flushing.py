"""Writing back in the background while more is made.

A system lets so many bytes wait to be written and then slows down whoever makes more, some to a crawl. So
what was written is synced in pieces on a thread of its own, which mostly waits for the disk; errors come out
at the next piece, or at the end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

PIECE_SIZE = 128 << 20


class Flusher:
    """Syncs a growing file whenever PIECE_SIZE more bytes are in it. One piece is under way at a time."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._pending: Future[None] | None = None
        self._waiting_size = 0

    def written(self, path: Path, size: int) -> None:
        """So many bytes were written to this file. OSError if an earlier piece could not be synced."""
        self._waiting_size += size
        if self._waiting_size >= PIECE_SIZE:
            self.wait()
            self._waiting_size = 0
            self._pending = self._pool.submit(_sync_data, path)

    def wait(self) -> None:
        """Until what is under way is on disk; OSError if it could not be."""
        if self._pending is not None:
            self._pending.result()
            self._pending = None


def _sync_data(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def background_flushing() -> Iterator[Flusher]:
    """A flusher whose thread has ended when the block has."""
    with ThreadPoolExecutor(1, "flush") as pool:
        flusher = Flusher(pool)
        yield flusher
        flusher.wait()
