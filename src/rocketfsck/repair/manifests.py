"""What a store's files were at some time: names, lengths, times. Tells whether anybody changed it since."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rocketfsck.errors import StoreError
from rocketfsck.store.reading import os_error_text

Manifest = Mapping[str, str]
"""Length and time of modification of every file and link by name; names as `WorkTree` has them."""

_SHOWN = 3
_MAX_DEPTH = 64


def list_files(root: str, outside: Mapping[str, str] | None = None) -> dict[str, str]:
    """The manifest of a store.

    `outside` are the directories outside of its root: their names, and where they are. Raises StoreError.
    """
    try:
        found = dict(_below(root, "", 0, frozenset()))
        for name, place in (outside or {}).items():
            found.update(_below(place, name, 0, frozenset()))
    except OSError as error:
        raise StoreError(f"cannot be read: {os_error_text(error)}", path=root) from error
    return found


def _below(directory: str, name: str, depth: int, above: frozenset[str]) -> Iterator[tuple[str, str]]:
    status = os.stat(directory)  # noqa: PTH116
    here = f"{status.st_dev}:{status.st_ino}"
    if depth > _MAX_DEPTH or here in above:
        return
    with os.scandir(directory) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        inner = f"{name}/{entry.name}" if name else entry.name
        if entry.is_dir():
            yield from _below(entry.path, inner, depth + 1, above | {here})
            continue
        try:
            found = entry.stat()
        except OSError:
            found = entry.stat(follow_symlinks=False)
        yield inner, f"{found.st_size} {found.st_mtime_ns}"


def changed_files(then: Manifest, now: Manifest) -> list[str]:
    """The names that are not as they were, sorted."""
    return sorted(name for name in {*then, *now} if then.get(name) != now.get(name))


def some_of(names: Iterable[str]) -> str:
    """A few names in words."""
    listed = sorted(names)
    more = "" if len(listed) <= _SHOWN else f" and {len(listed) - _SHOWN} more"
    return ", ".join(listed[:_SHOWN]) + more


def outside_directories(root: str, commitlog_paths: Iterable[str]) -> list[Path]:
    """The commitlog directories that are not below the root."""
    return [Path(path) for path in commitlog_paths if path != root and not path.startswith(root + "/")]
