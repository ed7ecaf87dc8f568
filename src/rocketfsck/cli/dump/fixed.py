"""Files that are one array of equal structures: consume queue units, batch units, DLedger index units.

The unit's layout is `formats`' own; here are its struct code (all integers, big-endian), the folding of runs
of zero units into one item, and what is said of a unit beyond its fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rocketfsck.cli.dump.item import Item, layout_spans
from rocketfsck.cli.dump.source import DumpSource
from rocketfsck.cli.show.text import count_of

if TYPE_CHECKING:
    from rocketfsck.formats.layout import Layout

_NOT_ZERO = re.compile(rb"[^\0]")

Describe = Callable[[int, dict[str, Any]], "tuple[str, dict[str, Any], str] | None"]
"""From a unit's position and fields to its item's kind, values and note; None leaves it out."""


def unit_items(
    source: DumpSource,
    layout: Layout,
    describe: Describe,
    *,
    start: int = 0,
    end: int | None = None,
    zeros: bool = True,
    what: str = "unit",
    plural: str | None = None,
) -> Iterator[Item]:
    """The units in `start:end` of a file as items; with `zeros` also runs of zero units and what is left.

    Units before the source's `first_pos` are left out.
    """
    end = source.size if end is None else end
    unit = layout.packer()
    names = [item.name for item in layout.fields]
    nothing = bytes(unit.size)
    pos = start + max(source.first_pos - start, 0) // unit.size * unit.size
    while end - pos >= unit.size:
        step = max((1 << 16) // unit.size, 1) * unit.size
        piece = source.read(pos, min(step, (end - pos) // unit.size * unit.size))
        taken = 0
        while taken < len(piece):
            at = pos + taken
            if piece.startswith(nothing, taken):
                other = _NOT_ZERO.search(piece, taken)  # no look at the file for every short run
                zero = pos + other.start() if other else source.zero_until(pos + len(piece), end)
                zero_end = at + (zero - at) // unit.size * unit.size
                if zeros:
                    yield zero_item(at, zero_end, unit.size, what, plural)
                taken = zero_end - pos
                continue
            values = dict(zip(names, unit.unpack_from(piece, taken), strict=True))
            taken += unit.size
            said = describe(at, values)
            if said is not None:
                kind, shown, note = said
                yield Item(kind, at, at + unit.size, shown, note, _spans(layout, at, values, note))
        pos += taken
    if pos < end and zeros:
        yield Item("partial", pos, end, {}, f"{end - pos} bytes, less than a {what}")


def zero_item(start: int, end: int, unit_size: int, what: str, plural: str | None = None) -> Item:
    """A run of zero units."""
    number = (end - start) // unit_size
    return Item("zero", start, end, {"count": number}, f"{count_of(number, what, plural)} of zeros")


def _spans(layout: Layout, start: int, values: Mapping[str, Any], note: str) -> Callable[[], list[Any]]:
    texts = {layout.fields[-1].name: f"{values[layout.fields[-1].name]}  {note}".rstrip()} if note else None
    return lambda: layout_spans(layout, start, values, texts=texts)
