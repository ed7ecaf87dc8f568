"""What is new and what is gone since the last run of each store, by the tables of earlier runs.

A finding is the same in two runs if its rule and its place are: the file with the position, the queue with
the queue offset, the slot, the entry. Baselines go by the fingerprint, which has the facts, too, and facts
change while a broker writes: how far the log goes, how many records a lost queue has. Of several findings of
a rule at one place, as in a config file, as many are new as there are more. `examples/night/changes.sql` says
the same.

Compared are the errors and warnings of a store in this run with those in its last run before this one that is
comparable. Both looked at everything, at the same level, and list all of their errors and warnings: what
nobody looked for, or nobody listed, is neither new nor gone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset

from rocketfsck.common.documents import printable
from rocketfsck.common.rows import name_pair, named_row
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.pipeline.export.storage import delta_options
from rocketfsck.pipeline.export.tables import CATALOG, catalog_at, catalog_errors, own_catalog
from rocketfsck.pipeline.fleet.model import ORDER, FleetReport, FleetState, StoreRow, run_timestamp
from rocketfsck.pipeline.fleet.tables import RunTables
from rocketfsck.store.places.urls import file_system, is_remote

RUN_LIMIT = 30
"""Earlier runs of which states are read."""
EARLIER_COLUMNS = ("run_id", "root", "root_b64", "state", "error_count", "warning_count")
"""What is read of an earlier run."""
DAYS = (2, 8, 35)
"""How far back the last run of a store is looked for, the near runs first."""
SHOWN = 10
"""New findings that a report has in full."""
PROBLEMS = ("error", "warning")
_STORES = ("run_id", "root", "root_b64", "state", "level", "is_complete", "error_count", "warning_count")
_PLACE = (
    *("rule", "file", "file_b64", "topic", "topic_b64"),
    *("start", "queue_id", "queue_offset", "slot", "entry"),
)
_FINDINGS = ("run_id", "root", "root_b64", "severity", "count", *_PLACE)

Name = tuple[str | None, str | None]
"""A name as the tables have it: `root`, or else `root_b64`."""


@dataclass(frozen=True, slots=True)
class _Last:
    """The last comparable run of a store. `problem_count` is that of its errors and warnings."""

    run_id: str
    state: FleetState
    problem_count: int


def compared(report: FleetReport, tables: RunTables) -> FleetReport:
    """The report, with what is new and gone since the last run of each store in the tables; with the reason
    where these cannot be read."""
    try:
        return _compared(report, tables)
    except (StoreError, UsageError) as error:
        return replace(report, not_compared=printable(str(error)))


def _compared(report: FleetReport, tables: RunTables) -> FleetReport:
    last = _last_runs(report, tables)
    listed: dict[Name, Counter[int]] = {root: Counter() for root in last}
    counts: Counter[Name] = Counter()
    first = min((run.run_id for run in last.values()), default=report.run_id)
    for item in _rows(tables, "findings", first, report.run_id, _FINDINGS):
        root = (item["root"], item["root_b64"])
        if root in last and last[root].run_id == item["run_id"] and item["severity"] in PROBLEMS:
            listed[root][_identity(item)] += 1
            counts[root] += item["count"]
    rows: list[StoreRow] = []
    shown: list[dict[str, Any]] = []
    for number, row in enumerate(report.stores):
        root = name_pair(row.root)
        run = last.get(root)
        problems = [
            item
            for batch in report.findings.batches([number])
            for item in batch.filter(pc.field("severity").isin(PROBLEMS)).to_pylist()
        ]
        if (
            run is None
            or counts[root] != run.problem_count
            or sum(item["count"] for item in problems) != _problem_count(row.as_row())
        ):
            rows.append(row)
            continue
        known = listed[root].copy()
        new = []
        for item in sorted(problems, key=lambda item: str(item["fingerprint"])):
            identity = _identity(item)
            if known[identity]:
                known[identity] -= 1
            else:
                new.append(item)
        new_here = [*shown, *map(named_row, new)]
        shown = sorted(new_here, key=lambda item: PROBLEMS.index(item["severity"]))[:SHOWN]
        rows.append(
            replace(
                row,
                compared_run_id=run.run_id,
                compared_state=run.state,
                new_finding_count=len(new),
                gone_finding_count=known.total(),
            )
        )
    return replace(report, stores=tuple(rows), new_findings=tuple(shown))


def _identity(item: Mapping[str, Any]) -> int:
    """The rule and the place of a finding, as few bytes: a run may have a million."""
    return hash(tuple(item[name] for name in _PLACE))


def _problem_count(row: Mapping[str, Any]) -> int:
    return (row["error_count"] or 0) + (row["warning_count"] or 0)


def _last_runs(report: FleetReport, tables: RunTables) -> dict[Name, _Last]:
    """The last comparable run of each store, as far as there is one."""
    wanted = {name_pair(row.root) for row in report.stores if row.is_complete}
    found: dict[Name, _Last] = {}
    end = report.run_id
    for days in DAYS:
        start = _name_at(report.started_timestamp / 1000 - days * 86400)
        some = _rows(tables, "stores", start, end, _STORES)
        for row in sorted(some, key=lambda row: str(row["run_id"]), reverse=True):
            root = (row["root"], row["root_b64"])
            is_like = row["is_complete"] and row["level"] == report.level and row["state"] in ORDER
            if is_like and root in wanted and root not in found:
                found[root] = _Last(row["run_id"], row["state"], _problem_count(row))
        if len(found) == len(wanted):
            break
        end = start
    return found


def earlier_states(tables: RunTables, run_id: str) -> list[dict[str, Any]]:
    """The stores in the last runs before this one, of the last weeks: `EARLIER_COLUMNS` without `root_b64`.

    Raises StoreError for tables that cannot be read, UsageError for a package that is missing.
    """
    begun = run_timestamp(run_id)
    start = "" if begun is None else _name_at(begun / 1000 - DAYS[-1] * 86400)
    found: dict[str, list[dict[str, Any]]] = {}
    for row in _rows(tables, "stores", start, run_id, EARLIER_COLUMNS):
        run = str(row["run_id"])
        if run not in found and len(found) == RUN_LIMIT:
            if run < min(found):
                continue
            del found[min(found)]
        found.setdefault(run, []).append(named_row(row))
    return [row for run in sorted(found) for row in found[run]]


def _name_at(seconds: float) -> str:
    """What sorts before all runs that began at this time or later."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(seconds))


