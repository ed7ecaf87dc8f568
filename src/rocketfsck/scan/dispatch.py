"""Which consume queue units the records of a batch should have: the broker's dispatch as columns.

Normal and committed records go to the queue that they name, prepared and rolled back ones to none; an inner
batch goes as one unit with its base; a multi-dispatch record has one more unit in each queue of its list
(reference 2.13, 3.2, 8).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.magic import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NOT
from rocketfsck.scan.columns import RecordBatch, Trait
from rocketfsck.scan.join.keymerge import FAR

UNKNOWN_TAGS = -FAR
"""The tagsCode of a delayed record where the delay levels are not given: it is not compared."""

UNKNOWN_LEVEL_DELAY = 1000


@dataclass(frozen=True, slots=True)
class Dispatches:
    """One element a dispatch, in log order; `row` is the record's row in the batch.

    `queue` is the row of the queue in the QueueTable (-1: the full table did not take it), `index` the
    queueOffset (msgBaseOffset) and `count` the number of messages; `offset` and `size` place the record in
    the commit log (where it stands, not its physicalOffset); `tags` is the tagsCode of the unit.
    """

    row: NDArray[np.int64]
    queue: NDArray[np.int64]
    index: NDArray[np.int64]
    count: NDArray[np.int64]
    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    time: NDArray[np.int64]
    tags: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.row)


def dispatches_of(
    batch: RecordBatch, base_offset: int, *, delay_levels: Mapping[int, int] | None = None
) -> Dispatches:
    """The dispatches of a batch's records. `delay_levels` are the delays in ms by level, from 1."""
    transaction = batch["sys_flag"] & TRANSACTION_MASK
    rows = np.flatnonzero((transaction == TRANSACTION_NOT) | (transaction == TRANSACTION_COMMIT))
    traits = batch["traits"][rows]
    columns = {
        "row": rows,
        "queue": batch["queue_index"][rows],
        "index": batch["inner_base"][rows],
        "count": batch["batch_size"][rows],
        "offset": batch["pos"][rows] + base_offset,
        "size": batch["total_size"][rows],
        "time": batch["store_timestamp"][rows],
        "tags": _unit_tags(batch, rows, traits, delay_levels),
    }
    if len(batch["dispatch_record"]):
        columns = _with_multi_dispatch(columns, batch)
    return Dispatches(**{name: _int64(column) for name, column in columns.items()})


def _int64(column: NDArray[Any]) -> NDArray[np.int64]:
    return np.ascontiguousarray(column, np.int64)


def _unit_tags(
    batch: RecordBatch, rows: NDArray[Any], traits: NDArray[Any], levels: Mapping[int, int] | None
) -> NDArray[np.int64]:
    tags = _int64(batch["tags_code"][rows])
    level = batch["delay_level"][rows]
    wanted = Trait.SCHEDULE_TOPIC | Trait.DELAY
    delayed = np.flatnonzero(((traits & wanted) == wanted) & (level > 0))
    if not len(delayed):
        return tags
    tags = tags.copy()
    if levels is None:
        tags[delayed] = UNKNOWN_TAGS
        return tags
    last = max(levels, default=0)
    delay = np.full(max(last, 0) + 1, UNKNOWN_LEVEL_DELAY, np.int64)
    for number, duration in levels.items():
        delay[number] = duration
    store_timestamp = batch["store_timestamp"][rows[delayed]].view(np.uint64)
    delays = delay[np.minimum(level[delayed], last)].view(np.uint64)
    tags[delayed] = (store_timestamp + delays).view(np.int64)  # unsigned: wraps like Java, without a warning
    return tags


def _with_multi_dispatch(columns: dict[str, NDArray[Any]], batch: RecordBatch) -> dict[str, NDArray[Any]]:
    """The columns with a row for every further queue after that of the record's own."""
    record, rows = batch["dispatch_record"], columns["row"]
    place = np.searchsorted(rows, record)
    taken = np.flatnonzero(np.append(rows, -1)[place] == record)  # not of records that are not dispatched
    merged = {name: np.concatenate([column, column[place[taken]]]) for name, column in columns.items()}
    first = len(rows)
    merged["queue"][first:] = batch["dispatch_queue"][taken]
    merged["index"][first:] = batch["dispatch_offset"][taken]
    merged["count"][first:] = 1
    order = np.argsort(merged["row"], kind="stable")  # a record's own queue comes before those of its list
    return {name: column[order] for name, column in merged.items()}
