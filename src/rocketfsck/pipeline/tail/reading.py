"""The rows of one range of a live log, by the readers of the views `messages` and `damage`, as if nothing
else were there.

What comes after the range is still being written, and what comes before it was read before, so neither is
looked at: the range is a file of its own to those who walk it. Rows have the places of the real file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from rocketfsck.errors import StoreError
from rocketfsck.pipeline.sources import Source
from rocketfsck.pipeline.tail.log import check_witness
from rocketfsck.pipeline.tail.place import Log, Place, Range, list_files
from rocketfsck.pipeline.views.damaged import DamageReader
from rocketfsck.pipeline.views.messages import PartReader
from rocketfsck.pipeline.views.model import Part, Wanted, ignores
from rocketfsck.pipeline.views.table import schema_of
from rocketfsck.pipeline.views.walking import Damage, PartWalk
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.scan.options import LogItem, ScanOptions
from rocketfsck.store.reading import FileReader

if TYPE_CHECKING:
    import pyarrow as pa

VIEWS = ("messages", "damage")
"""The views that can be followed."""
_PLACES = ("pos", "body_pos", "topic_pos", "properties_pos")


@dataclass(frozen=True, slots=True)
class TailPart:
    """One task: a part of a view, and what must still be true when it was read.

    `end` is the place that the whole batch leads to, of which the part is one range.
    """

    part: Part
    log: Log
    end: Place


def parts_of(view: str, source: Source, log: Log, ranges: list[Range], end: Place) -> list[TailPart]:
    """A part of the view for each range."""
    return [
        TailPart(
            Part(
                source,
                view,
                file.file.relative,
                file.start_pos,
                file.end_pos,
                file.size,
                LogItem(file.file.location, file.base_offset, log.file_size, log.property_parser),
            ).of_file(file.file),
            log,
            end,
        )
        for file in ranges
    ]


def read_tail(tail: TailPart, wanted: Wanted, *, fail_on_data_loss: bool = True) -> Iterator[pa.RecordBatch]:
    """The rows of a part, as batches of exactly the columns of the view.

    Raises DataLossError where the log was cut below the part's end while it was read. A file that is gone is
    a StoreError unless losses are accepted: then it is a row of the view `damage`. Bytes that are there and
    cannot be read are a StoreError, or such a row, where they are to be ignored.
    """
    part = tail.part
    reader = _READERS[part.view](part, wanted, schema_of(part.view, wanted))
    try:
        for batch in reader.batches():
            if batch.num_rows:
                yield batch
    except StoreError as error:
        is_lost = _is_gone(error)
        if fail_on_data_loss if is_lost else not ignores(wanted, error):
            raise
        if wanted.mode == "FAILFAST":
            raise
        if reader.gives_damage:
            yield reader.unread_row(error)
    if fail_on_data_loss:
        check_witness(tail.log, list_files(tail.log), tail.end)


def _is_gone(error: StoreError) -> bool:
    """Whether bytes are gone, rather than kept from us: the file was deleted, or ends before them."""
    return isinstance(error.__cause__, FileNotFoundError) or error.__cause__ is None


class _RangeReader(PartReader):
    """Reads the messages of the part alone."""

    gives_damage = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        part, item = self.part, self.item
        with FileReader(item.location) as reader:
            end = min(self.end, reader.size)
            options = ScanOptions(
                read_bodies=self.checks,
                property_parser=item.parser,
                file_size=max(item.file_size, reader.size) - part.start,
            )
            self.compiled = compiled_wanted(end - part.start)
            walk = _RangeWalk(reader, item.base_offset, options, part.start, end)
            self.walk = walk
            for found in walk.items(compiled=self.compiled, live_only=False):
                yield from self.rows_of(found, reader)


class _DamageReader(_RangeReader, DamageReader):
    """Reads the damage of the part alone."""

    gives_damage = True


_READERS = {"messages": _RangeReader, "damage": _DamageReader}


class _RangeWalk(PartWalk):
    """Walks the bytes `start:end` of a file; what it gives has the file's own positions."""

    __slots__ = ("shift",)

    def __init__(
        self, reader: FileReader, base_offset: int, options: ScanOptions, start: int, end: int
    ) -> None:
        super().__init__(_Slice(reader, start, end), base_offset + start, options, 0, end - start)
        self.shift = start

    @property
    def live_end(self) -> int:
        return min(super().live_end, (1 << 62)) + self.shift

    def items(self, *, compiled: bool, live_only: bool) -> Iterator[RecordBatch | Damage]:
        for found in super().items(compiled=compiled, live_only=live_only):
            if isinstance(found, Damage):
                yield replace(found, start=found.start + self.shift, end=found.end + self.shift)
                continue
            for name in _PLACES:
                found[name][:] += self.shift
            found["key_pos"][:] += self.shift
            yield found


class _Slice(FileReader):
    """Some bytes of an open file as a file of their own."""

    __slots__ = ("_reader", "_start")

    def __new__(cls, reader: FileReader, start: int, end: int) -> Self:  # noqa: ARG004
        return object.__new__(cls)

    def __init__(self, reader: FileReader, start: int, end: int) -> None:
        self._reader = reader
        self._start = start
        self.path = reader.path
        self.size = end - start

    def read_into(self, view: memoryview | bytearray, pos: int = 0) -> None:
        self._reader.read_into(view, pos + self._start)

    def data_extents(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
        shift = self._start
        limit = self.size if end is None else min(end, self.size)
        for low, high in self._reader.data_extents(start + shift, limit + shift):
            yield low - shift, high - shift
