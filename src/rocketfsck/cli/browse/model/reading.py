"""Reading that can be stopped: every read asks whether its work is still wanted.

with stoppable(stop):       the reads of this thread raise CancelledError once `stop` is set
    reader.read(pos, size)
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rocketfsck.errors import CancelledError
from rocketfsck.store.reading import FileReader, PathLike


class _Here(threading.local):
    """What may stop this thread."""

    stop: threading.Event | None = None


_here = _Here()


@contextmanager
def stoppable(stop: threading.Event) -> Iterator[None]:
    """Run work of this thread that ends with CancelledError at the next read once `stop` is set."""
    before = _here.stop
    _here.stop = stop
    try:
        yield
    finally:
        _here.stop = before


def go_on() -> None:
    """Raise CancelledError where nobody wants the work of this thread any more."""
    if _here.stop is not None and _here.stop.is_set():
        raise CancelledError("cancelled")


class WatchedReader(FileReader):
    """A file whose reads can be stopped. `byte_count` is what was read of it."""

    __slots__ = ("byte_count",)

    def __init__(self, path: PathLike) -> None:
        super().__init__(path)
        self.byte_count = 0

    def read_into(self, view: memoryview | bytearray, pos: int = 0) -> None:
        go_on()
        super().read_into(view, pos)
        self.byte_count += len(view)

    def data_extents(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
        for extent in super().data_extents(start, end):
            go_on()
            yield extent
