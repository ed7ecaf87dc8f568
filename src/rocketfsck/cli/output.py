"""Where results go (standard output or a file) and the machine formats: json, jsonl, csv, arrow, parquet.

`common.rows` says what a row is. The same columns have the same names in every format.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, Protocol

from rocketfsck.cli.integers import as_asked
from rocketfsck.cli.show.text import visible
from rocketfsck.commands.places import refuse_inside
from rocketfsck.common.documents import base64_text, json_text
from rocketfsck.common.outputs import STDOUT, written
from rocketfsck.common.rows import SCHEMA_VERSION as SCHEMA_VERSION
from rocketfsck.common.rows import Column as Column
from rocketfsck.common.rows import name_pair, plain_item, plain_value
from rocketfsck.common.rows import plain_values as plain_values
from rocketfsck.errors import UsageError

CheckForm = Literal["sarif", "junit", "openmetrics"]
Format = Literal["text", "json", "jsonl", "csv", "arrow", "parquet", CheckForm]
FORMATS: tuple[Format, ...] = ("text", "json", "jsonl", "csv", "arrow", "parquet")
CHECK_FORMS: tuple[CheckForm, ...] = ("sarif", "junit", "openmetrics")
"""Forms of other tools, for a check alone: see `rocketfsck.cli.forms`."""
BINARY_FORMATS = ("arrow", "parquet")
_FORMULA = ("=", "+", "-", "@")
"""What spreadsheets treat as the beginning of a formula."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class RowWriter(Protocol):
    """Takes rows, one after the other; `close` ends the document."""

    def write(self, row: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


def to_json(document: Any, *, indent: int | None = None) -> str:
    """JSON for whoever runs a command, with integers as `--json-integers` says; see `json_text`."""
    return json_text(as_asked(document), indent=indent)


class JsonLinesWriter:
    """One object a line, each with `schema_version`."""

    def __init__(self, stream: IO[str], columns: Sequence[Column]) -> None:
        self._stream = stream
        self._blobs = _blob_names(columns)

    def write(self, row: Mapping[str, Any]) -> None:
        line = to_json({"schema_version": SCHEMA_VERSION, **_json_row(row, self._blobs)})
        self._stream.write(line + "\n")

    def close(self) -> None:
        pass


class JsonWriter:
    """One object with `schema_version`, what `head` says, and `rows`."""

    def __init__(self, stream: IO[str], columns: Sequence[Column], head: Mapping[str, Any]) -> None:
        self._stream = stream
        self._blobs = _blob_names(columns)
        self._before = "\n  "
        opening = to_json({"schema_version": SCHEMA_VERSION, **plain_values(head)})
        self._stream.write(f'{opening[:-1]}, "rows": [')

    def write(self, row: Mapping[str, Any]) -> None:
        self._stream.write(self._before + to_json(_json_row(row, self._blobs)))
        self._before = ",\n  "

    def close(self) -> None:
        self._stream.write("\n]}\n")


def _blob_names(columns: Sequence[Column]) -> frozenset[str]:
    return frozenset(column.name for column in columns if column.kind == "blob")


def _json_row(row: Mapping[str, Any], blobs: frozenset[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in row.items():
        if name in blobs:
            values[f"{name}_b64"] = None if value is None else base64_text(value)
        else:
            key, plain = plain_value(name, value)
            values[key] = plain
    return values


class CsvWriter:
    """RFC 4180 with a header line, for spreadsheets: no text is treated as a formula.

    A text that begins like one gets a `'` before it. What is not printable is shown as escapes: on a terminal
    all of it, in files control characters. The other forms have every text as it is.
    """

    def __init__(self, stream: IO[str], columns: Sequence[Column]) -> None:
        import csv

        self._columns = columns
        self._names = frozenset(column.name for column in columns if column.kind == "name")
        self._visible = stream.isatty()
        self._writer = csv.writer(stream, lineterminator="\n")
        self._writer.writerow([name for column in columns for name in csv_names(column)])

    def write(self, row: Mapping[str, Any]) -> None:
        cells: list[Any] = []
        for column in self._columns:
            cells.extend(_csv_cells(column, row.get(column.name)))
        self._writer.writerow(
            [_csv_text(cell, self._visible) if isinstance(cell, str) else cell for cell in cells]
        )

    def close(self) -> None:
        pass


def _csv_text(text: str, on_terminal: bool) -> str:
    if on_terminal or _CONTROL.search(text) is not None:
        text = visible(text)
    return f"'{text}" if text.startswith(_FORMULA) else text


def csv_names(column: Column) -> tuple[str, ...]:
    """The CSV columns of one column."""
    if column.kind == "name":
        return column.name, f"{column.name}_b64"
    return (f"{column.name}_b64",) if column.kind == "blob" else (column.name,)


def _csv_cells(column: Column, value: Any) -> tuple[Any, ...]:
    if column.kind == "name":
        return name_pair(value)
    if value is None:
        return (None,)
    if column.kind == "blob":
        return (base64_text(value),)
    if column.kind == "bool":
        return ("true" if value else "false",)
    return (to_json(plain_item(value)),) if column.kind in ("map", "json") else (value,)


@contextmanager
def open_output(path: Path | None, *, binary: bool, forbidden: Sequence[Path] = ()) -> Iterator[IO[Any]]:
    """Standard output, or what has the name (`common.outputs`): a file appears when it is whole.

    `forbidden` are the stores that are read: nothing is ever written into them. Raises UsageError for a
    path inside one, or for binary output to a terminal; StoreError if the file cannot be written.
    """
    if path is None or path == STDOUT:
        if binary and sys.stdout.isatty():
            raise UsageError("this format is not for terminals; give -o FILE or redirect standard output")
        yield sys.stdout.buffer if binary else sys.stdout
        return
    refuse_inside(path, forbidden)
    with written(path, binary=binary) as stream:
        yield stream


@contextmanager
def open_rows(
    stream: IO[Any], output_format: Format, columns: Sequence[Column], head: Mapping[str, Any]
) -> Iterator[RowWriter]:
    """A writer of rows in a machine format (any but "text"), closed at the end if nothing was raised."""
    writer: RowWriter
    if output_format == "json":
        writer = JsonWriter(stream, columns, head)
    elif output_format == "jsonl":
        writer = JsonLinesWriter(stream, columns)
    elif output_format == "csv":
        writer = CsvWriter(stream, columns)
    else:
        from rocketfsck.cli.arrow import ArrowWriter

        writer = ArrowWriter(stream, columns, output_format == "parquet", head)
    yield writer
    writer.close()
