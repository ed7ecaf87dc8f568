"""A store of a fleet: what is asked about it, and what came of it. Plain values: they travel.

What came of the check of many stores: rows are in memory, some hundred bytes each, findings in a file.
"""

from __future__ import annotations

import pickle
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, Final, Literal, get_args
from weakref import finalize

from rocketfsck._version import __version__
from rocketfsck.common.documents import members, to_document
from rocketfsck.common.rows import Column, Text, arrow_batch, arrow_schema, columns_of
from rocketfsck.errors import Outcome, outcome_of
from rocketfsck.repair.compare.groups import ReplicaGroup
from rocketfsck.repair.state import State
from rocketfsck.store.reading import named_errors
from rocketfsck.store.scratch import scratch_parent
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.policy import Policy
from rocketfsck.verify.report import FINDING_COLUMNS
from rocketfsck.verify.rules.rule import Level

if TYPE_CHECKING:
    import pyarrow as pa


STORES_KIND: Final = "rocketfsck.check.stores"
FINDINGS_KIND = "rocketfsck.check.stores.findings"

FleetState = Literal[State, "failed"]
"""The state of a verdict; `failed` is a store that could not be opened or checked."""

ORDER: tuple[FleetState, ...] = (
    "interrupted",
    "refused",
    "harmful",
    "failed",
    "unread",
    "lost",
    "damaged",
    "unknown",
    "partial",
    "running",
    "unclean",
    "healthy",
)
"""Worst first."""


@dataclass(frozen=True, slots=True)
class FleetRequest:
    """What is asked about every store. `version`: the broker whose start is predicted. At most
    `finding_limit` findings of a store come back."""

    run_id: str
    options: CheckOptions
    facts: Mapping[str, Any] = field(default_factory=dict)
    policy: Policy = field(default_factory=dict)
    version: str | None = None
    finding_limit: int = 0


@dataclass(frozen=True, slots=True)
class StoreRow:
    """What came of one store: a row of the table of stores.

    Counts are exact. `unlisted_finding_count` findings are not in the table of findings; null if none was
    asked for. `lost_record_count` messages are lost (null: they were not counted), and
    `lost_entry_count` index entries are not there after a repair. `is_complete`: everything was looked at;
    `not_checked` names the first files that could not be read, each with the reason. `exit_code` is that of a
    `check` of this store alone.
    `error` says why the store could not be opened or checked; the members of the verdict are then null.
    Of the bytes that were checked, `taken_over_byte_count` were read by an earlier check (`--since`); the
    part that was read longest ago was read at `oldest_read_timestamp` (ms; null without a state).
    """

    run_id: Text
    broker: str
    root: str
    state: FleetState
    exit_code: int
    may_start: bool | None = None
    version: Text | None = None
    error_count: int | None = None
    warning_count: int | None = None
    info_count: int | None = None
    unlisted_finding_count: int | None = None
    lost_record_count: int | None = None
    lost_entry_count: int | None = None
    damaged_byte_count: int | None = None
    file_count: int | None = None
    byte_count: int | None = None
    checked_byte_count: int | None = None
    is_complete: bool | None = None
    not_checked: Text | None = None
    next_command: str | None = None
    error: Text | None = None
    seconds: float = 0.0
    read_byte_count: int | None = None
    taken_over_byte_count: int | None = None
    oldest_read_timestamp: int | None = None

    @property
    def badness(self) -> tuple[int, int, int, str]:
        """Sorts the worst store first."""
        return (ORDER.index(self.state), -(self.error_count or 0), -(self.warning_count or 0), self.root)

    def as_row(self) -> dict[str, Any]:
        """The values of `STORE_COLUMNS`."""
        return dict(members(self))


@dataclass(frozen=True, slots=True)
class CheckedStore:
    """What a worker sends back: the row, and the findings as `results.packed` packs them."""

    row: StoreRow
    findings: bytes = b""


STORE_COLUMNS = columns_of(StoreRow)
"""The columns of the table of stores."""

LATER_COLUMNS = frozenset({"read_byte_count", "taken_over_byte_count", "oldest_read_timestamp"})
"""Columns that tables of stores from earlier versions lack."""

FLEET_FINDING_COLUMNS = (
    Column("run_id", "text"),
    Column("broker", "name"),
    Column("root", "name"),
    *FINDING_COLUMNS,
)
"""The columns of the table of findings: those of `check --format arrow` behind the run and the store."""

assert len(ORDER) == len(get_args(FleetState))


# Bytes that the driver puts by: in a file without a name, that goes with the object. Memory holds places.


@dataclass(frozen=True, slots=True)
class Kept:
    """Where some bytes are in a spool."""

    start: int = 0
    size: int = 0


class Spool:
    """Takes bytes, and gives them back; `what` names them in an error."""

    def __init__(self, what: str) -> None:
        self._what = what
        with named_errors(what, "cannot be kept in a temporary file"):
            self._file: IO[bytes] = TemporaryFile(prefix="rocketfsck-", dir=scratch_parent())  # noqa: SIM115
        finalize(self, self._file.close)

    def keep(self, data: bytes) -> Kept:
        """Put bytes by. Raises StoreError if the disk is full."""
        if not data:
            return Kept()
        with named_errors(self._what, "cannot be kept in a temporary file"):
            start = self._file.seek(0, 2)
            self._file.write(data)
        return Kept(start, len(data))

    def read(self, kept: Kept) -> bytes:
        """The bytes again. Raises StoreError where the disk does not give them back."""
        if not kept.size:
            return b""
        with named_errors(self._what, "cannot be read from a temporary file"):
            self._file.seek(kept.start)
            data = self._file.read(kept.size)
        assert len(data) == kept.size
        return data


