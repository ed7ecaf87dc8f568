"""A store of a fleet: what is asked about it, and what came of it. Plain values: they travel.

What came of the check of many stores: rows are in memory, some hundred bytes each, findings in a file, as
Arrow batches that the workers made.
"""

from __future__ import annotations

import calendar
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from os import SEEK_END
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, Final, Literal, get_args
from weakref import finalize

from rocketfsck._version import __version__
from rocketfsck.common.documents import members, to_document
from rocketfsck.common.outputs import scratch_parent
from rocketfsck.common.rows import Column, Text, arrow_batch, arrow_schema, columns_of, named_row
from rocketfsck.errors import EXIT_PROBLEMS, Outcome, outcome_of
from rocketfsck.repair.compare.groups import ReplicaGroup
from rocketfsck.repair.state import State
from rocketfsck.store.reading import named_errors
from rocketfsck.verify.finding import Level
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.report import FINDING_COLUMNS
from rocketfsck.verify.stopping import Policy

if TYPE_CHECKING:
    import pyarrow as pa


STORES_KIND: Final = "rocketfsck.check.stores"
FINDINGS_KIND = "rocketfsck.check.stores.findings"

AlertOn = Literal["problems", "new"]
"""What exit status 4 of a check of many stores is for: any problem, or one that the last run did not have."""

FleetState = Literal[State, "failed"]
"""The state of a verdict; `failed` is a store that could not be opened or checked."""

ORDER: tuple[FleetState, ...] = (
    "interrupted", "refused", "harmful", "failed", "unread", "lost",
    "damaged", "unknown", "partial", "running", "unclean", "healthy",
)  # fmt: skip
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
    `message_count` messages have their records in the log (null: they were not counted).
    `compared_run_id` is the last run of this store in the tables of runs, when the store was in the state
    `compared_state`; of errors and warnings, `new_finding_count` are listed now and were not then, and
    `gone_finding_count` the other way round. All four are null where nothing was compared (`changes`).
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
    level: Text | None = None
    message_count: int | None = None
    compared_run_id: Text | None = None
    compared_state: FleetState | None = None
    new_finding_count: int | None = None
    gone_finding_count: int | None = None

    @property
    def news_code(self) -> int:
        """The exit status of what is new: without problems if the last run of the store had all of them, and
        its state was as bad."""
        compared = self.compared_state
        if compared is None or self.new_finding_count or ORDER.index(self.state) < ORDER.index(compared):
            return self.exit_code
        return self.exit_code & ~EXIT_PROBLEMS

    @property
    def badness(self) -> tuple[int, int, int, str]:
        """Sorts the worst store first."""
        return (ORDER.index(self.state), -(self.error_count or 0), -(self.warning_count or 0), self.root)

    def as_row(self) -> dict[str, Any]:
        """The values of `STORE_COLUMNS`."""
        return dict(members(self))


@dataclass(frozen=True, slots=True)
class CheckedStore:
    """What a worker sends back: the row, and the findings as `packed` packs them."""

    row: StoreRow
    findings: bytes = b""


STORE_COLUMNS = columns_of(StoreRow)
"""The columns of the table of stores."""

LATER_COLUMNS = frozenset({
    "read_byte_count", "taken_over_byte_count", "oldest_read_timestamp", "level", "message_count",
    "compared_run_id", "compared_state", "new_finding_count", "gone_finding_count",
})  # fmt: skip
"""Columns that tables of stores from earlier versions lack."""

FLEET_FINDING_COLUMNS = (
    Column("run_id", "text"),
    Column("broker", "name"),
    Column("root", "name"),
    *FINDING_COLUMNS,
)
"""The columns of the table of findings: those of `check --format arrow` behind the run and the store."""

assert len(ORDER) == len(get_args(FleetState))


