"""What work in a worker thread is stopped by: the worker that Textual cancels, or the user."""

from __future__ import annotations

import threading
from typing import Any

from textual.worker import Worker


class Stop(threading.Event):
    """Set by whoever gives up the work, and as soon as the worker that it follows is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self._worker: Worker[Any] | None = None

    def follow(self, worker: Worker[Any]) -> None:
        """Count as set once this worker is cancelled."""
        self._worker = worker

    def is_set(self) -> bool:
        return super().is_set() or (self._worker is not None and self._worker.is_cancelled)
