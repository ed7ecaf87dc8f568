"""An item of a dump: one structure, or one run of bytes that is not one, at its place in a file.

The kinds of files that can be dumped: their names for --kind, their titles, and who reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from rocketfsck.cli.output import Column
from rocketfsck.cli.show.hexview import Span
from rocketfsck.cli.show.text import timestamp, visible
from rocketfsck.formats.names import shown_name

if TYPE_CHECKING:
    from rocketfsck.cli.dump.source import DumpFilter, DumpSource
    from rocketfsck.formats.layout import Field, Layout


COMMON_COLUMNS = (
    Column("kind", "text"),
    Column("file", "name"),
    Column("start", "int"),
    Column("end", "int"),
)


@dataclass(frozen=True, slots=True)
class Item:
    """Bytes `start:end` of a file. The items of a file, unfiltered, follow each other without a gap.

    `values` are the fields, and what follows from them: by RocketMQ's names until `kinds.load_kind` gives
    them those that are shown. `note` is for text only. With
    `block`, text shows every value on a line of its own.
    """

    kind: str
    start: int
    end: int
    values: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    spans: Callable[[], Sequence[Span]] | None = None
    block: bool = False


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of the text form: the value of that name, at least `width` wide, right-aligned if `right`."""

    title: str
    name: str
    width: int
    right: bool = True
    render: Callable[[Any], str] | None = None

    def cell(self, item: Item) -> str:
        value = item.values.get(self.name)
        if value is None:
            return ""
        return self.render(value) if self.render else value_text(value)


class Spec(NamedTuple):
    """What one kind of file is to the dump: machine columns behind the common ones (they may depend on what
    is wanted), text columns, the filters that say something about it, who reads it, and how its names are
    shown."""

    columns: tuple[Column, ...] | Callable[[DumpFilter], tuple[Column, ...]]
    text: tuple[TextColumn, ...]
    filters: tuple[str, ...]
    items: Callable[[DumpSource, DumpFilter], Iterator[Item]]
    shown: Callable[[str], str] = shown_name


