"""What is wanted of stores, and the parts that it is read in. Plain values: they travel to workers.

How a row reports damage: as JSON in the column for it, next to where it is.

    {"kind": …, "reason": …, "file": …, "start": …, "end": …}        positions in the file, half-open

and `offset`, the place in the commit log, where there is one.

Arrow arrays of NumPy columns: fixed numbers, gathered bytes, texts as Java reads them, lists, maps.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats import dtypes, javatext, layout
from rocketfsck.pipeline.sources import StoreSource
from rocketfsck.scan.views.messages import MAX_BODY_SIZE, MessageFilter
from rocketfsck.verify.finding import LEVELS, Level

if TYPE_CHECKING:
    from rocketfsck.store.model import Store, StoreFile

ROWS_A_BATCH = 1 << 14
Row = dict[str, Any]


def row_batches(rows: Iterable[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Few rows, which are made in Python, as batches of at most ROWS_A_BATCH."""
    waiting = iter(rows)
    while batch := list(itertools.islice(waiting, ROWS_A_BATCH)):
        yield pa.RecordBatch.from_pylist(batch, schema)


def typed(kind: pa.DataType, *names: str) -> list[pa.Field]:
    """Columns of one type."""
    return [pa.field(name, kind) for name in names]


def field_of(name: str, declared: layout.Field) -> pa.Field:
    """The column of that name of a layout's integer: 8 bytes, or 4 as the least that Spark's users expect."""
    return pa.field(name, pa.int64() if declared.size == 8 else pa.int32())


def numbers(values: NDArray[Any]) -> pa.Array:
    """Numbers of their own memory and type."""
    return pa.array(np.ascontiguousarray(values))


