"""Which symbolic links in a store are followed: those to where a broker keeps the store's files.

A second disk as a rule: `commitlog -> /disk2/commitlog`, a topic's or a queue's directory, a single file. A
link back into the store, to a directory above it, or to one in which no broker looks for files of the store
(`x -> /usr`) is only a name: whoever followed it would walk through a machine, and take it for the store.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress

from rocketfsck.formats.filename import filename_to_offset

_QUEUES = frozenset({"consumequeue", "batchconsumequeue", "consumequeue_ext"})
_LEVELS: Mapping[str, int] = {
    "commitlog": 1,
    "index": 1,
    "timerlog": 1,
    "config": 2,
    "compaction": 4,
    "rocksdbstore": 2,
    "consumequeue_rocksdb": 2,
    "tieredstore": 6,
}
"""Levels of directories below these that hold files of a store, counted with the directory itself."""
_LOOKED_AT = 1000
"""So many names of an unknown directory are looked at."""


def leads_elsewhere(path: str, places: Iterable[str]) -> bool:
    """Whether a link leads to something that is neither in one of these directories nor above one.

    `places` are real paths. False for a link whose target does not exist.
    """
    real = os.path.realpath(path)
    inner = _slashed(real)
    near = any(inner.startswith(_slashed(place)) or _slashed(place).startswith(inner) for place in places)
    return not near and os.path.exists(real)  # noqa: PTH110


def is_followed(path: str, name: str, places: Iterable[str]) -> bool:
    """Whether a link, called `name` in the store or below a directory of commit log files, is followed.

    `places` are real paths of the store and of what was followed so far.
    """
    return leads_elsewhere(path, places) and (
        not os.path.isdir(path) or holds_store_files(path, name)  # noqa: PTH112
    )


def holds_store_files(path: str, name: str) -> bool:
    """Whether brokers look for files of the store in a directory that a link leads to, or below it."""
    top, *below = name.split("/")
    if top in _QUEUES:
        return len(below) < 2 or (len(below) == 2 and below[1].lstrip("-").isdecimal())
    if top in _LEVELS:
        return len(below) < _LEVELS[top]
    return _has_store_files(path)  # a commit log directory that the settings name, a node's of DLedger


def _has_store_files(path: str) -> bool:
    with suppress(OSError), os.scandir(path) as entries:
        for _, entry in zip(range(_LOOKED_AT), entries, strict=False):
            known = entry.name in _LEVELS or entry.name in _QUEUES or entry.name == "CURRENT"
            if known or filename_to_offset(entry.name) is not None:
                return True
    return False


def _slashed(path: str) -> str:
    return f"{path.rstrip('/')}/"
