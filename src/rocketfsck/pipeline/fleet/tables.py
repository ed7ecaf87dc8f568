"""The tables of a check, in a directory or an object store, to which every run is appended once.

    DIR/findings/RUN_ID.parquet          Parquet: findings of the run
    DIR/stores/RUN_ID.parquet            Parquet: stores of the run
    DIR/findings/data/RUN_ID.parquet     Delta, Iceberg: the same, and
    DIR/stores/data/RUN_ID.parquet
    DIR/findings/_delta_log, metadata    Delta's log, Iceberg's metadata
    DIR/catalog.db                       Iceberg's catalog of both, unless another is named

The findings come first: a run that has rows in the table of stores is in both. A Parquet file appears whole;
the commit of a Delta or Iceberg table names the run. Runs that end at the same time are both appended:
neither depends on what the table had. A killed run leaves at most a file that no commit names.

What is new and what is gone since the last run of each store, by the tables of earlier runs.

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

import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset
from pyarrow import parquet as pq

from rocketfsck._version import __version__
from rocketfsck.common.documents import printable
from rocketfsck.common.outputs import scratch_parent
from rocketfsck.common.rows import Column, arrow_schema, name_pair, named_row
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.pipeline.export import tables as export_tables
from rocketfsck.pipeline.export.files import Place, data_file, errors_of
from rocketfsck.pipeline.export.model import DataFile
from rocketfsck.pipeline.fleet.model import (
    FLEET_FINDING_COLUMNS,
    LATER_COLUMNS,
    ORDER,
    STORE_COLUMNS,
    FleetReport,
    StoreRow,
    run_timestamp,
)
from rocketfsck.pipeline.fleet.stages import bounded
from rocketfsck.store.places.urls import is_remote
from rocketfsck.writer.disk.publish import sync_path

ROW_COUNT = 10_000
"""Rows of a row group, at most, where no store has more."""
ATTEMPTS = 10
"""Commits that are tried while other runs change a table."""
DATA = "data"
"""Directory in a table that has one file for each run."""
_SIGNS = {"_delta_log": "delta", "metadata": "iceberg", ".parquet": "parquet"}
_TRIAL = "_trial"
_END = "~"
"""Sorts after the names of all runs."""


@dataclass(frozen=True, slots=True)
class RunTables:
    """The two tables in `directory`, which may be a URL; `table_format` is `parquet`, `delta` or `iceberg`.

    `properties` are those of Iceberg's catalog; without any it is `catalog.db` in `directory`.
    """

    directory: Path
    table_format: str = "parquet"
    properties: Mapping[str, str] = field(default_factory=dict)

    def demand(self) -> None:
        """Raise what `append` would raise of the tables as they are now, before a long check.

        Raises UsageError for a package that is missing, for a directory that has tables of another format,
        for a table with other columns, and for Iceberg tables at a URL without a catalog; StoreError for one
        that cannot be opened, and for a URL at which nothing can be written.
        """
        self._table_place("stores").demand()
        if is_remote(self.directory):
            place = Place(self.directory)
            place.put(_TRIAL, b"")
            place.delete(_TRIAL)
        for name in _COLUMNS:
            demand_format(self.directory / name, self.table_format)
            self._found(name)

    def append(self, report: FleetReport) -> None:
        """Append the findings and the stores of a run; make the tables if there are none.

        If only the findings are there, after an append that failed, the stores are appended alone. Raises
        StoreError for a run that is in both tables, and where something cannot be written; otherwise as
        `demand`.
        """
        self.demand()
        if self._has("stores", report.run_id):
            raise StoreError(
                f"the table has the run {report.run_id} already; a run is appended once",
                path=str(self.directory / "stores"),
            )
        if not self._has("findings", report.run_id):
            self._add("findings", report.run_id, report.findings_head, report.finding_batches())
        self._add("stores", report.run_id, report.head(), report.to_arrow().to_batches())

    def _root(self, name: str) -> Path:
        return self.directory.absolute() / name

    def _path(self, run_id: str) -> str:
        """The file of a run below the root of a table."""
        return f"{run_id}.parquet" if self._is_parquet else f"{DATA}/{run_id}.parquet"

    def _table_place(self, name: str) -> export_tables.TablePlace:
        """The place of a table of Delta or Iceberg. Both of Iceberg have one catalog."""
        properties = self.properties
        if self.table_format == "iceberg" and not properties and not is_remote(self.directory):
            properties = export_tables.own_catalog(self.directory.absolute())
        return export_tables.TablePlace(
            self._root(name), self.table_format, f"rocketmq.check_{name}", properties
        )

    def _opened(self, name: str) -> export_tables.LakeTable | None:
        """The table of Delta or Iceberg, if there is one."""
        root = self._root(name)
        made = self.directory / export_tables.CATALOG if self.table_format == "iceberg" else root
        if not (self.properties or is_remote(root) or made.exists()):
            return None
        return self._table_place(name).find()

    def _found(self, name: str) -> export_tables.LakeTable | None:
        """The same with the columns that are wanted. Raises UsageError for others."""
        table = None if self._is_parquet else self._opened(name)
        if table is not None:
            table.demand_shape(_shape(self._columns(name, table)))
        return table

    def _columns(self, name: str, table: export_tables.LakeTable | None) -> tuple[Column, ...]:
        """The columns that are written: a table of an earlier version keeps those that it has."""
        missing = LATER_COLUMNS - table.names() if table is not None and name == "stores" else frozenset()
        return tuple(column for column in _COLUMNS[name] if column.name not in missing)

    @property
    def _is_parquet(self) -> bool:
        return self.table_format == "parquet"

    def _has(self, name: str, run_id: str) -> bool:
        if self._is_parquet:
            return self._path(run_id) in Place(self._root(name)).names()
        table = self._found(name)
        return table is not None and table.has_run(run_id)

    def _add(
        self, name: str, run_id: str, head: Mapping[str, Any], batches: Iterable[pa.RecordBatch]
    ) -> None:
        place, path = Place(self._root(name)), self._path(run_id)
        about = {"kind": f"rocketfsck.check.{name}", "version": __version__, "view": name, "run": run_id}
        try:
            columns = self._columns(name, self._found(name))
            file = _write(place, path, columns, head if self._is_parquet else about, batches)
            if not self._is_parquet:
                self._commit(name, file, about)
        except BaseException:
            with suppress(StoreError, UsageError):  # the commit may have been made all the same
                if self._is_parquet or not self._has(name, run_id):
                    place.delete(path)
            raise

    def _commit(self, name: str, file: DataFile, about: Mapping[str, Any]) -> None:
        for left in reversed(range(ATTEMPTS)):
            table = self._found(name)
            try:
                if table is None:
                    self._table_place(name).create(
                        _shape(_COLUMNS[name]), export_tables.Commit((file,), about, {})
                    )
                else:
                    table.mend()
                    table.append(export_tables.Commit((file,), about, {}))
                return
            except export_tables.TableChangedError:
                if not left:
                    raise
            except (StoreError, UsageError):
                if table is not None or not left or self._found(name) is None:
                    raise  # else another run has made the table first

    def rows(
        self, name: str, start: str, end: str, columns: Sequence[str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """The rows of the runs from `start` to before `end`; none of a table that lacks one of the `columns`.

        Tables of any format are read where they are. Raises StoreError.
        """
        condition = (pc.field("run_id") >= start) & (pc.field("run_id") < end)
        chosen = None if columns is None else list(columns)
        try:
            for runs in self._datasets(name, start, end):
                if set(chosen or ()) <= set(runs.schema.names):
                    for batch in runs.to_batches(columns=chosen, filter=condition):
                        yield from batch.to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise StoreError(f"earlier runs cannot be read: {error}", path=str(self._root(name))) from error

    def _datasets(self, name: str, start: str, end: str) -> Iterator[dataset.Dataset]:
        """The newest first: a Parquet file is a run, and those of an earlier version have fewer columns."""
        if not self._is_parquet:
            table = self._opened(name)
            if table is not None:
                yield table.runs(start, end)
            return
        place = Place(self._root(name))
        system, path = place.system()
        for file in reversed(place.names()):
            if file.endswith(".parquet") and start <= file.removesuffix(".parquet") < end:
                yield dataset.dataset(f"{path}/{file}", format="parquet", filesystem=system)


_COLUMNS: dict[str, tuple[Column, ...]] = {"findings": FLEET_FINDING_COLUMNS, "stores": STORE_COLUMNS}


def newest_run(tables: RunTables) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The stores and the findings of the newest run in the tables.

    Raises UsageError if there is no run, StoreError for a table that cannot be read. The package must be
    there (`tables.demand`).
    """
    newest = max((row["run_id"] for row in tables.rows("stores", "", _END, ("run_id",))), default=None)
    if newest is None:
        raise UsageError(f"{tables.directory}: the table of stores has no run")
    stores, findings = (list(tables.rows(name, newest, f"{newest}\0")) for name in ("stores", "findings"))
    return stores, findings