def binary(offsets: dtypes.Words, data: dtypes.Bytes, valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """Ranges of bytes; null where `valid` is False."""
    buffers = [_bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def texts(offsets: dtypes.Words, data: dtypes.Bytes, valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """Ranges of bytes as Java decodes them."""
    raw = binary(offsets, data, valid)
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [None if one is None else javatext.java_decode(one) for one in raw.to_pylist()], pa.string()
        )


def readable(offsets: dtypes.Words, data: dtypes.Bytes) -> tuple[dtypes.Words, dtypes.Bytes]:
    """The same ranges with whatever is not UTF-8 replaced, as Java replaces it."""
    raw = binary(offsets, data)
    try:
        raw.cast(pa.string())
    except pa.ArrowInvalid:
        pieces = [javatext.java_encode(javatext.java_decode(one)) for one in raw.to_pylist()]
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
    kind: pa.DataType, offsets: dtypes.Words, values: pa.Array, valid: NDArray[np.bool_] | None = None
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


Mode = Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]
MODES: tuple[Mode, ...] = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
OnUnreadable = Literal["fail", "row"]
ON_UNREADABLE: tuple[OnUnreadable, ...] = ("fail", "row")
CORRUPT = "_corrupt_record"
LEAST_SPLIT_SIZE = 1 << 12
CONDITIONS = frozenset(item.name for item in fields(MessageFilter))
"""What messages can be selected by."""
OF_FILES = frozenset({"file_pattern", "modified_after", "modified_before"})
"""What the files can be selected by, in views whose parts are each of one file."""
OFFSETS = frozenset({"begin_offset", "end_offset"})
COMMITLOG = frozenset({"commitlog"})
PLACE = frozenset({"broker", "file", "offset", "pos", "size"})
"""Columns that say where in the commit log a row's bytes are."""


@dataclass(frozen=True, slots=True)
class WantedRows(MessageFilter):
    """What rows and columns are wanted; None is everything (of `columns`: those that a view has by default).

    Timestamps are storeTimestamps in ms, offsets places in the commit log; ranges half-open. `tag` is the
    whole TAGS, `key` a word of KEYS or the UNIQ_KEY. `level`: `full` compares the bodies' CRCs, `cross` does
    not; None compares them where bodies are read anyway. `mode`: what becomes of damage, as with Spark's own
    readers. `on_unreadable`: what becomes of a file or directory that cannot be read, or has vanished: `fail`
    raises, `row` gives a row of damage in its place, whatever else is selected. `ignore_missing_files` leaves
    out files that vanished, `ignore_corrupt_files` what else cannot be read; the view `damage` then has a row
    for each. With `damage_rows` the damaged ranges of the log are rows of the view `messages`, too, unless
    messages are selected. `split_size`: parts of a file have this many bytes, 0 for whole files.
    `now_timestamp` (ms) replaces the clock of a check. `file_pattern` is a pattern (`*`, `?`, `[`) of names
    of files, `modified_after` and `modified_before` (ms, both exclusive) when they changed last: a view that
    reads one file at a time opens no others. Raises UsageError for values that make no sense.
    """

    columns: tuple[str, ...] | None = None
    level: Level | None = None
    mode: Mode = "PERMISSIVE"
    on_unreadable: OnUnreadable = "fail"
    ignore_missing_files: bool = False
    ignore_corrupt_files: bool = False
    live_only: bool = True
    damage_rows: bool = False
    split_size: int = 0
    max_body_size: int = MAX_BODY_SIZE
    corrupt_column: str = CORRUPT
    now_timestamp: int | None = None
    file_pattern: str | None = None
    modified_after: int | None = None
    modified_before: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UsageError(f"the mode {self.mode!r} is not one of {', '.join(MODES)}")
        if self.on_unreadable not in ON_UNREADABLE:
            raise UsageError(
                f"the value {self.on_unreadable!r} of on_unreadable is not one of {', '.join(ON_UNREADABLE)}"
            )
        if self.on_unreadable == "row" and self.mode != "PERMISSIVE":
            raise UsageError(f"on_unreadable=row gives rows of damage, which the mode {self.mode} leaves out")
        if self.level is not None and self.level not in LEVELS:
            raise UsageError(f"the level {self.level!r} is not one of {', '.join(LEVELS)}")
        if self.split_size and self.split_size < LEAST_SPLIT_SIZE:
            raise UsageError(f"a split needs at least {LEAST_SPLIT_SIZE:,} bytes, not {self.split_size:,}")
        if self.columns is not None and not self.columns:
            raise UsageError("name at least one column")
        if self.columns is not None and len(set(self.columns)) < len(self.columns):
            raise UsageError(f"a column appears twice: {', '.join(self.columns)}")
        if self.max_body_size < 0:
            raise UsageError("the size of the largest body must be a number of bytes, at least 0")
        if self.file_pattern is not None and set("{}") & set(self.file_pattern):
            raise UsageError(f"a pattern of files has * ? and [ ], and no braces: {self.file_pattern}")

    @property
    def filter(self) -> MessageFilter:
        """The conditions on messages, but the topic's."""
        return MessageFilter(**{name: getattr(self, name) for name in CONDITIONS if name != "topic"})

    @property
    def selects_messages(self) -> bool:
        """Whether only messages are wanted: a condition was named that no other bytes can meet."""
        return any(getattr(self, name) is not None for name in CONDITIONS - OFFSETS)

    @property
    def selects_files(self) -> bool:
        """Whether only some of the files are wanted."""
        return any(getattr(self, name) is not None for name in OF_FILES)


def is_of_wanted_file(part: Part, wanted: WantedRows) -> bool:
    """Whether the file of a part is one that is wanted."""
    after, before, pattern = wanted.modified_after, wanted.modified_before, wanted.file_pattern
    return (
        (pattern is None or fnmatchcase(PurePosixPath(part.location).name, pattern))
        and (after is None or part.modified_ns > after * 1_000_000)
        and (before is None or part.modified_ns < before * 1_000_000)
    )


def ignores(wanted: WantedRows, error: StoreError) -> bool:
    """Whether the rows go on without the bytes that this error keeps from us."""
    if wanted.on_unreadable == "row":
        return True
    is_missing = isinstance(error.__cause__, FileNotFoundError)
    return wanted.ignore_missing_files if is_missing else wanted.ignore_corrupt_files


@dataclass(frozen=True, slots=True)
class Part:
    """What one task reads: of a view of one store, positions `start:end` of `file` (end None: to its end).

    `file` is the path below the store's root, "" where the part is not a single file; `size` how many bytes
    there were when the parts were planned; `item` is the view's own. `location`, `file_size` and
    `modified_ns` are what a listing said of the one file of which a part is.
    """

    source: StoreSource
    view: str
    file: str = ""
    start: int = 0
    end: int | None = None
    size: int = 0
    item: Any = None
    location: str = ""
    file_size: int = 0
    modified_ns: int = 0

    def of_file(self, file: StoreFile) -> Part:
        """The part, with what is known of its file."""
        return replace(
            self, location=printable(file.location), file_size=file.size, modified_ns=file.mtime_ns
        )


@dataclass(frozen=True, slots=True)
class View:
    """One way to look at stores as rows: its columns, its parts, its rows.

    `fields` are all the columns that it has, `further` those that are given only when they are named;
    `conditions` the fields of `WantedRows` that it can be selected by; `areas` the directories of a store
    that the plan goes by (`store.areas.unlisted`); `not_null` the columns that have a value in every row;
    `of_files` says that each part belongs to one file.
    """

    name: str
    fields: Callable[[], Sequence[pa.Field]]
    plan: Callable[[StoreSource, Store, WantedRows], Iterator[Part]]
    read: Callable[[Part, WantedRows, pa.Schema], Iterator[pa.RecordBatch]]
    conditions: frozenset[str] = frozenset()
    areas: frozenset[str] = frozenset()
    not_null: frozenset[str] = frozenset({"broker"})
    of_files: bool = False
    further: frozenset[str] = frozenset()


Rows = Callable[[StoreSource, WantedRows, frozenset[str]], Iterator[Row]]
"""The rows of a store, with what is wanted, and the names of the columns that are."""


def store_view(
    name: str,
    fields: Callable[[], Sequence[pa.Field]],
    rows: Rows,
    conditions: frozenset[str] = frozenset(),
    areas: frozenset[str] = frozenset(),
    *,
    further: frozenset[str] = frozenset(),
    counts: bool = False,
    walks: bool = True,
) -> View:
    """A view of one part a store, whose rows are made in Python; a row of damage has the column for it.

    `fields` are the columns between `broker` and `_corrupt_record`. A view that `counts` messages needs more
    than a quick check; the size of one that does not walk the log is 0.
    """

    def plan(source: StoreSource, store: Store, wanted: WantedRows) -> Iterator[Part]:
        if counts and wanted.level == "quick":
            raise UsageError(
                f"a quick check does not count messages: the view {name} needs level cross or full"
            )
        yield Part(source, name, size=sum(file.size for file in store.commitlog.files) if walks else 0)

    def read(part: Part, wanted: WantedRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        place = {"broker": part.source.broker, "path": printable(part.source.path)}
        batches = row_batches(rows_of(part.source, wanted, frozenset(schema.names)), schema)
        yield from guarded(wanted, schema, batches, lambda: place, "")

    def rows_of(source: StoreSource, wanted: WantedRows, names: frozenset[str]) -> Iterator[Row]:
        for row in rows(source, wanted, names):
            yield {"broker": source.broker, **row}

    def every() -> list[pa.Field]:
        return [*typed(pa.string(), "broker"), *fields(), *typed(pa.string(), CORRUPT)]

    return View(name, every, plan, read, conditions, areas, further=further)


UNREADABLE = "unreadable"


def range_fields() -> list[pa.Field]:
    """The first columns of every view of ranges of the commit log: where a range is, and what."""
    text, long = pa.string(), pa.int64()
    return [
        *typed(text, "broker", "file"),
        *typed(long, "offset", "pos", "size"),
        *typed(text, "kind", "reason"),
    ]


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
