"""Arrow arrays of NumPy columns: fixed numbers, gathered bytes, texts as Java reads them, lists, maps."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rocketfsck.formats.dtypes import Bytes, Words
from rocketfsck.formats.javatext import java_decode, java_encode
from rocketfsck.formats.layout import Field

ROWS_A_BATCH = 1 << 14
Row = dict[str, Any]


def row_batches(rows: Iterable[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Few rows, which are made in Python, as batches of at most ROWS_A_BATCH."""
    waiting = iter(rows)
    while batch := list(itertools.islice(waiting, ROWS_A_BATCH)):
        yield pa.RecordBatch.from_pylist(batch, schema)


def field_of(name: str, declared: Field) -> pa.Field:
    """The column of that name of a layout's integer: 8 bytes, or 4 as the least that Spark's users expect."""
    return pa.field(name, pa.int64() if declared.size == 8 else pa.int32())


def numbers(values: NDArray[Any]) -> pa.Array:
    """Numbers of their own memory and type."""
    return pa.array(np.ascontiguousarray(values))


def binary(offsets: Words, data: Bytes, valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """Ranges of bytes; null where `valid` is False."""
    buffers = [_bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def texts(offsets: Words, data: Bytes, valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """Ranges of bytes as Java decodes them."""
    raw = binary(offsets, data, valid)
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if one is None else java_decode(one) for one in raw.to_pylist()], pa.string())


def readable(offsets: Words, data: Bytes) -> tuple[Words, Bytes]:
    """The same ranges with whatever is not UTF-8 replaced, as Java replaces it."""
    raw = binary(offsets, data)
    try:
        raw.cast(pa.string())
    except pa.ArrowInvalid:
        pieces = [java_encode(java_decode(one)) for one in raw.to_pylist()]
        bounds = np.zeros(len(pieces) + 1, np.int64)
        np.cumsum([len(piece) for piece in pieces], out=bounds[1:])
        return bounds.astype(np.int32), np.frombuffer(bytearray(b"".join(pieces)), np.uint8)
    return offsets, data


def repeated(value: str | None, count: int) -> pa.Array:
    """One text in every row."""
    return pa.repeat(pa.scalar(None if value is None else printable(value), pa.string()), count)


def chosen(codes: NDArray[Any], values: Sequence[str | None]) -> pa.Array:
    """Texts by their number."""
    return pa.array(values, pa.string()).take(pa.array(codes.astype(np.int32)))


def lists(
    kind: pa.DataType, offsets: Words, values: pa.Array, valid: NDArray[np.bool_] | None = None
) -> pa.Array:
    """Lists of the type `kind` (a list or a map), row i being `values[offsets[i]:offsets[i + 1]]`."""
    return pa.Array.from_buffers(
        kind, len(offsets) - 1, [_bitmap(valid), pa.py_buffer(offsets)], children=[values]
    )


def printable(text: str) -> str:
    """Text that can be encoded: bytes of a name that are not UTF-8 become U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _bitmap(valid: NDArray[np.bool_] | None) -> pa.Buffer | None:

    return None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
