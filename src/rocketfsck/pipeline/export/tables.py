"""Delta and Iceberg tables: the files of a run, and marks, in one commit of the tables' own libraries.

    Delta     transactions `rocketfsck/<part>/<broker>` of the commit, part: epoch, offset, size, digest
              and `rocketfsck/selection` of the table; checkpoints keep them
    Iceberg   the properties `rocketfsck.marks` and `rocketfsck.selection` of the table

Both libraries refuse a commit whose base another run changed: Delta by its transactions, Iceberg by the
snapshot, as commits here are never tried again. Either package is optional (the extra `tables`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyarrow import dataset

from rocketfsck.errors import StoreError, UsageError, install_hint
from rocketfsck.pipeline.export.files import delta_options, iceberg_options
from rocketfsck.pipeline.export.model import DataFile, Mark, marks_from_json, marks_to_json
from rocketfsck.store.places.urls import is_remote

PACKAGES = {"delta": "deltalake", "iceberg": "pyiceberg"}
TRANSACTION = "rocketfsck"
"""What the names of transactions in Delta's log begin with."""

SELECTION = f"{TRANSACTION}/selection"
MARK_PARTS = tuple(item.name for item in fields(Mark))
MARKS_PROPERTY = "rocketfsck.marks"
SELECTION_PROPERTY = "rocketfsck.selection"
INDEXED = "delta.dataSkippingStatsColumns"
CATALOG = "catalog.db"
CATALOG_NAME = "rocketfsck"
_NO_RETRY = {"commit.retry.num-retries": "0"}


class TableChangedError(StoreError):
    """Another run changed the table first, so that nothing was committed."""


@dataclass(frozen=True, slots=True)
class Commit:
    """What one commit adds: files, by paths below the table's root, and what it says of them.

    `selection` (a digest) is that of a new table: it lets later runs append after the `marks`.
    """

    files: Sequence[DataFile]
    about: Mapping[str, Any]
    marks: Mapping[str, Mark]
    selection: int | None = None


@dataclass(frozen=True, slots=True)
class TableShape:
    """The columns of a table, and those of its partition."""

    schema: pa.Schema
    partition: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TablePlace:
    """Where a table is, or will be: its files are below `root`, a directory or a URL.

    `name` is its name in Iceberg's catalog, which `properties` describe; default: `catalog.db` in `root`.
    """

    root: Path
    table_format: str
    name: str
    properties: Mapping[str, str]

    def demand(self) -> None:
        """Raise UsageError where the format's package is missing, and for an Iceberg table at a URL without a
        catalog: a database file cannot be there."""
        demand(self.table_format)
        if is_remote(self.root) and self.table_format == "iceberg" and not self.properties:
            raise UsageError(
                f"{self.root}: an Iceberg table in an object store needs a catalog: give --catalog uri=…"
            )

    def demand_new(self) -> None:
        """Raise UsageError if the user's catalog has such a table, StoreError if there is no such catalog."""
        if self.properties:
            with catalog_errors(self.name, "created"):
                self.demand_free(catalog_of(self.properties))

    def find(self) -> LakeTable | None:
        """The table, if there is one. Raises StoreError."""
        if self.table_format == "delta":
            return _find_delta(self.root)
        with catalog_errors(str(self.root), "opened"):
            catalog = self.catalog()
            return (
                _Iceberg(self.root, catalog.load_table(self.name))
                if catalog.table_exists(self.name)
                else None
            )

    def create(self, shape: TableShape, commit: Commit) -> None:
        """Make the table of files below `root`. Raises StoreError where it cannot be made; then there is
        none."""
        create = _create_delta if self.table_format == "delta" else _create_iceberg
        create(self, shape, commit)

    def catalog(self) -> Any:
        """Iceberg's catalog; errors are its own client's."""
        if is_remote(self.root):
            return catalog_of({**iceberg_options(self.root), **self.properties})
        return catalog_of(self.properties or own_catalog(self.root))

    def demand_free(self, catalog: Any) -> None:
        """Raise UsageError if the catalog has such a table."""
        if catalog.table_exists(self.name):
            raise UsageError(f"the catalog already has the table {self.name}")


