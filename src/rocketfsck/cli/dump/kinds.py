"""The kinds of files that can be dumped: their names for --kind, their titles, and who reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING

from rocketfsck.cli.dump.item import COMMON_COLUMNS, Item, Spec, TextColumn

if TYPE_CHECKING:
    from rocketfsck.cli.dump.source import DumpFilter, DumpSource
    from rocketfsck.cli.output import Column
    from rocketfsck.cli.show.hexview import Span

KINDS: Mapping[str, tuple[str, str]] = {
    "commitlog": ("commit log file", "records"),
    "consumequeue": ("consume queue file", "queues"),
    "batchconsumequeue": ("batch consume queue file", "queues"),
    "consumequeue-ext": ("consume queue extension file", "queues"),
    "index": ("index file", "index"),
    "checkpoint": ("checkpoint", "small"),
    "config": ("JSON config", "small"),
    "epoch": ("epoch file", "small"),
    "text": ("text file", "small"),
    "raw": ("file of no known kind", "small"),
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
