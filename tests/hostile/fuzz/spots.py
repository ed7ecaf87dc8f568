"""Where every field of every format is in a sound store, by the layouts that the formats declare."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from rocketfsck.errors import FormatError
from rocketfsck.formats.checkpoint import CHECKPOINT
from rocketfsck.formats.consumequeue import BATCH_UNIT, EXT_UNIT, UNIT
from rocketfsck.formats.dledger import DLEDGER_BLANK, DLEDGER_ENTRY, DLEDGER_INDEX
from rocketfsck.formats.layout import Layout, registry
from rocketfsck.formats.magic import BORN_HOST_V6, INNER_BATCH, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, STORE_HOST_V6
from rocketfsck.formats.record import BLANK, RECORD
from rocketfsck.formats.tiered import (
    TIERED_CODA,
    TIERED_COMPACTED_ITEM,
    TIERED_COMPACTED_SLOT,
    TIERED_INDEX_HEADER,
    TIERED_INDEX_ITEM,
    TIERED_INDEX_SLOT,
    compacted_shape,
    segment_offset,
)
from rocketfsck.formats.timer import TIMER_CHECK, TIMER_LOG_UNIT, TIMER_WHEEL_SLOT
from rocketfsck.reader.tiered import read_local_header
from rocketfsck.store import open_store
from rocketfsck.store.index_geometry import infer_index_geometry
from rocketfsck.store.model import IndexFile
from rocketfsck.store.reading import FileReader

MAX_READ = 1 << 20


_OF_AREAS = {
    "commitlog": (),
    "tiered": ("record", "consumequeue_unit"),
    "tiered_index_file": ("tiered_index_header",),
}
"""By area, the layouts that are checked by other rules there: areas that are not here have own records."""


@dataclass(frozen=True, slots=True)
class Spot:
    """One field of one structure: `size` bytes at `pos` of `file`; `row` numbers the structure in its file.

    `start` and `end` are those of the structure. `number`: the field is an integer, not bytes.
    """

    file: str
    layout: str
    field: str
    pos: int
    size: int
    row: int
    start: int
    end: int
    number: bool

    @property
    def label(self) -> str:
        """The field's name, as `seen` has it: records that are not in the commit log have the area before."""
        top = self.file.partition("/")[0].partition("-")[0]
        area = f"{top} " if self.layout in _OF_AREAS.get(top, ("record", "blank")) else ""
        return f"{area}{self.layout}.{self.field}"


@dataclass(frozen=True, slots=True)
class Structure:
    """One structure of a layout at `start:end` of a file."""

    file: str
    layout: Layout
    start: int
    end: int
    row: int


def find_spots(root: Path) -> list[Spot]:
    """Every field of every structure of the store, in the order of its files."""
    return [spot for structure in find_structures(root) for spot in _fields(root, structure)]


def find_structures(root: Path) -> Iterator[Structure]:
    """Every record, unit, slot, entry, header … of the files whose layout is known by their place."""
    for path in sorted(root.rglob("*")):
        if path.is_file():
            name = path.relative_to(root).as_posix()
            walk = _walker(name, path)
            if walk is not None:
                data = _read(path)
                for row, (layout, start, end) in enumerate(walk(data)):
                    yield Structure(name, layout, start, end, row)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_READ)


Walk = Callable[[bytes], Iterator[tuple[Layout, int, int]]]


