"""What a path means, in every command that reads many stores; each store under a broker's name.

    path := a store | a directory of stores (DIR/store, DIR/*, DIR/*/store) | a pattern (* ? [) of either
    list := a file with a path on each line

each of which may be a URL (`store.places.locations`). A path or pattern at which there is no store is a place
all the same: whoever opens it says why, and the other stores are read. Only names are looked at.

What says how a store is read travels with its path, so that every worker opens it in the same way.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rocketfsck.errors import NoStoreError, RocketfsckError, StoreError, UsageError
from rocketfsck.formats.smallfiles import filename_to_offset
from rocketfsck.store.areas import absolute_path, glob_remote, list_directory
from rocketfsck.store.circumstances import read_settings
from rocketfsck.store.inuse import JOURNAL, MARK
from rocketfsck.store.model import Store
from rocketfsck.store.opening import open_store
from rocketfsck.store.places.entries import DirectoryEntry, EntryKind
from rocketfsck.store.places.locations import locate, path_of
from rocketfsck.store.places.urls import NO_OPTIONS, StorageOptions, is_remote, options_for
from rocketfsck.store.reading import named_errors

OPEN_COUNT = 8
"""Stores that a process keeps listed."""

LIST_SIZE = 64 << 20
"""Bytes that a list of stores may have."""
LOOKERS = 16
"""Places that are looked at at once: each costs a question or two, which a far file system answers late."""

_PARTS = frozenset({"commitlog", "consumequeue", "batchconsumequeue", "checkpoint", "abort"})
_INNER = frozenset({"commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext"})
"""Parts of a store whose directories look like stores."""
_DEPTH = 4
_PATTERN = frozenset("*?[")
_FOREIGN = "lost+found"


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
    return look_at(source)


def look_at(source: StoreSource) -> Store:
    """The store, read-only, as it is now. Raises StoreError and UsageError as `open_store` does."""
    demand_match(source.path)
    return open_store(
        source.path,
        broker_conf=source.broker_conf,
        version=source.version,
        commitlog_paths=source.commitlog_paths,
        delay_levels=source.delay_levels,
        storage_options=source.storage_options.values(),
    )


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Whether a path has wildcards, and is not a file or directory of that very name."""
    text = os.fspath(path)
    return bool(_PATTERN & set(text)) and (is_remote(text) or not os.path.lexists(text))


def demand_match(path: str | os.PathLike[str]) -> None:
    """Raise NoStoreError for a pattern, which stands for itself where nothing matches it."""
    if is_pattern(path):
        raise NoStoreError("no directory matches this pattern", path=os.fspath(path))


def find_places(
    paths: Iterable[str | Path], storage_options: Mapping[str, Any] | None = None
) -> tuple[Path, ...]:
    """The absolute paths and URLs of the stores that `paths` mean, each once, in their order; those of one
    directory or pattern by name.

    A path or pattern with no store is one of them. Raises UsageError without any path.
    """
    return tuple(place for place, _ in _found(paths, storage_options))


def _found(
    paths: Iterable[str | Path], storage_options: Mapping[str, Any] | None
) -> list[tuple[Path, RocketfsckError | None]]:
    """The places, and why there is no store, where that can be seen."""
    roots = [root for path in paths for root in _matches(locate(path, storage_options))]
    if not roots:
        raise UsageError("name a store, several stores, or a directory of stores")
    if len(roots) == 1:
        found = [_stores_at(roots[0])]
    else:
        with ThreadPoolExecutor(LOOKERS) as pool:
            found = list(pool.map(_stores_at, roots))
    return list({place: (place, error) for each in found for place, error in each}.values())


def _matches(path: Path) -> list[Path]:
    """The path, or the directories that a pattern fits; the pattern itself where it fits none."""
    text = os.fspath(path)
    if not is_pattern(path):
        return [absolute_path(path)]
    if is_remote(text):
        try:
            matches = glob_remote(text)
        except StoreError:  # whoever opens the place says it
            matches = []
    else:
        matches = [match for match in sorted(glob.glob(text)) if os.path.isdir(match)]  # noqa: PTH112, PTH207
    found = [absolute_path(path_of(match)) for match in matches]
    return [match for match in found if not _is_area(match)] or [absolute_path(path)]


def _is_area(path: Path) -> bool:
    """Whether this is what a repair keeps for undo, next to its store."""
    return MARK in path.name and (path / JOURNAL).exists()


