"""A smaller copy that still has the same findings: whole files go, as long as nothing is missed.

Delta debugging: first halves of the files, then quarters, at last one by one; what is missed comes back. A
trial is a check of the copy: time and the number of trials are limited.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rocketfsck.progress import phase
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import Root

TRIAL_LIMIT = 200
_QUEUE_AREAS = frozenset({"consumequeue", "batchconsumequeue", "consumequeue_ext"})
_QUEUE_DEPTH = 2
Unit = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What a copy was made smaller by: files, the trials that it took, and whether time or trials ran out."""

    dropped_count: int
    trial_count: int
    stopped: bool


def units_of(root: Path) -> list[Unit]:
    """What is kept or dropped together, as names of files: a queue's files, or any other file alone."""
    queues: dict[str, list[str]] = {}
    single: list[Unit] = []
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            relative = os.path.relpath(f"{folder}/{name}", root)
            parts = relative.split("/")
            if parts[0] in _QUEUE_AREAS and len(parts) > _QUEUE_DEPTH:
                queues.setdefault("/".join(parts[:-1]), []).append(relative)
            else:
                single.append((relative,))
    return sorted([*single, *(tuple(files) for files in queues.values())])


def shrink_copy(directory: Path, name: str, is_enough: Callable[[], bool], seconds: float) -> Shrunk:
    """Drop files of the copy `directory/name` while `is_enough` says so of what is left.

    Dropped files go to another place in `directory`, which is the caller's and temporary. Raises OSError.
    """
    root = fileops.open_directory(directory)
    units, dropped = units_of(directory / name), 0
    deadline, trials, stopped = time.monotonic() + seconds, 0, False
    size = -(-len(units) // 2)
    with phase("making the copy smaller"):
        while units and size and not stopped:
            start = 0
            while start < len(units):
                if time.monotonic() >= deadline or trials >= TRIAL_LIMIT:
                    stopped = True
                    break
                part = units[start : start + size]
                trials += 1
                _move(root, part, name, f"{name}.dropped")
                if is_enough():
                    dropped += sum(map(len, part))
                    units = units[:start] + units[start + size :]
                else:
                    _move(root, part, f"{name}.dropped", name)
                    start += size
            size = 0 if size == 1 else -(-size // 2)
    return Shrunk(dropped, trials, stopped)


def _move(root: Root, units: Sequence[Unit], source: str, target: str) -> None:
    """Move files between two trees; directories without a file go."""
    for unit in units:
        for file in unit:
            place = root / target / file
            fileops.make_directories(place.parent)
            fileops.rename(root / source / file, place)
        above = (root / source / unit[0]).parent
        while above.name != source and not fileops.list_names(above):
            fileops.remove_directory(above)
            above = above.parent
