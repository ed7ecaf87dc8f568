"""The file that is dumped, where it is in its store, and which part of it is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rocketfsck.cli.output import BodyForm
from rocketfsck.errors import UsageError
from rocketfsck.store.reading import FileReader

if TYPE_CHECKING:
    from rocketfsck.store import Store
    from rocketfsck.store.model import Other

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
