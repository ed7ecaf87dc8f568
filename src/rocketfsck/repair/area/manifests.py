"""What a store's files were at some time: names, lengths, times. Tells whether anybody changed it since.

A symbolic link counts with where it leads and, if that is a file, with that file's length and time. Which
directory that it leads to is looked into, says `repair.area.links`.

How to tell a repaired store from the store of before, wherever they stand: by what is in them.

Two directories change names when a repair is published. Where that was interrupted, it must be known which
is which, also on another file system, after a remount or a copy: so neither device and inode numbers nor
times can be relied on, but names, lengths and bytes can. This module looks at them in the area only, whose
trees nobody changes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rocketfsck.errors import StoreError
from rocketfsck.repair.area.links import holds_store_files, is_followed
from rocketfsck.store.reading import FileReader, first_unequal, named_errors

TIME = -1
_MOST = 16
_SHOWN_SIZE = 32


@dataclass(frozen=True, slots=True)
class Tell:
    """One difference: what `file` (relative to the root) is in the old tree and in the new one.

    With `pos` None that is its kind and length, or where a link leads ("" where there is nothing); with
    `TIME` its time of modification in nanoseconds; else bytes from that position on, in hex.
    """

    file: str
    pos: int | None
    old: str
    new: str

    @property
    def is_time(self) -> bool:
        """Whether it is about a time only, which a copy may have lost."""
        return self.pos == TIME


def find_tells(old: str, new: str) -> tuple[Tell, ...]:
    """Differences between two directories, some of them; none if there are none. StoreError or OSError.

    Bytes are compared only where names and lengths are the same, and times where bytes are, too.
    """
    mine, other = dict(_facts(old)), dict(_facts(new))
    names = sorted({*mine, *other})
    found = (
        Tell(name, None, mine.get(name, ""), other.get(name, ""))
        for name in names
        if mine.get(name, "") != other.get(name, "")
    )
    tells = tuple(islice(found, _MOST))
    if tells:
        return tells
    files = [name for name in names if mine[name].startswith("file ")]
    files.sort(key=lambda name: os.stat(f"{new}/{name}").st_blocks)  # noqa: PTH116
    tells = tuple(islice(_different_bytes(old, new, files), 1))
    return tells or tuple(islice(_different_times(old, new, names), _MOST))


def side_of(root: str, tells: Sequence[Tell]) -> str:
    """ "old" or "new", as most of the tells say; "" if they do not."""
    votes = 0
    for tell in tells:
        found = _look(root, tell)
        votes += (found == tell.new) - (found == tell.old)
    return "new" if votes > 0 else "old" if votes < 0 else ""


def _look(root: str, tell: Tell) -> str | None:
    path = f"{root}/{tell.file}"
    if tell.pos is None:
        return _fact(path)
    if tell.is_time:
        return _time(path)
    with suppress(StoreError), FileReader(path) as reader:
        return reader.read_upto(tell.pos, _SHOWN_SIZE).hex()
    return None


def _facts(root: str) -> Iterator[tuple[str, str]]:
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = f"{folder}/{name}"
            yield os.path.relpath(path, root), _fact(path)


def _fact(path: str) -> str:
    try:
        status = os.lstat(path)
    except OSError:
        return ""
    if stat.S_ISLNK(status.st_mode):
        return f"link {os.readlink(path)}"  # noqa: PTH115
    if stat.S_ISREG(status.st_mode):
        return f"file {status.st_size}"
    return "directory" if stat.S_ISDIR(status.st_mode) else "other"


def _time(path: str) -> str:
    try:
        return str(os.lstat(path).st_mtime_ns)
    except OSError:
        return ""


def _different_times(old: str, new: str, names: Sequence[str]) -> Iterator[Tell]:
    for name in names:
        mine, other = _time(f"{old}/{name}"), _time(f"{new}/{name}")
        if mine != other:
            yield Tell(name, TIME, mine, other)


def _different_bytes(old: str, new: str, names: Sequence[str]) -> Iterator[Tell]:
    for name in names:
        paths = f"{old}/{name}", f"{new}/{name}"
        if os.path.samestat(*map(os.stat, paths)):
            continue
        with FileReader(paths[0]) as one, FileReader(paths[1]) as two:
            pos = first_unequal(one, two)
            if pos is not None:
                values = [reader.read_upto(pos, _SHOWN_SIZE).hex() for reader in (one, two)]
                yield Tell(name, pos, *values)


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
