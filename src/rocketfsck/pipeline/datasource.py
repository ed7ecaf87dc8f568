"""`spark.read.format("rocketmq")`: the views as a Python data source of Spark, a thin skin over them.

    spark.read.format("rocketmq").option("view", "messages").load("/data/store")

A reader is made in a process of its own on the driver, wherever Spark plans, and travels to workers with
only options in it; a partition is a `views.Part`. Rows go to Spark as Arrow batches of exactly the
schema that was declared, which it demands.

`spark.readStream.format("rocketmq")` is the module `streaming`: pyspark before 4.2 lacks what it needs.

The options of a table in Spark's catalog: which of them are ours, and how they get to whoever reads it.

    CREATE TABLE t USING rocketmq OPTIONS (path '/data/store', topic 'T')

hands the data source, under one name each:

    option.topic, topic                            what OPTIONS says, twice
    path, location                                 LOCATION, or the option path, as a URI
    provider, owner, comment, external, a.b …      Spark's own, and the TBLPROPERTIES

A query of the table hands it none of these (Spark 4.0 to 4.3), but the columns of the table with their
comments. So the options are kept there: in the comment of the first column, as in a URL:
`rocketmq path=/data/store&topic=T`.

SHOW CREATE TABLE prints columns with their comments, so that what it prints makes the same table again; but
Spark leaves out USING for a data source in Python.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

from rocketfsck.engine.worker import plain_errors, settle
from rocketfsck.errors import UsageError
from rocketfsck.pipeline import columns
from rocketfsck.pipeline.tail.place import STREAM_OPTIONS, parse_stream_options
from rocketfsck.pipeline.views.table import plan_parts, read_part
from rocketfsck.store.places.urls import is_remote

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

    from rocketfsck.pipeline.views.model import Part

COMMENT = "comment"
"""The key of a column's comment in its metadata."""
KEPT = "rocketmq "
"""How the comment with the options begins."""
_AS_IT_IS = "/:, *"
"""What needs no quoting in an option: no quote and no backslash, which SQL would read otherwise."""

PROVIDER = "provider"
_PREFIX = "option."
_FILE = "file:"
_SECRETS = "storage_options"
_OWN = frozenset(name.lower() for name in columns.OPTION_NAMES)
_STORES = frozenset({"path", "paths", "store"})
_PATHS = ("path", "paths", "store", "broker_conf", "commitlog_paths")


def is_table(options: Mapping[str, str], name: str) -> bool:
    """Whether these are what Spark gives when a table of the source `name` is made."""
    given = {key.lower(): value for key, value in options.items()}
    return given.get(PROVIDER, "").lower() == name and "owner" in given


def table_options(options: Mapping[str, str]) -> dict[str, str]:
    """Of what Spark gives when a table is made, what OPTIONS and LOCATION say.

    Raises UsageError for an option that was given as a property of the table, for paths that are not whole,
    and for storage options, which everybody could read who may look at the table.
    """
    given = {key.lower(): value for key, value in options.items()}
    found = {key.removeprefix(_PREFIX): value for key, value in given.items() if key.startswith(_PREFIX)}
    location = given.get("path", given.get("location"))
    if location is not None:
        found.setdefault("path", _local(location))
    properties = sorted((set(given) & _OWN) - set(found) - {"path"})
    if properties:
        raise UsageError(f"{', '.join(properties)}: use OPTIONS; rocketfsck does not read TBLPROPERTIES")
    if _SECRETS in found:
        raise UsageError(
            f"a table cannot keep {_SECRETS}, which everybody could read: put credentials in the environment"
        )
    for name in _PATHS:
        for path in columns.listed_paths(name, found.get(name, "")):
            if not is_remote(path) and not Path(path).is_absolute():
                raise UsageError(f"{name}: a table needs an absolute path, and {path} is relative")
    return found


def keep_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema with the options in its comment."""
    from pyspark.sql.types import StructField, StructType

    first, *others = schema.fields
    kept = {**first.metadata, COMMENT: KEPT + urlencode(options, quote_via=quote, safe=_AS_IT_IS)}
    return StructType([StructField(first.name, first.dataType, first.nullable, kept), *others])


def kept_options(schema: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """What a query asks for: its own options, over those that are kept with the columns of its table.

    Options that name a store are used alone: the columns may be those of some other table. Raises UsageError
    where no store was named at all.
    """
    given = {key.lower(): value for key, value in options.items()}
    if _STORES & set(given):
        return given
    for field in schema.fields:
        comment = field.metadata.get(COMMENT, "")
        if comment.startswith(KEPT):
            return {**_read_kept(comment), **given}
    raise UsageError(
        "name a store: load(PATH), or the option path, or store; a table is made without a list of "
        "columns, which Spark would keep instead of its options: choose columns by the option columns"
    )


def _read_kept(comment: str) -> dict[str, str]:
    """The options in a comment. Raises UsageError for another one that begins so."""
    try:
        return dict(parse_qsl(comment.removeprefix(KEPT), keep_blank_values=True, strict_parsing=True))
    except ValueError:
        raise UsageError(f"the comment of a column is not what rocketfsck keeps there: {comment}") from None


def _local(location: str) -> str:
    """The path in a URI of Spark's, such as `file:/data/store`, which is not quoted."""
    if not location.startswith(_FILE):
        return location
    path = location.removeprefix(_FILE)
    return "/" + path.lstrip("/")


