"""Files of an export as a Delta or Iceberg table: metadata only, written by the driver, in one commit.

Either package is optional (the extra `tables`) and imported here when it is asked for.

How Delta's and Iceberg's own libraries reach an object store for which fsspec has options.

    fsspec (s3fs)                   deltalake                pyiceberg
    endpoint_url                    aws_endpoint_url         s3.endpoint
    key, secret, token              aws_access_key_id, …     s3.access-key-id, …
    client_kwargs.region_name       aws_region               s3.region
    anon                            aws_skip_signature       s3.anonymous

What is not given they find in the environment, as s3fs does. A profile is resolved here, by the library that
has its file. Options of other schemes go to deltalake as they are, and to pyiceberg by `--catalog`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from rocketfsck.errors import StoreError, UsageError, install_hint
from rocketfsck.pipeline.export.file import DataFile
from rocketfsck.pipeline.export.marks import marks_to_json
from rocketfsck.pipeline.export.model import Mark
from rocketfsck.store.places.urls import CONDITIONAL_SCHEMES, is_remote, options_for

_NAMES = {
    "endpoint_url": ("aws_endpoint_url", "s3.endpoint"),
    "key": ("aws_access_key_id", "s3.access-key-id"),
    "secret": ("aws_secret_access_key", "s3.secret-access-key"),
    "token": ("aws_session_token", "s3.session-token"),
    "region_name": ("aws_region", "s3.region"),
    "anon": ("aws_skip_signature", "s3.anonymous"),
}
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_DEFAULT_REGION = "us-east-1"
"""The region of servers that are not Amazon's, where no region is given."""


def delta_options(root: Path) -> dict[str, str] | None:
    """What deltalake gets for the URL `root`; None for a directory. Raises UsageError."""
    if not is_remote(root):
        return None
    url = str(root)
    if _is_s3(url):
        found = {_NAMES[name][0]: value for name, value in _s3_facts(url).items()}
        if found.get("aws_endpoint_url", "").startswith("http://"):
            found["aws_allow_http"] = "true"
        return found
    return {name: str(value) for name, value in options_for(url).values().items()}


def iceberg_options(root: Path) -> dict[str, str]:
    """Properties of a catalog for the files at the URL `root`. Raises UsageError."""
    url = str(root)
    return {_NAMES[name][1]: value for name, value in _s3_facts(url).items()} if _is_s3(url) else {}


def _is_s3(url: str) -> bool:
    return url.partition("://")[0] in CONDITIONAL_SCHEMES


def _s3_facts(url: str) -> dict[str, str]:
    options = options_for(url).values()
    inner = options.get("client_kwargs")
    given: dict[str, Any] = {**(inner if isinstance(inner, Mapping) else {}), **options}
    if given.get("profile"):
        given |= _of_profile(str(given["profile"]))
    given.setdefault("endpoint_url", _first(_ENDPOINTS))
    given.setdefault("region_name", _first(_REGIONS) or (given["endpoint_url"] and _DEFAULT_REGION))
    return {name: _text(given[name]) for name in _NAMES if given.get(name)}


def _of_profile(profile: str) -> dict[str, str | None]:
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    try:
        session = Session(profile=profile)
        found = session.get_credentials()
        keys = found.get_frozen_credentials() if found is not None else None
        region = session.get_config_variable("region")
    except BotoCoreError as error:
        raise UsageError(f"the storage option profile: {error}") from error
    if keys is None:
        return {"region_name": region}
    return {"key": keys.access_key, "secret": keys.secret_key, "token": keys.token, "region_name": region}