def packed(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows of findings as a worker sends them: the rows of the table, in Arrow's stream, compressed."""
    import pyarrow as pa

    if not rows:
        return b""
    schema = arrow_schema(FLEET_FINDING_COLUMNS, {}).remove_metadata()
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(arrow_batch(rows, FLEET_FINDING_COLUMNS, schema))
    return bytes(stream.getvalue())


class FindingFile:
    """The findings of all stores as workers packed them, in a file without a name that goes with this
    object."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[int, int]] = {}
        with _file_errors():
            self._file: IO[bytes] = TemporaryFile(prefix="rocketfsck-", dir=scratch_parent())  # noqa: SIM115
        finalize(self, self._file.close)

    def add(self, number: int, findings: bytes) -> None:
        """Keep the findings of a store, as `packed` made them. Raises StoreError if the disk is full."""
        if findings:
            with _file_errors():
                self._places[number] = (self._file.seek(0, SEEK_END), len(findings))
                self._file.write(findings)
                self._file.flush()

    def batches(self, numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
        """The findings of each of these stores that has any.

        Raises StoreError where the disk does not give them back."""
        import pyarrow as pa

        for number in numbers:
            if number in self._places:
                pos, size = self._places[number]
                with _file_errors():
                    self._file.seek(pos)
                    [batch] = pa.ipc.open_stream(self._file.read(size))
                yield batch


def _file_errors() -> AbstractContextManager[None]:
    return named_errors("findings", "cannot be kept in a temporary file")


def run_timestamp(run_id: str) -> int | None:
    """When a run began that `run.make_run_id` named (ms); None for other names."""
    begun, _, rest = run_id.partition("-")
    try:
        return calendar.timegm(time.strptime(begun, "%Y%m%dT%H%M%SZ")) * 1000 + int(rest[:3])
    except ValueError:
        return None


def _oldest(times: Iterable[int | None]) -> int | None:
    return min((time for time in times if time is not None), default=None)


@dataclass(frozen=True, slots=True)
class FleetHead:
    """What a check of many stores says of all of them; `started_timestamp` is in ms. `node_groups` are those
    whose nodes the stores are, looked for where these are few. What is new and what is gone are sums over
    `compared_store_count` stores, the last of whose runs began at `compared_timestamp` (ms) or later."""

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
    compared_store_count: int
    compared_timestamp: int | None
    new_finding_count: int
    gone_finding_count: int
    not_compared: str | None


_SAID_OF_ALL = (
    "run_id", "level", "started_timestamp", "seconds", "exit_code", "oldest_read_timestamp", "state_counts",
    "node_groups", "compared_timestamp", "not_compared",
)  # fmt: skip
"""Members of a head that are those of the report."""
_SUMS = (
    "byte_count", "read_byte_count", "taken_over_byte_count", "new_finding_count", "gone_finding_count",
)  # fmt: skip
"""Members of a head that are sums over the stores."""


@dataclass(frozen=True, slots=True)
class FleetReport:
    """What a check of many stores found: `stores` in the order in which they were named.

    `started_timestamp` is in ms. Findings are those that `finding_limit` let through. `new_findings` are the
    first of those that are new since the last run of their store, the errors first; `not_compared` is why the
    earlier runs could not be read. `alert_on` says what the exit status is for.
    """

    run_id: str
    level: Level
    started_timestamp: int
    seconds: float
    stores: tuple[StoreRow, ...]
    findings: FindingFile
    node_groups: tuple[ReplicaGroup, ...] = ()
    new_findings: tuple[Mapping[str, Any], ...] = ()
    not_compared: str | None = None
    alert_on: AlertOn = "problems"

    @property
    def exit_code(self) -> int:
        """The exit statuses of all stores, or-ed: those of their problems, or of what is new."""
        of_news = self.alert_on == "new"
        return reduce(or_, (row.news_code if of_news else row.exit_code for row in self.stores), 0)

    @property
    def compared(self) -> tuple[StoreRow, ...]:
        """The stores that were compared with their last run."""
        return tuple(row for row in self.stores if row.compared_run_id is not None)

    @property
    def compared_timestamp(self) -> int | None:
        """When the oldest run began that a store was compared with (ms)."""
        return _oldest(run_timestamp(row.compared_run_id or "") for row in self.stores)

    @property
    def state_counts(self) -> dict[FleetState, int]:
        """How many stores are in each state, the worst first; states that no store has are left out."""
        counts = Counter(row.state for row in self.stores)
        return {state: counts[state] for state in ORDER if counts[state]}

    @property
    def oldest_read_timestamp(self) -> int | None:
        """When the part of any store was read that was read longest ago (ms); None without states."""
        return _oldest(row.oldest_read_timestamp for row in self.stores)

    def worst_first(self) -> list[StoreRow]:
        """The stores, the worst first."""
        return sorted(self.stores, key=lambda row: row.badness)

    def finding_batches(self) -> Iterator[pa.RecordBatch]:
        """The findings, store by store, in the columns `FLEET_FINDING_COLUMNS`."""
        return self.findings.batches(range(len(self.stores)))

    def finding_rows(self) -> Iterator[dict[str, Any]]:
        """Every finding, store by store, as values of `FLEET_FINDING_COLUMNS`; those of JSON are texts."""
        for batch in self.finding_batches():
            yield from map(named_row, batch.to_pylist())

    def head(self) -> dict[str, Any]:
        """What is said of all stores together: the members of a `FleetHead`."""
        same: dict[str, Any] = {name: getattr(self, name) for name in _SAID_OF_ALL}
        sums: dict[str, Any] = {name: sum(getattr(row, name) or 0 for row in self.stores) for name in _SUMS}
        head = FleetHead(
            kind=STORES_KIND,
            tool_version=__version__,
            outcome=outcome_of(self.exit_code),
            store_count=len(self.stores),
            compared_store_count=len(self.compared),
            **same,
            **sums,
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
        found = [batch.replace_schema_metadata(schema.metadata) for batch in self.finding_batches()]
        return pa.Table.from_batches(found, schema)
