"""What `check` and `rebuild` say of several stores, as types."""

from __future__ import annotations

from typing import Any, Literal

from rocketfsck.cli.schema.making import maybe, record, row
from rocketfsck.errors import Outcome
from rocketfsck.pipeline.fleet.model import STORE_COLUMNS, STORES_KIND, FleetState
from rocketfsck.pipeline.fleet.rebuilt import KIND as REBUILT_KIND
from rocketfsck.pipeline.fleet.rebuilt import RebuiltRow, RebuiltState
from rocketfsck.verify.rules.rule import Level


def check_stores() -> Any:
    """The document of `check` of several stores."""
    checked: Any = row("CheckedStore", STORE_COLUMNS)
    return record(
        "CheckedStores",
        schema_version=int,
        kind=Literal[STORES_KIND],
        run_id=str,
        tool_version=str,
        level=Level,
        started_timestamp=int,
        seconds=float,
        exit_code=int,
        outcome=Outcome,
        store_count=int,
        byte_count=int,
        state_counts=dict[FleetState, int],
        rows=maybe(list[checked]),
    )


def rebuilt_stores() -> Any:
    """The document of `rebuild` of several stores."""
    return record(
        "RebuiltStores",
        schema_version=int,
        kind=Literal[REBUILT_KIND],
        run_id=str,
        tool_version=str,
        what=str,
        into=str,
        seconds=float,
        exit_code=int,
        outcome=Outcome,
        store_count=int,
        state_counts=dict[RebuiltState, int],
        removed_runs=list[str],
        rows=list[RebuiltRow],
    )
