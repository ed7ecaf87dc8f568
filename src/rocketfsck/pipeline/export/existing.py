"""Tables that exist, which a run appends to: their marks are read and committed with the files, in one step.

    Delta     transactions `rocketfsck/<part>/<broker>` of the commit, part: epoch, offset, size, digest
              and `rocketfsck/selection` of the table; checkpoints keep them
    Iceberg   the properties `rocketfsck.marks` and `rocketfsck.selection` of the table; the summary of the
              snapshot has the marks of the run

Both libraries refuse a commit whose base another run changed: Delta by its transactions, Iceberg by the
snapshot, as commits here are never tried again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.pipeline.export import tables
from rocketfsck.pipeline.export.file import DataFile
from rocketfsck.pipeline.export.marks import marks_from_json, marks_to_json
from rocketfsck.pipeline.export.model import Mark
from rocketfsck.pipeline.export.tables import delta_options

RUN_NAME = re.compile(r"run-[0-9a-f]{16}")
"""Directories in a table that a run writes its files to."""

CHECK_DATA = "data"
"""Directory in a table of checks (`fleet.tables`) that has one file for each run, called as the run."""

_NO_RETRY = {"commit.retry.num-retries": "0"}


class ExistingTable(Protocol):
    """A table as it was when it was opened; `append` commits to that state."""

    def marks(self, brokers: Sequence[str]) -> dict[str, Mark]:
        """The marks of these brokers, as far as the table has any."""
        ...

    def selection(self) -> int | None:
        """The digest of the selection that the table was made with; None: not by an export of messages."""
        ...

    def demand_shape(self, schema: pa.Schema, partition: Sequence[str]) -> None:
        """Raise UsageError unless the table has these columns and this partition."""
        ...

    def runs(self) -> frozenset[str]:
        """The names of runs that a commit names."""
        ...

    def mend(self) -> bool:
        """Commit what former versions left out of a table of theirs; whether there was anything.

        The table is then as it is after that commit: ask for marks later. Raises as `append`.
        """
        ...

    def append(self, files: Sequence[DataFile], marks: Mapping[str, Mark], about: Mapping[str, Any]) -> None:
        """Commit files and marks in one step; StoreError if that fails, `TableChangedError` if it lost."""
        ...


class TableChangedError(StoreError):
    """Another run changed the table first, so that nothing was committed."""


def open_table(root: Path, table_format: str, name: str, properties: Mapping[str, str]) -> ExistingTable:
    """The table in the directory `root`. Raises UsageError if there is none, and StoreError."""
    table = find_table(root, table_format, name, properties)
    if table is None:
        what = "is not a Delta table" if table_format == "delta" else f"the catalog has no table {name}"
        raise UsageError(f"{root}: exists, but {what}")
    return table


def find_table(
    root: Path, table_format: str, name: str, properties: Mapping[str, str]
) -> ExistingTable | None:
    """The table in the directory or at the URL `root`, if there is one. Raises StoreError."""
    if table_format == "delta":
        return _find_delta(root)
    with tables.catalog_errors(str(root), "opened"):
        catalog = tables.catalog_at(root, properties)
        return _Iceberg(root, catalog.load_table(name)) if catalog.table_exists(name) else None


def _find_delta(root: Path) -> ExistingTable | None:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        return _Delta(root, DeltaTable(root.as_uri(), storage_options=delta_options(root)))
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise StoreError(f"the Delta table cannot be opened: {error}", path=str(root)) from error


@dataclass(frozen=True, slots=True)
class _Delta:
    root: Path
    table: Any

    def marks(self, brokers: Sequence[str]) -> dict[str, Mark]:
        found = {}
        for broker in brokers:
            names = [f"{tables.TRANSACTION}/{part}/{broker}" for part in tables.MARK_PARTS]
            parts = [self.table.transaction_version(name) for name in names]
            if None not in parts:
                found[broker] = Mark(*parts)
            elif parts != [None] * len(parts):
                raise StoreError(f"the table has only a part of the mark of {broker}", path=str(self.root))
        return found

    def selection(self) -> int | None:
        version: int | None = self.table.transaction_version(tables.SELECTION)
        return version

    def demand_shape(self, schema: pa.Schema, partition: Sequence[str]) -> None:
        from deltalake import Schema

        wanted = [(item.name, item.type) for item in Schema.from_arrow(schema.remove_metadata()).fields]
        found = [(item.name, item.type) for item in self.table.schema().fields]
        _demand_partition(self.root, partition, self.table.metadata().partition_columns)
        _demand_equal(self.root, wanted, found)

    def runs(self) -> frozenset[str]:
        found = {name for name in map(_run_in, self.table.file_uris()) if name}
        for commit in self.table.history():
            found |= _run_of(commit.get("rocketfsck"))
        return frozenset(found)

    def mend(self) -> bool:
        metadata = self.table.metadata()
        if tables.INDEXED in metadata.configuration:
            return False
        columns = tables.bounded_columns(
            pa.schema(self.table.schema().to_arrow()), metadata.partition_columns
        )
        with self._committing():
            self.table.alter.set_table_properties({tables.INDEXED: columns})
        return True

    def append(self, files: Sequence[DataFile], marks: Mapping[str, Mark], about: Mapping[str, Any]) -> None:
        with self._committing():
            self.table.create_write_transaction(
                tables.delta_actions(self.root, self.table.metadata().partition_columns, files),
                "append",
                self.table.schema(),
                self.table.metadata().partition_columns,
                commit_properties=tables.delta_properties(about, marks),
            )

    @contextmanager
    def _committing(self) -> Iterator[None]:
        from deltalake.exceptions import CommitFailedError, DeltaError

        try:
            yield
        except CommitFailedError as error:
            raise _lost(self.root) from error
        except (DeltaError, OSError) as error:
            raise _not_appended(self.root, error) from error


@dataclass(frozen=True, slots=True)
class _Iceberg:
    root: Path
    table: Any

    def marks(self, brokers: Sequence[str]) -> dict[str, Mark]:
        every = self._all_marks()
        return {broker: every[broker] for broker in brokers if broker in every}

    def _all_marks(self) -> dict[str, Mark]:
        try:
            return marks_from_json(self.table.properties.get(tables.MARKS_PROPERTY, "{}"))
        except ValueError as error:
            raise StoreError(
                f"the table property {tables.MARKS_PROPERTY} is damaged: {error}", path=str(self.root)
            ) from error

    def selection(self) -> int | None:
        text = self.table.properties.get(tables.SELECTION_PROPERTY, "")
        return int(text) if text.isascii() and text.isdigit() else None

    def demand_shape(self, schema: pa.Schema, partition: Sequence[str]) -> None:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        names = [self.table.schema().find_column_name(item.source_id) for item in self.table.spec().fields]
        _demand_partition(self.root, partition, names)
        found = schema_to_pyarrow(self.table.schema(), include_field_ids=False)
        _demand_equal(self.root, _plain(schema), _plain(found))

    def runs(self) -> frozenset[str]:
        found: set[str] = set()
        for snapshot in self.table.snapshots():
            if snapshot.summary is not None:
                found |= _run_of(snapshot.summary.additional_properties.get("rocketfsck"))
        with tables.catalog_errors(str(self.root), "read"):
            paths = [task.file.file_path for task in self.table.scan().plan_files()]
        return frozenset(found | {name for name in map(_run_in, paths) if name})

    def mend(self) -> bool:
        return False  # Iceberg knows a column without bounds

    def append(self, files: Sequence[DataFile], marks: Mapping[str, Mark], about: Mapping[str, Any]) -> None:
        from pyiceberg.exceptions import CommitFailedException

        # A commit that is tried again takes the other run's snapshot as its base, and has its messages twice.
        known = self.table.metadata
        self.table.metadata = known.model_copy(update={"properties": {**known.properties, **_NO_RETRY}})
        try:
            with (
                tables.catalog_errors(str(self.root), "appended to"),
                self.table.transaction() as transaction,
            ):
                if marks:
                    transaction.set_properties(
                        **{tables.MARKS_PROPERTY: marks_to_json({**self._all_marks(), **marks})}
                    )
                if files:
                    transaction.add_files(
                        [str(self.root / file.path) for file in files],
                        snapshot_properties=tables.iceberg_summary(about, marks),
                    )
        except StoreError as error:
            if isinstance(error.__cause__, CommitFailedException):
                raise _lost(self.root) from error
            raise


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


def _run_in(path: str) -> str | None:
    """The run that wrote a file of the table: a directory has its name, or a file in `data` of a check."""
    *folders, name = path.split("/")
    run = next((part for part in folders if RUN_NAME.fullmatch(part)), None)
    if run is None and folders[-1:] == [CHECK_DATA]:
        run = name.removesuffix(".parquet")
    return run


def _run_of(about: Any) -> set[str]:
    """The run that a commit of an export names."""
    try:
        name = json.loads(about).get("run") if isinstance(about, str) else None
    except (ValueError, AttributeError, RecursionError):
        return set()
    return {name} if isinstance(name, str) else set()


def _lost(root: Path) -> StoreError:
    return TableChangedError(
        "another run changed the table first, so nothing was appended; run the command again", path=str(root)
    )


def _not_appended(root: Path, error: BaseException) -> StoreError:
    return StoreError(f"the table cannot be appended to: {error}", path=str(root))
