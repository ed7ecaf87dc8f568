"""Where results go (standard output or a file) and the machine formats: json, jsonl, csv, arrow, parquet.

`common.rows` says what a row is. The same columns have the same names in every format.

`--json-integers strings`: every integer of the JSON as text, for readers whose numbers are doubles.

JavaScript and what is written in it round an integer above 2^53, and physical offsets, hashes and tagsCodes
get there. All integers change their form, so that the type of a member never depends on its value.

Where the answer of a command goes and in which form: the options of all commands that have one.

Bodies of messages in an answer: `--body` says in which form, `--body-decoder` who makes a text of them.

Where a page goes: a file that appears when it is whole, as HTML, or as its document where it is called .json.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, cast

import click

from rocketfsck.cli.lang import is_translating, said_line
from rocketfsck.cli.paramtypes import FILE_MODE, OutputPath
from rocketfsck.cli.settings import settings_of
from rocketfsck.cli.show.text import LineStream, Palette, fit, table_columns, visible
from rocketfsck.commands.shared import refuse_inside
from rocketfsck.common.documents import base64_text, json_text, to_document
from rocketfsck.common.options import WRITE_FILE, Option
from rocketfsck.common.outputs import STDOUT, set_mode, written
from rocketfsck.common.rows import SCHEMA_VERSION as SCHEMA_VERSION
from rocketfsck.common.rows import Column as Column
from rocketfsck.common.rows import ColumnKind, arrow_batch, arrow_schema, name_pair, plain_item, plain_value
from rocketfsck.common.rows import plain_values as plain_values
from rocketfsck.errors import UsageError

if TYPE_CHECKING:
    from rocketfsck.reader.decoders import FunctionDecoder, ProgramDecoder
    from rocketfsck.scan.views.messages import Message


PATTERN = "^-?[0-9]+$"
"""What the schema says of an integer as text."""


def integers_param() -> click.Option:
    """`--json-integers`, for a command that writes JSON."""

    def keep(context: click.Context, _parameter: click.Parameter, value: str) -> None:
        settings_of(context).integer_texts = value == "strings"

    return click.Option(
        ["--json-integers"],
        type=click.Choice(["numbers", "strings"]),
        default="numbers",
        expose_value=False,
        callback=keep,
        help="Write the integers of JSON as numbers, or as strings for readers that round.",
    )


def as_asked(document: Any) -> Any:
    """The document with its integers as the command line of this run asks for them."""
    context = click.get_current_context(silent=True)
    return with_texts(document) if context is not None and settings_of(context).integer_texts else document


def with_texts(value: Any) -> Any:
    """JSON values with every integer as text in decimal; what is true or false stays so."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, Mapping):
        return {name: with_texts(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_texts(inner) for inner in value]
    return value


def schema_with_texts(schema: Any) -> Any:
    """A JSON Schema for documents whose integers are text."""
    if isinstance(schema, list):
        return [schema_with_texts(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {name: schema_with_texts(inner) for name, inner in schema.items()}
    if schema.get("type") == "integer":
        kept = {name: inner for name, inner in changed.items() if name not in ("minimum", "maximum")}
        return {**kept, "type": "string", "pattern": PATTERN}
    for name in ("const", "enum"):
        if name in schema:
            changed[name] = with_texts(schema[name])
    return changed


def of_kind(kind: ColumnKind, *names: str) -> tuple[Column, ...]:
    """Columns of one kind."""
    return tuple(Column(name, kind) for name in names)


CheckForm = Literal["sarif", "junit", "openmetrics"]
Format = Literal["text", "json", "jsonl", "csv", "arrow", "parquet", CheckForm]
FORMATS: tuple[Format, ...] = ("text", "json", "jsonl", "csv", "arrow", "parquet")
CHECK_FORMS: tuple[CheckForm, ...] = ("sarif", "junit", "openmetrics")
"""Forms of other tools, for a check alone: see `rocketfsck.cli.forms`."""
BINARY_FORMATS = ("arrow", "parquet")
_FORMULA = ("=", "+", "-", "@")
"""What spreadsheets treat as the beginning of a formula."""
ROWS_A_BATCH = 8192
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def to_json(document: Any, *, indent: int | None = None) -> str:
    """JSON for whoever runs a command, with integers as `--json-integers` says; see `json_text`."""
    return json_text(as_asked(document), indent=indent)


Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, as they come, their columns, and what is said of all of them together."""

    columns: Sequence[Column]
    head: Row
    rows: Iterable[Row]


def write_rows(stream: IO[Any], output_format: Format, table: Table) -> None:
    """Write the rows in a machine format (any but "text")."""
    if output_format == "json":
        _write_json(stream, table)
    elif output_format == "jsonl":
        blobs = _blob_names(table.columns)
        lines = ({"schema_version": SCHEMA_VERSION, **_json_row(row, blobs)} for row in table.rows)
        stream.writelines(f"{to_json(line)}\n" for line in lines)
    elif output_format == "csv":
        _write_csv(stream, table)
    else:
        _write_arrow(stream, table, parquet=output_format == "parquet")


def _write_json(stream: IO[str], table: Table) -> None:
    """One object with `schema_version`, what `head` says, and `rows`."""
    blobs, before = _blob_names(table.columns), "\n  "
    opening = to_json({"schema_version": SCHEMA_VERSION, **plain_values(table.head)})
    stream.write(f'{opening[:-1]}, "rows": [')
    for row in table.rows:
        stream.write(before + to_json(_json_row(row, blobs)))
        before = ",\n  "
    stream.write("\n]}\n")


def _blob_names(columns: Sequence[Column]) -> frozenset[str]:
    return frozenset(column.name for column in columns if column.kind == "blob")


def _json_row(row: Row, blobs: frozenset[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in row.items():
        if name in blobs:
            values[f"{name}_b64"] = None if value is None else base64_text(value)
        else:
            key, plain = plain_value(name, value)
            values[key] = plain
    return values


def _write_csv(stream: IO[str], table: Table) -> None:
    """RFC 4180 with a header line, for spreadsheets: no text is treated as a formula.

    A text that begins like one gets a `'` before it. What is not printable is shown as escapes: on a terminal
    all of it, in files control characters. The other forms have every text as it is.
    """
    import csv

    on_terminal = stream.isatty()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([name for column in table.columns for name in csv_names(column)])
    for row in table.rows:
        cells = [cell for column in table.columns for cell in _csv_cells(column, row.get(column.name))]
        writer.writerow([_csv_text(cell, on_terminal) if isinstance(cell, str) else cell for cell in cells])


def _write_arrow(stream: IO[bytes], table: Table, *, parquet: bool) -> None:
    """An Arrow stream or a Parquet file, in record batches of bounded size, each written as it fills."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    schema = arrow_schema(table.columns, table.head)
    make: Any = partial(pq.ParquetWriter, compression="zstd") if parquet else pa.ipc.new_stream
    writer = make(stream, schema)
    held: list[Row] = []
    blob_size = 0
    for row in table.rows:
        held.append(row)
        blob_size += sum(len(value) for value in row.values() if isinstance(value, (bytes, str)))
        if len(held) >= ROWS_A_BATCH or blob_size > 1 << 25:
            writer.write_batch(arrow_batch(held, table.columns, schema))
            held, blob_size = [], 0
    if held:
        writer.write_batch(arrow_batch(held, table.columns, schema))
    writer.close()


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


Lines = Callable[[Palette], Iterable[str]]
"""The lines of an answer, in these colours."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the output goes and in which form, as `--format` and `-o` say.

    `path` is None for standard output; `is_dash` is whether that was said (`-o -`).
    """

    form: Format
    path: Path | None
    is_dash: bool = False

    def open(self, forbidden: Sequence[Path] = ()) -> AbstractContextManager[IO[Any]]:
        """The stream to write to, as `open_output` gives it."""
        if self.form != "text":
            return open_output(self.path, binary=self.form in BINARY_FORMATS, forbidden=forbidden)
        return self._open_text(forbidden)

    @contextmanager
    def _open_text(self, forbidden: Sequence[Path]) -> Iterator[IO[Any]]:
        """Text, in the language in use and, on a terminal, as wide as the terminal is."""
        columns = table_columns() if self.path is None else None
        with open_output(self.path, binary=False, forbidden=forbidden) as stream:
            if columns is not None:
                stream = cast(IO[Any], LineStream(stream, partial(fit, columns=columns)))
            if is_translating():
                stream = cast(IO[Any], LineStream(stream, lambda line: (said_line(line),)))
            yield stream
            if isinstance(stream, LineStream):
                stream.flush()

    def palette(self, stream: IO[Any]) -> Palette:
        """Colours, where the output goes to a terminal that wants them."""
        return Palette(self.path is None and settings_of(click.get_current_context()).colored(stream))

    def say(self, document: Callable[[], Row], lines: Lines, forbidden: Sequence[Path] = ()) -> None:
        """Write the document as JSON, or the lines as text; only the one that is wanted is made."""
        with self.open(forbidden) as stream:
            if self.form != "text":
                stream.write(to_json(document(), indent=2 if self.form == "json" else None) + "\n")
            else:
                stream.writelines(f"{line}\n" for line in lines(self.palette(stream)))

    def say_rows(self, lines: Lines, table: Table, forbidden: Sequence[Path] = ()) -> None:
        """Write the lines as text, or else the rows, as `write_rows` does."""
        with self.open(forbidden) as stream:
            if self.form == "text":
                stream.writelines(f"{line}\n" for line in lines(self.palette(stream)))
            else:
                write_rows(stream, self.form, table)


def format_params(formats: Sequence[str]) -> list[click.Parameter]:
    """`--format`, and the form of integers in JSON."""
    return [
        click.Option(
            ["output_format", "--format"],
            type=click.Choice(formats),
            default="text",
            help="Form of the standard output.",
        ),
        integers_param(),
    ]


def output_param(what: str = "Write to this file") -> click.Option:
    """`-o`."""
    return click.Option(
        ["-o", "--output"],
        type=OutputPath(),
        help=f"{what}, which appears when it is whole; -: standard output.",
    )


def mode_params(others: Sequence[click.Parameter]) -> list[click.Parameter]:
    """`--mode`, once, of a command that writes; `--file-mode` where `--mode` is something else."""

    def keep(_context: click.Context, _parameter: click.Parameter, value: int | None) -> None:
        if value is not None:
            set_mode(value)

    if any(given.type is FILE_MODE for given in others):
        return []
    option = click.Option(
        ["--file-mode" if any(given.name == "mode" for given in others) else "--mode"],
        type=FILE_MODE,
        metavar="OCTAL",
        expose_value=False,
        callback=keep,
        help="Permissions of what is written, like 640; default: only who may read the store may read it.",
    )
    return [option]


def verbosely(text: str) -> Option:
    """`--verbose`, which does what `text` says."""
    return Option(text, names=("-v", "--verbose"))


BodyForm = Literal["none", "text", "hex", "base64", "decoded"]

COLUMNS: dict[BodyForm, tuple[Column, ...]] = {
    "none": (),
    "text": (Column("body", "name"),),
    "hex": (Column("body_hex", "text"),),
    "base64": (Column("body", "blob"),),
    "decoded": (Column("body_decoded", "text"), Column("body_note", "text"), Column("body", "blob")),
}
"""The machine columns of a form. Of `decoded`, `body` is there only where there is no text, with a note."""
NAMES = frozenset(column.name for columns in COLUMNS.values() for column in columns)
_KEY = "rocketfsck.body_decoder"


@dataclass(frozen=True, slots=True)
class Bodies:
    """How bodies are shown."""

    body: Annotated[
        BodyForm,
        Option("Show bodies, and how: as they are stored, or decoded by --body-decoder.", shows_default=True),
    ] = "none"
    body_decoder: Annotated[
        str | None,
        Option(
            "Who makes a text of bodies: json, a decoder of another package, or a program.",
            metavar="NAME|COMMAND",
        ),
    ] = None

    def form(self) -> BodyForm:
        """The form; a decoder is opened until the command ends. Raises UsageError."""
        if self.body_decoder is None:
            if self.body == "decoded":
                raise UsageError("--body decoded needs --body-decoder")
            return self.body
        if self.body not in ("none", "decoded"):
            raise UsageError("--body-decoder goes with --body decoded")
        from rocketfsck.reader.decoders import open_decoder

        context = click.get_current_context()
        context.meta[_KEY] = context.with_resource(open_decoder(self.body_decoder))
        return "decoded"


def body_values(message: Message, form: BodyForm) -> dict[str, Any]:
    """The body of a message as values of the columns of a form."""
    body = message.body
    if form == "none":
        return {}
    if form == "hex":
        return {"body_hex": None if body is None else body.hex()}
    if form == "decoded":
        return _decoded(message)
    return {"body": body}


def _decoded(message: Message) -> dict[str, Any]:
    from rocketfsck.reader.decoders import unpack
    from rocketfsck.scan.views.messages import MAX_BODY_SIZE

    decoder: FunctionDecoder | ProgramDecoder = click.get_current_context().meta[_KEY]
    if message.body is None:
        return {"body_decoded": None, "body_note": "the body is missing or too long", "body": None}
    content = unpack(message.body, message.sys_flag, MAX_BODY_SIZE)
    if content.unknown is not None:
        return {
            "body_decoded": None,
            "body_note": f"cannot be decompressed: {content.unknown}",
            "body": message.body,
        }
    found = decoder.decode(
        content.data,
        {
            "topic": message.topic_bytes.decode("utf-8", "backslashreplace"),
            "queue_id": message.queue_id,
            "queue_offset": message.queue_offset,
            "physical_offset": message.physical_offset,
            "store_timestamp": message.store_timestamp,
            "tags": message.tags,
            "unique_key": message.unique_key,
        },
    )
    raw = message.body if found.text is None else None
    return {"body_decoded": found.text, "body_note": found.note, "body": raw}


JSON_SUFFIX = ".json"


PageFile = Annotated[
    Path | None,
    Option(
        "Write a page with pictures of the store, too; FILE.json: the data of the page.",
        names=("--report",),
        metavar="FILE.html",
        kind=WRITE_FILE,
    ),
]


def write_page(document: Any, path: Path | None, stores: Sequence[Path]) -> None:
    """Write the page of a document: a `Page`, a `FleetPage`, or either as JSON values.

    Raises UsageError for a file inside one of `stores`, StoreError for one that cannot be written.
    """
    values = document if isinstance(document, dict) else to_document(document)
    with open_output(path, binary=False, forbidden=stores) as stream:
        _write(stream, values, as_json=path is not None and path.suffix == JSON_SUFFIX)


def _write(stream: IO[str], values: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        stream.write(json_text(values, compact=True) + "\n")
    else:
        from rocketfsck.page.html import render

        stream.write(render(values))
