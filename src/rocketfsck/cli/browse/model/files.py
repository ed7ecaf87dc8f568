"""The files of a store as they are listed, and one of them opened: nothing of a file is read before that.

Shelf        all files, by name; the stream that each belongs to, so that an offset finds its file
OpenFile     a file with its pages and how its rows are shown

What is searched for, as it is asked: small, for the screen that asks comes before anything is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Literal, get_args

from rocketfsck.cli.dump.item import KINDS, DumpFilter, DumpSource, Kind, load_kind
from rocketfsck.cli.dump.targets import Target, store_targets
from rocketfsck.store.model import Store, StoreFile
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Severity

if TYPE_CHECKING:
    from rocketfsck.cli.browse.model.pages import Pages

SearchKind = Literal["text", "key", "unique", "offset", "time"]
ASKED_KINDS: tuple[SearchKind, ...] = get_args(SearchKind)
HINTS: dict[SearchKind, str] = {
    "text": "text in UTF-8, or 0x and hex digits",
    "key": "a word of KEYS or a UNIQ_KEY",
    "unique": "a UNIQ_KEY",
    "offset": "4711 or 0x1267 · @BYTE of this file · TOPIC/QUEUE/QUEUE-OFFSET",
    "time": "2024-05-17T08:30:00 (UTC) or milliseconds",
}
NAMES: dict[SearchKind, str] = {kind: kind for kind in ASKED_KINDS} | {"unique": "unique key"}


@dataclass(frozen=True, slots=True)
class Question:
    """What is searched for. `topic` is for keys: "" asks every topic."""

    kind: SearchKind
    text: str
    topic: str = ""


SHOWN_BODY = DumpFilter(body="hex")
HIDDEN_BODY = DumpFilter()
MARKS = {Severity.INFO: "i", Severity.WARNING: "!", Severity.ERROR: "E"}


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A position in a file of the store: `name` as the shelf has it; `pos` in bytes, or a row's number."""

    name: str
    pos: int = 0


@dataclass(frozen=True, slots=True)
class FileRow:
    """One file as it is listed. `size` and `allocated_size` are in bytes, those of a database in all."""

    target: Target
    key: str
    size: int
    allocated_size: int

    @property
    def title(self) -> str:
        """What kind of file it is, in words."""
        return KINDS[self.target.kind][0]

    @property
    def stream(self) -> tuple[str, str | None, int | None]:
        """What the positions of this file and its neighbours count in."""
        return self.target.kind, self.target.topic, self.target.queue_id


@dataclass(slots=True)
class OpenFile:
    """An open file. `wanted` says whether bodies are shown."""

    row: FileRow
    source: DumpSource
    kind: Kind
    pages: Pages
    wanted: DumpFilter = field(default=HIDDEN_BODY)

    @property
    def end(self) -> int:
        """Behind the last position: the file's length, or more than any row's number."""
        return self.source.size if self.source.database is None else 1 << 62

    def close(self) -> None:
        self.source.reader.close()


class Shelf:
    """The files of an open store. Listing them reads no file."""

    def __init__(self, store: Store) -> None:
        self.store = store
        sizes: dict[str, StoreFile] = {str(file.path): file for file in store.all_files()}
        self.rows = tuple(self._rows(sizes))
        self.by_key = {row.key: number for number, row in enumerate(self.rows)}

    def _rows(self, sizes: dict[str, StoreFile]) -> Iterator[FileRow]:
        for target in store_targets(self.store):
            if target.database is not None:
                files = target.database.files
                size, allocated = sum(f.size for f in files), sum(f.allocated_size for f in files)
                yield FileRow(target, f"{target.name} {target.kind}", size, allocated)
                continue
            file = sizes.get(str(target.path))
            size, allocated = (0, 0) if file is None else (file.size, file.allocated_size)
            yield FileRow(target, target.name, size, allocated)

    def row(self, key: str) -> FileRow | None:
        """The file of that name."""
        number = self.by_key.get(key)
        return None if number is None else self.rows[number]

    @cached_property
    def streams(self) -> dict[tuple[str, str | None, int | None], tuple[FileRow, ...]]:
        """The files of each stream, in the order of the store."""
        grouped = sorted(self.rows, key=lambda row: (row.target.kind, row.target.topic or "", number_of(row)))
        return {
            stream: tuple(sorted(rows, key=lambda row: row.target.start_offset))
            for stream, rows in groupby(grouped, key=lambda row: row.stream)
        }

    def at(
        self, kind: str, offset: int, topic: str | None = None, queue_id: int | None = None
    ) -> FilePlace | None:
        """The place of an offset in a stream of files; None where no file holds it."""
        for row in reversed(self.streams.get((kind, topic, queue_id), ())):
            start = row.target.start_offset
            if start <= offset:
                return FilePlace(row.key, offset - start) if offset < start + row.size else None
        return None

    def log_place(self, offset: int) -> FilePlace | None:
        """The place of a physical offset, in the files of a plain log or of DLedger's."""
        return self.at("commitlog", offset) or self.at("dledger-data", offset)

    def following(self, row: FileRow, *, backward: bool = False) -> Iterator[FileRow]:
        """The other files of the same kind, from the next (or the one before) on, as they are listed."""
        number = self.by_key[row.key]
        others = self.rows[number + 1 :] if not backward else self.rows[:number][::-1]
        return (other for other in others if other.target.kind == row.target.kind)

    def open(self, row: FileRow) -> OpenFile:
        """A file, open for its pages. Raises StoreError where it cannot be opened."""
        from rocketfsck.cli.browse.model.pages import open_pages  # and NumPy: not for a list of files

        target = row.target
        wanted = HIDDEN_BODY
        kind = load_kind(target.kind, wanted)
        source = target.source(FileReader(target.opened_path))
        source = replace(source, property_parser=self.store.dialect.property_parser)
        return OpenFile(row, source, kind, open_pages(source, kind, wanted), wanted)

    def with_bodies(self, file: OpenFile, *, shown: bool) -> OpenFile:
        """The same open file with its bodies shown, or hidden."""
        from rocketfsck.cli.browse.model.pages import open_pages

        wanted = SHOWN_BODY if shown else HIDDEN_BODY
        pages = open_pages(file.source, file.kind, wanted)
        return OpenFile(file.row, file.source, file.kind, pages, wanted)


def number_of(row: FileRow) -> int:
    """The number of the queue that a file belongs to; -1 for none."""
    return -1 if row.target.queue_id is None else row.target.queue_id