def demand(table_format: str) -> None:
    """Raise UsageError, with what to install, where the format's package is missing."""
    package = PACKAGES.get(table_format)
    if package is not None and find_spec(package) is None:
        raise UsageError(
            f"{table_format} needs {package}, which is not installed: run {install_hint('tables')}"
        )


def _find_delta(root: Path) -> LakeTable | None:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        return _Delta(root, DeltaTable(root.as_uri(), storage_options=delta_options(root)))
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise StoreError(f"the Delta table cannot be opened: {error}", path=str(root)) from error


def _create_delta(place: TablePlace, shape: TableShape, commit: Commit) -> None:
    from deltalake import Schema
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import create_table_with_add_actions

    try:
        create_table_with_add_actions(
            place.root.as_uri(),
            Schema.from_arrow(shape.schema.remove_metadata()),
            _delta_actions(commit.files, shape.partition),
            mode="error",
            partition_by=list(shape.partition),
            name=place.name.rpartition(".")[2],
            configuration={INDEXED: _bounded_columns(shape)},
            commit_properties=_delta_properties(commit),
            storage_options=delta_options(place.root),
        )
    except (DeltaError, OSError) as error:
        raise StoreError(f"the Delta table cannot be created: {error}", path=str(place.root)) from error


def _bounded_columns(shape: TableShape) -> str:
    """The columns whose bounds are in Delta's log, as the property of a table names them.

    Without this list deltalake takes a column that has no bounds for one that has no values: a filter on it
    finds nothing.
    """
    return ",".join(
        item.name
        for item in shape.schema
        if pa.types.is_integer(item.type) and item.name not in shape.partition
    )


def _delta_actions(files: Sequence[DataFile], partition: Sequence[str]) -> list[Any]:
    from deltalake.transaction import AddAction

    now = int(time.time() * 1000)
    return [
        AddAction(
            path=file.path,  # the library escapes it
            size=file.size,
            partition_values=dict(zip(partition, file.values, strict=True)),
            modification_time=now,
            data_change=True,
            stats=json.dumps(_delta_statistics(file)),
        )
        for file in files
    ]


def _delta_statistics(file: DataFile) -> dict[str, Any]:
    """Bounds of the columns of numbers; a truth value has none in Delta."""
    bounds = {
        name: found
        for name, found in file.bounds.items()
        if isinstance(found[0], int) and not isinstance(found[0], bool)
    }
    return {
        "numRecords": file.row_count,
        "minValues": {name: low for name, (low, _, _) in bounds.items()},
        "maxValues": {name: high for name, (_, high, _) in bounds.items()},
        "nullCount": {name: nulls for name, (_, _, nulls) in file.bounds.items()},
    }


def _delta_properties(commit: Commit) -> Any:
    from deltalake import CommitProperties, Transaction

    parts = {
        f"{TRANSACTION}/{part}/{broker}": getattr(mark, part)
        for broker, mark in commit.marks.items()
        for part in MARK_PARTS
    }
    if commit.selection is not None:
        parts[SELECTION] = commit.selection
    if commit.about.get("run"):
        parts[_run_name(commit.about["run"])] = 0
    return CommitProperties(
        custom_metadata={"rocketfsck": json.dumps(commit.about)},
        app_transactions=[Transaction(name, version) for name, version in parts.items()],
    )


def _run_name(run: str) -> str:
    return f"{TRANSACTION}/run/{run}"