def value_text(value: Any) -> str:
    """A value as printable text."""
    if isinstance(value, (str, bytes)):
        return visible(value)
    if isinstance(value, Mapping):
        return " ".join(f"{value_text(name)}={value_text(item)}" for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(map(value_text, value))
    return "true" if value is True else "false" if value is False else str(value)


def hex32(value: int) -> str:
    """An i32 as the 8 hex digits that are on disk."""
    return f"0x{value & 0xFFFFFFFF:08x}"


def field_text(declared: Field, value: Any) -> str:
    """A field's value for the hex view and blocks: its number, and what it says."""
    if isinstance(value, bytes):
        return f'"{visible(value)}"' if value else ""
    if declared.unit == "ms" and value and declared.size == 8:  # 4 bytes hold a duration, no time
        return f"{value} ({timestamp(value)})"
    return f"{hex32(value)} ({value})" if declared.name.startswith("magic") else str(value)


def layout_spans(
    layout: Layout,
    start: int,
    values: Mapping[str, Any],
    *,
    sizes: Mapping[str, int] | None = None,
    texts: Mapping[str, str] | None = None,
    hidden: frozenset[str] = frozenset(),
) -> list[Span]:
    """The fields of a structure at `start` with their values as spans.

    `sizes` are the byte counts of fields whose width depends on the record (byte fields have their own
    length); `texts` replaces what is said of a field; `hidden` fields keep their bytes out of the view.
    """
    spans = []
    pos = start
    for declared in layout.fields:
        value = values[declared.name]
        size = declared.size
        if size is None:
            size = len(value) if isinstance(value, bytes) else (sizes or {})[declared.name]
        if size:
            text = (texts or {}).get(declared.name)
            secret = declared.name in hidden
            if text is None:
                text = "" if secret else field_text(declared, value)
            spans.append(Span(declared.name, pos, pos + size, text, secret))
        pos += size
    return spans


def layout_columns(layout: Layout) -> tuple[Column, ...]:
    """The columns of a layout of integers and bytes."""
    return tuple(Column(item.name, "blob" if item.kind == "bytes" else "int") for item in layout.fields)


KINDS: Mapping[str, tuple[str, str]] = {
    "commitlog": ("commit log file", "records"),
    "consumequeue": ("consume queue file", "queues"),
    "batchconsumequeue": ("batch consume queue file", "queues"),
    "consumequeue-ext": ("consume queue extension file", "queues"),
    "index": ("index file", "index"),
    "checkpoint": ("checkpoint", "fixed"),
    "config": ("JSON config", "fixed"),
    "epoch": ("epoch file", "fixed"),
    "text": ("text file", "fixed"),
    "raw": ("file of no known kind", "fixed"),
    "timerwheel": ("timer wheel", "timers"),
    "timerlog": ("timer log file", "timers"),
    "timercheck": ("timer progress file", "timers"),
    "dledger-data": ("DLedger data file", "dledger"),
    "dledger-index": ("DLedger index file", "dledger"),
    "tiered-index": ("tiered index file", "tiered"),
    "rocksdb-units": ("RocksDB with queue units", "databases"),
    "rocksdb-bounds": ("RocksDB with queue bounds", "databases"),
    "rocksdb-index": ("RocksDB index", "databases"),
    "rocksdb-timer": ("RocksDB with timers", "databases"),
    "rocksdb-trans": ("RocksDB with transactions", "databases"),
    "rocksdb-pop": ("RocksDB with POP records", "databases"),
    "rocksdb-config": ("RocksDB with configs", "databases"),
    "rocksdb-rows": ("RocksDB of no known kind", "databases"),
}
"""By --kind's name: the title and the module that reads it."""

DATABASE = "rocksdb"
"""--kind's name for every kind whose name begins so: all rows of all databases."""


def is_database(kind: str) -> bool:
    """Whether what is shown are rows of a database, not bytes of a file."""
    return kind.startswith(DATABASE)


def fits(kind: str, wanted: str) -> bool:
    """Whether a kind is, or is one of, what --kind asks for."""
    return wanted == kind or (wanted == DATABASE and is_database(kind))


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind with its module loaded."""

    name: str
    title: str
    columns: tuple[Column, ...]
    text: tuple[TextColumn, ...]
    items: Callable[[DumpSource, DumpFilter], Iterator[Item]]


def load_kind(name: str, wanted: DumpFilter) -> Kind:
    """The kind of that name; raises UsageError for a filter that it knows nothing of."""
    title, module = KINDS[name]
    spec: Spec = import_module(f"rocketfsck.cli.dump.{module}").SPECS[name]
    wanted.require(f"{'an' if title[0] in 'aei' else 'a'} {title}", *spec.filters)
    columns = spec.columns if isinstance(spec.columns, tuple) else spec.columns(wanted)
    shown = tuple(column._replace(name=spec.shown(column.name)) for column in (*COMMON_COLUMNS, *columns))
    text = tuple(_shown_text(column, spec.shown) for column in spec.text)
    return Kind(name, title, tuple(dict.fromkeys(shown)), text, _shown_items(spec))


def _shown_text(column: TextColumn, shown: Callable[[str], str]) -> TextColumn:
    title = shown(column.title)
    return replace(column, title=title, name=shown(column.name), width=max(column.width, len(title)))


def _shown_items(spec: Spec) -> Callable[[DumpSource, DumpFilter], Iterator[Item]]:
    """The items with the names that are shown, in place of RocketMQ's."""

    def items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
        for item in spec.items(source, wanted):
            yield shown_item(item, spec.shown)

    return items


def shown_item(item: Item, shown: Callable[[str], str]) -> Item:
    """The item with the names that are shown."""
    values = {shown(name): value for name, value in item.values.items()}
    return replace(item, values=values, spans=item.spans and _shown_spans(item.spans, shown))


def _shown_spans(
    spans: Callable[[], Sequence[Span]], shown: Callable[[str], str]
) -> Callable[[], list[Span]]:
    """Fields with the names that are shown; `properties.NAME` has a name of the producer's."""
    return lambda: [span if "." in span.name else replace(span, name=shown(span.name)) for span in spans()]
