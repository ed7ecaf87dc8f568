"""Which stores a job reads: one, several, or all below a directory; each under a broker's name.

    path := a store | a directory of stores (DIR/*, DIR/*/store) | a pattern (* ? [) of either

each of which may be a URL (`store.places.locations`).

What says how a store is read travels with its path, so that every worker opens it in the same way.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rocketfsck.errors import NoStoreError, UsageError
from rocketfsck.formats.filename import filename_to_offset
from rocketfsck.store.areas import absolute_path, glob_remote, list_directory
from rocketfsck.store.model import Store
from rocketfsck.store.opening import open_store
from rocketfsck.store.places.entries import DirectoryEntry, EntryKind
from rocketfsck.store.places.locations import locate, path_of
from rocketfsck.store.places.urls import NO_OPTIONS, StorageOptions, is_remote, options_for
from rocketfsck.store.settings import read_settings

OPEN_COUNT = 8
"""Stores that a process keeps listed."""

_PARTS = frozenset({"commitlog", "consumequeue", "batchconsumequeue", "checkpoint", "abort"})
_PATTERN = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class StoreSource:
    """One store: the broker's name, the path of its root, and what was said of it (`store.opening`).

    Small and picklable. `listed` tells one look at a store from the next: a process that opens it for a plan
    keeps it for that plan only. 0 stands for a new look at every plan.
    """

    broker: str
    path: str
    version: str | None = None
    broker_conf: str | None = None
    commitlog_paths: tuple[str, ...] = ()
    delay_levels: str | None = None
    listed: int = 0
    storage_options: StorageOptions = NO_OPTIONS


@lru_cache(maxsize=OPEN_COUNT)
def open_source(source: StoreSource) -> Store:
    """The store, read-only, as it was when this process first asked for it.

    Raises StoreError and UsageError as `open_store` does.
    """
    return open_store(
        source.path,
        broker_conf=source.broker_conf,
        version=source.version,
        commitlog_paths=source.commitlog_paths,
        delay_levels=source.delay_levels,
        storage_options=source.storage_options.values(),
    )


def find_sources(
    paths: Sequence[str | Path],
    *,
    brokers: Sequence[str] = (),
    version: str | None = None,
    broker_confs: Sequence[str | Path] = (),
    commitlog_paths: Sequence[str | Path] = (),
    delay_levels: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[StoreSource, ...]:
    """The stores at these paths, in their order, those of one directory or pattern by name.

    A store's broker is its name in `brokers` (in the order of the stores), else the brokerName of its
    broker.conf, else the name of its directory, or of the one above where that is `store`. `broker_confs` is
    empty, or has one for all or one for each store; `commitlog_paths` are for a single store. Raises
    NoStoreError for a path that holds no store, UsageError for a pattern without a match, names that are not
    unique and counts that do not fit; StoreError for a directory or broker.conf that cannot be read.
    """
    places = [locate(path, storage_options) for path in paths]
    roots = list(dict.fromkeys(root for place in places for root in _roots(os.fspath(place))))
    if not roots:
        raise UsageError("name a store, several stores, or a directory of stores")
    if brokers and len(brokers) != len(roots):
        raise UsageError(f"{len(brokers)} broker names for {len(roots)} stores: {', '.join(roots)}")
    if len(broker_confs) not in (0, 1, len(roots)):
        raise UsageError(
            f"{len(broker_confs)} broker.conf files for {len(roots)} stores; give one in all, or one each"
        )
    if commitlog_paths and len(roots) > 1:
        raise UsageError("commitlog paths belong to one store, but several stores are named")
    confs = [os.fspath(absolute_path(locate(conf, storage_options))) for conf in broker_confs]
    each = confs if len(confs) == len(roots) else confs * len(roots) if confs else [None] * len(roots)
    names = list(brokers) or [broker_name(root, conf) for root, conf in zip(roots, each, strict=True)]
    demand_unique(names, roots)
    logs = tuple(os.fspath(absolute_path(locate(path, storage_options))) for path in commitlog_paths)
    return tuple(
        StoreSource(name, root, version, conf, logs, delay_levels, storage_options=options_for(root))
        for name, root, conf in zip(names, roots, each, strict=True)
    )


def _roots(path: str) -> list[str]:
    if _PATTERN & set(path) and not path_of(path).exists():
        if is_remote(path):
            matches = glob_remote(path)
        else:
            matches = sorted(glob.glob(path))  # noqa: PTH207 - a pattern of a whole path
        found = [root for match in matches if path_of(match).is_dir() for root in _below(match)]
        if not found:
            raise UsageError(f"{path}: no store matches this pattern")
        return found
    found = _below(path)
    if not found:
        raise NoStoreError("neither a store nor a directory of stores; is a disk not mounted?", path=path)
    return found


def _below(path: str) -> list[str]:
    """The store that `path` is, else those in its sub-directories, by name."""
    root = os.fspath(absolute_path(path_of(path)))
    if _is_store(root):
        return [root]
    found = []
    for entry in list_directory(root):
        if entry.kind is EntryKind.DIRECTORY:
            candidates = (entry.path, os.path.join(entry.path, "store"))  # noqa: PTH118
            found += [candidate for candidate in candidates if _is_store(candidate, sure=False)][:1]
    return found


def _is_store(path: str, *, sure: bool = True) -> bool:
    """Whether a directory has a part that only a store has, or is a commitlog of its own."""
    if not sure and not path_of(path).is_dir():
        return False
    return any(
        entry.name in _PARTS or entry.name.startswith("dledger-") or _is_mapped_file(entry)
        for entry in list_directory(path)
    )


def _is_mapped_file(entry: DirectoryEntry) -> bool:
    return filename_to_offset(entry.name) is not None and entry.kind is EntryKind.FILE


def broker_name(root: str, conf: str | None) -> str:
    """The name of a store's broker: the brokerName of its broker.conf, else that of a directory."""
    if conf is not None:
        named = read_settings(path_of(conf)).get("brokerName")
        if named:
            return named
    path = path_of(root)
    name = path.parent.name if path.name == "store" else path.name
    return os.fsencode(name or root).decode("utf-8", "replace")


def demand_unique(names: Sequence[str], roots: Sequence[str]) -> None:
    """Each store has a broker name of its own. Raises UsageError where one is empty or of two stores."""
    first: dict[str, str] = {}
    for name, root in zip(names, roots, strict=True):
        if not name:
            raise UsageError(f"{root}: the broker name is empty")
        if name in first:
            raise UsageError(f"the stores {first[name]} and {root} would both have the broker name {name!r}")
        first[name] = root
