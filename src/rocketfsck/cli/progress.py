"""A progress bar on standard error, for work of more than a second, only where a person is looking."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rocketfsck.cli.show.text import visible

DELAY_SECONDS = 1.0


class Progress:
    """Told how much is done; draws with rich once a second has gone by, or never."""

    def __init__(self, description: str, total: int | None, shown: bool) -> None:
        self._description = description
        self._total = total
        self._shown = shown
        self._started = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def update(self, done: int, total: int | None = None) -> None:
        """Say how many bytes are done in all, and of how many."""
        self._total = self._total if total is None else total
        if not self._shown:
            return
        if self._bar is None:
            if time.monotonic() - self._started < DELAY_SECONDS:
                return
            self._bar = _new_bar()
            self._task = self._bar.add_task(visible(self._description), total=self._total, completed=done)
            self._bar.start()
            return
        self._bar.update(self._task, completed=done, total=self._total)

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _new_bar() -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bar

    return Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


@contextmanager
def progress(description: str, total: int | None = None, *, wanted: bool = True) -> Iterator[Progress]:
    """A `Progress` for a piece of work; drawn on standard error if that is a terminal and it is `wanted`."""
    bar = Progress(description, total, wanted and sys.stderr.isatty())
    try:
        yield bar
    finally:
        bar.stop()