def _first(names: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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


def demand(table_format: str) -> None:
    """Raise UsageError, with what to install, where the format's package is missing."""
    package = PACKAGES.get(table_format)
    if package is not None and find_spec(package) is None:
        raise UsageError(
            f"{table_format} needs {package}, which is not installed: run {install_hint('tables')}"
        )


def demand_catalog(root: Path, table_format: str, properties: Mapping[str, str]) -> None:
    """Raise UsageError for an Iceberg table at a URL without a catalog: a database file cannot be there."""
    if is_remote(root) and table_format == "iceberg" and not properties:
        raise UsageError(f"{root}: an Iceberg table in an object store needs a catalog: give --catalog uri=…")


def commit_delta(
    root: Path,
    schema: pa.Schema,
    partition: Sequence[str],
    files: Sequence[DataFile],
    about: Mapping[str, Any],
    *,
    marks: Mapping[str, Mark] | None = None,
    selection: int | None = None,
) -> None:
    """Make the directory a Delta table of these files. Paths in its log are below the root.

    `selection` (a digest) lets later runs append after the `marks`. Raises StoreError where the log cannot be
    written.
    """
    from deltalake import Schema
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import create_table_with_add_actions

    try:
        create_table_with_add_actions(
            root.as_uri(),
            Schema.from_arrow(schema.remove_metadata()),
            delta_actions(root, partition, files),
            mode="error",
            partition_by=list(partition),
            name=str(about["view"]),
            configuration={INDEXED: bounded_columns(schema, partition)},
            commit_properties=delta_properties(about, marks or {}, selection),
            storage_options=delta_options(root),
        )
    except (DeltaError, OSError) as error:
        raise StoreError(f"the Delta table cannot be created: {error}", path=str(root)) from error


def bounded_columns(schema: pa.Schema, partition: Sequence[str]) -> str:
    """The columns whose bounds are in Delta's log, as the property of a table names them.

    Without this list deltalake takes a column that has no bounds for one that has no values: a filter on it
    finds nothing.
    """
    names = [item.name for item in schema if pa.types.is_integer(item.type) and item.name not in partition]
    return ",".join(names)


def delta_actions(root: Path, partition: Sequence[str], files: Sequence[DataFile]) -> list[Any]:
    """The files as additions to the log of the table at `root`. Raises OSError."""
    from deltalake.transaction import AddAction

    return [
        AddAction(
            path=file.path,  # the library escapes it
            size=file.size,
            partition_values=dict(zip(partition, file.cell.values, strict=True)),
            modification_time=_mtime_ms(root, file),
            data_change=True,
            stats=json.dumps(_delta_statistics(file)),
        )
        for file in files
    ]


def _mtime_ms(root: Path, file: DataFile) -> int:
    """When the file was written; of an object it is not asked, and the time is now."""
    return int((time.time() if is_remote(root) else (root / file.path).stat().st_mtime) * 1000)


def delta_properties(
    about: Mapping[str, Any], marks: Mapping[str, Mark], selection: int | None = None
) -> Any:
    """What a commit says besides its files: what made it, the marks, and the selection of a new table."""
    from deltalake import CommitProperties, Transaction

    parts = {
        f"{TRANSACTION}/{part}/{broker}": getattr(mark, part)
        for broker, mark in marks.items()
        for part in MARK_PARTS
    }
    if selection is not None:
        parts[SELECTION] = selection
    return CommitProperties(
        custom_metadata={"rocketfsck": json.dumps(about)},
        app_transactions=[Transaction(name, version) for name, version in parts.items()],
    )


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
    marks: Mapping[str, Mark] | None = None,
    selection: int | None = None,
) -> None:
    """Make an Iceberg table of the files in the catalog of `properties`; default: `catalog.db` next to them.

    `name` is `namespace.table`; the property `name` is the catalog's own. `selection` (a digest) lets later
    runs append after the `marks`. Raises UsageError if there is such
    a table, StoreError where it cannot be made; then the catalog has none.
    """
    from pyiceberg.exceptions import NamespaceAlreadyExistsError

    # it says of every file which columns have no bounds, and we know
    logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)
    with catalog_errors(str(root), "created"):
        catalog = catalog_at(root, properties)
        _demand_new(catalog, name)
        with contextlib.suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(name.rpartition(".")[0])
        made = catalog.create_table_transaction(name, schema.remove_metadata(), location=str(root))
        with made as transaction:
            with transaction.update_spec() as spec:
                for column in partition:
                    spec.add_identity(column)
            if selection is not None:
                transaction.set_properties(
                    **{SELECTION_PROPERTY: str(selection), MARKS_PROPERTY: marks_to_json(marks or {})}
                )
            if files:
                transaction.add_files(
                    [str(root / file.path) for file in files],
                    snapshot_properties=iceberg_summary(about, marks or {}),
                )


def catalog_at(root: Path, properties: Mapping[str, str]) -> Any:
    """The catalog that a table in `root` belongs to; errors are its own client's."""
    if is_remote(root):
        return catalog_of({**iceberg_options(root), **properties})
    return catalog_of(properties or own_catalog(root))


def own_catalog(root: Path) -> dict[str, str]:
    """The properties of the catalog in the directory of the table."""
    return {"type": "sql", "uri": f"sqlite:///{quote(str(root / CATALOG))}", "warehouse": str(root)}


def iceberg_summary(about: Mapping[str, Any], marks: Mapping[str, Mark]) -> dict[str, str]:
    """What a snapshot's summary says besides the counts: what made it, and the marks of its run."""
    return {"rocketfsck": json.dumps(about), MARKS_PROPERTY: marks_to_json(marks)}


def demand_new_table(name: str, properties: Mapping[str, str]) -> None:
    """Raise UsageError if the user's catalog has such a table, StoreError if there is no such catalog."""
    if properties:
        with catalog_errors(name, "created"):
            _demand_new(catalog_of(properties), name)


def catalog_of(properties: Mapping[str, str]) -> Any:
    """The catalog of these properties; errors are its own client's."""
    from pyiceberg.catalog import load_catalog

    settings = dict(properties)
    return load_catalog(settings.pop("name", CATALOG_NAME), **settings)


def _demand_new(catalog: Any, name: str) -> None:
    if catalog.table_exists(name):
        raise UsageError(f"the catalog already has the table {name}")


@contextlib.contextmanager
def catalog_errors(path: str, action: str) -> Iterator[None]:
    """A catalog may be anything, and raises what its own client raises: StoreError with the action."""
    try:
        yield
    except (UsageError, StoreError):
        raise
    except Exception as error:
        raise StoreError(f"the Iceberg table cannot be {action}: {error}", path=path) from error
