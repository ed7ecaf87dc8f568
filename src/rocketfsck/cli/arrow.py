"""Rows as Arrow IPC streams and Parquet files. Imported only when one of the two is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, Any

import pyarrow as pa

from rocketfsck.cli.output import ROWS_A_BATCH, SCHEMA_VERSION, Column, name_pair, plain_values, to_json

_TYPES = {
    "int": pa.int64(),
    "bool": pa.bool_(),
    "text": pa.string(),
    "blob": pa.binary(),
    "map": pa.map_(pa.string(), pa.string()),
    "json": pa.string(),
}


def arrow_schema(columns: Sequence[Column], head: Mapping[str, Any]) -> pa.Schema:
    """The Arrow schema of a table; `head` and the schema version go into its metadata."""
    fields = []
    for column in columns:
        if column.kind == "name":
            fields += [pa.field(column.name, pa.string()), pa.field(f"{column.name}_b64", pa.string())]
        else:
            fields.append(pa.field(column.name, _TYPES[column.kind]))
    about = {"schema_version": SCHEMA_VERSION, **plain_values(head)}
    return pa.schema(fields, metadata={"rocketfsck": to_json(about)})


class ArrowWriter:
    """Collects rows into record batches of bounded size and writes them as they fill."""

    def __init__(
        self, stream: IO[bytes], columns: Sequence[Column], parquet: bool, head: Mapping[str, Any]
    ) -> None:
        self._columns = columns
        self._schema = arrow_schema(columns, head)
        self._rows: list[Mapping[str, Any]] = []
        self._blob_size = 0
        self._writer: Any
        if parquet:
            from pyarrow import parquet as pq

            self._writer = pq.ParquetWriter(stream, self._schema, compression="zstd")
        else:
            self._writer = pa.ipc.new_stream(stream, self._schema)

    def write(self, row: Mapping[str, Any]) -> None:
        self._rows.append(row)
        self._blob_size += sum(len(value) for value in row.values() if isinstance(value, (bytes, str)))
        if len(self._rows) >= ROWS_A_BATCH or self._blob_size > 1 << 25:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if not self._rows:
            return
        arrays: list[Any] = []
        for column in self._columns:
            cells = [row.get(column.name) for row in self._rows]
            if column.kind == "name":
                pairs = [name_pair(cell) for cell in cells]
                arrays += [pa.array([pair[side] for pair in pairs], pa.string()) for side in (0, 1)]
            else:
                arrays.append(pa.array([_cell(column, cell) for cell in cells], _TYPES[column.kind]))
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        self._rows, self._blob_size = [], 0


def _cell(column: Column, value: Any) -> Any:
    if value is None:
        return None
    if column.kind == "map":
        return list(plain_values(value).items())
    return to_json(plain_values({"": value}).get("", None)) if column.kind == "json" else value