@dataclass(frozen=True, slots=True)
class _Delta:
    """A table as it was when it was opened; `append` commits to that state. All raise StoreError."""

    root: Path
    table: Any

    def marks(self, brokers: Sequence[str]) -> dict[str, Mark]:
        """The marks of these brokers, as far as the table has any."""
        found = {}
        for broker in brokers:
            parts = [self.table.transaction_version(f"{TRANSACTION}/{part}/{broker}") for part in MARK_PARTS]
            if None not in parts:
                found[broker] = Mark(*parts)
            elif parts != [None] * len(parts):
                raise StoreError(f"the table has only a part of the mark of {broker}", path=str(self.root))
        return found

    def selection(self) -> int | None:
        """The digest of the selection that the table was made with; None: not by an export of messages."""
        version: int | None = self.table.transaction_version(SELECTION)
        return version

    def names(self) -> frozenset[str]:
        """The names of its columns."""
        return frozenset(item.name for item in self.table.schema().fields)

    def demand_shape(self, shape: TableShape) -> None:
        """Raise UsageError unless the table has these columns and this partition."""
        from deltalake import Schema

        wanted = Schema.from_arrow(shape.schema.remove_metadata()).fields
        _demand_partition(self.root, shape.partition, self.table.metadata().partition_columns)
        _demand_equal(
            self.root,
            [(item.name, item.type) for item in wanted],
            [(item.name, item.type) for item in self.table.schema().fields],
        )

    def has_run(self, run: str) -> bool:
        """Whether a commit says that it belongs to this run."""
        return self.table.transaction_version(_run_name(run)) is not None

    def runs(self, start: str, end: str) -> dataset.Dataset:  # noqa: ARG002
        """The rows of the runs from `start` to before `end`, perhaps with others."""
        return self.table.to_pyarrow_dataset()

    def mend(self) -> bool:
        """Commit what former versions left out of a table of theirs; whether there was anything.

        The table is then as it is after that commit: ask for marks later. Raises as `append`.
        """
        metadata = self.table.metadata()
        if INDEXED in metadata.configuration:
            return False
        shape = TableShape(pa.schema(self.table.schema().to_arrow()), tuple(metadata.partition_columns))
        with self._committing():
            self.table.alter.set_table_properties({INDEXED: _bounded_columns(shape)})
        return True

    def append(self, commit: Commit) -> None:
        """Commit in one step; StoreError if that fails, `TableChangedError` if another run was first."""
        partition = self.table.metadata().partition_columns
        with self._committing():
            self.table.create_write_transaction(
                _delta_actions(commit.files, partition),
                "append",
                self.table.schema(),
                partition,
                commit_properties=_delta_properties(commit),
            )

    @contextlib.contextmanager
    def _committing(self) -> Iterator[None]:
        from deltalake.exceptions import CommitFailedError, DeltaError

        try:
            yield
        except CommitFailedError as error:
            raise _lost(self.root) from error
        except (DeltaError, OSError) as error:
            raise StoreError(f"the table cannot be appended to: {error}", path=str(self.root)) from error


def _create_iceberg(place: TablePlace, shape: TableShape, commit: Commit) -> None:
    from pyiceberg.exceptions import NamespaceAlreadyExistsError

    # it says of every file which columns have no bounds, and we know
    logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)
    root, name = place.root, place.name
    with catalog_errors(str(root), "created"):
        catalog = place.catalog()
        place.demand_free(catalog)
        with contextlib.suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(name.rpartition(".")[0])
        schema = shape.schema.remove_metadata()
        with catalog.create_table_transaction(name, schema, location=str(root)) as transaction:
            with transaction.update_spec() as spec:
                for column in shape.partition:
                    spec.add_identity(column)
            if commit.selection is not None:
                transaction.set_properties(**{SELECTION_PROPERTY: str(commit.selection)})
            _add_to_iceberg(root, transaction, commit, commit.marks)


def _add_to_iceberg(root: Path, transaction: Any, commit: Commit, marks: Mapping[str, Mark]) -> None:
    if marks:
        transaction.set_properties(**{MARKS_PROPERTY: marks_to_json(marks)})
    if commit.files:
        summary = {"rocketfsck": json.dumps(commit.about), "rocketfsck.run": commit.about.get("run", "")}
        paths = [str(root / file.path) for file in commit.files]
        transaction.add_files(paths, snapshot_properties=summary)