def _walker(name: str, path: Path) -> Walk | None:
    top, _, rest = name.partition("/")
    base = name.rpartition("/")[2]
    by_top: dict[str, Walk] = {
        "commitlog": _records,
        "consumequeue": lambda data: _rows(UNIT, data),
        "batchconsumequeue": lambda data: _rows(BATCH_UNIT, data),
        "consumequeue_ext": _ext_units,
        "index": lambda data: _index(data, path),
        "checkpoint": lambda _: iter([(CHECKPOINT, 0, CHECKPOINT.size)]),
        "timerwheel": lambda _: _used_slots(path),
        "timerlog": lambda data: _rows(TIMER_LOG_UNIT, data),
        "tiered_index_file": lambda _: _local_index(path),
    }
    if segment_offset(base) is not None:
        return _SEGMENTS.get(path.parent.name)
    if base == "timercheck":
        return lambda _: iter([(TIMER_CHECK, 0, TIMER_CHECK.size)])
    if top == "compaction" and rest.startswith("compactionLog"):
        return _records
    if top == "compaction" and rest.startswith("compactionCq"):
        return lambda data: _rows(BATCH_UNIT, data)
    if top.startswith("dledger-"):
        if rest.startswith("data/"):
            return _entries
        return (lambda data: _rows(DLEDGER_INDEX, data)) if rest.startswith("index/") else None
    return by_top.get(top)


def _rows(layout: Layout, data: bytes) -> Iterator[tuple[Layout, int, int]]:
    """Fixed structures one after the other: all that are not zero, and the first that is."""
    for start in range(0, len(data) - layout.size + 1, layout.size):
        yield layout, start, start + layout.size
        if not any(data[start:]):
            return


def _segment(data: bytes) -> Iterator[tuple[Layout, int, int]]:
    """Records up to the end of a segment of a tiered log, or up to its coda."""
    for layout, start, end in _records(data):
        if layout is BLANK:
            yield TIERED_CODA, start, start + TIERED_CODA.size
        else:
            yield layout, start, end


def _segment_index(data: bytes) -> Iterator[tuple[Layout, int, int]]:
    header = TIERED_INDEX_HEADER.parse(data)
    shape = compacted_shape(len(data), header["slotCount"], header["indexCount"])
    assert shape is not None
    yield TIERED_INDEX_HEADER, 0, TIERED_INDEX_HEADER.size
    pos = TIERED_INDEX_HEADER.size
    for layout, end in ((TIERED_COMPACTED_SLOT, shape.items_start), (TIERED_COMPACTED_ITEM, shape.end)):
        while pos < end:
            yield layout, pos, pos + layout.size
            pos += layout.size


def _local_index(path: Path) -> Iterator[tuple[Layout, int, int]]:
    with FileReader(path) as reader:
        shape = read_local_header(open_store(path.parent.parent), reader).shape
    assert shape is not None
    yield TIERED_INDEX_HEADER, 0, TIERED_INDEX_HEADER.size
    pos = TIERED_INDEX_HEADER.size
    for layout, end in ((TIERED_INDEX_SLOT, shape.items_start), (TIERED_INDEX_ITEM, shape.end)):
        while pos < end:
            if layout is TIERED_INDEX_SLOT or pos >= shape.items_start + shape.first_item * layout.size:
                yield layout, pos, pos + layout.size
            pos += layout.size


_SEGMENTS: dict[str, Walk] = {
    "COMMIT_LOG": _segment,
    "CONSUME_QUEUE": lambda data: _rows(UNIT, data),
    "INDEX": _segment_index,
}


def _used_slots(path: Path) -> Iterator[tuple[Layout, int, int]]:
    """The slots of a wheel that are not zero: a few of a million."""
    size = TIMER_WHEEL_SLOT.size
    used = np.fromfile(path, np.uint8).nonzero()[0] // size
    for number in np.unique(used).tolist():
        yield TIMER_WHEEL_SLOT, number * size, number * size + size


def _records(data: bytes) -> Iterator[tuple[Layout, int, int]]:
    pos = 0
    while pos + 8 <= len(data):
        size, magic = struct.unpack_from(">ii", data, pos)
        if magic == MAGIC_BLANK:
            yield BLANK, pos, pos + 8
            return
        if magic not in (MAGIC_V1, MAGIC_V2) or not 0 < size <= len(data) - pos:
            return
        yield RECORD, pos, pos + size
        pos += size


def _ext_units(data: bytes) -> Iterator[tuple[Layout, int, int]]:
    pos = 0
    while pos + 20 <= len(data):
        size = struct.unpack_from(">h", data, pos)[0]
        if size < 20:
            return
        yield EXT_UNIT, pos, pos + size
        pos += size


