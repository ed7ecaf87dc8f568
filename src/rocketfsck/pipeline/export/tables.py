"""Files of an export as a Delta or Iceberg table: metadata only, written by the driver, in one commit.

Either package is optional (the extra `tables`) and imported here when it is asked for.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.pipeline.export.file import DataFile

PACKAGES = {"delta": "deltalake", "iceberg": "pyiceberg"}
CATALOG = "catalog.db"
CATALOG_NAME = "rocketfsck"


def demand(table_format: str) -> None:
    """Raise UsageError, with what to install, where the format's package is missing."""
    package = PACKAGES.get(table_format)
    if package is not None and find_spec(package) is None:
        raise UsageError(
            f"{package} is not installed, which {table_format} needs: run pip install 'rocketfsck[tables]'"
        )


def commit_delta(
    root: Path,
    schema: pa.Schema,
    partition: Sequence[str],
    files: Sequence[DataFile],
    about: Mapping[str, Any],
) -> None:
    """Make the directory a Delta table of these files. Paths in its log are below the root.

    Raises StoreError where the log cannot be written.
    """
    from deltalake import CommitProperties, Schema
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import AddAction, create_table_with_add_actions

    actions = [
        AddAction(
            path=file.path,  # the library escapes it
            size=file.size,
            partition_values=dict(zip(partition, file.cell.values, strict=True)),
            modification_time=int((root / file.path).stat().st_mtime * 1000),
            data_change=True,
            stats=json.dumps(_delta_statistics(file)),
        )
        for file in files
    ]
    try:
        create_table_with_add_actions(
            root.as_uri(),
            Schema.from_arrow(schema.remove_metadata()),
            actions,
            mode="error",
            partition_by=list(partition),
            name=str(about["view"]),
            commit_properties=CommitProperties(custom_metadata={"rocketfsck": json.dumps(about)}),
        )
    except (DeltaError, OSError) as error:
        raise StoreError(f"the Delta table cannot be made: {error}", path=str(root)) from error


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


def commit_iceberg(
    root: Path,
    schema: pa.Schema,
    partition: Sequence[str],
    files: Sequence[DataFile],
    about: Mapping[str, Any],
    *,
    name: str,
    properties: Mapping[str, str],
) -> None:
    """Make an Iceberg table of these files in the catalog of `properties`; default: `catalog.db` beside them.

    `name` is `namespace.table`; the property `name` is the catalog's own. Raises UsageError if there is such
    a table, StoreError where it cannot be made; then the catalog has none.
    """
    from pyiceberg.exceptions import NamespaceAlreadyExistsError

    # it says of every file which columns have no bounds, and we know
    logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)
    own = {"type": "sql", "uri": f"sqlite:///{quote(str(root / CATALOG))}", "warehouse": str(root)}
    with _catalog_errors(str(root)):
        catalog = _catalog(properties or own)
        _demand_new(catalog, name)
        with contextlib.suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(name.rpartition(".")[0])
        made = catalog.create_table_transaction(name, schema.remove_metadata(), location=str(root))
        with made as transaction:
            with transaction.update_spec() as spec:
                for column in partition:
                    spec.add_identity(column)
            if files:
                transaction.add_files(
                    [str(root / file.path) for file in files],
                    snapshot_properties={"rocketfsck": json.dumps(about)},
                )


def demand_new_table(name: str, properties: Mapping[str, str]) -> None:
    """Raise UsageError if the user's catalog has such a table, StoreError if there is no such catalog."""
    if properties:
        with _catalog_errors(name):
            _demand_new(_catalog(properties), name)


def _catalog(properties: Mapping[str, str]) -> Any:
    from pyiceberg.catalog import load_catalog

    settings = dict(properties)
    return load_catalog(settings.pop("name", CATALOG_NAME), **settings)


def _demand_new(catalog: Any, name: str) -> None:
    if catalog.table_exists(name):
        raise UsageError(f"the table {name} is in the catalog already")


@contextlib.contextmanager
def _catalog_errors(path: str) -> Iterator[None]:
    """A catalog may be anything, and raises what its own client raises."""
    try:
        yield
    except (UsageError, StoreError):
        raise
    except Exception as error:
        raise StoreError(f"the Iceberg table cannot be made: {error}", path=path) from error
