"""The columns of the data source `rocketmq`: which are given, their types, and what Spark has for files.

What differs from the views is what Spark's users expect of a table: few columns unless more are asked for,
TIMESTAMP for times, NOT NULL where no row lacks a value, and `_metadata`, as Spark's own file sources have.

The rows of one open store as a stream of Arrow record batches, with timestamps that are times.

Options as text, as SQL and `option(name, value)` give them: which stores, which view, what of it.

Names are case-insensitive. One table says what there is; whatever is not in it is an error, as is an option
that means nothing for the view.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rocketfsck.common.wording import parse_size, parse_time
from rocketfsck.errors import UsageError
from rocketfsck.pipeline.sources import StoreSource, broker_name, deep_places, find_sources
from rocketfsck.pipeline.views.model import CONDITIONS, OF_FILES, Part, WantedRows
from rocketfsck.pipeline.views.table import VIEWS, plan_store, read_part, schema_of, view_named
from rocketfsck.store.model import Store

TIME = pa.timestamp("ms", "UTC")
FIRST_TIME = -62_135_596_800_000
"""The first millisecond of the year 1: nothing before it is a Python datetime."""
LAST_TIME = 253_402_300_799_999
"""The last millisecond of the year 9999."""
_TIMES = frozenset({"store_timestamp", "born_timestamp"})


def read_stream(store: Store, view: str, wanted: WantedRows, *, real_times: bool) -> pa.RecordBatchReader:
    """The rows of a view of a store, part after part, as they are asked for.

    With `real_times`, timestamps have the type `TIME`, and those outside of the years 1 to 9999 are null;
    else they are numbers in ms. Raises UsageError for a view, column or condition that there is not, and
    StoreError for directories that cannot be listed; the stream raises StoreError when bytes cannot be read.
    """
    named = {name for name in CONDITIONS if getattr(wanted, name) is not None}
    for name in sorted(named - view_named(view).conditions):
        raise UsageError(f"the view {view} has no selection by {name}")
    schema = schema_of(view, wanted)
    parts = plan_store(view, source_of(store), store, wanted)
    if not real_times:
        return pa.RecordBatchReader.from_batches(schema, _batches(parts, wanted))
    timed = pa.schema([field.with_type(TIME) if _is_time(field) else field for field in schema])
    found = (_timed(batch, timed) for batch in _batches(parts, wanted))
    return pa.RecordBatchReader.from_batches(timed, found)


def source_of(store: Store) -> StoreSource:
    """The source that an open store is."""
    stated = store.stated
    conf = None if stated.broker_conf is None else os.fspath(stated.broker_conf)
    root = os.fspath(store.root)
    return StoreSource(
        broker_name(root, conf),
        root,
        stated.version,
        conf,
        tuple(os.fspath(path) for path in stated.commitlog_paths),
        stated.delay_levels,
        storage_options=stated.storage_options,
    )


def _batches(parts: list[Part], wanted: WantedRows) -> Iterator[pa.RecordBatch]:
    for part in parts:
        yield from read_part(part, wanted)


def _is_time(field: pa.Field) -> bool:
    return field.name in _TIMES and field.type == pa.int64()


def _timed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        _times(column).cast(TIME) if field.type == TIME else column
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _times(numbers: pa.Array) -> pa.Array:
    """The numbers that are times of the years 1 to 9999, others as null."""
    possible = pc.and_(pc.greater_equal(numbers, FIRST_TIME), pc.less_equal(numbers, LAST_TIME))
    return pc.if_else(possible, numbers, pa.scalar(None, pa.int64()))


EVERY = "*"
"""Among the names of columns: all that the view has."""
METADATA = "_metadata"
NARROW = (
    "broker", "topic", "queue_id", "queue_offset", "offset", "store_timestamp", "born_timestamp", "size",
    "body_size", "tags_code", "reconsume_times", "sys_flag", "file", "pos",
)  # fmt: skip
"""Columns of messages that need neither bodies nor properties: what is given when none are named."""
BODY = ("body", "body_crc_ok")
PROPERTIES = ("tags", "keys", "unique_key", "properties")

TIMESTAMP = pa.timestamp("us", "UTC")
"""TIMESTAMP of Spark."""
_TIME = "_timestamp"
_FILE = pa.struct(
    [
        pa.field("file_path", pa.string(), nullable=False),
        pa.field("file_name", pa.string(), nullable=False),
        pa.field("file_size", pa.int64(), nullable=False),
        pa.field("file_modification_time", TIMESTAMP, nullable=False),
    ]
)


def choose_columns(view: str, wanted: WantedRows, *, body: bool, properties: bool) -> WantedRows:
    """What is wanted, with the columns that options choose, and the level that they need.

    A column for damage is worth nothing if nobody looks for damage, and so are modes other than PERMISSIVE:
    with any of them, CRCs are compared, unless a level says otherwise. Raises UsageError for a view without
    bodies or properties.
    """
    if view != "messages":
        if body or properties:
            raise UsageError(f"the view {view} has no bodies and no properties")
        return _named(view, wanted, wanted.columns) if wanted.columns else wanted
    more = (*(BODY if body else ()), *(PROPERTIES if properties else ()))
    names = wanted.columns
    if names is None:
        is_checked = (body or wanted.level == "full") and wanted.mode == "PERMISSIVE"
        return _named(view, wanted, (*NARROW, *more, *((wanted.corrupt_column,) if is_checked else ())))
    return _named(view, wanted, (*names, *(name for name in more if name not in names)))


def _named(view: str, wanted: WantedRows, names: Sequence[str]) -> WantedRows:
    if EVERY in names:
        every = schema_of(view, replace(wanted, columns=None)).names
        others = [name for name in names if name != EVERY and name not in every]
        names = [*every, *others]
    return level_for(view, replace(wanted, columns=tuple(names)))


def level_for(view: str, wanted: WantedRows) -> WantedRows:
    """What is wanted, at the level that its columns and its mode need."""
    names = wanted.columns or ()
    needed = view == "messages" and (wanted.mode != "PERMISSIVE" or wanted.corrupt_column in names)
    return replace(wanted, level="full") if needed and wanted.level is None else wanted


def declared(view: str, wanted: WantedRows) -> pa.Schema:
    """The schema that a view has for Spark. Raises UsageError as `schema_of` does."""
    names = wanted.columns
    view_schema = schema_of(view, read_columns(view, wanted))
    fields = {field.name: _declared(view, field) for field in view_schema}
    if names is None:
        return pa.schema(fields.values())
    fields[METADATA] = pa.field(METADATA, _FILE, nullable=False)
    return pa.schema([fields[name] for name in names])


def _declared(view: str, field: pa.Field) -> pa.Field:
    kind = TIMESTAMP if field.name.endswith(_TIME) and field.type == pa.int64() else field.type
    return pa.field(field.name, kind, nullable=field.name not in view_named(view).not_null)


def read_columns(view: str, wanted: WantedRows) -> WantedRows:
    """What is wanted of the view itself, which does not know `_metadata`."""
    if wanted.columns is None or METADATA not in wanted.columns:
        return wanted
    if not view_named(view).of_files:
        raise UsageError(f"the view {view} has no column {METADATA}: its rows are not those of one file")
    names = tuple(name for name in wanted.columns if name != METADATA)
    return replace(wanted, columns=names or ("file",))


def shaped(batch: pa.RecordBatch, part: Part, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a part in exactly the columns and types that Spark expects.

    A time outside of the years 1 to 9999, which Spark cannot show, is null as a TIMESTAMP.
    """
    columns = [
        _file_of(part, field.type, len(batch))
        if field.name == METADATA
        else _typed(batch[field.name], field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _typed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_timestamp(kind) or pa.types.is_timestamp(column.type):
        return column
    return pc.multiply(_times(column), 1000).cast(kind)


def _file_of(part: Part, kind: pa.StructType, count: int) -> pa.Array:
    facts = {
        "file_path": part.location,
        "file_name": PurePosixPath(part.location).name,
        "file_size": part.file_size,
        "file_modification_time": part.modified_ns // 1000,
    }
    columns = [pa.repeat(pa.scalar(facts[field.name], field.type), count) for field in kind]
    return pa.StructArray.from_arrays(columns, fields=list(kind))


_TRUE, _FALSE = frozenset({"true", "1", "yes"}), frozenset({"false", "0", "no"})


@dataclass(frozen=True, slots=True)
class Request:
    """What the options ask for."""

    view: str
    sources: tuple[StoreSource, ...]
    wanted: WantedRows


def parse_options(options: Mapping[str, str], *, also: Collection[str] = ()) -> Request:
    """The request that options make; `also` are names that others take care of.

    Raises UsageError for an option that is not there or has no sense, and what `find_sources` raises.
    """
    given = {name.lower(): value for name, value in options.items()}
    for name in sorted(set(given) & set(_REMOVED)):
        raise UsageError(f"the option {name} was removed: {_REMOVED[name]}")
    unknown = sorted(set(given) - set(_KNOWN) - {name.lower() for name in also})
    if unknown:
        raise UsageError(
            f"no option has the name {', '.join(unknown)}; the options are {', '.join(OPTION_NAMES)}"
        )
    view = given.get("view", "messages").lower()
    if view not in VIEWS:
        raise UsageError(f"no view has the name {view!r}; the views are {', '.join(VIEWS)}")
    values: dict[str, Any] = {}
    for name, text in given.items():
        option = _KNOWN.get(name)
        if option is not None and option.field:
            values[option.field] = option.parse(option.name, text)
    possible = VIEWS[view].conditions | (OF_FILES if VIEWS[view].of_files else frozenset())
    for option in _CONDITIONS:
        if option.field in values and option.field not in possible:
            raise UsageError(f"the view {view} has no selection by {option.name}")
    body, properties = (read_truth(name, given.get(name, "false")) for name in ("body", "properties"))
    wanted = choose_columns(view, WantedRows(**values), body=body, properties=properties)
    return Request(view, sources_of(given), wanted)


def sources_of(given: Mapping[str, str]) -> tuple[StoreSource, ...]:
    """The stores that options name: by `path`, as Spark's `load` says it, by `paths` or by `store`."""
    paths = [path for name in ("path", "paths", "store") for path in listed_paths(name, given.get(name, ""))]
    if not paths:
        raise UsageError("name a store: load(PATH), or the option path, or store where SQL keeps path")
    storage_options = _object("storage_options", given.get("storage_options", ""))
    is_deep = read_truth("recursiveFileLookup", given.get("recursivefilelookup", "false"))
    return find_sources(
        deep_places(paths, storage_options) if is_deep else paths,
        brokers=_words("broker", given.get("broker", "")),
        version=given.get("version") or None,
        broker_confs=listed_paths("broker_conf", given.get("broker_conf", "")),
        commitlog_paths=_words("commitlog_paths", given.get("commitlog_paths", "")),
        delay_levels=given.get("delay_levels") or None,
        storage_options=storage_options,
    )


def listed_paths(name: str, text: str) -> list[str]:
    """The paths that an option's text names: one, or a JSON list. Raises UsageError for another list."""
    if not text.startswith("["):
        return [text] if text else []
    try:
        found = json.loads(text)
    except ValueError:
        return [text]
    if not all(isinstance(item, str) for item in found):
        raise UsageError(f"{name}: not a list of texts: {text}")
    return list(found)


def _object(name: str, text: str) -> dict[str, Any]:
    """A JSON object; the error quotes no other text, since that may be a secret."""
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UsageError(f"{name}: not a JSON object")
    return found


def _words(name: str, text: str) -> list[str]:
    """Words between commas, or a JSON list."""
    if text.startswith("["):
        return listed_paths(name, text)
    return [word.strip() for word in text.split(",") if word.strip()]


def read_integer(name: str, text: str) -> int:
    """The number of 64 bits that an option's text is; else UsageError."""
    try:
        value = int(text)
    except ValueError:
        raise UsageError(f"{name} must be a whole number, not {text!r}") from None
    if not -(1 << 63) <= value < 1 << 63:
        raise UsageError(f"{name} must fit 64 bits, and {text} does not")
    return value


def read_time(name: str, text: str) -> int:
    """The time (ms) that an option's text says: milliseconds, or a date as ISO 8601 (UTC where it names no
    zone); else UsageError."""
    try:
        return read_integer(name, str(parse_time(text)))
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None


def read_size(name: str, text: str) -> int:
    """The bytes that an option's text says, such as 64M; else UsageError."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None


def read_truth(name: str, text: str) -> bool:
    """Whether an option's text says true or false; else UsageError."""
    word = text.strip().lower()
    if word not in _TRUE | _FALSE:
        raise UsageError(f"{name} must be true or false, not {text!r}")
    return word in _TRUE


@dataclass(frozen=True, slots=True)
class _Option:
    """An option's name, the field of `WantedRows` that it sets ("": none), and how its text is read."""

    name: str
    field: str = ""
    parse: Callable[[str, str], Any] = lambda _, text: text


_OPTIONS = (
    *map(_Option, ("path", "paths", "store", "view", "broker", "broker_conf", "version", "commitlog_paths")),
    *map(_Option, ("delay_levels", "storage_options", "recursiveFileLookup")),
    _Option("columns", "columns", lambda name, text: tuple(_words(name, text))),
    *map(_Option, ("body", "properties")),
    _Option("level", "level", lambda _, text: text.strip().lower()),
    _Option("mode", "mode", lambda _, text: text.strip().upper()),
    _Option("ignoreMissingFiles", "ignore_missing_files", read_truth),
    _Option("ignoreCorruptFiles", "ignore_corrupt_files", read_truth),
    _Option("columnNameOfCorruptRecord", "corrupt_column"),
    _Option("live_only", "live_only", read_truth),
    _Option("split_size", "split_size", read_size),
    _Option("max_body_size", "max_body_size", read_size),
    _Option("now_timestamp", "now_timestamp", read_time),
    _Option("topic", "topic"),
    _Option("queue_id", "queue_id", read_integer),
    _Option("tag", "tag"),
    _Option("key", "key"),
    _Option("begin_timestamp", "begin_timestamp", read_time),
    _Option("end_timestamp", "end_timestamp", read_time),
    _Option("begin_offset", "begin_offset", read_integer),
    _Option("end_offset", "end_offset", read_integer),
    _Option("pathGlobFilter", "file_pattern"),
    _Option("modifiedAfter", "modified_after", read_time),
    _Option("modifiedBefore", "modified_before", read_time),
)
OPTION_NAMES = tuple(option.name for option in _OPTIONS)
_REMOVED = {
    "pushdown": "Spark keeps the filters of one query with the DataFrame, so other queries of it miss "
    "rows; select by the options topic, queue_id, begin_timestamp, end_timestamp, begin_offset and "
    "end_offset"
}
_KNOWN = {option.name.lower(): option for option in _OPTIONS}
_CONDITIONS = _OPTIONS[OPTION_NAMES.index("topic") :]
