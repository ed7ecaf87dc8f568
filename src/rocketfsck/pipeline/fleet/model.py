"""A store of a fleet: what is asked about it, and what came of it. Plain values: they travel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from rocketfsck.common.documents import members
from rocketfsck.common.rows import Column, Text, columns_of
from rocketfsck.repair.state import State
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.policy import Policy
from rocketfsck.verify.report import FINDING_COLUMNS

STORES_KIND = "rocketfsck.check.stores"
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

FLEET_FINDING_COLUMNS = (
    Column("run_id", "text"),
    Column("broker", "name"),
    Column("root", "name"),
    *FINDING_COLUMNS,
)
"""The columns of the table of findings: those of `check --format arrow` behind the run and the store."""

assert len(ORDER) == len(get_args(FleetState))
