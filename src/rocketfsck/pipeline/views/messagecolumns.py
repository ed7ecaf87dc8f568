"""Columns of the view `messages` that are made of more than a number of the record."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from rocketfsck.formats.javatext import java_decode
from rocketfsck.formats.magic import COMPRESSED, COMPRESSION_NAMES, TRANSACTION_MASK, TRANSACTION_NAMES
from rocketfsck.pipeline.views import arrays
from rocketfsck.pipeline.views.chunks import Chunk
from rocketfsck.scan.columns import Fault, fault_name


def topic_of(chunk: Chunk) -> pa.Array:
    """The topic; that of records for which the table has no room is read with them."""
    names = [java_decode(name) for name, _ in chunk.log.table.names]
    rows = chunk["queue_index"]
    if (rows < 0).any():
        return arrays.texts(*chunk.bytes_of(chunk["topic_pos"], chunk["topic_size"].astype(np.int64)))
    used, place = np.unique(rows, return_inverse=True)
    texts = pa.array([names[row] if row >= 0 else None for row in used.tolist()], pa.string())
    return texts.take(pa.array(place.reshape(-1).astype(np.int32)))


def _host(column: str) -> Callable[[Chunk, pa.DataType], pa.Array]:
    def host(chunk: Chunk, kind: pa.DataType) -> pa.Array:  # noqa: ARG001

        made: pa.Array = getattr(chunk.log, column)()
        return made.dictionary_decode().take(pa.array(chunk.rows))

    return host


def _transaction(chunk: Chunk, kind: pa.DataType) -> pa.Array:  # noqa: ARG001
    return arrays.chosen((chunk["sys_flag"] & TRANSACTION_MASK) >> 2, list(TRANSACTION_NAMES.values()))


def _compression(chunk: Chunk, kind: pa.DataType) -> pa.Array:  # noqa: ARG001
    flags = chunk["sys_flag"]
    code = np.where(flags & COMPRESSED, (flags >> 8) & 7, 8)
    return arrays.chosen(
        code, [COMPRESSION_NAMES.get(number, f"type {number}") for number in range(8)] + [None]
    )


def _faults(chunk: Chunk, kind: pa.DataType) -> pa.Array:
    """Names of the Fault bits; few different sets, so each is made once."""
    sets, place = np.unique(chunk["faults"], return_inverse=True)
    made = [[fault_name(bit) for bit in Fault if bits & bit] for bits in sets.tolist()]
    return pa.array(made, kind).take(pa.array(place.reshape(-1).astype(np.int32)))


def _body(chunk: Chunk, kind: pa.DataType) -> pa.Array:  # noqa: ARG001
    sizes = np.where(chunk.has_body, np.maximum(chunk["body_size"], 0), 0).astype(np.int64)
    starts = np.where(chunk.has_body, chunk["body_pos"], chunk["topic_pos"])
    return arrays.binary(*chunk.bytes_of(starts, sizes), chunk.has_body)


COLUMNS: dict[str, Callable[[Chunk, pa.DataType], pa.Array]] = {
    "topic": lambda chunk, _: topic_of(chunk),
    "tags": lambda chunk, _: chunk.named(b"TAGS"),
    "unique_key": lambda chunk, _: chunk.named(b"UNIQ_KEY"),
    "keys": lambda chunk, kind: chunk.key_words(kind),
    "properties": lambda chunk, kind: chunk.property_map(kind),
    "properties_bytes": lambda chunk, _: arrays.binary(*chunk.properties),
    "born_host": _host("born_address"),
    "store_host": _host("store_address"),
    "transaction": _transaction,
    "compression": _compression,
    "faults": _faults,
    "body": _body,
}
