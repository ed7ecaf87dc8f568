"""An item of a dump: one structure, or one run of bytes that is not one, at its place in a file.

The kinds of files that can be dumped: their names for --kind, their titles, and who reads them.

The file that is dumped, where it is in its store, and which part of it is wanted.

Bytes next to the names of the fields they are, in the manner of fq: nothing is left out.

    00000000  00 00 00 9a                                     |....            | size = 154
    00000004  da a3 20 a7                                     |.. .            | magicCode = 0xdaa320a7

`tile` completes a list of fields to an exact tiling of a range: what no field covers becomes a field of its
own, named `(unknown)`. Lines that only repeat the one above are folded into one that counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rocketfsck.cli.output import BodyForm, Column, of_kind
from rocketfsck.cli.show.text import count_of, timestamp, visible
from rocketfsck.errors import UsageError
from rocketfsck.formats.layout import Field, Layout, shown_name
from rocketfsck.store.reading import FileReader

if TYPE_CHECKING:
    from rocketfsck.store import Store
    from rocketfsck.store.model import Other

LINE_SIZE = 16
HEX_CHUNK_SIZE = 1 << 16
UNKNOWN = "(unknown)"
_ZERO_LINE = bytes(LINE_SIZE)

ReadBytes = Callable[[int, int], bytes]
"""`read(pos, size)` gives exactly `size` bytes of the file from position `pos`."""

ZeroUntil = Callable[[int, int], int]
"""`zero_until(pos, end)` gives the first position from `pos` on that may not be zero, `end` at most."""


@dataclass(frozen=True, slots=True)
class Span:
    """A named range of bytes; `start` and `end` are positions in the file, half-open.

    `text` is the value as printable text, "" for none; `hidden` keeps the bytes themselves out of the view
    (message bodies, unless they are asked for).
    """

    name: str
    start: int
    end: int
    text: str = ""
    hidden: bool = False


def tile(spans: Iterable[Span], start: int, end: int) -> Iterator[Span]:
    """`spans` clipped to `start:end`, in order, and the gaps between them as spans named `(unknown)`.

    Of overlapping spans the one that starts first has the bytes. The sizes of the result add up to
    `end - start`, whatever the spans are.
    """
    pos = start
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        first, last = max(span.start, pos), min(span.end, end)
        if last <= first:
            continue
        if first > pos:
            yield Span(UNKNOWN, pos, first)
        yield (
            span
            if (first, last) == (span.start, span.end)
            else Span(span.name, first, last, span.text, span.hidden)
        )
        pos = last
    if pos < end:
        yield Span(UNKNOWN, pos, end)


def hex_lines(
    read: ReadBytes,
    spans: Iterable[Span],
    start: int,
    end: int,
    indent: str = "",
    *,
    zero_until: ZeroUntil = lambda pos, _end: pos,
) -> Iterator[str]:
    """The lines that show the bytes `start:end` of a file with the fields of `spans` next to them.

    With `zero_until` the holes of a sparse file are not read.
    """
    digits = max(8, len(f"{end:x}"))
    for span in tile(spans, start, end):
        label = f"{span.name} = {span.text}" if span.text else span.name
        if span.hidden:
            hidden = f"({count_of(span.end - span.start, 'byte')} not shown)"
            yield f"{indent}{span.start:0{digits}x}  {hidden:<48}|{'':16}| {label}"
            continue
        for pos, line, repeats in _folded(read, zero_until, span.start, span.end):
            if repeats:
                yield f"{indent}{'*':<{digits}}  {f'({repeats:,} more lines like this)':<48}|{'':16}|"
            else:
                yield (
                    f"{indent}{pos:0{digits}x}  {line.hex(' '):<48}|{_characters(line):<16}| {label}"
                ).rstrip()
            label = ""


def _folded(read: ReadBytes, zero_until: ZeroUntil, start: int, end: int) -> Iterator[tuple[int, bytes, int]]:
    """(position, bytes, 0) for a line to show, (position, b"", n) for n lines equal to the one before."""
    last: bytes | None = None
    repeats = 0
    pos = start
    while pos < end:
        if last == _ZERO_LINE and (line_count := (zero_until(pos, end) - pos) // LINE_SIZE) > 0:
            repeats += line_count
            pos += line_count * LINE_SIZE
            continue
        chunk = read(pos, min(HEX_CHUNK_SIZE, end - pos))
        if last is not None and len(chunk) % LINE_SIZE == 0 and chunk == last * (len(chunk) // LINE_SIZE):
            repeats += len(chunk) // LINE_SIZE
            pos += len(chunk)
            continue
        for at in range(0, len(chunk), LINE_SIZE):
            line = chunk[at : at + LINE_SIZE]
            if line == last:
                repeats += 1
                continue
            if repeats:
                yield pos + at, b"", repeats
                repeats = 0
            yield pos + at, line, 0
            last = line
        pos += len(chunk)
    if repeats:
        yield end, b"", repeats


def _characters(line: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in line)


CHUNK_SIZE = 1 << 16
_ZEROS = bytes(CHUNK_SIZE)
FILTER_OPTIONS = {
    "topic": "--topic",
    "queue_id": "--queue",
    "tag": "--tag",
    "key": "--key",
    "begin": "--begin",
    "end": "--end",
    "physical_offsets": "--physical-offset",
    "queue_offsets": "--queue-offset",
    "slot": "--slot",
}


@dataclass(frozen=True, slots=True)
class DumpFilter:
    """The filters of a dump: times in ms; offsets as (from, to). All half-open."""

    topic: str | None = None
    queue_id: int | None = None
    tag: str | None = None
    key: str | None = None
    begin: int | None = None
    end: int | None = None
    physical_offsets: tuple[int, int] | None = None
    queue_offsets: tuple[int, int] | None = None
    positions: tuple[int, int] | None = None
    slot: int | None = None
    body: BodyForm = "none"

    def require(self, title: str, *names: str) -> None:
        """Raise UsageError for a filter that is set and is not among `names`, which `title` can answer."""
        for name, option in FILTER_OPTIONS.items():
            if name not in names and getattr(self, name) is not None:
                raise UsageError(f"{option} has no meaning for {title}")

    @property
    def any(self) -> bool:
        """Whether any filter is set."""
        return any(getattr(self, name) is not None for name in FILTER_OPTIONS)

    def has_time(self, value: int) -> bool:
        return (self.begin is None or value >= self.begin) and (self.end is None or value < self.end)

    def has_offset(self, start: int, end: int | None = None) -> bool:
        """Whether what begins at a physical offset is wanted; of a range, whether any of it is."""
        last = start + 1 if end is None else end
        return self.physical_offsets is None or (
            last > self.physical_offsets[0] and start < self.physical_offsets[1]
        )

    def has_positions(self, start: int, end: int) -> bool:
        """Whether any of the file positions `start:end` (or the point, where they are equal) is wanted."""
        return self.positions is None or (
            start < self.positions[1] and max(end, start + 1) > self.positions[0]
        )

    def has_queue_offset(self, value: int) -> bool:
        return self.queue_offsets is None or self.queue_offsets[0] <= value < self.queue_offsets[1]


@dataclass(frozen=True, slots=True)
class DumpSource:
    """An open file. `name` is what it is called in the output, `start_offset` its place in its stream.

    `topic` and `queue_id` are its queue's, if it belongs to one. `store` is the store that it is in, None for
    a file on its own; then `slot_count` and `entry_count` may say what an index file's geometry is.
    `database` is there where rows of a database are shown, and then there is no `reader`. From `first_pos`,
    where an item begins, the items may be read: those before it may be left out. `in_entries`: the records of
    this log file are the bodies of DLedger's entries.
    """

    reader: FileReader
    name: str
    start_offset: int = 0
    topic: str | None = None
    queue_id: int | None = None
    store: Store | None = None
    property_parser: Literal["split", "scan"] = "scan"
    slot_count: int | None = None
    entry_count: int | None = None
    database: Other | None = None
    first_pos: int = 0
    in_entries: bool = False

    @property
    def size(self) -> int:
        if self.database is not None:
            return sum(file.size for file in self.database.files)
        return self.reader.size

    def read(self, pos: int, size: int) -> bytes:
        return self.reader.read(pos, size)

    def pieces(self, start: int, end: int, unit_size: int) -> Iterator[tuple[int, bytes]]:
        """The bytes `start:end` in pieces of whole units, each with its position; the last may be short."""
        step = max(CHUNK_SIZE // unit_size, 1) * unit_size
        for pos in range(start, end, step):
            yield pos, self.read(pos, min(step, end - pos))

    def zero_until(self, pos: int, end: int) -> int:
        """The position of the first byte in `pos:end` that is not zero; `end` if all are."""
        for data_start, data_end in self.reader.data_extents(pos, end):
            for at in range(data_start, data_end, CHUNK_SIZE):
                piece = self.read(at, min(CHUNK_SIZE, data_end - at))
                if piece != _ZEROS[: len(piece)]:
                    return at + len(piece) - len(piece.lstrip(b"\0"))
        return end


COMMON_COLUMNS = (Column("kind", "text"), Column("file", "name"), *of_kind("int", "start", "end"))


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


def text_columns(
    left: Collection[str] = (), times: Collection[str] = (), **widths: int
) -> tuple[TextColumn, ...]:
    """Columns of the text form by their widths: `left` are texts, `times` points in time, others numbers."""
    return tuple(
        TextColumn(name, name, width, name not in left, timestamp if name in times else None)
        for name, width in widths.items()
    )


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


def layout_item(
    kind: str, layout: Layout, start: int, values: Mapping[str, Any], note: str = "", **more: Any
) -> Item:
    """A structure at `start` as an item, with its fields as spans."""
    spans = partial(layout_spans, layout, start, values)
    return Item(kind, start, start + layout.size, values, note, spans, **more)


def layout_columns(layout: Layout) -> tuple[Column, ...]:
    """The columns of a layout of integers and bytes."""
    return tuple(Column(item.name, "blob" if item.kind == "bytes" else "int") for item in layout.fields)


KINDS: Mapping[str, tuple[str, str]] = {
    "commitlog": ("commit log file", "records"),
    "consumequeue": ("consume queue file", "fixed"),
    "batchconsumequeue": ("batch consume queue file", "fixed"),
    "consumequeue-ext": ("consume queue extension file", "fixed"),
    "index": ("index file", "index"),
    "checkpoint": ("checkpoint", "fixed"),
    "config": ("JSON config", "fixed"),
    "epoch": ("epoch file", "fixed"),
    "text": ("text file", "fixed"),
    "raw": ("file of no known kind", "fixed"),
    "timerwheel": ("timer wheel", "databases"),
    "timerlog": ("timer log file", "databases"),
    "timercheck": ("timer progress file", "databases"),
    "dledger-data": ("DLedger data file", "fixed"),
    "dledger-index": ("DLedger index file", "fixed"),
    "tiered-index": ("tiered index file", "index"),
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
