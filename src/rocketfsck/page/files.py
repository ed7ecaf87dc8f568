"""The files of the map and their strips."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from rocketfsck.formats.indexfile import INDEX_HEADER_SIZE, entry_pos
from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.page import tables
from rocketfsck.page.survey import KINDS, NUMBER_OF, IndexSurvey, LogSurvey, Span
from rocketfsck.store.model import ConsumeQueue, Store, StoreFile
from rocketfsck.verify.tasks.task import QueueFacts, RegionTotal

FAMILIES: tuple[tables.Family, ...] = get_args(tables.Family)
_PATH_LIMIT = 400


@dataclass(slots=True)
class Row:
    """A row of `page.model.Files`, before its spans are put in order. A row that no longer stands for a file
    has a `file_count` of -1."""

    directory: int
    name: str
    family: tables.Family
    file_count: int
    size: int
    allocated_size: int
    start_offset: int
    queue: int
    spans: tuple[Span, ...]
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    record_count: int | None = None

    def without_file(self) -> Row:
        """The row of a file that is not there any more."""
        return replace(
            self,
            file_count=-1,
            size=0,
            allocated_size=0,
            spans=(),
            first_timestamp=None,
            last_timestamp=None,
            record_count=None,
        )

    def cells(self, first_span: int) -> tuple[int | str | None, ...]:
        """The row in the order of `page.tables.Files`."""
        return (
            self.directory,
            self.name,
            FAMILIES.index(self.family),
            max(self.file_count, 1) if self.file_count >= 0 else 0,
            self.size,
            self.allocated_size,
            self.start_offset,
            self.queue,
            first_span,
            self.first_timestamp,
            self.last_timestamp,
            self.record_count,
        )


@dataclass(slots=True)
class FileTable:
    """The rows of files, and where each path is. A path that the store does not have gets a row, too."""

    rows: list[Row] = field(default_factory=list)
    directories: dict[str, int] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    together: bool = False
    """Whether the files of a queue share a row."""
    most: int = sys.maxsize
    """How many rows there may be; what has no row then counts as the store's."""

    def add(self, relative: str, family: tables.Family, files: Sequence[StoreFile], queue: int = -1) -> int:
        """A row for a file, or for several of one directory; its number."""
        self.rows.append(self._row(relative, family, files, queue))
        return self._placed(len(self.rows) - 1, relative, files)

    def put(
        self, number: int, relative: str, family: tables.Family, files: Sequence[StoreFile], queue: int = -1
    ) -> int:
        """The same in a row that is there."""
        self.rows[number] = self._row(relative, family, files, queue)
        return self._placed(number, relative, files)

    def _placed(self, number: int, relative: str, files: Sequence[StoreFile]) -> int:
        for file in files:
            self.places[file.relative] = number
        self.places.setdefault(relative, number)
        return number

    def _row(self, relative: str, family: tables.Family, files: Sequence[StoreFile], queue: int) -> Row:
        directory, _, name = relative.rpartition("/")
        start = getattr(files[0], "start_offset", None) if files else None
        start_offset = -1 if start is None else start
        together = len(files) > 1
        if together:
            directory, name = relative, ""
        elif name == offset_to_filename(start_offset):
            name = ""
        size = sum(file.size for file in files)
        return Row(
            self.directories.setdefault(directory, len(self.directories)),
            tables.shown(name, _PATH_LIMIT),
            family,
            len(files),
            size,
            sum(file.allocated_size for file in files),
            start_offset,
            queue,
            (Span.of(0, size, "unread"),) if size else (),
        )

    def place(self, relative: str) -> int:
        """The row of a path; -1 for the store as a whole, and where there are too many rows."""
        if not relative:
            return -1
        known = self.places.get(relative)
        if known is None:
            return self.add(relative, "missing", ()) if len(self.rows) < self.most else -1
        return known

    def known(self, relative: str) -> int:
        """The row of a path, -1 where there is none."""
        return self.places.get(relative, -1)


def file_table(store: Store, queue_rows: Mapping[tuple[str, int], int], limits: tables.Limits) -> FileTable:
    """All files of a store; those of a queue together where there are too many."""
    table = FileTable()
    room = limits.file_count - len(store.commitlog.files) - len(store.indexes)
    table.together = sum(len(queue.files) for queue in store.queues) > room
    for relative, family, files, queue in _rows_of(store, queue_rows, together=table.together):
        if family == "commitlog" or len(table.rows) < limits.file_count:
            table.add(relative, family, files, queue)
    return table


def later_table(
    table: FileTable, store: Store, queue_rows: Mapping[tuple[str, int], int], limits: tables.Limits
) -> FileTable:
    """The files of a later state of the store in the rows of `table`; files that are new follow them."""
    room = len(table.rows) + limits.new_file_count
    later = FileTable(
        [replace(row) if row.family == "missing" else row.without_file() for row in table.rows],
        dict(table.directories),
        dict(table.places),
        table.together,
        room,
    )
    for relative, family, files, queue in _rows_of(store, queue_rows, together=table.together):
        known = table.known(relative)
        if known >= 0:
            later.put(known, relative, family, files, queue)
            later.rows[known].allocated_size = table.rows[known].allocated_size
        elif len(later.rows) < room:
            later.add(relative, family, files, queue)
    return later


