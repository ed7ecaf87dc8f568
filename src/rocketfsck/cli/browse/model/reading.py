"""Work that can be stopped: every read asks whether its work is still wanted (`rocketfsck.progress`).

with stoppable(stop):       the work of this thread raises CancelledError once `stop` is set
    reader.read(pos, size)
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rocketfsck import progress
from rocketfsck.errors import CancelledError


@contextmanager
def stoppable(stop: threading.Event) -> Iterator[None]:
    """Run work of this thread that ends with CancelledError at the next read once `stop` is set."""

    def ask() -> None:
        if stop.is_set():
            raise CancelledError("cancelled")

    with progress.stoppable(ask):
        yield