def demand_format(root: Path, table_format: str) -> None:
    """Raise UsageError if the directory of a table, or the URL, has one of another format."""
    names = [path.name for path in root.iterdir()] if root.is_dir() else []
    for sign, found in _SIGNS.items():
        if found != table_format and any(name.endswith(sign) for name in names):
            what = "Parquet files of earlier runs" if found == "parquet" else f"a table of the format {found}"
            raise UsageError(f"{root} has {what}: give another directory, or --table-format {found}")


def _shape(columns: Sequence[Column]) -> export_tables.TableShape:
    return export_tables.TableShape(arrow_schema(columns, {}).remove_metadata(), ())


def _write(
    place: Place,
    path: str,
    columns: Sequence[Column],
    about: Mapping[str, Any],
    batches: Iterable[pa.RecordBatch],
) -> DataFile:
    """The rows as one file, which is there when it is whole. Raises StoreError."""
    schema = arrow_schema(columns, about)
    with tempfile.TemporaryDirectory(prefix="rocketfsck-tables-", dir=scratch_parent()) as folder:
        part, footers = Path(folder) / "part.parquet", list[Any]()
        with errors_of(part, "cannot be written"):
            with pq.ParquetWriter(part, schema, metadata_collector=footers) as writer:
                for group in bounded(batches, attrgetter("num_rows"), ROW_COUNT):
                    some = pa.Table.from_batches(group)
                    writer.write_table(some.select(schema.names).replace_schema_metadata(schema.metadata))
            file = data_file(path, footers[0], part.stat().st_size)
        place.put_file(path, part)
    if not place.is_remote:
        for directory in ((place.root / path).parent, place.root, place.root.parent):
            sync_path(directory)
    return file


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
    first = min((run["run_id"] for run in last.values()), default=report.run_id)
    for item in tables.rows("findings", first, report.run_id, _FINDINGS):
        root = (item["root"], item["root_b64"])
        if root in last and last[root]["run_id"] == item["run_id"] and item["severity"] in PROBLEMS:
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
            for item in batch.filter(pc.is_in(batch["severity"], pa.array(PROBLEMS))).to_pylist()
        ]
        if (
            run is None
            or counts[root] != _problem_count(run)
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
                compared_run_id=run["run_id"],
                compared_state=run["state"],
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


def _last_runs(report: FleetReport, tables: RunTables) -> dict[Name, dict[str, Any]]:
    """The row (`_STORES`) of each store in its last comparable run, as far as there is one."""
    wanted = {name_pair(row.root) for row in report.stores if row.is_complete}
    found: dict[Name, dict[str, Any]] = {}
    end = report.run_id
    for days in DAYS:
        start = _name_at(report.started_timestamp / 1000 - days * 86400)
        some = tables.rows("stores", start, end, _STORES)
        for row in sorted(some, key=lambda row: str(row["run_id"]), reverse=True):
            root = (row["root"], row["root_b64"])
            is_like = row["is_complete"] and row["level"] == report.level and row["state"] in ORDER
            if is_like and root in wanted and root not in found:
                found[root] = row
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
    for row in tables.rows("stores", start, run_id, EARLIER_COLUMNS):
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
