"""Rows of messages from Parquet files, Arrow IPC files and Arrow IPC streams, batch by batch.

Columns have the names of the JSON fields; text may be binary, a list of pairs a map, and texts that `dump`
wrote as JSON (its files say so in their metadata) are read as such. pyarrow is imported with this module.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import IO, Any, Protocol

import pyarrow as pa
from pyarrow import parquet

from rocketfsck.errors import StoreError
from rocketfsck.writer.input.fields import DERIVED, FIELDS_BY_NAME, InputError

ROWS_A_BATCH = 256
_OWN_METADATA = b"rocketfsck"
_JSON_COLUMNS = ("keys",)


class Counted(Protocol):
    """Who counts the rows of an input, and names the one that was given last."""

    number: int

    @property
    def place(self) -> str: ...


def arrow_rows(file: IO[bytes], head: bytes, source: Counted) -> Iterator[Mapping[str, Any]]:
    """The rows of a file that begins with `head`, counted in `source`. InputError for an unknown column,
    StoreError for what pyarrow cannot read."""
    try:
        yield from _rows(file, head, source)
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise StoreError(f"cannot be read: {reason[:200]}", path=source.place) from error


def _rows(file: IO[bytes], head: bytes, source: Counted) -> Iterator[Mapping[str, Any]]:
    schema, batches = _open(file, head)
    names = _checked_names(schema, source)
    own = _OWN_METADATA in (schema.metadata or {})
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_A_BATCH):
            part = batch.slice(start, ROWS_A_BATCH).select(names)
            for row in part.to_pylist(maps_as_pydicts=None):
                source.number += 1
                yield _row(row, schema, own, source)


def _open(file: IO[bytes], head: bytes) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    if head.startswith(b"PAR1"):
        table = parquet.ParquetFile(file, pre_buffer=False)
        known = [name for name in table.schema_arrow.names if name not in DERIVED]
        return table.schema_arrow, table.iter_batches(batch_size=ROWS_A_BATCH, columns=known)
    if head.startswith(b"ARROW1"):
        reader = pa.ipc.open_file(file)
        return reader.schema, (reader.get_batch(number) for number in range(reader.num_record_batches))
    stream = pa.ipc.open_stream(file)
    return stream.schema, iter(stream)


def _checked_names(schema: pa.Schema, source: Counted) -> list[str]:
    for name in schema.names:
        if name not in FIELDS_BY_NAME and name not in DERIVED:
            raise InputError(source.place, name[:60], "unknown column")
        if schema.names.count(name) > 1:
            raise InputError(source.place, name[:60], "two columns of this name")
    return [name for name in schema.names if name in FIELDS_BY_NAME]


def _row(row: dict[str, Any], schema: pa.Schema, own: bool, source: Counted) -> dict[str, Any]:
    for name, value in row.items():
        if value is None:
            continue
        kind = schema.field(name).type
        if own and name in _JSON_COLUMNS and isinstance(value, str):
            try:
                row[name] = json.loads(value)
            except ValueError:
                raise InputError(source.place, name, "not JSON") from None
        elif pa.types.is_map(kind):
            row[name] = _pairs(value, in_order=row.get("kind") == "record")
    return row


def _pairs(value: list[tuple[str, Any]], *, in_order: bool) -> Any:
    """A map as an object; as pairs where a name occurs twice or the order counts."""
    found = dict(value)
    return value if in_order or len(found) != len(value) else found