# The tables of runs are read where they are, in any of their formats.


def _rows(
    tables: RunTables, name: str, start: str, end: str, columns: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """The rows of the runs from `start` to before `end`; none of a table that lacks a column."""
    root = tables.directory.absolute() / name
    condition = (pc.field("run_id") >= start) & (pc.field("run_id") < end)
    try:
        for runs in _READERS[tables.table_format](tables, root, start, end):
            if set(columns) <= set(runs.schema.names):
                for batch in runs.to_batches(columns=list(columns), filter=condition):
                    yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"earlier runs cannot be read: {error}", path=str(root)) from error


def _of_parquet(_tables: RunTables, root: Path, start: str, end: str) -> Iterator[dataset.Dataset]:
    """Each file is a run, and the files of an earlier version have fewer columns."""
    system, place = file_system(str(root)) if is_remote(root) else (None, str(root))
    for run_id in sorted(_names(system, place), reverse=True):
        if start <= run_id < end:
            yield dataset.dataset(f"{place}/{run_id}.parquet", format="parquet", filesystem=system)


def _names(system: Any, place: str) -> list[str]:
    """The runs in a directory of Parquet files, which may not be there."""
    with suppress(FileNotFoundError):
        paths = Path(place).iterdir() if system is None else system.ls(place, detail=False)
        names = [str(path).rpartition("/")[2] for path in paths]
        return [name.removesuffix(".parquet") for name in names if name.endswith(".parquet")]
    return []


def _of_delta(_tables: RunTables, root: Path, _start: str, _end: str) -> Iterator[dataset.Dataset]:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        yield DeltaTable(root.as_uri(), storage_options=delta_options(root)).to_pyarrow_dataset()
    except TableNotFoundError:
        return
    except DeltaError as error:
        raise StoreError(f"the Delta table cannot be read: {error}", path=str(root)) from error


def _of_iceberg(tables: RunTables, root: Path, start: str, end: str) -> Iterator[dataset.Dataset]:
    from pyiceberg.expressions import And, GreaterThanOrEqual, LessThan

    directory = tables.directory.absolute()
    if not (tables.properties or is_remote(directory) or (directory / CATALOG).exists()):
        return
    with catalog_errors(str(root), "read"):
        catalog = catalog_at(root, tables.properties or own_catalog(directory))
        name = f"rocketmq.check_{root.name}"
        if catalog.table_exists(name):
            among = And(GreaterThanOrEqual("run_id", start), LessThan("run_id", end))
            yield dataset.dataset(catalog.load_table(name).scan(row_filter=among).to_arrow())


_READERS = {"parquet": _of_parquet, "delta": _of_delta, "iceberg": _of_iceberg}
