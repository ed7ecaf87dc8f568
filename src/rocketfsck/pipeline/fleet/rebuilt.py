"""What came of a rebuilding of many stores, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final, Literal

from rocketfsck._version import __version__
from rocketfsck.errors import EXIT_CLEAN, Outcome, outcome_of

KIND: Final = "rocketfsck.rebuild.stores"
RebuiltState = Literal["failed", "damaged", "rebuilt"]
ORDER: tuple[RebuiltState, ...] = ("failed", "damaged", "rebuilt")
"""Worst first. `damaged`: the log is damaged, or a broker would not start with the result."""


@dataclass(frozen=True, slots=True)
class RebuiltRow:
    """What came of one store. `into` is the result's directory, None where there is none.

    `may_start`: whether every version that may have written the store starts with the result; None where
    only parts were rebuilt. `record_count` are those of the log. `assumed` are values that neither the store
    nor the options show, by name. `error` says why nothing was built. `taken_over_from` is the run that built
    the result, where that was an earlier one: the other columns are those of a run that built it itself.
    """

    run_id: str
    broker: str
    root: str
    state: RebuiltState
    exit_code: int
    into: str | None = None
    version: str | None = None
    may_start: bool | None = None
    queue_count: int | None = None
    unit_count: int | None = None
    index_file_count: int | None = None
    entry_count: int | None = None
    record_count: int | None = None
    damaged_file_count: int | None = None
    assumed: str | None = None
    error: str | None = None
    taken_over_from: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RebuiltDocument:
    """The document of `rebuild` of several stores."""

    schema_version: Literal[1]
    kind: Literal["rocketfsck.rebuild.stores"]
    run_id: str
    tool_version: str
    what: str
    into: str
    seconds: float
    exit_code: int
    outcome: Outcome
    store_count: int
    state_counts: Mapping[RebuiltState, int]
    removed_runs: tuple[str, ...]
    rows: tuple[RebuiltRow, ...]


@dataclass(frozen=True, slots=True)
class RebuiltStores:
    """What came of a rebuilding of many stores, in the order in which they were named.

    `removed_runs` are killed runs whose unfinished work was removed.
    """

    run_id: str
    what: str
    into: str
    seconds: float
    stores: tuple[RebuiltRow, ...]
    removed_runs: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """The exit statuses of all stores, or-ed."""
        return reduce(or_, (row.exit_code for row in self.stores), EXIT_CLEAN)

    @property
    def state_counts(self) -> dict[RebuiltState, int]:
        """How many stores are in each state, the worst first; states that no store has are left out."""
        found = {state: sum(row.state == state for row in self.stores) for state in ORDER}
        return {state: count for state, count in found.items() if count}

    def document(self) -> RebuiltDocument:
        """All of it as JSON says it."""
        return RebuiltDocument(
            schema_version=1,
            kind=KIND,
            run_id=self.run_id,
            tool_version=__version__,
            what=self.what,
            into=self.into,
            seconds=self.seconds,
            exit_code=self.exit_code,
            outcome=outcome_of(self.exit_code),
            store_count=len(self.stores),
            state_counts=self.state_counts,
            removed_runs=self.removed_runs,
            rows=self.stores,
        )
