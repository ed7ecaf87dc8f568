"""`spark.read.format("rocketmq")`: the views as a Python data source of Spark, a thin skin over them.

    spark.read.format("rocketmq").option("view", "messages").load("/data/store")

A reader is made in a process of its own on the driver, wherever Spark plans, and travels to workers with
only options in it; a partition is a `views.Part`. Rows go to Spark as Arrow batches of exactly the
schema that was declared, which it demands.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

from rocketfsck.errors import UsageError
from rocketfsck.pipeline.plainerrors import plain_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

    from rocketfsck.pipeline.views import Part
    from rocketfsck.pipeline.views.options import Request

NAME = "rocketmq"
READ_ONLY = "stores are only read here: the command rocketfsck write makes new ones"


class RocketMQDataSource(DataSource):
    """The data source `rocketmq`; its options are those of `views.options`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        from rocketfsck.pipeline.columns import declared
        from rocketfsck.pipeline.tableoptions import is_table, keep_options, table_options

        with plain_errors():
            made = is_table(self.options, NAME)
            options = table_options(self.options) if made else self.options
            request = _request(options, of_stream=True)  # nobody says here whether it is one
            found = from_arrow_schema(declared(request.view, request.wanted), prefer_timestamp_ntz=False)
            return keep_options(found, options) if made else found

    def reader(self, schema: StructType) -> DataSourceReader:
        with plain_errors():
            return Reader(demanded(_request(self._options(schema)), schema), arrow_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        if find_spec("pyspark.sql.streaming.datasource") is None:  # before pyspark 4.2
            return NoStreamReader()
        with plain_errors():
            from rocketfsck.pipeline.streaming import RocketMQStreamReader, parse_stream_options

            options = self._options(schema)
            request = demanded(_request(options, of_stream=True), schema)
            return RocketMQStreamReader(request, parse_stream_options(options), arrow_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002
        with plain_errors():
            raise UsageError(READ_ONLY)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802, ARG002
        with plain_errors():
            raise UsageError(READ_ONLY)

    def _options(self, schema: StructType) -> Mapping[str, str]:
        from rocketfsck.pipeline.tableoptions import kept_options

        return kept_options(schema, self.options)


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


def _request(options: Mapping[str, str], *, of_stream: bool = False) -> Request:
    from rocketfsck.pipeline.tail.options import STREAM_OPTIONS
    from rocketfsck.pipeline.views.options import parse_options

    return parse_options(options, also=STREAM_OPTIONS if of_stream else ())


def demanded(request: Request, schema: StructType) -> Request:
    """The request for just the columns of a schema, which the user may have given.

    A time may be a TIMESTAMP, or a BIGINT with its milliseconds. Raises UsageError for columns that the view
    does not have, or has as another type.
    """
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import LongType, TimestampType

    from rocketfsck.pipeline.columns import declared, level_for

    wanted = level_for(request.view, replace(request.wanted, columns=tuple(schema.fieldNames())))
    own = from_arrow_schema(declared(request.view, wanted), prefer_timestamp_ntz=False)
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

    def __init__(self, request: Request, schema: pa.Schema) -> None:
        self.request = request
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        from rocketfsck.pipeline.columns import read_columns
        from rocketfsck.pipeline.views import plan_parts

        request = self.request
        with plain_errors():
            wanted = read_columns(request.view, request.wanted)
            parts = plan_parts(request.view, request.sources, wanted)
            return [PartPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, PartPartition):  # without any part, Spark asks for a partition of nothing
            from rocketfsck.pipeline.columns import read_columns, shaped
            from rocketfsck.pipeline.views import read_part

            part = partition.part
            with plain_errors():
                for batch in read_part(part, read_columns(part.view, self.request.wanted)):
                    yield shaped(batch, part, self.schema)
