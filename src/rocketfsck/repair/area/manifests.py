"""What a store's files were at some time: names, lengths, times. Tells whether anybody changed it since.

A symbolic link counts with where it leads and, if that is a file, with that file's length and time. Which
directory that it leads to is looked into, says `repair.area.following`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rocketfsck.repair.area.following import holds_store_files, is_followed
from rocketfsck.store.reading import named_errors

Manifest = Mapping[str, str]
"""Length and time of modification of every file and link by name; names as `WorkTree` has them."""

_SHOWN = 3
_MAX_DEPTH = 64


def list_files(
    root: str, outside: Mapping[str, str] | None = None, near: Sequence[str] = ()
) -> dict[str, str]:
    """The manifest of a store.

    `outside` are the directories outside of its root: their names, and where they are. `near` are real paths
    that count as the store, too: the place of the store where `root` is a tree of it elsewhere, so that links
    into the store are listed alike in both places. Raises StoreError.
    """
    found: dict[str, str] = {}
    with named_errors(root, "cannot be read"):
        for name, place in {"": root, **(outside or {})}.items():
            found.update(_below(place, name, (os.path.realpath(root), os.path.realpath(place), *near)))
    return found


def _below(
    directory: str, name: str, places: tuple[str, ...], depth: int = 0, *, linked: bool = False
) -> Iterator[tuple[str, str]]:
    """Below a directory; `linked` is whether a link led here."""
    if depth > _MAX_DEPTH:
        return
    with os.scandir(directory) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        inner = f"{name}/{entry.name}" if name else entry.name
        link = f"-> {os.readlink(entry.path)}" if entry.is_symlink() else ""  # noqa: PTH115
        if not link and entry.is_dir():
            if linked and not holds_store_files(entry.path, inner):
                continue
            yield from _below(entry.path, inner, places, depth + 1, linked=linked)
        elif not link or os.path.isfile(entry.path):  # noqa: PTH113 - False for a link to itself
            found = entry.stat()
            yield inner, f"{found.st_size} {found.st_mtime_ns} {link}".strip()
        else:
            yield inner, link
            if os.path.isdir(entry.path) and is_followed(entry.path, inner, places):  # noqa: PTH112
                seen = (*places, os.path.realpath(entry.path))
                yield from _below(entry.path, inner, seen, depth + 1, linked=True)


def changed_files(then: Manifest, now: Manifest) -> list[str]:
    """The names that are not as they were, sorted."""
    return sorted(name for name in {*then, *now} if then.get(name) != now.get(name))


def share_of_same(then: Manifest, now: Manifest, by_size: bool) -> float:
    """Which share of the files, 0 to 1, is as it was; with `by_size` their times do not count."""

    def fact(value: str | None) -> str | None:
        return value.partition(" ")[0] if by_size and value is not None else value

    names = {*then, *now}
    return sum(fact(then.get(name)) == fact(now.get(name)) for name in names) / max(len(names), 1)


def some_of(names: Iterable[str]) -> str:
    """A few names in words."""
    listed = sorted(names)
    more = "" if len(listed) <= _SHOWN else f" and {len(listed) - _SHOWN} more"
    return ", ".join(listed[:_SHOWN]) + more


def outside_directories(root: str, commitlog_paths: Iterable[str]) -> list[Path]:
    """The commitlog directories that are not below the root."""
    return [Path(path) for path in commitlog_paths if path != root and not path.startswith(root + "/")]
