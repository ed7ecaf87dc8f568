"""Checks tiered storage, part after part. Reference 1.10.

segments   against the metadata                          verify.tiered.segments
queues     records, units, the store's own log           verify.tiered.queues
indexes    items against the records of all queues       verify.tiered.indexes
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rocketfsck.common.budget import within
from rocketfsck.errors import StoreError
from rocketfsck.reader.tiered import (
    TieredMetadata,
    TieredQueue,
    local_indexes,
    read_metadata,
    tiered_queues,
)
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.store.model import MappedFile, OtherKind
from rocketfsck.store.tiered import segment_place
from rocketfsck.verify.emit import capped
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.report import NotChecked
from rocketfsck.verify.tasks.task import Checked, Context
from rocketfsck.verify.tiered.indexes import IndexWalk
from rocketfsck.verify.tiered.indexheaders import MAX_KEYS, QueueKeys
from rocketfsck.verify.tiered.queues import QueueWalk
from rocketfsck.verify.tiered.segments import check_segments, live_rows, tiered_parts

_NO_METADATA = TieredMetadata({}, {})


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
    files = [file for part in parts for file in part.files] + list(local_indexes(context.store))
    try:
        found.items += check_segments(context.store)
        metadata = read_metadata(context.store) or _NO_METADATA
    except StoreError as error:
        found.items.append(NotChecked(error.path or "tiered", str(error), operational=True))
        return found
    brokers = {path.split("/")[0] for path, _ in metadata.segments}
    queues = [queue for queue in tiered_queues(context.store) if not brokers or queue.broker in brokers]
    by_name = {(queue.topic, queue.queue_id): queue for queue in queues}
    indexes = IndexWalk(context.store, metadata, by_name, {})
    records = units = 0
    if context.level != "quick":
        keys: dict[tuple[str, int], QueueKeys] = {}
        room = MAX_KEYS
        with_keys = bool(local_indexes(context.store)) or any(
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


def _walk(context: Context, metadata: TieredMetadata, queue: TieredQueue) -> QueueWalk:
    return QueueWalk(
        context,
        queue,
        {row.base_offset: row for row in live_rows(metadata, queue.path, "COMMIT_LOG")},
        {row.base_offset: row for row in live_rows(metadata, queue.path, "CONSUME_QUEUE")},
    )


def _indexes(context: Context, metadata: TieredMetadata, walk: IndexWalk) -> Iterator[Finding | NotChecked]:
    for part in tiered_parts(context.store):
        if part.kind is not OtherKind.TIERED_SEGMENT_INDEX:
            continue
        place = segment_place(part)
        rows = {row.base_offset: row for row in live_rows(metadata, place.path, place.type_name)}
        for file in part.files:
            base = file.start_offset if isinstance(file, MappedFile) else None
            found = walk.segment(file, rows.get(base or 0), context.level)
            yield from _guarded(file.relative, found, context.detail_limit)
    for file in local_indexes(context.store):
        yield from _guarded(file.relative, walk.local(file, context.level), context.detail_limit)
    if context.level != "quick":
        yield from _guarded("tiered", walk.unindexed(), context.detail_limit)


def _guarded(
    what: str, items: Iterator[Finding | NotChecked] | Iterator[Finding], limit: int
) -> Iterator[Finding | NotChecked]:
    left_out: list[NotChecked] = []

    def findings() -> Iterator[Finding]:
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
