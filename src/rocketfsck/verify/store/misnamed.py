"""Commit log files whose first record says that they belong elsewhere: somebody renamed them.

What is in them is not lost: a broker does not find it, and some versions delete the file. Reference 1.2, 2.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.formats.filename import offset_to_filename
from rocketfsck.reader.heads import head_at, whole_head_at
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Finding, Where


@dataclass(frozen=True, slots=True)
class Misnamed:
    """A file of the log (`relative` to the root) that belongs at the physical offsets `start:end`."""

    relative: str
    start: int
    end: int


def misnamed_files(store: Store, suspects: Collection[str] = ()) -> tuple[Misnamed, ...]:
    """The files whose first records say so, of a commit log file's length, by the offset they belong to.

    `suspects` are the files of the log that may be at a wrong place; where another one has the offset
    already, that one stays.
    """
    log = store.commitlog
    named = {file.relative: file.start_offset for file in log.files}
    right = {start for relative, start in named.items() if relative not in suspects}
    places = {str(path) for path in log.locations}
    asked = [(file.relative, file.location, file.size) for file in log.files if file.relative in suspects]
    asked += [
        (stray.relative, str(stray.path), stray.size)
        for stray in store.strays
        if str(stray.path.parent) in places
    ]
    found: dict[int, Misnamed] = {}
    for relative, location, size in asked:
        start = _stated_start(location, size) if size == log.file_size else None
        if start is not None and start not in right and start != named.get(relative):
            found.setdefault(start, Misnamed(relative, start, start + size))
    return tuple(found[start] for start in sorted(found))


def copied_files(store: Store, suspects: Collection[str]) -> frozenset[str]:
    """Those of the `suspects` whose first records belong to a place that another file has already."""
    log = store.commitlog
    right = {file.start_offset for file in log.files if file.relative not in suspects}
    return frozenset(
        file.relative
        for file in log.files
        if file.relative in suspects and _stated_start(file.location, log.file_size) in right - {None}
    )


def check_misnamed(files: tuple[Misnamed, ...]) -> Iterator[Finding]:
    """A finding for each."""
    for file in files:
        name = offset_to_filename(file.start)
        where = Where(file=file.relative, start=0, physical_offset=file.start)
        yield Finding(RuleName.LOG_FILE_MISNAMED, where, {"size": file.end - file.start}, {"name": name})


def _stated_start(location: str, size: int) -> int | None:
    """Where a file begins by what its first two records say; None where they do not, or cannot be read."""
    try:
        with FileReader(location) as reader:
            first = whole_head_at(reader, 0)
            second = None if first is None else head_at(reader, first.total_size)
    except StoreError:
        return None
    if first is None or first.physical_offset < 0 or first.physical_offset % size:
        return None
    if second is not None and second.physical_offset - first.total_size != first.physical_offset:
        return None
    return first.physical_offset