@dataclass(frozen=True, slots=True)
class _Iceberg:
    """The same of a table of Iceberg."""

    root: Path
    table: Any

    def marks(self, brokers: Sequence[str]) -> dict[str, Mark]:
        every = self._all_marks()
        return {broker: every[broker] for broker in brokers if broker in every}

    def _all_marks(self) -> dict[str, Mark]:
        try:
            return marks_from_json(self.table.properties.get(MARKS_PROPERTY, "{}"))
        except ValueError as error:
            raise StoreError(
                f"the table property {MARKS_PROPERTY} is damaged: {error}", path=str(self.root)
            ) from error

    def selection(self) -> int | None:
        text = self.table.properties.get(SELECTION_PROPERTY, "")
        return int(text) if text.isascii() and text.isdigit() else None

    def names(self) -> frozenset[str]:
        return frozenset(self.table.schema().column_names)

    def demand_shape(self, shape: TableShape) -> None:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        names = [self.table.schema().find_column_name(item.source_id) for item in self.table.spec().fields]
        _demand_partition(self.root, shape.partition, names)
        found = schema_to_pyarrow(self.table.schema(), include_field_ids=False)
        _demand_equal(self.root, _plain(shape.schema), _plain(found))

    def has_run(self, run: str) -> bool:
        summaries = [snapshot.summary for snapshot in self.table.snapshots()]
        return any(
            summary is not None and summary.additional_properties.get("rocketfsck.run") == run
            for summary in summaries
        )

    def runs(self, start: str, end: str) -> dataset.Dataset:
        from pyiceberg.expressions import And, GreaterThanOrEqual, LessThan

        among = And(GreaterThanOrEqual("run_id", start), LessThan("run_id", end))
        with catalog_errors(str(self.root), "read"):
            return dataset.dataset(self.table.scan(row_filter=among).to_arrow())

    def mend(self) -> bool:
        return False  # Iceberg knows a column without bounds

    def append(self, commit: Commit) -> None:
        from pyiceberg.exceptions import CommitFailedException

        # A commit that is tried again takes the other run's snapshot as its base, and has its messages twice.
        known = self.table.metadata
        self.table.metadata = known.model_copy(update={"properties": {**known.properties, **_NO_RETRY}})
        marks = {**self._all_marks(), **commit.marks} if commit.marks else {}
        try:
            with catalog_errors(str(self.root), "appended to"), self.table.transaction() as transaction:
                _add_to_iceberg(self.root, transaction, commit, marks)
        except StoreError as error:
            if isinstance(error.__cause__, CommitFailedException):
                raise _lost(self.root) from error
            raise


LakeTable = _Delta | _Iceberg


def _plain(schema: pa.Schema) -> list[tuple[str, str]]:
    """Columns by name, with types that are the same on both ways: Arrow's large types are as the small."""
    return [(item.name, re.sub(r"large_|element: |not null| ", "", str(item.type))) for item in schema]


def _demand_equal(root: Path, wanted: Sequence[Any], found: Sequence[Any]) -> None:
    if list(wanted) != list(found):
        raise UsageError(f"{root}: the table has other columns than this run writes: {_drift(wanted, found)}")


def _drift(wanted: Sequence[Any], found: Sequence[Any]) -> str:
    """How the columns of a table differ from those of a run."""
    has, needs = dict(found), dict(wanted)
    parts = {
        "missing": [name for name in needs if name not in has],
        "additional": [name for name in has if name not in needs],
        "of another type": [name for name in needs if name in has and has[name] != needs[name]],
    }
    differences = [f"{verb} {', '.join(names)}" for verb, names in parts.items() if names]
    return "; ".join(differences) or f"another order: {', '.join(has)}"


def _demand_partition(root: Path, wanted: Sequence[str], found: Sequence[str]) -> None:
    if list(wanted) != list(found):
        raise UsageError(f"{root}: the table has the partition columns {', '.join(found) or 'none'}")


def _lost(root: Path) -> StoreError:
    return TableChangedError(
        "another run changed the table first, so nothing was appended; run the command again", path=str(root)
    )


def own_catalog(root: Path) -> dict[str, str]:
    """The properties of the catalog in the directory of the table."""
    return {"type": "sql", "uri": f"sqlite:///{quote(str(root / CATALOG))}", "warehouse": str(root)}


def catalog_of(properties: Mapping[str, str]) -> Any:
    """The catalog of these properties; errors are its own client's."""
    from pyiceberg.catalog import load_catalog

    settings = dict(properties)
    return load_catalog(settings.pop("name", CATALOG_NAME), **settings)


@contextlib.contextmanager
def catalog_errors(path: str, action: str) -> Iterator[None]:
    """A catalog may be anything, and raises what its own client raises: StoreError with the action."""
    try:
        yield
    except (UsageError, StoreError):
        raise
    except Exception as error:
        raise StoreError(f"the Iceberg table cannot be {action}: {error}", path=path) from error
