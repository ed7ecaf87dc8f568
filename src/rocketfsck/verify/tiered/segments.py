"""Checks the segments of tiered storage against the metadata: which there are, lengths, order. Ref. 1.10.

row of the metadata <--path, type, baseOffset--> file    TS002, TS003
size of the row     <--> length of the file              TS004, TS005
baseOffset + size   ==  baseOffset of the next row       TS006
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import FormatError
from rocketfsck.formats.tiered import segment_name
from rocketfsck.reader.tiered import (
    DELETED,
    MAX_METADATA_SIZE,
    METADATA,
    SegmentRow,
    TieredMetadata,
    decode_metadata,
    metadata_files,
    read_metadata,
)
from rocketfsck.store.model import MappedFile, Other, Store
from rocketfsck.store.reading import read_whole
from rocketfsck.store.tiered import SEGMENT_KINDS, segment_place
from rocketfsck.verify.finding import Facts, Finding, Where
from rocketfsck.verify.report import NotChecked


def check_metadata(store: Store) -> Iterator[Finding | NotChecked]:
    """Whether a broker can load the metadata, and what in it contradicts itself."""
    files = metadata_files(store)
    for file in files[:1]:
        try:
            metadata = decode_metadata(read_whole(file.path, MAX_METADATA_SIZE))
        except FormatError as error:
            where = Where(file=file.relative, start=error.offset)
            yield Finding(RuleName.TIERED_METADATA, where, {"reason": str(error)})
            continue
        for text in metadata.odd:
            yield Finding(RuleName.TIERED_METADATA, Where(file=file.relative), {"reason": text})
    if not files and tiered_parts(store):
        reason = "the file is missing: a broker does not find any segment"
        yield Finding(RuleName.TIERED_METADATA, Where(file=METADATA), {"reason": reason})


def tiered_parts(store: Store) -> list[Other]:
    """The parts of the store that are directories of segments."""
    return [other for other in store.others if other.kind in SEGMENT_KINDS]


def check_segments(store: Store) -> Iterator[Finding | NotChecked]:
    """The files of every queue and of the index against the metadata, and the metadata against itself."""
    yield from check_metadata(store)
    metadata = read_metadata(store)
    if metadata is None:
        return
    brokers = {path.split("/")[0] for path, _ in metadata.segments}
    bases = set()
    seen = set()
    for other in tiered_parts(store):
        place = segment_place(other)
        bases.add(other.relative[: -len(f"/{place.path}/{place.type_name}")])
        if brokers and place.broker not in brokers:
            reason = (
                f"the files belong to broker {place.broker}, which the metadata of this store does not have"
            )
            yield NotChecked(other.relative, reason)
            continue
        seen.add((place.path, place.type_name))
        rows = live_rows(metadata, place.path, place.type_name)
        files = tuple(file for file in other.files if isinstance(file, MappedFile))
        deleted = metadata.segments.get((place.path, place.type_name), ())
        yield from _compare(other.relative, rows, files, {row.base_offset for row in deleted})
    # Where nothing at all is on the disk, the provider may be another one than the posix one.
    for (path, type_name), _ in sorted(metadata.segments.items()):
        if (path, type_name) in seen or len(bases) != 1:
            continue
        rows = live_rows(metadata, path, type_name)
        yield from _compare(f"{min(bases)}/{path}/{type_name}", rows, (), set())
    if not bases and any(metadata.segments.values()):
        reason = (
            "the segments that the metadata lists are not in the store; name their place with --broker-conf"
        )
        yield NotChecked(METADATA, reason)


def live_rows(metadata: TieredMetadata, path: str, type_name: str) -> tuple[SegmentRow, ...]:
    """The segments of a queue and type that a broker reads, in order."""
    rows = metadata.segments.get((path, type_name), ())
    return tuple(row for row in rows if row.status != DELETED)


def _compare(
    directory: str, rows: Sequence[SegmentRow], files: Sequence[MappedFile], known: set[int]
) -> Iterator[Finding]:
    by_offset = {file.start_offset: file for file in files}
    for row in rows:
        file = by_offset.get(row.base_offset)
        facts: Facts = {"size": row.size, "offset": row.base_offset}
        if file is None:
            if row.size:
                where = Where(file=f"{directory}/{segment_name(row.base_offset)}")
                yield Finding(RuleName.TIERED_SEGMENT_MISSING, where, facts)
            continue
        where = Where(file=file.relative, start=min(file.size, row.size), end=max(file.size, row.size))
        rule = RuleName.TIERED_SEGMENT_SHORT if file.size < row.size else RuleName.TIERED_SEGMENT_LONG
        if file.size != row.size:
            yield Finding(rule, where, {"size": file.size}, {"size": row.size})
    for row, following in pairwise(rows):
        if row.base_offset + row.size != following.base_offset:
            where = Where(file=f"{directory}/{segment_name(following.base_offset)}")
            gap: Facts = {"offset": following.base_offset}
            yield Finding(RuleName.TIERED_SEGMENT_GAP, where, gap, {"offset": row.base_offset + row.size})
    for file in files:
        if file.start_offset not in known and file.size:
            unlisted: Facts = {"size": file.size}
            yield Finding(RuleName.TIERED_SEGMENT_UNLISTED, Where(file=file.relative), unlisted)
