"""The tables of a check, in a directory or an object store, to which every run is appended once.

    DIR/findings/RUN_ID.parquet          Parquet: findings of the run
    DIR/stores/RUN_ID.parquet            Parquet: stores of the run
    DIR/findings/data/RUN_ID.parquet     Delta, Iceberg: the same, and
    DIR/stores/data/RUN_ID.parquet
    DIR/findings/_delta_log, metadata    Delta's log, Iceberg's metadata
    DIR/catalog.db                       Iceberg's catalog of both, unless another is named
    URL/_appending/RUN_ID/_owner         the run is being appended to an object store (`export.remote`)

The findings come first: a run that has rows in the table of stores is in both. A Parquet file appears whole;
the commit of a Delta or Iceberg table names the run. Runs that end at the same time are both appended:
neither depends on what the table had.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from rocketfsck._version import __version__
from rocketfsck.common.rows import Column, arrow_batch, arrow_schema
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.pipeline.export import tables
from rocketfsck.pipeline.export.existing import CHECK_DATA, ExistingTable, TableChangedError, find_table
from rocketfsck.pipeline.export.file import METADATA_KEY, TEMPORARY, Cell, DataFile, FileShape, FileWriter
from rocketfsck.pipeline.export.objects import Objects
from rocketfsck.pipeline.export.remote import ObjectRun, claim_dead, object_run
from rocketfsck.pipeline.export.tables import delta_options
from rocketfsck.pipeline.fleet.model import FLEET_FINDING_COLUMNS, LATER_COLUMNS, STORE_COLUMNS
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.reading import named_errors
from rocketfsck.writer.disk.publish import sync_path

if TYPE_CHECKING:
    from rocketfsck.pipeline.fleet.model import FleetReport

ROW_COUNT = 10_000
"""Rows of a row group, at least, but for the last one."""
ATTEMPTS = 10
"""Commits that are tried while other runs change an Iceberg table."""
APPENDING = "_appending"
"""Directory in an object store that has the runs which are being appended."""
_RUN_ID = re.compile(r"\d{8}T\d{6}Z-\d{3}[0-9a-f]{6}")
_SIGNS = {"_delta_log": "delta", "metadata": "iceberg", ".parquet": "parquet"}


@dataclass(frozen=True, slots=True)
class AppendedRuns:
    """What an append met in an object store, by the runs' names.

    `removed`: killed runs whose files are deleted; `half`: those of them of which the table of findings has
    rows, and the table of stores none; `active`: runs that may be alive.
    """

    removed: tuple[str, ...] = ()
    half: tuple[str, ...] = ()
    active: tuple[str, ...] = ()


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
        tables.demand(self.table_format)
        tables.demand_catalog(self.directory, self.table_format, self.properties)
        if is_remote(self.directory):
            trial = Objects(self.directory / APPENDING)
            trial.put("_trial", b"")
            trial.delete("_trial")
        for name in _COLUMNS:
            demand_format(self.directory / name, self.table_format)
            self._found(name)

    def append(self, report: FleetReport) -> AppendedRuns:
        """Append the findings and the stores of a run; make the tables if there are none.

        If only the findings are there, after an append that failed, the stores are appended alone. In an
        object store, what killed runs left is deleted first. Raises StoreError for a run that is in both
        tables, and where something cannot be written; otherwise as `demand`.
        """
        self.demand()
        if not is_remote(self.directory):
            self._append(report, None)
            return AppendedRuns()
        with object_run(Objects(self.directory / APPENDING), report.run_id) as run:
            met = self._clear(run)
            self._append(report, run)
        return met

    def _append(self, report: FleetReport, run: ObjectRun | None) -> None:
        if self._has("stores", report.run_id):
            raise StoreError(
                f"the table has the run {report.run_id} already; a run is appended once",
                path=str(self.directory / "stores"),
            )
        if not self._has("findings", report.run_id):
            self._add("findings", report.run_id, report.findings_head, report.finding_rows(), run)
        self._add("stores", report.run_id, report.head(), (row.as_row() for row in report.stores), run)

    def _clear(self, run: ObjectRun) -> AppendedRuns:
        """Delete the objects of killed runs that no table names, the mark of the run last."""
        dead, active = claim_dead(run, _RUN_ID)
        removed, half = [], []
        for run_id in dead:
            if not self._has("stores", run_id):
                removed.append(run_id)
                self._delete("stores", run_id)
                if self._is_parquet or not self._has("findings", run_id):
                    self._delete("findings", run_id)
                else:
                    half.append(run_id)
            run.table.delete(run_id)
        return AppendedRuns(tuple(removed), tuple(half), tuple(active))

    def _delete(self, name: str, run_id: str) -> None:
        root, path = self._root(name), self._path(run_id)
        if is_remote(root):
            Objects(root).delete(path)
        else:
            (root / path).unlink(missing_ok=True)

    def _root(self, name: str) -> Path:
        return self.directory.absolute() / name

    def _path(self, run_id: str) -> str:
        """The file of a run below the root of a table."""
        return f"{run_id}.parquet" if self._is_parquet else f"{CHECK_DATA}/{run_id}.parquet"

    def _found(self, name: str) -> ExistingTable | None:
        root = self._root(name)
        made = self.directory / tables.CATALOG if self._is_iceberg else root
        if self._is_parquet or not (self.properties or is_remote(root) or made.exists()):
            return None
        table = find_table(root, self.table_format, _full_name(name), self._catalog)
        if table is not None:
            table.demand_shape(_schema(self._columns(name, table)), ())
        return table

    def _columns(self, name: str, table: ExistingTable | None) -> tuple[Column, ...]:
        """The columns that are written: a table of an earlier version keeps those that it has."""
        columns = _COLUMNS[name]
        if table is not None and name == "stores":
            older = tuple(column for column in columns if column.name not in LATER_COLUMNS)
            with suppress(UsageError):
                table.demand_shape(_schema(older), ())
                return older
        return columns

    @property
    def _is_parquet(self) -> bool:
        return self.table_format == "parquet"

    @property
    def _is_iceberg(self) -> bool:
        return self.table_format == "iceberg"

    @property
    def _catalog(self) -> Mapping[str, str]:
        return self.properties or tables.own_catalog(self.directory.absolute())

    def _has(self, name: str, run_id: str) -> bool:
        if self._is_parquet:
            root, path = self._root(name), self._path(run_id)
            return Objects(root).exists(path) if is_remote(root) else (root / path).exists()
        table = self._found(name)
        return table is not None and run_id in table.runs()

    def _add(
        self,
        name: str,
        run_id: str,
        head: Mapping[str, Any],
        rows: Iterator[Mapping[str, Any]],
        run: ObjectRun | None,
    ) -> None:
        root = self._root(name)
        about = {"kind": f"rocketfsck.check.{name}", "version": __version__, "view": name, "run": run_id}
        if run is not None:
            run.demand_owned()
        try:
            columns = self._columns(name, self._found(name))
            file = _write(root, self._path(run_id), columns, head if self._is_parquet else about, rows)
            if not self._is_parquet:
                self._commit(name, file, about, run)
        except BaseException:
            if run is not None:
                run.keep = True  # the next run asks the table, if this one cannot
            with suppress(StoreError, UsageError):  # the commit may have been made all the same
                if self._is_parquet or not self._has(name, run_id):
                    self._delete(name, run_id)
                if run is not None:
                    run.keep = False
            raise

    def _commit(self, name: str, file: DataFile, about: Mapping[str, Any], run: ObjectRun | None) -> None:
        for left in reversed(range(ATTEMPTS)):
            table = self._found(name)
            if run is not None:
                run.demand_owned()
            try:
                if table is None:
                    self._create(name, file, about)
                else:
                    table.mend()
                    table.append([file], {}, about)
                return
            except TableChangedError:
                if not left:
                    raise
            except (StoreError, UsageError):
                if table is not None or not left or self._found(name) is None:
                    raise  # else another run has made the table first

    def _create(self, name: str, file: DataFile, about: Mapping[str, Any]) -> None:
        root, schema = self._root(name), _schema(_COLUMNS[name])
        if self._is_iceberg:
            tables.commit_iceberg(
                root, schema, (), [file], about, name=_full_name(name), properties=self._catalog
            )
        else:
            tables.commit_delta(root, schema, (), [file], about)


_COLUMNS: dict[str, tuple[Column, ...]] = {"findings": FLEET_FINDING_COLUMNS, "stores": STORE_COLUMNS}


def newest_run(directory: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The stores and the findings of the newest run in the Delta tables below `directory`, or a URL.

    Raises UsageError if there is no run, StoreError for a table that cannot be read. The package must be
    there (`tables.demand`).
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        stores, findings = (
            DeltaTable(root.as_uri(), storage_options=delta_options(root)).to_pyarrow_dataset()
            for root in (directory.absolute() / name for name in ("stores", "findings"))
        )
        newest = pc.max(stores.to_table(columns=["run_id"])["run_id"]).as_py()
        if newest is None:
            raise UsageError(f"{directory}: the table of stores has no run")
        condition = pc.field("run_id") == newest
        return (
            stores.to_table(filter=condition).to_pylist(),
            findings.to_table(filter=condition).to_pylist(),
        )
    except (DeltaError, pa.ArrowException, OSError) as error:
        raise StoreError(f"the Delta table cannot be read: {error}", path=str(directory)) from error


def demand_format(root: Path, table_format: str) -> None:
    """Raise UsageError if the directory of a table, or the URL, has one of another format."""
    names = [path.name for path in root.iterdir()] if root.is_dir() else []
    for sign, found in _SIGNS.items():
        if found != table_format and any(name.endswith(sign) for name in names):
            what = "Parquet files of earlier runs" if found == "parquet" else f"a table of the format {found}"
            raise UsageError(f"{root} has {what}: give another directory, or --table-format {found}")


def _full_name(name: str) -> str:
    """The name of a table in Iceberg's catalog."""
    return f"rocketmq.check_{name}"


