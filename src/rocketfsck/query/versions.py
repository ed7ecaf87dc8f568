"""What differs between broker versions in the answers to queries, as data.

What the reference does not say was found from the recorded answers of the real code, and from the history of
the code where no version in between was recorded. Reference 4.7, 7.3.
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
    "boundary" goes by the records' own times, knows a lower and an upper answer, and keeps it in the queue.
    `overflow_to_min`: who asks behind the end of a queue that begins at 0 is sent back to 0.
    """

    version: Version
    dialect: Dialect
    time_search: Literal["nearest", "boundary"]
    overflow_to_min: bool


def traits_of(version: Version) -> QueryTraits:
    """The traits of a version."""
    return QueryTraits(
        version=version,
        dialect=dialect_of(version),
        time_search="boundary" if version.since("5.1.0") else "nearest",
        overflow_to_min=not version.since("4.9.4", "5.0.0"),
    )