NAME = "rocketmq"
READ_ONLY = "stores are only read here: the command rocketfsck write makes new ones"


class RocketMQDataSource(DataSource):
    """The data source `rocketmq`; its options are those of `pipeline.columns`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        with plain_errors():
            made = is_table(self.options, NAME)
            options = table_options(self.options) if made else self.options
            request = _request(options, of_stream=True)  # nobody says here whether it is one
            found = from_arrow_schema(
                columns.declared(request.view, request.wanted), prefer_timestamp_ntz=False
            )
            return keep_options(found, options) if made else found

    def reader(self, schema: StructType) -> DataSourceReader:
        with plain_errors():
            options = kept_options(schema, self.options)
            return Reader(demanded(_request(options), schema), arrow_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        if find_spec("pyspark.sql.streaming.datasource") is None:  # before pyspark 4.2
            return NoStreamReader()
        from rocketfsck.pipeline.streaming import RocketMQStreamReader

        with plain_errors():
            options = kept_options(schema, self.options)
            request = demanded(_request(options, of_stream=True), schema)
            return RocketMQStreamReader(request, parse_stream_options(options), arrow_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002
        with plain_errors():
            raise UsageError(READ_ONLY)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802, ARG002
        with plain_errors():
            raise UsageError(READ_ONLY)


class NoStreamReader(DataSourceStreamReader):
    """Refuses a stream before pyspark 4.2 when it begins: an error of `streamReader` has two stacks there."""

    def latestOffset(self, *_: object) -> dict[str, Any]:  # noqa: N802 - the names are Spark's
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # this process is Spark's, and has no other task
        raise UsageError(
            "streams need pyspark 4.2 or later: earlier versions do not say where a batch begins"
        )

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self.latestOffset()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        return iter(())


def _request(options: Mapping[str, str], *, of_stream: bool = False) -> columns.Request:
    return columns.parse_options(options, also=STREAM_OPTIONS if of_stream else ())


def demanded(request: columns.Request, schema: StructType) -> columns.Request:
    """The request for just the columns of a schema, which the user may have given.

    A time may be a TIMESTAMP, or a BIGINT with its milliseconds. Raises UsageError for columns that the view
    does not have, or has as another type.
    """
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import LongType, TimestampType

    wanted = columns.level_for(request.view, replace(request.wanted, columns=tuple(schema.fieldNames())))
    own = from_arrow_schema(columns.declared(request.view, wanted), prefer_timestamp_ntz=False)
    for field, expected in zip(schema.fields, own.fields, strict=True):
        is_time = isinstance(expected.dataType, TimestampType)
        if not _same(field.dataType, expected.dataType) and not (
            is_time and isinstance(field.dataType, LongType)
        ):
            raise UsageError(
                f"the column {field.name} of the view {request.view} has the type "
                f"{expected.dataType.simpleString()}, not {field.dataType.simpleString()}"
            )
    return replace(request, wanted=wanted)


def _same(one: DataType, other: DataType) -> bool:
    """Whether types are the same but for what may be null in them."""
    return one.simpleString() == other.simpleString()


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema that Spark demands of every batch."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if "timezone" not in signature(to_arrow_schema).parameters:  # before pyspark 4.2, where it is UTC
        return to_arrow_schema(schema)
    return to_arrow_schema(schema, timezone="UTC")


class PartPartition(InputPartition):
    """A partition that is one part of a view."""

    def __init__(self, part: Part) -> None:
        super().__init__(part)
        self.part = part


class Reader(DataSourceReader):
    """Reads a view in the parts that it has."""

    def __init__(self, request: columns.Request, schema: pa.Schema) -> None:
        self.request = request
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        request = self.request
        with plain_errors():
            wanted = columns.read_columns(request.view, request.wanted)
            parts = plan_parts(request.view, request.sources, wanted)
            return [PartPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, PartPartition):  # without any part, Spark asks for a partition of nothing
            part = partition.part
            with plain_errors():
                for batch in read_part(part, columns.read_columns(part.view, self.request.wanted)):
                    yield columns.shaped(batch, part, self.schema)
            settle()