def _stores_at(root: Path) -> list[tuple[Path, RocketfsckError | None]]:
    """The store that `root` is, else those below it by name, else `root` and why there is none."""
    if is_pattern(root):
        return [(root, UsageError(f"{root}: no store matches this pattern"))]
    try:
        entries = list_directory(root)
    except StoreError as error:
        return [(root, error)]
    if _is_store(entries) or _INNER & set(root.parts[-_DEPTH:]):
        return [(root, None)]
    found = [place for entry in entries if _may_hold(entry) for place in _store_below(entry)]
    nothing = NoStoreError(
        "neither a store nor a directory of stores; is a disk not mounted?", path=str(root)
    )
    return found or [(root, nothing)]


def _may_hold(entry: DirectoryEntry) -> bool:
    return entry.kind is EntryKind.DIRECTORY and not entry.name.startswith(".") and entry.name != _FOREIGN


def _store_below(entry: DirectoryEntry) -> Iterator[tuple[Path, RocketfsckError | None]]:
    """The store that a directory is, or the one in it; a directory that cannot be listed, and why."""
    path = path_of(entry.path)
    try:
        entries = list_directory(path)
        if _is_area(path):
            return
        if not _is_store(entries):
            path /= "store"
            if not any(inner.name == "store" and inner.kind is EntryKind.DIRECTORY for inner in entries):
                return
            if not _is_store(list_directory(path)):
                return
        yield absolute_path(path), None
    except StoreError as error:
        yield absolute_path(path), error


def deep_places(
    paths: Iterable[str | Path], storage_options: Mapping[str, Any] | None = None
) -> tuple[Path, ...]:
    """The stores at any depth below the directories that `paths` mean, by name.

    A path without any is one of them, and so is a directory that cannot be listed: `find_sources` says why.
    """
    roots = [root for path in paths for root in _matches(locate(path, storage_options))]
    return tuple(place for root in roots for place in list(_stores_within(root, set())) or [root])


def _stores_within(path: Path, seen: set[str]) -> Iterator[Path]:
    """The stores in a directory, where each real directory is looked at once: links may lead around."""
    text = os.fspath(path)
    real = text if is_remote(text) else os.path.realpath(text)
    if real in seen or _is_area(path):
        return
    seen.add(real)
    try:
        entries = list_directory(path)
    except StoreError:
        yield path
        return
    if _is_store(entries) or _INNER & set(path.parts[-_DEPTH:]):
        yield path
        return
    for entry in entries:
        if _may_hold(entry):
            yield from _stores_within(path_of(entry.path), seen)


def _is_store(entries: Sequence[DirectoryEntry]) -> bool:
    """Whether a directory has a part that only a store has, or is a commitlog of its own."""
    return any(
        entry.name in _PARTS or entry.name.startswith("dledger-") or _is_mapped_file(entry)
        for entry in entries
    )


def _is_mapped_file(entry: DirectoryEntry) -> bool:
    return filename_to_offset(entry.name) is not None and entry.kind is EntryKind.FILE


def read_list(file: Path) -> tuple[str, ...]:
    """The paths that a text file names, one a line; empty lines and lines that begin with # name none.

    Raises StoreError for a file that cannot be read, UsageError for one that names no path or is not a list.
    """
    with named_errors(file, "cannot be read"), file.open("rb") as stream:
        data = stream.read(LIST_SIZE + 1)
    if len(data) > LIST_SIZE or b"\0" in data:
        raise UsageError(f"{file}: not a list of paths, one on each line")
    lines = (os.fsdecode(line).strip() for line in data.splitlines())
    found = tuple(line for line in lines if line and not line.startswith("#"))
    if not found:
        raise UsageError(f"{file}: the list names no store")
    return found


def find_sources(
    paths: Sequence[str | Path],
    *,
    brokers: Sequence[str] = (),
    version: str | None = None,
    broker_confs: Sequence[str | Path] = (),
    commitlog_paths: Sequence[str | Path] = (),
    delay_levels: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    all_there: bool = True,
) -> tuple[StoreSource, ...]:
    """The stores at these paths, in their order, those of one directory or pattern by name (`find_places`).

    A store's broker is its name in `brokers` (in the order of the stores), else the brokerName of its
    broker.conf, else the name of its directory, or of the one above where that is `store`. `broker_confs` is
    empty, or has one for all or one for each store; `commitlog_paths` are for a single store.

    Raises UsageError for names that are not unique and counts that do not fit; StoreError for a broker.conf
    that cannot be read. If `all_there`, raises NoStoreError for a path that holds no store, UsageError for a
    pattern without a match and StoreError for a directory that cannot be listed; else these are sources, too.
    """
    found = _found(paths, storage_options)
    for _, error in found:
        if all_there and error is not None:
            raise error
    roots = [os.fspath(place) for place, _ in found]
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