def _rows_of(
    store: Store, queue_rows: Mapping[tuple[str, int], int], *, together: bool
) -> Iterator[tuple[str, tables.Family, Sequence[StoreFile], int]]:
    """The path, family and files of each row, and the row of its queue; each path once."""
    for log in store.commitlog.files:
        yield log.relative, "commitlog", [log], -1
    for queue in store.queues:
        row = queue_rows.get((queue.topic, queue.queue_id), -1)
        for files in [queue.files] if together and queue.files else [[file] for file in queue.files]:
            relative = files[0].relative
            if len(files) > 1:
                relative = relative.rpartition("/")[0]
            yield relative, "consumequeue", files, row
    seen = {file.relative for file in store.commitlog.files}
    seen |= {file.relative for queue in store.queues for file in queue.files}
    for family, other in _other_files(store):
        if other.relative not in seen:
            seen.add(other.relative)
            yield other.relative, family, [other], -1


def _other_files(store: Store) -> Iterator[tuple[tables.Family, StoreFile]]:
    for index in store.indexes:
        yield "index", index
    for single in (store.checkpoint, store.abort, store.lock, *store.configs):
        if single is not None:
            yield "config", single
    for ext in store.ext_queues:
        yield from (("consumequeue-ext", file) for file in ext.files)
    for other in store.others:
        yield from (("other", file) for file in other.files)


def put_log(table: FileTable, store: Store, surveys: Sequence[LogSurvey | None]) -> None:
    """The strips of the commit log files."""
    for file, survey in zip(store.commitlog.files, surveys, strict=True):
        if survey is not None and not survey.error:
            row = table.rows[table.places[file.relative]]
            row.spans = survey.spans
            row.first_timestamp, row.last_timestamp = survey.first_timestamp, survey.last_timestamp
            row.record_count = survey.record_count


def put_queues(
    table: FileTable, queues: Sequence[ConsumeQueue], facts: Mapping[tuple[str, int], QueueFacts]
) -> None:
    """The strips of consume queue files: units up to the queue's end, and what is behind."""
    for queue in queues:
        fact = facts.get((queue.topic, queue.queue_id))
        if fact is None or queue.kind != "file":
            continue
        start = queue.files[0].start_offset or 0 if queue.files else 0
        for file in queue.files:
            number = table.known(file.relative)
            if number < 0:
                continue
            row = table.rows[number]
            begin = start if row.file_count > 1 else file.start_offset or 0
            end = min(max(fact.max_offset * queue.unit_size - begin, 0), row.size)
            units = Span.of(0, end, "units", end // queue.unit_size)
            spans = (units, Span.of(end, row.size, "zero"))
            row.spans = tuple(span for span in spans if span.end > span.start)


def put_indexes(table: FileTable, store: Store, surveys: Sequence[IndexSurvey | None]) -> None:
    """The strips of index files: header, slots, entries in use, and the rest."""
    for file, survey in zip(store.indexes, surveys, strict=True):
        number = table.known(file.relative)
        if survey is None or survey.error or number < 0:
            continue
        ends = (
            INDEX_HEADER_SIZE,
            entry_pos(0, survey.slot_count),
            entry_pos(survey.used_entry_count + 1, survey.slot_count),
            file.size,
        )
        counts = (0, survey.used_slot_count, survey.used_entry_count, 0)
        spans, start = [], 0
        for end, kind, count in zip(ends, ("header", "slots", "entries", "zero"), counts, strict=True):
            if start < min(end, file.size):
                spans.append(Span.of(start, min(end, file.size), kind, count))  # type: ignore[arg-type]
                start = min(end, file.size)
        table.rows[number].spans = tuple(spans)


def map_of(
    table: FileTable,
    regions: Mapping[str, tuple[RegionTotal, ...]],
    surveys: Sequence[LogSurvey | None],
    places: Sequence[int],
    limits: tables.Limits,
    *,
    is_walked: bool,
) -> tables.Map:
    """The map; `places` are the rows of the surveys' files, `regions` the report's exact totals."""
    files, spans = columns_of(table.rows)
    totals = [
        (table.known(file), NUMBER_OF[total.kind], total.region_count, total.byte_count, total.record_count)
        for file, found in regions.items()
        if table.known(file) >= 0
        for total in found
        if total.kind in NUMBER_OF
    ]
    return tables.Map(
        is_walked,
        FAMILIES,
        KINDS,
        tuple(tables.shown(directory, _PATH_LIMIT) for directory in table.directories),
        files,
        spans,
        tables.columns(tables.Totals, totals),
        *damage_of(surveys, places, limits),
    )


def columns_of(rows: Iterable[Row]) -> tuple[tables.Files, tables.Spans]:
    """Rows of files and their strips as columns."""
    first, cells, spans = 0, [], []
    for row in rows:
        cells.append(row.cells(first))
        first += len(row.spans)
        spans += [
            (span.start, NUMBER_OF[span.kind], span.record_count, span.region_count, span.bad_byte_count)
            for span in row.spans
        ]
    return tables.columns(tables.Files, cells), tables.columns(tables.Spans, spans)


def damage_of(
    surveys: Sequence[LogSurvey | None], places: Sequence[int], limits: tables.Limits
) -> tuple[tables.DamageColumns, tables.Counts]:
    """Damaged regions of the commit log, the first ones, and how many there are."""
    bad = [
        (place, one.span.start, one.span.end, NUMBER_OF[one.span.kind])
        for survey, place in zip(surveys, places, strict=True)
        if survey is not None
        for one in survey.bad
    ][: limits.damage_count]
    count = sum(survey.bad_count for survey in surveys if survey is not None)
    return tables.columns(tables.DamageColumns, bad), tables.Counts(count, len(bad))
