"""What differs between broker versions in the answers to queries, as data.

Where no recorded answer tells versions apart, the released source code does: the first release that has a
change is named. Reference 4.7, 7.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rocketfsck.formats.dialect import Dialect, Version, dialect_of

MAX_BATCH_NUM = 64
"""`maxMsgsNumBatch`: a query by key gives no more."""
DEFAULT_QUERY_NUM = 32
"""`defaultQueryMaxNum`: a query by unique key asks for as many."""
QUERY_ROUNDS = 3
TRANSFER_SIZE, TRANSFER_COUNT = 256 * 1024, 32
"""`maxTransferBytesOnMessageInMemory` and `maxTransferCountOnMessageInMemory`."""
FILTER_SIZE = 16000
"""`maxFilterMessageSize`: bytes of units that one pull goes through."""


@dataclass(frozen=True, slots=True)
class QueryTraits:
    """How a version answers.

    `time_search`: "nearest" picks the consume queue file by its mtime and the unit whose time is nearest;
    "boundary" goes by the records' own times and knows a lower and an upper answer, which consumers can ask
    for if `upper_boundary`. `time_clamped`: an answer to a time stays between the ends of the queue.
    `overflow_to_min`: who asks beyond the end of a queue that begins at 0 is sent back to 0.
    `pull_limit`: how one pull measures the units that it goes through: in "bytes", or (5.0.0) their number
    against a limit in bytes. `limit_inclusive`: at the limit it stops; else one unit beyond it.
    `keeps_unreadable`: a query by key returns the first offset found, even where no message can be decoded.
    `skips_first`: units of a file that has gone are passed over before the answer is found to be full.
    """

    version: Version
    dialect: Dialect
    time_search: Literal["nearest", "boundary"]
    upper_boundary: bool
    time_clamped: bool
    overflow_to_min: bool
    pull_limit: Literal["bytes", "units"]
    limit_inclusive: bool
    skips_first: bool
    keeps_unreadable: bool


def traits_of(version: Version) -> QueryTraits:
    """The traits of a version."""
    iterates = version.since("5.0.0-ALPHA")  # over units of either kind of queue
    return QueryTraits(
        version=version,
        dialect=dialect_of(version),
        time_search="boundary" if version.since("5.1.1") else "nearest",
        upper_boundary=version.since("5.1.4"),
        time_clamped=iterates,
        overflow_to_min=dialect_of(version).overflow_to_min,
        pull_limit="units" if iterates and not version.since("5.1.0") else "bytes",
        limit_inclusive=not iterates or version.since("5.3.3"),
        skips_first=not iterates,
        keeps_unreadable=version.since("5.4.0"),
    )
