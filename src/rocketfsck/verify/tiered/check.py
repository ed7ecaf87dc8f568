"""Checks tiered storage, part after part. Reference 1.10.

segments   against the metadata                          here
queues     records, units, the store's own log           verify.tiered.queues
indexes    items against the records of all queues       verify.tiered.indexes

Checks the segments of tiered storage against the metadata: which there are, lengths, order. Ref. 1.10.

row of the metadata <--path, type, baseOffset--> file    TS002, TS003
size of the row     <--> length of the file              TS004, TS005
baseOffset + size   ==  baseOffset of the next row       TS006
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rocketfsck.common.budget import within
from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats.tiered import segment_name
from rocketfsck.reader import tiered
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.store.model import MappedFile, Other, OtherKind, Store
from rocketfsck.store.others import SEGMENT_KINDS, segment_place
from rocketfsck.store.reading import read_whole
from rocketfsck.verify.finding import Facts, Finding, Findings, Where
from rocketfsck.verify.report import Items, NotChecked
from rocketfsck.verify.tasks.task import Checked, Context, capped
from rocketfsck.verify.tiered.indexes import IndexWalk
from rocketfsck.verify.tiered.indexheaders import MAX_KEYS, QueueKeys
from rocketfsck.verify.tiered.queues import QueueWalk


def check_metadata(store: Store) -> Items:
    """Whether a broker can load the metadata, and what in it contradicts itself."""
    files = tiered.metadata_files(store)
    for file in files[:1]:
        try:
            metadata = tiered.decode_metadata(read_whole(file.path, tiered.MAX_METADATA_SIZE))
        except FormatError as error:
            where = Where(file.relative, error.offset)
            yield Finding(RuleName.TIERED_METADATA, where, {"reason": str(error)})
            continue
        for text in metadata.odd:
            yield Finding(RuleName.TIERED_METADATA, Where(file.relative), {"reason": text})
    if not files and tiered_parts(store):
        reason = "the file is missing: a broker does not find any segment"
        yield Finding(RuleName.TIERED_METADATA, Where(tiered.METADATA), {"reason": reason})


def tiered_parts(store: Store) -> list[Other]:
    """The parts of the store that are directories of segments."""
    return [other for other in store.others if other.kind in SEGMENT_KINDS]


def check_segments(store: Store) -> Items:
    """The files of every queue and of the index against the metadata, and the metadata against itself."""
    yield from check_metadata(store)
    metadata = tiered.read_metadata(store)
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
        yield NotChecked(tiered.METADATA, reason)


def live_rows(metadata: tiered.TieredMetadata, path: str, type_name: str) -> tuple[tiered.SegmentRow, ...]:
    """The segments of a queue and type that a broker reads, in order."""
    rows = metadata.segments.get((path, type_name), ())
    return tuple(row for row in rows if row.status != tiered.DELETED)


def _compare(
    directory: str, rows: Sequence[tiered.SegmentRow], files: Sequence[MappedFile], known: set[int]
) -> Findings:
    by_offset = {file.start_offset: file for file in files}
    for row in rows:
        file = by_offset.get(row.base_offset)
        facts: Facts = {"size": row.size, "offset": row.base_offset}
        if file is None:
            if row.size:
                where = Where(f"{directory}/{segment_name(row.base_offset)}")
                yield Finding(RuleName.TIERED_SEGMENT_MISSING, where, facts)
            continue
        where = Where(file.relative, min(file.size, row.size), max(file.size, row.size))
        rule = RuleName.TIERED_SEGMENT_SHORT if file.size < row.size else RuleName.TIERED_SEGMENT_LONG
        if file.size != row.size:
            yield Finding(rule, where, {"size": file.size}, {"size": row.size})
    for row, following in pairwise(rows):
        if row.base_offset + row.size != following.base_offset:
            where = Where(f"{directory}/{segment_name(following.base_offset)}")
            gap: Facts = {"offset": following.base_offset}
            yield Finding(RuleName.TIERED_SEGMENT_GAP, where, gap, {"offset": row.base_offset + row.size})
    for file in files:
        if file.start_offset not in known and file.size:
            yield Finding(RuleName.TIERED_SEGMENT_UNLISTED, Where(file.relative), {"size": file.size})


_NO_METADATA = tiered.TieredMetadata({}, {})


@dataclass(slots=True)
class Tiered:
    """What a check of tiered storage found, and how much it looked at."""

    items: list[Finding | NotChecked] = field(default_factory=list)
    checked: Checked = field(default_factory=Checked)

    @property
    def present(self) -> bool:
        """Whether there is any."""
        return self.checked.file_count > 0


def check_tiered(context: Context) -> Tiered:
    """All of tiered storage; at the level quick only segments and the headers of index files."""
    found = Tiered()
    parts = tiered_parts(context.store)
    files = [file for part in parts for file in part.files] + list(tiered.local_indexes(context.store))
    try:
        found.items += check_segments(context.store)
        metadata = tiered.read_metadata(context.store) or _NO_METADATA
    except StoreError as error:
        found.items.append(NotChecked(error.path or "tiered", str(error), operational=True))
        return found
    brokers = {path.split("/")[0] for path, _ in metadata.segments}
    queues = [
        queue for queue in tiered.tiered_queues(context.store) if not brokers or queue.broker in brokers
    ]
    by_name = {(queue.topic, queue.queue_id): queue for queue in queues}
    indexes = IndexWalk(context.store, metadata, by_name, {})
    records = units = 0
    if context.level != "quick":
        keys: dict[tuple[str, int], QueueKeys] = {}
        room = MAX_KEYS
        with_keys = bool(tiered.local_indexes(context.store)) or any(
            part.kind is OtherKind.TIERED_SEGMENT_INDEX for part in parts
        )
        with within(compiled=compiled_wanted(sum(queue.log.size for queue in queues))):
            for queue in queues:
                walk = _walk(context, metadata, queue)
                walk.keys = QueueKeys(room=room) if with_keys else None
                found.items += _guarded(queue.directory, walk.run(), context.detail_limit)
                records, units = records + walk.record_count, units + walk.unit_count
                if walk.keys is not None:
                    keys[queue.topic, queue.queue_id] = walk.keys
                    room -= walk.keys.count
        indexes.keys = keys
    found.items += _indexes(context, metadata, indexes)
    found.checked = Checked(len(files), sum(file.size for file in files), records, units, indexes.item_count)
    return found


def _walk(context: Context, metadata: tiered.TieredMetadata, queue: tiered.TieredQueue) -> QueueWalk:
    return QueueWalk(
        context,
        queue,
        {row.base_offset: row for row in live_rows(metadata, queue.path, "COMMIT_LOG")},
        {row.base_offset: row for row in live_rows(metadata, queue.path, "CONSUME_QUEUE")},
    )


def _indexes(context: Context, metadata: tiered.TieredMetadata, walk: IndexWalk) -> Items:
    for part in tiered_parts(context.store):
        if part.kind is not OtherKind.TIERED_SEGMENT_INDEX:
            continue
        place = segment_place(part)
        rows = {row.base_offset: row for row in live_rows(metadata, place.path, place.type_name)}
        for file in part.files:
            base = file.start_offset if isinstance(file, MappedFile) else None
            found = walk.segment(file, rows.get(base or 0), context.level)
            yield from _guarded(file.relative, found, context.detail_limit)
    for file in tiered.local_indexes(context.store):
        yield from _guarded(file.relative, walk.local(file, context.level), context.detail_limit)
    if context.level != "quick":
        yield from _guarded("tiered", walk.unindexed(), context.detail_limit)


def _guarded(what: str, items: Items | Findings, limit: int) -> Items:
    left_out: list[NotChecked] = []

    def findings() -> Findings:
        for item in items:
            if isinstance(item, Finding):
                yield item
            else:
                left_out.append(item)

    try:
        yield from capped(findings(), limit)
    except StoreError as error:
        yield NotChecked(error.path or what, str(error), operational=True)
    yield from left_out
