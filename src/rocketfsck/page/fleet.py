"""The document of a page for several stores: their verdicts, their earlier states, and replicas as lanes.

    page := counts, stores (worst first), findings by store and rule, history, groups of replicas

`rocketfsck check --tables` writes the table of verdicts (`pipeline.fleet.model.STORE_COLUMNS`), a row each
store. Texts are printable, as in `page.model`; tables are columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rocketfsck._version import __version__
from rocketfsck.page.tables import Counts, columns, columns_class, shown
from rocketfsck.pipeline.fleet.model import LATER_COLUMNS, ORDER, FleetState, StoreRow, run_timestamp
from rocketfsck.repair.compare.groups import Manner, Relation, ReplicaGroup
from rocketfsck.verify.finding import SeverityName

STORE_LIMIT = 10_000
RULE_LIMIT = 20_000
_TEXT_LIMIT = 400

HISTORY_LIMIT = 100_000
"""Earlier states of all stores together."""

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
class EarlierStates:
    """States of stores in earlier runs: `store` is a row of `stores`, `run` a place in
    `FleetHistory.runs`."""

    store: tuple[int, ...]
    run: tuple[int, ...]
    state: tuple[FleetState, ...]
    error_count: tuple[int | None, ...]
    warning_count: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class FleetHistory:
    """The last runs before this one, the oldest first: `timestamps` are when they began (ms, None for a name
    that does not tell). A store that a run did not check has no row of it."""

    runs: tuple[str, ...]
    timestamps: tuple[int | None, ...]
    states: EarlierStates


@dataclass(frozen=True, slots=True)
class ReplicaLane:
    """A node of a group on the axis of physical offsets, against the one that is to start first: `store` is a
    row of `stores`, -1 for one that is not listed.

    `held` are the ranges that its files have, up to the end of its live records. A node has the bytes of the
    first up to `parting_offset`, and keeps its log up to `kept_offset` when it joins (None: it removes
    nothing). `different` are the first of `different_count` places with other records, or damaged ones, in
    one of the two.
    """

    store: int
    root: str
    relation: Relation
    held: tuple[tuple[int, int], ...]
    different: tuple[tuple[int, int], ...]
    different_count: int
    parting_offset: int | None
    kept_offset: int | None
    only_here_count: int
    lacking_count: int


@dataclass(frozen=True, slots=True)
class ReplicaLanes:
    """A group of replicas. `lines` say which to start first and what each start would lose, as `check`
    does."""

    manner: Manner
    lines: tuple[str, ...]
    lanes: tuple[ReplicaLane, ...]


@dataclass(frozen=True, slots=True)
class FleetPage:
    """The page of a fleet. `state_counts` and sums cover all stores, `stores` are the first of them; `rules`
    is None without a table of findings, `history` without an earlier run."""

    kind: Literal["rocketfsck.page.fleet"]
    tool_version: str
    store_counts: Counts
    state_counts: Mapping[FleetState, int]
    byte_count: int
    read_byte_count: int
    taken_over_byte_count: int
    oldest_read_timestamp: int | None
    error_count: int
    warning_count: int
    lost_record_count: int
    stores: StoreRows
    rules: StoreRules | None
    history: FleetHistory | None = None
    groups: tuple[ReplicaLanes, ...] = ()
    schema_version: int = 1


GroupSaid = tuple[ReplicaGroup, Sequence[str]]
"""A group of replicas, and what is said of it."""


def fleet_page(
    rows: Iterable[Mapping[str, Any]],
    findings: Iterable[Mapping[str, Any]] | None = None,
    groups: Sequence[GroupSaid] = (),
    earlier: Sequence[Mapping[str, Any]] = (),
) -> FleetPage:
    """The page of the stores in a table of verdicts, by names of its columns; `earlier` are rows of earlier
    runs (`pipeline.fleet.tables.EARLIER_COLUMNS`). Raises KeyError, ValueError or TypeError for rows of
    another table."""
    stores = sorted((_row(row) for row in rows), key=lambda row: row.badness)
    counts = Counter(row.state for row in stores)
    kept = stores[:STORE_LIMIT]
    times = [row.oldest_read_timestamp for row in stores if row.oldest_read_timestamp is not None]
    return FleetPage(
        kind="rocketfsck.page.fleet",
        tool_version=__version__,
        store_counts=Counts(len(stores), len(kept)),
        state_counts={state: counts[state] for state in ORDER if counts[state]},
        byte_count=sum(row.byte_count or 0 for row in stores),
        read_byte_count=sum(row.read_byte_count or 0 for row in stores),
        taken_over_byte_count=sum(row.taken_over_byte_count or 0 for row in stores),
        oldest_read_timestamp=min(times, default=None),
        error_count=sum(row.error_count or 0 for row in stores),
        warning_count=sum(row.warning_count or 0 for row in stores),
        lost_record_count=sum(row.lost_record_count or 0 for row in stores),
        stores=columns(StoreRows, [_values(row) for row in kept]),
        rules=None if findings is None else _rules(kept, findings),
        history=_history(kept, earlier),
        groups=tuple(_lanes(group, lines, kept) for group, lines in groups),
    )


def _row(values: Mapping[str, Any]) -> StoreRow:
    row = StoreRow(
        **{name: values[name] for name in StoreRow.__slots__ if name in values or name not in LATER_COLUMNS}
    )
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


def _history(stores: Sequence[StoreRow], earlier: Iterable[Mapping[str, Any]]) -> FleetHistory | None:
    """The states of these stores in earlier runs, the newest runs as far as there is room."""
    places = {row.root: number for number, row in enumerate(stores)}
    own = {row.run_id for row in stores}
    rows = [row for row in earlier if row["root"] in places and row["run_id"] not in own]
    rows = [row for row in rows if row["state"] in ORDER]
    runs = sorted({str(row["run_id"]) for row in rows})[-max(HISTORY_LIMIT // max(len(stores), 1), 1) :]
    if not runs:
        return None
    number = {run: at for at, run in enumerate(runs)}
    states = sorted(
        (places[row["root"]], number[row["run_id"]], row["state"], row["error_count"], row["warning_count"])
        for row in rows
        if row["run_id"] in number
    )
    return FleetHistory(
        tuple(shown(run, _TEXT_LIMIT) for run in runs),
        tuple(run_timestamp(run) for run in runs),
        columns(EarlierStates, states),
    )


def _lanes(group: ReplicaGroup, lines: Sequence[str], stores: Sequence[StoreRow]) -> ReplicaLanes:
    places = {row.root: number for number, row in enumerate(stores)}
    return ReplicaLanes(
        group.manner,
        tuple(shown(line, 4 * _TEXT_LIMIT) for line in lines),
        tuple(
            ReplicaLane(
                places.get(str(member.path), -1),
                shown(str(member.path), _TEXT_LIMIT),
                member.relation,
                member.held,
                member.different,
                member.different_count,
                member.parting_offset,
                member.kept_offset,
                member.only_here_count,
                member.lacking_count,
            )
            for member in group.members
        ),
    )
