"""What a store's files were at some time: names, lengths, times. Tells whether anybody changed it since.

A symbolic link counts with where it leads and, if that is a file, with that file's length and time. Which
directory that it leads to is looked into, says `repair.area.manifests`.

How to tell a repaired store from the store of before, wherever they stand: by what is in them.

Two directories change names when a repair is published. Where that was interrupted, it must be known which
is which, also on another file system, after a remount or a copy: so neither device and inode numbers nor
times can be relied on, but names, lengths and bytes can. This module looks at them in the area only, whose
trees nobody changes.

Symbolic links in a store, and what must not be changed because of them.

Brokers follow links. A repair that moved or rewrote what a link leads to would change two files where it
means one, and one that moved the link would take the file away. So neither is done: see `pins_of`. A link to
another place, a second disk as a rule, is simply where the files are. A link without a target is only a name,
but one that leads back to itself cannot even be looked through: it stays, too.

Which symbolic links in a store are followed: those to where a broker keeps the store's files.

A second disk as a rule: `commitlog -> /disk2/commitlog`, a topic's or a queue's directory, a single file. A
link back into the store, to a directory above it, or to one in which no broker looks for files of the store
(`x -> /usr`) is only a name: whoever followed it would walk through a machine, and take it for the store.

Makes a tree that reads like a store: hard links to its files, directories of its own.

A symbolic link to a file or directory out of the store is followed; what it leads to is in the tree as
if it were in the store. Others stay links. Owners, permissions, attributes and times of directories are those
of the store's.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rocketfsck.common.documents import printable
from rocketfsck.errors import StoreError
from rocketfsck.formats.smallfiles import filename_to_offset
from rocketfsck.store.reading import FileReader, first_unequal, named_errors
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace, traits_of

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


_MAX_DEPTH = 64


class Cloner:
    """Makes a tree. `links` takes the names of links that were followed, `pins` those that stay links.

    With `borrow` the tree has symbolic links to files where it can have no hard links.
    """

    def __init__(self, links: list[str], pins: dict[str, str], borrow: bool) -> None:
        self._links = links
        self._pins = pins
        self._borrow = borrow

    def directory(
        self,
        source: str,
        target: ConfinedPlace,
        name: str,
        near: tuple[str, ...],
        without: frozenset[str],
        depth: int = 0,
        *,
        linked: bool = False,
    ) -> None:
        """Clone a directory. `near` are real paths into which, and above which, no link is followed.

        `linked` is whether a link led here: then only what can hold files of the store is cloned.
        """
        status = os.stat(source)  # noqa: PTH116
        if depth > _MAX_DEPTH:
            raise StoreError("directories are nested too deep", path=source)
        with os.scandir(source) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        fileops.make_directory(target, 0o700)
        for entry in listed:
            if entry.name not in without:
                inner = f"{name}/{entry.name}" if name else entry.name
                self._entry(entry, target / entry.name, inner, near, depth, linked)
        fileops.set_traits(target, traits_of(source))
        fileops.set_times(target, status.st_atime_ns, status.st_mtime_ns)

    def _entry(
        self,
        entry: os.DirEntry[str],
        target: ConfinedPlace,
        name: str,
        near: tuple[str, ...],
        depth: int,
        linked: bool,
    ) -> None:
        # not what the entry says: for a link that leads to itself it raises
        is_directory = os.path.isdir(entry.path)  # noqa: PTH112 - names may be any bytes
        is_plain = is_directory or os.path.isfile(entry.path)  # noqa: PTH113
        if entry.is_symlink():
            is_special = os.path.exists(entry.path) and not is_plain  # noqa: PTH110
            if is_special or not is_followed(entry.path, name, near):
                fileops.symlink(os.readlink(entry.path), target)  # noqa: PTH115
                if is_plain:
                    self._pins.setdefault(name, "is a symbolic link: a repair leaves links alone")
                return
            self._links.append(name)
            near, linked = (*near, os.path.realpath(entry.path)), True
        if is_directory:
            if not linked or holds_store_files(entry.path, name):
                self.directory(entry.path, target, name, near, frozenset(), depth + 1, linked=linked)
        else:
            self._share(os.path.realpath(entry.path), target)

    def _share(self, source: str, target: ConfinedPlace) -> None:
        try:
            fileops.link(source, target)
        except OSError as error:
            if error.errno not in fileops.NO_LINKS:
                raise
            if self._borrow:
                fileops.symlink(source, target)
            else:
                fileops.copy(source, target)


def pins_of(root: str, outside: Sequence[str] = ()) -> dict[str, str]:
    """Names that no repair changes because of a link in the store, and why, in words; raises OSError.

    Names are relative to the root, those in directories outside of it full paths, as in a plan.
    """
    places = {"": os.path.realpath(root), **{path: os.path.realpath(path) for path in outside}}
    pins: dict[str, str] = {}
    for base, place in places.items():
        for name, path in _links(place, base, 0):
            if _is_circle(path):
                pins[name] = "is a symbolic link that leads back to itself: a repair leaves links alone"
                continue
            real = os.path.realpath(path)
            if not os.path.exists(real) or is_followed(path, name, places.values()):  # noqa: PTH110
                continue
            text = printable(os.readlink(path))  # noqa: PTH115
            pins[name] = f"is a symbolic link to {text}: a repair leaves links alone"
            target = _name_of(real, places)
            if target:
                why = f"must stay as it is: the symbolic link {printable(name)} leads here"
                pins.setdefault(target, why)
    return pins


def dead_link_above(root: str, name: str) -> str:
    """The link without a target that has the name of a directory above something in a store; "" without one.

    Nothing can be made below it.
    """
    if name.startswith("/"):
        return ""
    parts = name.split("/")
    for count in range(1, len(parts)):
        above = "/".join(parts[:count])
        path = f"{root}/{above}"
        if os.path.islink(path) and not os.path.exists(path):  # noqa: PTH110, PTH114
            return above
    return ""


def _is_circle(path: str) -> bool:
    """Whether a link leads to itself, maybe by way of others."""
    try:
        os.stat(path)  # noqa: PTH116 - names may be any bytes
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def pin_on(file: str, pins: dict[str, str]) -> str:
    """Why a file or directory must not be changed: its own pin, or one above or below it; "" if it may be."""
    for name, why in pins.items():
        if f"{file}/".startswith(f"{name}/") or name.startswith(f"{file}/"):
            return why if name == file else f"{printable(name)} {why}"
    return ""


def _name_of(real: str, places: dict[str, str]) -> str:
    """The store's name of a real path, "" where it has none."""
    for base, place in places.items():
        if real.startswith(f"{place}/"):
            inner = real[len(place) + 1 :]
            return f"{base}/{inner}" if base else inner
    return ""


def _links(directory: str, name: str, depth: int) -> Iterator[tuple[str, str]]:
    """Names and paths of the links below a directory. None is followed; nor is anything to be changed in a
    directory that cannot be listed."""
    if depth > _MAX_DEPTH:
        return
    try:
        with os.scandir(directory) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except PermissionError:
        return
    for entry in listed:
        inner = f"{name}/{entry.name}" if name else entry.name
        if entry.is_symlink():
            yield inner, entry.path
        elif entry.is_dir():
            yield from _links(entry.path, inner, depth + 1)


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