def packed(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows of findings as few bytes."""
    return zlib.compress(pickle.dumps(list(rows), pickle.HIGHEST_PROTOCOL), 1) if rows else b""


class FindingFile:
    """The findings of all stores, in a file without a name that goes with this object."""

    def __init__(self) -> None:
        self._spool = Spool("findings")
        self._places: dict[int, Kept] = {}

    def add(self, number: int, findings: bytes) -> None:
        """Keep the findings of a store. Raises StoreError if the disk is full."""
        if findings:
            self._places[number] = self._spool.keep(findings)

    def rows(self, number: int) -> list[dict[str, Any]]:
        """The findings of a store, as values of `FLEET_FINDING_COLUMNS`."""
        data = self._spool.read(self._places.get(number, Kept()))
        found: list[dict[str, Any]] = pickle.loads(zlib.decompress(data)) if data else []
        return found


@dataclass(frozen=True, slots=True)
class FleetHead:
    """What a check of many stores says of all of them; `started_timestamp` is in ms. `node_groups` are those
    whose nodes the stores are, looked for where these are few."""

    kind: Literal["rocketfsck.check.stores"]
    run_id: str
    tool_version: str
    level: Level
    started_timestamp: int
    seconds: float
    exit_code: int
    outcome: Outcome
    store_count: int
    byte_count: int
    read_byte_count: int
    taken_over_byte_count: int
    oldest_read_timestamp: int | None
    state_counts: Mapping[FleetState, int]
    node_groups: tuple[ReplicaGroup, ...]


@dataclass(frozen=True, slots=True)
class FleetReport:
    """What a check of many stores found: `stores` in the order in which they were named.

    `started_timestamp` is in ms. Findings are those that `finding_limit` let through.
    """

    run_id: str
    level: Level
    started_timestamp: int
    seconds: float
    stores: tuple[StoreRow, ...]
    findings: FindingFile
    node_groups: tuple[ReplicaGroup, ...] = ()

    @property
    def exit_code(self) -> int:
        """The exit statuses of all stores, or-ed."""
        return reduce(or_, (row.exit_code for row in self.stores), 0)

    @property
    def state_counts(self) -> dict[FleetState, int]:
        """How many stores are in each state, the worst first; states that no store has are left out."""
        counts = Counter(row.state for row in self.stores)
        return {state: counts[state] for state in ORDER if counts[state]}

    @property
    def oldest_read_timestamp(self) -> int | None:
        """When the part of any store was read that was read longest ago (ms); None without states."""
        times = (row.oldest_read_timestamp for row in self.stores)
        return min((time for time in times if time is not None), default=None)

    def worst_first(self) -> list[StoreRow]:
        """The stores, the worst first."""
        return sorted(self.stores, key=lambda row: row.badness)

    def finding_rows(self) -> Iterator[dict[str, Any]]:
        """Every finding, store by store, as values of `FLEET_FINDING_COLUMNS`."""
        for number in range(len(self.stores)):
            yield from self.findings.rows(number)

    def head(self) -> dict[str, Any]:
        """What is said of all stores together: the members of a `FleetHead`."""
        head = FleetHead(
            kind=STORES_KIND,
            run_id=self.run_id,
            tool_version=__version__,
            level=self.level,
            started_timestamp=self.started_timestamp,
            seconds=self.seconds,
            exit_code=self.exit_code,
            outcome=outcome_of(self.exit_code),
            store_count=len(self.stores),
            byte_count=sum(row.byte_count or 0 for row in self.stores),
            read_byte_count=sum(row.read_byte_count or 0 for row in self.stores),
            taken_over_byte_count=sum(row.taken_over_byte_count or 0 for row in self.stores),
            oldest_read_timestamp=self.oldest_read_timestamp,
            state_counts=self.state_counts,
            node_groups=self.node_groups,
        )
        return to_document(head)

    @property
    def findings_head(self) -> dict[str, Any]:
        """What the file of findings says of itself."""
        return {"kind": FINDINGS_KIND, "run_id": self.run_id}

    def to_arrow(self) -> pa.Table:
        """The stores as a table, a row each, in the columns `STORE_COLUMNS`."""
        import pyarrow as pa

        schema = arrow_schema(STORE_COLUMNS, self.head())
        rows = [row.as_row() for row in self.stores]
        return pa.Table.from_batches([arrow_batch(rows, STORE_COLUMNS, schema)] if rows else [], schema)

    def findings_to_arrow(self) -> pa.Table:
        """The findings as a table, a row each, in the columns `FLEET_FINDING_COLUMNS`."""
        import pyarrow as pa

        schema = arrow_schema(FLEET_FINDING_COLUMNS, self.findings_head)
        found = (self.findings.rows(number) for number in range(len(self.stores)))
        batches = [arrow_batch(rows, FLEET_FINDING_COLUMNS, schema) for rows in found if rows]
        return pa.Table.from_batches(batches, schema)