def _schema(columns: Sequence[Column]) -> pa.Schema:
    return arrow_schema(columns, {}).remove_metadata()


def _write(
    root: Path,
    path: str,
    columns: Sequence[Column],
    about: Mapping[str, Any],
    rows: Iterator[Mapping[str, Any]],
) -> DataFile:
    """The rows as one file, which is there when it is whole. Raises StoreError."""
    if not is_remote(root):
        with named_errors(root, "cannot be made"):
            (root / TEMPORARY).mkdir(parents=True, exist_ok=True)
    described = arrow_schema(columns, about)
    schema = described.remove_metadata()
    shape = FileShape(schema, (), metadata=described.metadata[METADATA_KEY])
    writer = FileWriter(root, path, Cell(()), shape)
    try:
        for some in _groups(rows):
            writer.write(pa.Table.from_batches([arrow_batch(some, columns, schema)], schema))
    except BaseException:
        writer.abort()
        raise
    written = writer.close()
    if not is_remote(root):
        with suppress(OSError):  # another run writes there
            (root / TEMPORARY).rmdir()
        with named_errors(root, "cannot be written"):
            for folder in ((root / path).parent, root, root.parent):
                sync_path(folder)
    return written


def _groups(rows: Iterator[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    group: list[Mapping[str, Any]] = []
    for row in rows:
        group.append(row)
        if len(group) >= ROW_COUNT:
            yield group
            group = []
    if group:
        yield group
