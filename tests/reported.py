"""What work reports of its progress while a test runs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rocketfsck.progress import State, watched


@contextmanager
def reported(phase: str, seen: list[Any]) -> Iterator[None]:
    """Add (done, total) to `seen` at every change of the phase with this name; "": of any that counts."""

    def stated(now: State | None) -> None:
        if now is not None and (now.phase == phase or (not phase and now.total is not None)):
            seen.append((now.done, now.total))

    with watched(stated):
        yield
