"""Rows of a table, in whatever form they leave: what a column is, and what is in it.

A row is a mapping from column names to values; a `Column` names one of them and says what its values are:

    int      an exact integer (JSON: all 64 bits, as a number)
    float    a number, like seconds
    name     text that may be no UTF-8: `topic`, or else `topic_b64` (base64 of the bytes); never both. JSON
             has `topic_utf16` for text that has no bytes (`common.documents`)
    blob     bytes: binary `body` in Arrow and Parquet, base64 `body_b64` elsewhere
    map      text by text: an object in JSON, a map in Arrow and Parquet, JSON text in CSV
    json     anything that JSON can say: as it is in JSON, JSON text elsewhere

Answers as HTML for notebooks: a headline, facts, one table. What a store says is printable and escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from html import escape
from math import isfinite
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from rocketfsck.common import documents
from rocketfsck.common.wording import visible

if TYPE_CHECKING:
    import pyarrow as pa

ROW_LIMIT = 20
"""Rows of a table; how many more there are is said below it."""


def html_of(
    title: str,
    facts: Iterable[tuple[str, object]],
    head: Sequence[str] = (),
    rows: Sequence[Sequence[object]] = (),
) -> str:
    """The answer as HTML without scripts and styles; facts and rows are shown in their order, None as "-"."""
    lines = [f"<strong>{_text(title)}</strong>"]
    said = "".join(f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in facts)
    if said:
        lines.append(f"<table>{said}</table>")
    if rows:
        names = "".join(f"<th>{_text(name)}</th>" for name in head)
        body = "".join(
            f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows[:ROW_LIMIT]
        )
        lines.append(f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>")
    if len(rows) > ROW_LIMIT:
        lines.append(f"<p>and {len(rows) - ROW_LIMIT:,} more</p>")
    return "\n".join(lines)


def _text(value: object) -> str:
    if value is None:
        return "-"
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return escape(visible(text, keep_backslash=True))


SCHEMA_VERSION = 1
"""Version of the JSON objects; it grows when a field changes its meaning or goes, not when one is added."""

ColumnKind = Literal["int", "float", "bool", "text", "name", "blob", "map", "json"]


class Column(NamedTuple):
    """One column of a table."""

    name: str
    kind: ColumnKind


Text = Annotated[str, "text"]
"""A member of a dataclass that is always UTF-8, unlike other texts."""
_KINDS: Mapping[Any, ColumnKind] = {int: "int", bool: "bool", float: "float"}


def columns_of(row: type, /, **names: str) -> tuple[Column, ...]:
    """The columns of rows that are objects of a dataclass; `names` are other names of members."""
    hints = get_type_hints(row, include_extras=True)
    return tuple(Column(names.get(item.name, item.name), _kind_of(hints[item.name])) for item in fields(row))


def _kind_of(hint: Any) -> ColumnKind:
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    [found, *more] = [part for part in parts if part is not NoneType]
    if found == Text or get_origin(found) is Literal:
        return "text"
    if more or not isinstance(found, type):
        return "json"
    if issubclass(found, Enum):
        return "text"
    return _KINDS.get(found, "name" if issubclass(found, str) else "json")


def plain_values(row: Mapping[str, Any]) -> dict[str, Any]:
    """`row` as JSON says it: texts and bytes as `common.documents` says them; a mapping is an object."""
    return dict(plain_value(name, value) for name, value in row.items())


def plain_value(name: str, value: Any) -> tuple[str, Any]:
    """One value of `plain_values`, and the name that it goes by."""
    if isinstance(value, str | bytes):
        suffix, text = documents.encode_text(value)
        return name + suffix, text
    return name, plain_item(value)


def plain_item(value: Any) -> Any:
    """A value that has no name, as in a list."""
    if isinstance(value, str | bytes):
        return documents.nameless(value)
    if isinstance(value, Mapping):
        return plain_values({str(key): item for key, item in value.items()})
    if isinstance(value, list | tuple):
        return [plain_item(item) for item in value]
    if isinstance(value, float) and not isfinite(value):  # a config may hold 1e999; JSON has no infinity
        return str(value)
    return value


def text_bytes(text: str) -> bytes:
    """The bytes of a name that is not UTF-8; a lone surrogate that stands for no byte as three of its own."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def name_pair(value: str | bytes | None) -> tuple[str | None, str | None]:
    """A name as (text, None), or as (None, base64 of its bytes) where it is not UTF-8."""
    if value is None:
        return None, None
    suffix, text = documents.encode_text(value)
    if suffix == documents.UNITS:
        return None, documents.base64_text(text_bytes(str(value)))
    return (None, text) if suffix else (text, None)


def named_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of an Arrow table with every name as text, whatever bytes it has."""
    plain = dict(row)
    for name in [name for name in plain if name.endswith("_b64")]:
        value = plain.pop(name)
        if value is not None:
            plain[name.removesuffix("_b64")] = documents.decode_text(documents.BYTES, value)
    return plain


def arrow_schema(columns: Sequence[Column], head: Mapping[str, Any]) -> pa.Schema:
    """The Arrow schema of a table; `head` and the schema version go into its metadata."""
    import pyarrow as pa

    types = {
        "int": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "text": pa.string(),
        "name": pa.string(),
        "blob": pa.binary(),
        "map": pa.map_(pa.string(), pa.string()),
        "json": pa.string(),
    }
    fields = []
    for column in columns:
        fields.append(pa.field(column.name, types[column.kind]))
        if column.kind == "name":
            fields.append(pa.field(f"{column.name}_b64", pa.string()))
    about = {"schema_version": SCHEMA_VERSION, **plain_values(head)}
    return pa.schema(fields, metadata={"rocketfsck": documents.json_text(about)})


def arrow_batch(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], schema: pa.Schema
) -> pa.RecordBatch:
    """Rows as a batch of the schema that `arrow_schema` made of the columns."""
    import pyarrow as pa

    cells: list[list[Any]] = []
    for column in columns:
        values = [row.get(column.name) for row in rows]
        if column.kind == "name":
            cells += [list(side) for side in zip(*map(name_pair, values), strict=True)] or [[], []]
        else:
            cells.append([_cell(column, value) for value in values])
    arrays = [pa.array(values, field.type) for values, field in zip(cells, schema, strict=True)]
    return pa.record_batch(arrays, schema=schema)


def _cell(column: Column, value: Any) -> Any:
    if value is None:
        return None
    if column.kind == "map":
        return list(plain_values(value).items())
    return documents.json_text(plain_item(value)) if column.kind == "json" else value
