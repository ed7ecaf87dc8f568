"""What a store has from its databases: queues and configs that became files. `store.rocks.lifting`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """What a database says of one of its queues. `least` and `greatest` are a queue offset and the physical
    offset of its record, None without such a row; `row_count` units are within them."""

    least: tuple[int, int] | None
    greatest: tuple[int, int] | None
    row_count: int


@dataclass(frozen=True, slots=True)
class DatabaseQueues:
    """The queues of a database, by topic and queueId. `dispatched`: the physical offset up to which records
    have units, None where it is not written down."""

    dispatched: int | None
    bounds: Mapping[tuple[str, int], QueueBounds]


@dataclass(frozen=True, slots=True)
class Lifted:
    """Databases (by their path below the root) whose content the store's queues and configs have, and the
    directories with files of it, by the name of the one below the root in whose place they are.

    `files` is where the queues of databases are as files, None without any; `queues` what the databases say
    of them; `failed` why a database cannot be read; `beside_files` whether the store has queues in
    files, too."""

    databases: frozenset[str] = frozenset()
    areas: Mapping[str, Path] = field(default_factory=dict)
    files: Path | None = None
    queues: Mapping[str, DatabaseQueues] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    beside_files: bool = False


NOTHING_LIFTED = Lifted()
