"""What a clue to the dialect is, and what clues are looked for in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from rocketfsck.formats.dialect import Dialect
from rocketfsck.store.dialect.sampling import LogSample
from rocketfsck.store.model import ConsumeQueue, ExtQueue, Geometry, IndexFile, Other, StoreFile

Fits = Callable[[Dialect], bool]


class Weight(IntEnum):
    """How much a clue counts; smaller is more."""

    NEWEST = 0  # in the newest data
    PRESENT = 1  # somewhere in the store; a broker that was downgraded leaves it behind
    ABSENT = 2  # something that newer versions would have left is missing
    CLIENT = 3  # usual from some broker version on, but a client can send the same through an older one
    HINT = 4  # fits every version; worth saying


@dataclass(frozen=True, slots=True)
class Clue:
    """Something found (`what`), what follows (`why`), and which dialects it fits."""

    weight: Weight
    what: str
    why: str
    fits: Fits


@dataclass(frozen=True, slots=True)
class Found:
    """The parts of a store that clues are looked for in."""

    sample: LogSample
    queues: Sequence[ConsumeQueue]
    ext_queues: Sequence[ExtQueue]
    indexes: Sequence[IndexFile]
    geometry: Geometry
    checkpoint: StoreFile | None
    abort: StoreFile | None
    lock: StoreFile | None
    configs: Sequence[StoreFile]
    others: Sequence[Other]
