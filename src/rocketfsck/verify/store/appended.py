"""Commit log files to which others were appended, as by `cat b >> a`.

    file := as many bytes as a commit log file has, the file of its name; further files, each as long

The records of an appended file say where they belong. Either a file of that name is there and has the same
bytes, or the appended ones are the only ones. Reference 1.2, 2.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import first_names
from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.verify.store.misnamed import same_content, settle_copies, stated_start
from rocketfsck.verify.tasks.facts import Known
from rocketfsck.verify.tasks.task import Collector

MOST_PIECES = 64
"""A file of more pieces was hardly made by hand."""


@dataclass(frozen=True, slots=True)
class AppendedFile:
    """The bytes of one file in another, from the position `pos` on; they belong to the log at `start_offset`.

    `original` is the file of that offset, which has the same bytes; "" where the store has no such file.
    """

    pos: int
    start_offset: int
    original: str


@dataclass(frozen=True, slots=True)
class Appended:
    """A file of the log (`relative` to the root) with the `pieces` after its own `size` bytes."""

    relative: str
    start_offset: int
    size: int
    pieces: tuple[AppendedFile, ...]


def appended_files(store: Store) -> tuple[Appended, ...]:
    """The files whose further bytes are all other commit log files. Raises StoreError for a file that cannot
    be read."""
    whole = store.commitlog.file_size
    return tuple(
        Appended(file.relative, file.start_offset or 0, whole, pieces)
        for file in store.commitlog.files
        if whole < file.size <= whole * MOST_PIECES and file.size % whole == 0
        if (pieces := _pieces_of(store, file, whole))
    )


def _pieces_of(store: Store, file: MappedFile, whole: int) -> tuple[AppendedFile, ...]:
    """The pieces of a file; () where one is not a file of this log, or two are the same."""
    if stated_start(file.location, whole) != file.start_offset:
        return ()
    known = {other.start_offset: other for other in store.commitlog.files}
    pieces: list[AppendedFile] = []
    for pos in range(whole, file.size, whole):
        start = stated_start(file.location, whole, pos)
        if (
            start is None
            or start == file.start_offset
            or any(start == piece.start_offset for piece in pieces)
        ):
            return ()
        other = known.get(start)
        if other is not None and not same_content(file.location, other.location, pos, whole):
            return ()
        pieces.append(AppendedFile(pos, start, "" if other is None else other.relative))
    return tuple(pieces)


def doubled_files(files: Iterable[Appended]) -> frozenset[str]:
    """The files that another one has, too, at the very place where they belong: its records are theirs."""
    return frozenset(
        piece.original
        for file in files
        for piece in file.pieces
        if piece.original and piece.start_offset == file.start_offset + piece.pos
    )


def check_appended(files: Iterable[Appended]) -> Iterator[Finding]:
    """A finding for each."""
    for file in files:
        names = [offset_to_filename(piece.start_offset) for piece in file.pieces]
        yield Finding(
            RuleName.LOG_FILE_APPENDED,
            Where(file=file.relative, start=file.size, physical_offset=file.start_offset),
            {
                "file_count": len(names),
                "names": first_names(names),
            },
        )


def settle_doubled(kept: Collector, known: Known) -> None:
    """Let each file of the log that is a copy, or has others appended, be one finding: not what follows."""
    settle_copies(kept)
    _settle_appended(kept, {log.start_offset for log in known.logs if log is not None})


def _settle_appended(kept: Collector, starts: Collection[int]) -> None:
    """Take out what follows from appended files: what is wrong after the own bytes of the file they are in,
    with the queue offsets and times of files after it, and with units and entries that lead to their place
    while a file of that place is there. `starts` are the offsets at which the files of the log begin.
    """
    found = [finding for finding in kept.findings if finding.rule == RuleName.LOG_FILE_APPENDED]
    if not found:
        return
    sizes = {finding.where.file: finding.where.start or 0 for finding in found}
    first = min(finding.where.physical_offset or 0 for finding in found)
    covered = [span for finding in found for span in _covered(finding) if span[0] in starts]

    def follows(finding: Finding) -> bool:
        where, family = finding.where, finding.rule[:2]
        if where.file in sizes:
            reach = max(where.start or 0, where.end or 0)
            return family in _OF_RECORDS and (reach > sizes[where.file] or finding.rule in _AT_THE_END)
        if finding.rule in _ACROSS_FILES:
            return (where.physical_offset or 0) > first
        offset = finding.found.get("first_physical_offset", where.physical_offset)
        is_covered = isinstance(offset, int) and any(low <= offset < high for low, high in covered)
        return family == "XR" and is_covered

    kept.take_out(follows)


def _covered(finding: Finding) -> Iterator[tuple[int, int]]:
    """The physical offsets whose place each appended file has, by the name of the file that it is in."""
    size, count = finding.where.start or 0, finding.found["file_count"]
    assert isinstance(count, int)
    for number in range(1, count + 1):
        start = (finding.where.physical_offset or 0) + number * size
        yield start, start + size


_OF_RECORDS = ("CL", "XR")
_AT_THE_END = frozenset({RuleName.BLANK_SIZE, RuleName.BLANK_TOO_EARLY, RuleName.BLANK_MISSING})
_ACROSS_FILES = frozenset(
    {
        RuleName.QUEUE_OFFSET_REPEATED,
        RuleName.QUEUE_OFFSET_GAP,
        RuleName.QUEUE_BEGINS_AGAIN,
        RuleName.STORE_TIMESTAMP_BACK,
    }
)
