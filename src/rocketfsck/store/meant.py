"""Which store somebody meant who named a part of one, or a directory that has one in it.

    STORE/commitlog  STORE/consumequeue/TOPIC  STORE/index/FILE     the store is above
    /data/rocketmq (with store/ or broker-a/store/ in it)           the store is below

Only names are looked at, a few of them.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from rocketfsck.errors import demand_lasting
from rocketfsck.store.opening import DIRECTORIES, SINGLE_FILES

NAME_LIMIT = 1000
"""Names looked at in a directory that may be, or hold, a store; and directories looked at in a search."""

DEPTH = 4
"""How far above a file the store is: `consumequeue/<topic>/<queueId>/<file>`."""

_PARTS = DIRECTORIES | SINGLE_FILES | {"timerlog", "timerwheel", "compaction", "epochFileCheckpoint"}
_DATA = ("commitlog", "consumequeue", "batchconsumequeue", "index", "checkpoint")


def find_meant_stores(path: Path) -> tuple[Path, ...]:
    """The store that `path` is a part of, else those up to two levels below it, by name; none if it is one.

    A directory with only a copied commitlog is not part of a store, and neither is one with a store's parts
    in it. What cannot be listed holds none.
    """
    place = path.absolute()
    for above in list(place.parents)[:DEPTH]:
        if place.relative_to(above).parts[0] in _PARTS and len(_parts(above)) > 1:
            return (above,)
    names = _names(place)
    if any(name in names for name in _DATA):
        return ()
    level = [place / name for name in sorted(names)]
    found, below = _stores(level, NAME_LIMIT)
    if not found:
        found, _ = _stores(below, NAME_LIMIT)
    return tuple(found)


def is_in_store(directory: Path) -> bool:
    """Whether a directory is a store, or is inside one, by the names around it."""
    place = Path(os.path.realpath(directory))
    for above in (place, *list(place.parents)[:DEPTH]):
        parts = {name for name in _PARTS if os.path.lexists(above / name)}
        if "commitlog" in parts or len(parts) > 1:
            return True
    return False


def _stores(directories: list[Path], limit: int) -> tuple[list[Path], list[Path]]:
    """Which of the directories are stores, and what is in the others."""
    found: list[Path] = []
    below: list[Path] = []
    for directory in directories[:limit]:
        names = _names(directory)
        if len(_PARTS.intersection(names)) > 1:
            found.append(directory)
        elif len(below) < limit:
            below += [directory / name for name in sorted(names)]
    return found, below


def _parts(directory: Path) -> frozenset[str]:
    return _PARTS.intersection(_names(directory))


def _names(directory: Path) -> set[str]:
    try:
        with os.scandir(directory) as found:
            return {entry.name for entry in islice(found, NAME_LIMIT)}
    except (OSError, ValueError) as error:
        demand_lasting(error)
        return set()
