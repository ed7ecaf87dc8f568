"""The document of a page for several stores, from their table of verdicts.

`rocketfsck check --tables` writes the table (`pipeline.fleet.model.STORE_COLUMNS`), a row each store. Texts
are printable, as in `page.model`; stores are worst first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rocketfsck._version import __version__
from rocketfsck.page.table import columns, columns_class, shown
from rocketfsck.page.tables import Counts
from rocketfsck.pipeline.fleet.model import ORDER, FleetState, StoreRow
from rocketfsck.verify.finding import SeverityName

FLEET_KIND = "rocketfsck.page.fleet"
STORE_LIMIT = 10_000
RULE_LIMIT = 20_000
_TEXT_LIMIT = 400


if TYPE_CHECKING:
    StoreRows = Any
else:
    StoreRows = columns_class("StoreRows", StoreRow)
"""The stores, worst first: the columns of the table of verdicts."""


@dataclass(frozen=True, slots=True)
class StoreRules:
    """Findings counted by store and rule, as far as the table of findings lists them. `store` is a row of
    `stores`."""

    store: tuple[int, ...]
    rule: tuple[str, ...]
    severity: tuple[SeverityName, ...]
    count: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FleetPage:
    """The page of a fleet. `state_counts` and sums cover all stores, `stores` are the first of them; `rules`
    is None without a table of findings."""

    kind: Literal["rocketfsck.page.fleet"]
    tool_version: str
    store_counts: Counts
    state_counts: Mapping[FleetState, int]
    byte_count: int
    error_count: int
    warning_count: int
    lost_record_count: int
    stores: StoreRows
    rules: StoreRules | None
    schema_version: int = 1


def fleet_page(
    rows: Sequence[Mapping[str, Any]], findings: Iterable[Mapping[str, Any]] | None = None
) -> FleetPage:
    """The page of the stores in a table of verdicts, by names of its columns. Raises KeyError, ValueError or
    TypeError for rows of another table."""
    stores = sorted((_row(row) for row in rows), key=lambda row: row.badness)
    counts = Counter(row.state for row in stores)
    kept = stores[:STORE_LIMIT]
    return FleetPage(
        kind="rocketfsck.page.fleet",
        tool_version=__version__,
        store_counts=Counts(len(stores), len(kept)),
        state_counts={state: counts[state] for state in ORDER if counts[state]},
        byte_count=sum(row.byte_count or 0 for row in stores),
        error_count=sum(row.error_count or 0 for row in stores),
        warning_count=sum(row.warning_count or 0 for row in stores),
        lost_record_count=sum(row.lost_record_count or 0 for row in stores),
        stores=columns(StoreRows, [_values(row) for row in kept]),
        rules=None if findings is None else _rules(kept, findings),
    )


def _row(values: Mapping[str, Any]) -> StoreRow:
    row = StoreRow(**{name: values[name] for name in StoreRow.__slots__})
    if row.state not in ORDER:
        raise ValueError(f"{row.state!a} is not a state of a store")
    return row


def _values(row: StoreRow) -> tuple[Any, ...]:
    return tuple(
        shown(value, _TEXT_LIMIT) if isinstance(value, str) else value for value in row.as_row().values()
    )


def _rules(stores: Sequence[StoreRow], findings: Iterable[Mapping[str, Any]]) -> StoreRules:
    places = {(row.run_id, row.root): number for number, row in enumerate(stores)}
    counts: Counter[tuple[int, str, SeverityName]] = Counter()
    for finding in findings:
        place = places.get((finding["run_id"], finding["root"]))
        if place is not None:
            counts[place, finding["rule"], finding["severity"]] += int(finding["count"])
    rows = [(*name, count) for name, count in counts.most_common(RULE_LIMIT)]
    return columns(StoreRules, sorted(rows))
