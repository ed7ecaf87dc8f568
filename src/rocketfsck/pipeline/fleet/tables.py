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
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq

from rocketfsck._version import __version__
from rocketfsck.common.rows import Column, arrow_schema
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.pipeline.export import tables
from rocketfsck.pipeline.export.files import Place, errors_of, read_footer
from rocketfsck.pipeline.export.model import DataFile
from rocketfsck.pipeline.export.storage import delta_options
from rocketfsck.pipeline.export.tables import Commit, LakeTable, TableChangedError, TableShape, find_table
from rocketfsck.pipeline.fleet.model import FLEET_FINDING_COLUMNS, LATER_COLUMNS, STORE_COLUMNS
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.scratch import scratch_parent
from rocketfsck.writer.disk.publish import sync_path

if TYPE_CHECKING:
    from rocketfsck.pipeline.fleet.model import FleetReport

ROW_COUNT = 10_000
"""Rows of a row group, at least, but for the last one."""
ATTEMPTS = 10
"""Commits that are tried while other runs change a table."""
DATA = "data"
"""Directory in a table that has one file for each run."""
_SIGNS = {"_delta_log": "delta", "metadata": "iceberg", ".parquet": "parquet"}
_TRIAL = "_trial"


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

    def _found(self, name: str) -> LakeTable | None:
        root = self._root(name)
        made = self.directory / tables.CATALOG if self._is_iceberg else root
        if self._is_parquet or not (self.properties or is_remote(root) or made.exists()):
            return None
        table = find_table(root, self.table_format, _full_name(name), self._catalog)
        if table is not None:
            table.demand_shape(_shape(self._columns(name, table)))
        return table

    def _columns(self, name: str, table: LakeTable | None) -> tuple[Column, ...]:
        """The columns that are written: a table of an earlier version keeps those that it has."""
        missing = LATER_COLUMNS - table.names() if table is not None and name == "stores" else frozenset()
        return tuple(column for column in _COLUMNS[name] if column.name not in missing)

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
                    tables.create_table(
                        self._root(name),
                        self.table_format,
                        _full_name(name),
                        self._catalog,
                        _shape(_COLUMNS[name]),
                        Commit((file,), about, {}),
                    )
                else:
                    table.mend()
                    table.append(Commit((file,), about, {}))
                return
            except TableChangedError:
                if not left:
                    raise
            except (StoreError, UsageError):
                if table is not None or not left or self._found(name) is None:
                    raise  # else another run has made the table first


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


def _shape(columns: Sequence[Column]) -> TableShape:
    return TableShape(arrow_schema(columns, {}).remove_metadata(), ())


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
        part = Path(folder) / "part.parquet"
        with errors_of(part, "cannot be written"), pq.ParquetWriter(part, schema) as writer:
            for some in _groups(batches):
                writer.write_table(some.select(schema.names).replace_schema_metadata(schema.metadata))
        place.put_file(path, part)
        file = read_footer(part, path)
    if not place.is_remote:
        for directory in ((place.root / path).parent, place.root, place.root.parent):
            sync_path(directory)
    return file


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    group: list[pa.RecordBatch] = []
    for batch in batches:
        group.append(batch)
        if sum(some.num_rows for some in group) >= ROW_COUNT:
            yield pa.Table.from_batches(group)
            group = []
    if group:
        yield pa.Table.from_batches(group)
