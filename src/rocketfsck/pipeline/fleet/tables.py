"""The tables of a check as Delta or Iceberg tables, to which every run is appended once.

    DIR/findings/data/RUN_ID.parquet     findings of the run
    DIR/stores/data/RUN_ID.parquet       stores of the run
    DIR/findings/_delta_log, metadata    Delta's log, Iceberg's metadata
    DIR/catalog.db                       Iceberg's catalog of both, unless another is named

The findings come first: a run that has rows in the table of stores is in both. The commit of either table
names the run. Runs that end at the same time are both appended: neither depends on what the table had.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rocketfsck import __version__
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.pipeline.export import tables
from rocketfsck.pipeline.export.existing import CHECK_DATA, ExistingTable, TableChangedError, find_table
from rocketfsck.pipeline.export.file import TEMPORARY, DataFile, FileShape, FileWriter
from rocketfsck.pipeline.export.layout import Cell
from rocketfsck.pipeline.fleet.model import FLEET_FINDING_COLUMNS, STORE_COLUMNS
from rocketfsck.rows import Column, arrow_batch, arrow_schema
from rocketfsck.store.reading import named_errors
from rocketfsck.writer.disk.publish import sync_path

if TYPE_CHECKING:
    from rocketfsck.pipeline.fleet.results import FleetReport

ROW_COUNT = 10_000
"""Rows of a row group, at least, but for the last one."""
ATTEMPTS = 10
"""Commits that are tried while other runs change an Iceberg table."""
_SIGNS = {"_delta_log": "delta", "metadata": "iceberg", "*.parquet": "parquet"}


@dataclass(frozen=True, slots=True)
class RunTables:
    """The two tables in `directory`; `table_format` is `delta` or `iceberg`.

    `properties` are those of Iceberg's catalog; without any it is `catalog.db` in `directory`.
    """

    directory: Path
    table_format: str
    properties: Mapping[str, str] = field(default_factory=dict)

    def demand(self) -> None:
        """Raise what `append` would raise of the tables as they are now, before a long check.

        Raises UsageError for a package that is missing, for a directory that has tables of another format,
        and for a table with other columns; StoreError for one that cannot be opened.
        """
        tables.demand(self.table_format)
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
            self._add("findings", report.run_id, report.finding_rows())
        self._add("stores", report.run_id, (row.as_row() for row in report.stores))

    def _found(self, name: str) -> ExistingTable | None:
        root = self.directory.absolute() / name
        made = self.directory / tables.CATALOG if self._is_iceberg else root
        if not self.properties and not made.exists():
            return None
        table = find_table(root, self.table_format, _full_name(name), self._catalog)
        if table is not None:
            table.demand_shape(_schema(name), ())
        return table

    @property
    def _is_iceberg(self) -> bool:
        return self.table_format == "iceberg"

    @property
    def _catalog(self) -> Mapping[str, str]:
        return self.properties or tables.own_catalog(self.directory.absolute())

    def _has(self, name: str, run_id: str) -> bool:
        table = self._found(name)
        return table is not None and run_id in table.runs()

    def _add(self, name: str, run_id: str, rows: Iterator[Mapping[str, Any]]) -> None:
        root = self.directory.absolute() / name
        about = {"kind": f"rocketfsck.check.{name}", "version": __version__, "view": name, "run": run_id}
        file = _write(root, name, about, rows)
        try:
            self._commit(name, file, about)
        except BaseException:
            with suppress(StoreError, UsageError):  # the commit may have been made all the same
                if not self._has(name, run_id):
                    (root / file.path).unlink(missing_ok=True)
            raise

    def _commit(self, name: str, file: DataFile, about: Mapping[str, Any]) -> None:
        for left in reversed(range(ATTEMPTS)):
            table = self._found(name)
            try:
                if table is None:
                    self._create(name, file, about)
                else:
                    table.append([file], {}, about)
                return
            except TableChangedError:
                if not left:
                    raise
            except (StoreError, UsageError):
                if table is not None or not left or self._found(name) is None:
                    raise  # else another run has made the table first

    def _create(self, name: str, file: DataFile, about: Mapping[str, Any]) -> None:
        root, schema = self.directory.absolute() / name, _schema(name)
        if self._is_iceberg:
            tables.commit_iceberg(
                root, schema, (), [file], about, name=_full_name(name), properties=self._catalog
            )
        else:
            tables.commit_delta(root, schema, (), [file], about)


_COLUMNS: dict[str, tuple[Column, ...]] = {"findings": FLEET_FINDING_COLUMNS, "stores": STORE_COLUMNS}


def newest_run(directory: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The stores and the findings of the newest run in the Delta tables below `directory`.

    Raises UsageError if there is no run, StoreError for a table that cannot be read. The package must be
    there (`tables.demand`).
    """
    import pyarrow.compute as pc
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        stores, findings = (
            DeltaTable((directory.absolute() / name).as_uri()).to_pyarrow_dataset()
            for name in ("stores", "findings")
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
    """Raise UsageError if the directory of a table has one of another format."""
    for sign, found in _SIGNS.items():
        if found != table_format and root.is_dir() and any(root.glob(sign)):
            what = "Parquet files of earlier runs" if found == "parquet" else f"a table of the format {found}"
            raise UsageError(f"{root} has {what}: give another directory, or --table-format {found}")


def _full_name(name: str) -> str:
    """The name of a table in Iceberg's catalog."""
    return f"rocketmq.check_{name}"


def _schema(name: str) -> pa.Schema:
    return arrow_schema(_COLUMNS[name], {}).remove_metadata()


def _write(root: Path, name: str, about: Mapping[str, Any], rows: Iterator[Mapping[str, Any]]) -> DataFile:
    """The rows as one file, which is there when it is whole. Raises StoreError."""
    with named_errors(root, "cannot be made"):
        (root / TEMPORARY).mkdir(parents=True, exist_ok=True)
    columns, schema = _COLUMNS[name], _schema(name)
    path = f"{CHECK_DATA}/{about['run']}.parquet"
    shape = FileShape(schema, (), metadata=json.dumps(about).encode())
    writer = FileWriter(root, path, Cell(()), shape)
    try:
        for some in _groups(rows):
            writer.write(pa.Table.from_batches([arrow_batch(some, columns, schema)], schema))
    except BaseException:
        writer.abort()
        raise
    written = writer.close()
    with named_errors(root, "cannot be written"):
        for folder in (root / CHECK_DATA, root, root.parent):
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
