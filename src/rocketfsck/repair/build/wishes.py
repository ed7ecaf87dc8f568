"""Committed offsets that a user wants, as `--offsets` says them.

    clamp    every offset is moved into its queue
    bak      the offsets of consumerOffset.json.bak
    FILE     those of a file in the form of consumerOffset.json: {"offsetTable":{"TOPIC@GROUP":{0:12,1:13}}}

Offsets of queues that the store does not have are passed over; none is set beyond the end of its queue.
Reference 1.6.
"""

from __future__ import annotations

from pathlib import Path

from rocketfsck.errors import FormatError, UsageError
from rocketfsck.formats.config import decode_config
from rocketfsck.formats.configviews import consumer_offsets, split_topic_group
from rocketfsck.formats.properties import LMQ_PREFIX
from rocketfsck.query.offsets import DELIVERY, Standing, group_offsets
from rocketfsck.query.queues import QueueView
from rocketfsck.query.view import StoreView
from rocketfsck.reader.configs import CONFIG_LIMIT
from rocketfsck.repair.plan.arguments import GroupOffset
from rocketfsck.store.model import Store
from rocketfsck.store.reading import read_whole
from rocketfsck.verify.store.groups import OFFSET_DATABASES, OFFSETS, kept_in_databases
from rocketfsck.verify.store.offsets import Positions, positions_of

CLAMP, BACKUP = "clamp", "bak"
IN_DATABASE = (
    "the committed offsets are kept in RocksDB, which this program does not write; start the broker, and set "
    "them with `mqadmin resetOffsetByTime -b BROKER -g GROUP -t TOPIC -q QUEUE -o OFFSET -s now`"
)


def wished_offsets(store: Store, text: str) -> tuple[GroupOffset, ...]:
    """The offsets that `--offsets TEXT` asks for, at most the ends of the queues.

    Raises UsageError where offsets cannot be set here, none of them is for a queue of the store, or the file
    has another form; StoreError for one that cannot be read.
    """
    if kept_in_databases(store, OFFSET_DATABASES):
        raise UsageError(IN_DATABASE)
    if text == CLAMP:
        return tuple(
            GroupOffset(
                row.group, row.topic, row.queue_id, min(max(row.offset, row.min_offset), row.max_offset)
            )
            for row in group_offsets(store)
            if row.standing in (Standing.AHEAD, Standing.EXPIRED)
            and row.group != DELIVERY
            and not row.topic.startswith(LMQ_PREFIX)
        )
    positions = positions_of(store, f"{OFFSETS}.bak") if text == BACKUP else _positions_in(Path(text))
    if positions is None:
        raise UsageError(f"config/{OFFSETS}.bak is missing or damaged")
    with StoreView(store) as view:
        wished = tuple(
            GroupOffset(group, topic, queue_id, min(offset, queue.max_offset))
            for (group, topic, queue_id), offset in sorted(positions.items())
            if offset >= 0 and (queue := _queue_of(view, topic, queue_id)) is not None
        )
    if not wished:
        raise UsageError("none of the offsets belongs to a queue of this store")
    return wished


def _queue_of(view: StoreView, topic: str, queue_id: int) -> QueueView | None:
    return None if topic.startswith(LMQ_PREFIX) else view.queue(topic, queue_id)


def _positions_in(path: Path) -> Positions:
    """The offsets of a file in the form of consumerOffset.json. Raises StoreError, UsageError."""
    try:
        table = consumer_offsets(decode_config(read_whole(path, CONFIG_LIMIT)))
    except FormatError as error:
        raise UsageError(f"{path}: {error}") from None
    found: dict[tuple[str, str, int], int] = {}
    for key, offsets in table.items():
        parts = split_topic_group(key)
        if parts is None:
            raise UsageError(f"{path}: {key!r} is not TOPIC@GROUP")
        for queue_id, offset in offsets.items():
            found[parts[1], parts[0], queue_id] = offset
    return found
