"""A repair of a store that did not end: what its work area next to the store says. Only read.

<STORE>.before-<id>/journal.json      `repair.area.journal` has the grammar; here its state and mode count
<any file>.rocketfsck.part            in place: what was about to take the place of a file
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from rocketfsck.common.documents import LIMITS, folded
from rocketfsck.errors import StoreError
from rocketfsck.store.circumstances import Evidence, UnfinishedRepair
from rocketfsck.store.model import Store
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.reading import read_whole

MARK = ".before-"
JOURNAL = "journal.json"
PART = ".rocketfsck.part"
AREA_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}", re.ASCII)
_NAME_SIZE = 180
"""Bytes of the store's name that an area's name begins with."""
_OPEN_STATES = frozenset({"building", "ready", "undoing", "undone"})
_CHANGING_STATES = frozenset({"ready", "undoing"})


def notes_of(repair: UnfinishedRepair | None) -> Sequence[Evidence]:
    """What opening says of it."""
    if repair is None:
        return ()
    what = "some files of the store are changed already" if repair.is_mixed else "no file is half changed"
    return (Evidence("a repair of this store is not finished", f"{repair.directory} ({what})"),)


def without_parts(store: Store) -> Store:
    """The store without the files that an interrupted repair in place was about to put into it: they go when
    the repair is finished or taken back."""
    if store.repair is None or not store.repair.is_mixed:
        return store
    return replace(store, strays=tuple(item for item in store.strays if not item.relative.endswith(PART)))


def area_prefix(root: str) -> str:
    """What the names of a store's work areas begin with, next to it."""
    name = os.fsencode(os.path.basename(root))[:_NAME_SIZE]  # noqa: PTH119
    return os.fsdecode(name) + MARK


def unfinished_repair(root: Path) -> UnfinishedRepair | None:
    """The last repair of the store at `root` that runs or was interrupted; None without one.

    An area in another place (`--work-dir`), or one that cannot be read, is not found.
    """
    if is_remote(root):
        return None
    real = os.path.realpath(root)
    above, prefix = os.path.dirname(real), area_prefix(real)  # noqa: PTH120
    try:
        areas = _areas(above, os.stat(above).st_mtime_ns)  # noqa: PTH116
    except OSError:
        return None
    mine = [name for name in areas if name.startswith(prefix) and AREA_ID.fullmatch(name[len(prefix) :])]
    for name in sorted(mine, key=lambda name: name[len(prefix) :], reverse=True):
        state, mode = _journal(f"{above}/{name}/{JOURNAL}", real)
        if state in _OPEN_STATES:
            return UnfinishedRepair(name, state, mode == "in-place" and state in _CHANGING_STATES)
    return None


@lru_cache(maxsize=8)
def _areas(above: str, mtime_ns: int) -> tuple[str, ...]:  # noqa: ARG001 - a change asks again
    """The names in a directory that may be work areas, which many stores of one directory share."""
    return tuple(name for name in os.listdir(above) if MARK in name)  # noqa: PTH208


def _journal(path: str, root: str) -> tuple[str, str]:
    """State and mode of a journal of this store; "" for both where it is not one."""
    try:
        document = folded(json.loads(read_whole(path, LIMITS["journal"])), "journal")
    except (StoreError, ValueError, RecursionError):
        return "", ""
    if not isinstance(document, dict) or document.get("store") != root:
        return "", ""
    return str(document.get("state")), str(document.get("mode"))