def _index(data: bytes, path: Path) -> Iterator[tuple[Layout, int, int]]:
    layouts = registry()
    header, slot, entry = (layouts[f"index_{name}"] for name in ("header", "slot", "entry"))
    yield header, 0, 40
    size = path.stat().st_size
    guess = infer_index_geometry([IndexFile(str(path), path.name, size, 0, size)])
    if guess.slot_count is None or not guess.proven:
        return
    slots = guess.slot_count
    for number in range(slots):
        yield slot, 40 + 4 * number, 44 + 4 * number
    used = struct.unpack_from(">i", data, 36)[0]
    for number in range(used + 1):
        start = 40 + 4 * slots + 20 * number
        if start + 20 <= len(data):
            yield entry, start, start + 20


def _entries(data: bytes) -> Iterator[tuple[Layout, int, int]]:
    pos = 0
    while pos + 8 <= len(data):
        magic, size = struct.unpack_from(">ii", data, pos)
        if magic == -1:
            yield DLEDGER_BLANK, pos, pos + 8
            return
        if magic not in (1, 2, 3) or size < 48:
            return
        yield DLEDGER_ENTRY, pos, pos + 48
        if magic == 1:
            yield RECORD, pos + 48, pos + size
        pos += size


@cache
def _fixed(name: str) -> tuple[tuple[str, int, int, bool], ...]:
    layout = registry()[name]
    return tuple(
        (field.name, field.offset, field.size, field.kind != "bytes")
        for field in layout.fields
        if field.offset is not None and field.size is not None
    )


def _fields(root: Path, structure: Structure) -> Iterator[Spot]:
    layout, start = structure.layout, structure.start
    if layout is RECORD:
        parts = record_parts(_read(root / structure.file), start)
    elif layout is EXT_UNIT:
        parts = [*_fixed(layout.name), ("filterBitMap", 20, structure.end - start - 20, False)]
    else:
        parts = list(_fixed(layout.name))
    for name, offset, size, number in parts:
        if size:
            yield Spot(
                structure.file,
                layout.name,
                name,
                start + offset,
                size,
                structure.row,
                start,
                structure.end,
                number,
            )


def record_parts(data: bytes, start: int) -> list[tuple[str, int, int, bool]]:
    """(field, offset in the record, size, whether it is an integer) of the record at `start`."""
    try:
        values = RECORD.parse(data, start)
    except FormatError:
        return []
    flags = values["sysFlag"]
    sizes = {
        "bornHost": 20 if flags & BORN_HOST_V6 else 8,
        "storeHost": 20 if flags & STORE_HOST_V6 else 8,
        "topicLength": 2 if values["magicCode"] == MAGIC_V2 else 1,
        "body": len(values["body"]),
        "topic": len(values["topic"]),
        "properties": len(values["properties"]),
    }
    parts, offset = [], 0
    for field in RECORD.fields:
        size = field.size if field.size is not None and field.name not in sizes else sizes[field.name]
        parts.append((field.name, offset, size, field.kind != "bytes"))
        offset += size
    if flags & INNER_BATCH:
        parts += _item_parts(values["body"], {name: at for name, at, _, _ in parts}["body"])
    return parts


def _item_parts(body: bytes, base: int) -> list[tuple[str, int, int, bool]]:
    """The integers of the items of an inner batch; names begin with `item`."""
    parts, pos = [], 0
    while pos + 22 <= len(body):
        size, length = struct.unpack_from(">i", body, pos)[0], struct.unpack_from(">i", body, pos + 16)[0]
        if size < 22 or pos + size > len(body) or not 0 <= length <= size - 22:
            break
        names = ("totalSize", "magicCode", "bodyCRC", "flag", "bodyLength")
        parts += [(f"item.{name}", base + pos + 4 * number, 4, True) for number, name in enumerate(names)]
        parts.append(("item.propertiesLength", base + pos + 20 + length, 2, True))
        pos += size
    return parts
