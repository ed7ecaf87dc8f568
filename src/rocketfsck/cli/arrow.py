"""Rows as Arrow IPC streams and Parquet files. Imported only when one of the two is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, Any

import pyarrow as pa
from pyarrow import parquet as pq

from rocketfsck.common.rows import Column, arrow_batch, arrow_schema

ROWS_A_BATCH = 8192


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
        self._writer.write_batch(arrow_batch(self._rows, self._columns, self._schema))
        self._rows, self._blob_size = [], 0
