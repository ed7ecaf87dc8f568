"""Commit log files whose first record says that they belong elsewhere: somebody renamed or copied them.

What is in a renamed file is not lost: a broker does not find it, and some versions delete the file. All
that a copy has its original has, too. Reference 1.2, 2.1.

Commit log files to which others were appended, as by `cat b >> a`.

    file := as many bytes as a commit log file has, the file of its name; further files, each as long

The records of an appended file say where they belong. Either a file of that name is there and has the same
bytes, or the appended ones are the only ones. Reference 1.2, 2.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import first_names
from rocketfsck.errors import StoreError
from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.reader.heads import head_at, whole_head_at
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.store.reading import CHUNK_SIZE, FileReader
from rocketfsck.verify.finding import Facts, Finding, Findings, Where
from rocketfsck.verify.tasks.task import Collector, Known


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
        start = stated_start(location, size) if size == log.file_size else None
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
        if file.relative in suspects and stated_start(file.location, log.file_size) in right - {None}
    )


@dataclass(frozen=True, slots=True)
class Copied:
    """A file of the log with the very bytes of another one, its `original`, up to where its zeros begin."""

    relative: str
    named_start: int
    original: str
    original_start: int


def exact_copies(store: Store, copies: Collection[str]) -> tuple[Copied, ...]:
    """Those of the `copies` (`copied_files`) that are the same as the file whose records they have.

    Raises StoreError for a file that cannot be read.
    """
    log = store.commitlog
    right = {file.start_offset: file for file in log.files if file.relative not in copies}
    found = []
    for file in log.files:
        stated = stated_start(file.location, log.file_size) if file.relative in copies else None
        original = None if stated is None else right.get(stated)
        if original is not None and same_content(file.location, original.location, 0, file.size):
            found.append(
                Copied(file.relative, file.start_offset or 0, original.relative, original.start_offset or 0)
            )
    return tuple(found)


def same_content(location: str, other: str, start: int, size: int) -> bool:
    """Whether `size` bytes of a file from `start` on are those that another one begins with, up to where
    zeros begin. Raises StoreError.
    """
    with FileReader(location) as reader, FileReader(other) as original:
        end = reader.used_end(start, start + size)
        if end == start or end - start > original.size:
            return False
        for pos in range(start, end, CHUNK_SIZE):
            count = min(CHUNK_SIZE, end - pos)
            if reader.read(pos, count) != original.read(pos - start, count):
                return False
    return True


def check_copied(copies: Iterable[Copied], counts: Mapping[str, int]) -> Findings:
    """A finding for each; `counts` are the records of each file."""
    for copied in copies:
        where = Where(copied.relative, 0, physical_offset=copied.named_start)
        found: Facts = {"original": copied.original, "original_physical_offset": copied.original_start}
        facts: Facts = {**found, "record_count": counts.get(copied.relative, 0)}
        yield Finding(RuleName.LOG_FILE_COPIED, where, facts)


def settle_copies(kept: Collector) -> None:
    """Take out what follows from files that are copies: each is one finding, whatever its records break."""
    copies = {finding.where.file for finding in kept.findings if finding.rule == RuleName.LOG_FILE_COPIED}
    if copies:

        def follows(finding: Finding) -> bool:
            before = finding.rule == RuleName.BLANK_MISSING and finding.found.get("next_file") in copies
            return before or (finding.where.file in copies and finding.rule[:2] in _OF_RECORDS)

        kept.take_out(follows)


_OF_RECORDS = ("CL", "XR")
"""Families of rules about the records of a file."""


def check_misnamed(files: tuple[Misnamed, ...]) -> Findings:
    """A finding for each."""
    for file in files:
        name = offset_to_filename(file.start)
        where = Where(file.relative, 0, physical_offset=file.start)
        yield Finding(RuleName.LOG_FILE_MISNAMED, where, {"size": file.end - file.start}, {"name": name})


def stated_start(location: str, size: int, pos: int = 0) -> int | None:
    """Where the file that begins at `pos` belongs by what its first two records say; None where they do not
    say so, or cannot be read. `size` is the length of a commit log file."""
    try:
        with FileReader(location) as reader:
            first = whole_head_at(reader, pos)
            second = None if first is None else head_at(reader, pos + first.total_size)
    except StoreError:
        return None
    if first is None or first.physical_offset < 0 or first.physical_offset % size:
        return None
    if second is not None and second.physical_offset - first.total_size != first.physical_offset:
        return None
    return first.physical_offset


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


def check_appended(files: Iterable[Appended]) -> Findings:
    """A finding for each."""
    for file in files:
        names = [offset_to_filename(piece.start_offset) for piece in file.pieces]
        yield Finding(
            RuleName.LOG_FILE_APPENDED,
            Where(file.relative, file.size, physical_offset=file.start_offset),
            {"file_count": len(names), "names": first_names(names)},
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


_AT_THE_END = frozenset({RuleName.BLANK_SIZE, RuleName.BLANK_TOO_EARLY, RuleName.BLANK_MISSING})
_ACROSS_FILES: Set[RuleName] = {
    RuleName.QUEUE_OFFSET_REPEATED,
    RuleName.QUEUE_OFFSET_GAP,
    RuleName.QUEUE_BEGINS_AGAIN,
    RuleName.STORE_TIMESTAMP_BACK,
}
