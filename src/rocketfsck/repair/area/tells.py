"""How to tell a repaired store from the store of before, wherever they stand: by what is in them.

Two directories change names when a repair is published. Where that was interrupted, it must be known which
is which, also on another file system, after a remount or a copy: so neither device and inode numbers nor
times can be relied on, but names, lengths and bytes can. This module looks at them in the area only, whose
trees nobody changes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from rocketfsck.errors import StoreError
from rocketfsck.store.reading import FileReader

TIME = -1
_MOST = 16
_CHUNK_SIZE = 1 << 20
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
            pos = _first_difference(one, two)
            if pos is not None:
                values = [reader.read_upto(pos, _SHOWN_SIZE).hex() for reader in (one, two)]
                yield Tell(name, pos, *values)


def _first_difference(one: FileReader, two: FileReader) -> int | None:
    """The first position at which two files of one length differ; holes of both are not read."""
    for start, end in sorted([*one.data_extents(), *two.data_extents()]):
        for pos in range(start, end, _CHUNK_SIZE):
            size = min(_CHUNK_SIZE, end - pos)
            left, right = one.read(pos, size), two.read(pos, size)
            if left != right:
                return pos + next(at for at in range(size) if left[at] != right[at])
    return None
