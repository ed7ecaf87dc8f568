"""How a row reports damage: as JSON in the column for it, next to where it is.

    {"kind": …, "reason": …, "file": …, "start": …, "end": …}        positions in the file, half-open

and `offset`, the place in the commit log, where there is one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rocketfsck.errors import StoreError
from rocketfsck.pipeline.views.arrays import printable
from rocketfsck.pipeline.views.model import WantedRows, ignores

UNREADABLE = "unreadable"


def range_fields() -> list[pa.Field]:
    """The first columns of every view of ranges of the commit log: where a range is, and what."""
    text, long = pa.string(), pa.int64()
    kinds = {
        "broker": text,
        "file": text,
        "offset": long,
        "pos": long,
        "size": long,
        "kind": text,
        "reason": text,
    }
    return [pa.field(name, kind) for name, kind in kinds.items()]


def account(kind: str, reason: str, file: str, **places: int) -> str:
    """What is said of one damaged range."""
    return json.dumps({"kind": kind, "reason": reason, "file": printable(file), **places})


def accounts(kind: str, reason: str, file: str, **places: NDArray[Any]) -> pa.Array:
    """What `account` says, of many ranges at once."""
    pieces: list[Any] = [account(kind, reason, file)[:-1]]
    for name, values in places.items():
        pieces += [f', "{name}": ', pc.cast(pa.array(values), pa.string())]
    return pc.binary_join_element_wise(*pieces, "}", "")


def one_row(schema: pa.Schema, values: Mapping[str, Any]) -> pa.RecordBatch:
    """A row of the columns that the schema has; null where nothing is said."""
    columns = [pa.array([values.get(field.name)], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def guarded(
    wanted: WantedRows,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    place: Callable[[], Mapping[str, Any]],
    file: str,
) -> Iterator[pa.RecordBatch]:
    """The batches; what cannot be read is an error, a row at `place`, or no row."""
    try:
        yield from batches
    except StoreError as error:
        if not ignores(wanted, error):
            raise
        if wanted.on_unreadable == "fail":
            return
        said = account(UNREADABLE, str(error), file, start=error.offset or 0)
        yield one_row(schema, {**place(), wanted.corrupt_column: said})
