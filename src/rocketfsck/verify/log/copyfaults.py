"""What is wrong with records of a log that holds copies: compacted logs, segments of tiered storage.

One finding a record and reason; the columns are those of a scan (`scan.columns`). Reference 2.4.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rocketfsck.formats.arrays import Flags
from rocketfsck.scan.columns import Fault, RecordBatch
from rocketfsck.scan.queues import QueueTable

_FAULTS: tuple[tuple[Fault, str], ...] = (
    (Fault.SYS_FLAG | Fault.COMPRESSION_TYPE, "sysFlag has bits without a meaning"),
    (Fault.PORT, "a host has an impossible port"),
    (
        Fault.QUEUE_ID | Fault.QUEUE_OFFSET | Fault.PREPARED_OFFSET | Fault.BODY_SIZE | Fault.PROPERTIES_SIZE,
        "a field is negative",
    ),
    (
        Fault.TOPIC_EMPTY | Fault.TOPIC_CHARSET | Fault.TOPIC_SIZE | Fault.TOPIC_UTF8,
        "the topic name is impossible",
    ),
    (Fault.PROPERTY_NUL, "the properties contain NUL bytes"),
)


def odd_copies(
    batch: RecordBatch, table: QueueTable, topic: str, queue_id: int, log_name: str
) -> Iterator[tuple[Flags, str]]:
    """Which records of a batch have a fault, and which: pairs of flags, one a record, and a reason.

    `table` is that of the scan; the log holds one queue, and `log_name` is what the reason calls it.
    """
    own = (topic.encode("utf-8", "surrogateescape"), queue_id)
    rows = [row for row, name in enumerate(table.names) if name == own]
    faults = batch["faults"]
    yield ~np.isin(batch["queue_index"], rows), "the record belongs to another queue"
    yield (faults & Fault.PHYSICAL_OFFSET) != 0, f"physicalOffset is not the record's place in {log_name}"
    for bits, reason in _FAULTS:
        yield (faults & bits) != 0, reason
