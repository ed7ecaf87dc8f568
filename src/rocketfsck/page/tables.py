"""The tables of a page's document: the map of files, the timeline, queues, groups and index files.

Columns of equal length, as `page.model` says; `timeline`, `queues` and `survey` fill them.

Tables of columns, made row by row, and texts that are safe to show.

How much of everything a page has at most: what it costs does not grow with the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, make_dataclass, replace
from typing import Any, Literal, TypeVar, cast, get_type_hints

from rocketfsck.common.documents import printable

T = TypeVar("T")


def columns(kind: type[T], rows: Iterable[Sequence[Any]]) -> T:
    """A dataclass of columns out of rows, whose values are in the order of its members."""
    names = [item.name for item in fields(kind)]  # type: ignore[arg-type]
    turned = list(zip(*rows, strict=True)) or [()] * len(names)
    return kind(**dict(zip(names, turned, strict=True)))


def columns_class(name: str, row: type) -> type:
    """A dataclass of columns for rows that are objects of the dataclass `row`."""
    hints, several = get_type_hints(row), cast(Any, tuple)
    members = [(item.name, several[hints[item.name], ...]) for item in fields(row)]
    return make_dataclass(name, members, frozen=True, slots=True)


def row_count(table: Any) -> int:
    """The number of rows of a dataclass of columns."""
    return len(getattr(table, fields(table)[0].name))


def runs_of(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Rising numbers as half-open ranges."""
    first = last = -1
    for row in rows:
        if row != last:
            if last > first:
                yield first, last
            first = row
        last = row + 1
    if last > first:
        yield first, last


def shown(text: str, limit: int) -> str:
    """A text as the page has it: printable, and not longer than `limit` characters."""
    found = text if text.isprintable() else printable(text)
    return found if len(found) <= limit else f"{found[: limit - 1]}…"


def all_shown(value: T, limit: int = 1 << 20) -> T:
    """A value with every text in it, however deep, as `shown` gives it."""
    found: Any = value
    if isinstance(value, str):
        found = shown(value, limit)
    elif is_dataclass(value) and not isinstance(value, type):
        found = replace(
            value, **{item.name: all_shown(getattr(value, item.name), limit) for item in fields(value)}
        )
    elif isinstance(value, Mapping):
        found = {all_shown(name, limit): all_shown(item, limit) for name, item in value.items()}
    elif isinstance(value, tuple):
        found = tuple(all_shown(item, limit) for item in value)
    return cast(T, found)


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers of rows. Beyond them, what is alike is put together and counted.

    `new_file_count` and `strip_count` are files that a plan brings, and strips that it changes.

    `span_count` spans are shared out evenly among the commit log files, each gets `file_span_count` at most.
    `topic_count` topics are drawn in time, each file counts `file_topic_count` by themselves.
    `file_finding_count` findings of one rule in one file are kept first, and then what is left room for.
    """

    file_count: int = 20_480
    new_file_count: int = 4096
    strip_count: int = 4096
    span_count: int = 12_288
    file_span_count: int = 512
    damage_count: int = 2048
    finding_count: int = 2000
    file_finding_count: int = 20
    by_file_count: int = 4096
    crowd_count: int = 4096
    file_crowd_count: int = 64
    window_count: int = 176
    window_size: int = 192
    bucket_count: int = 1024
    event_count: int = 1000
    gap_count: int = 100
    lost_count: int = 1024
    topic_count: int = 7
    topic_bucket_count: int = 96
    file_topic_count: int = 32
    retention_count: int = 128
    unconsumed_count: int = 100
    queue_count: int = 20_480
    position_count: int = 10_000
    index_count: int = 1024
    action_count: int = 500
    extent_count: int = 16
    range_count: int = 256
    start_file_count: int = 100
    unanswered_count: int = 100
    not_checked_count: int = 200
    text_size: int = 400

    @property
    def of_changes(self) -> Limits:
        """The limits of what is said a second time, as the plan leaves it."""
        return replace(
            self,
            position_count=self.position_count // 2,
            finding_count=self.finding_count // 5,
            by_file_count=self.by_file_count // 2,
            crowd_count=self.crowd_count // 8,
        )


DEFAULT = Limits()


Family = Literal["commitlog", "consumequeue", "consumequeue-ext", "index", "config", "other", "missing"]
"""The families of files: `other` are those that are listed and not walked, `missing` those that only findings
or repairs name."""

SpanKind = Literal[
    "records", "blank", "filler", "zero", "malformed", "damaged", "torn", "stale", "units", "header", "slots",
    "entries", "mixed", "unread",
]  # fmt: skip
"""What the bytes of a span are. `mixed` spans are several regions in one, `unread` bytes were not looked
at."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many of something there are, and how many of them this document has."""

    count: int
    kept_count: int


@dataclass(frozen=True, slots=True)
class Files:
    """The files of the map, a row each, in the order of the store.

    A row with `file_count` above 1 stands for the files of one directory together, whose sizes are summed up.
    The path of a file is `directories[directory]`, a slash where that is not "", and `name`; an empty `name`
    is `start_offset` as 20 digits. `start_offset` is the place of the first byte in the stream of the file,
    -1 without one. `allocated_size` are the bytes on the disk. `family` is a row of
    `Map.families`, `queue` one of `queues`. `first_span` is
    the first of the file's rows in `spans`: they go up to the `first_span` of the next file.
    """

    directory: tuple[int, ...]
    name: tuple[str, ...]
    family: tuple[int, ...]
    file_count: tuple[int, ...]
    size: tuple[int, ...]
    allocated_size: tuple[int, ...]
    start_offset: tuple[int, ...]
    queue: tuple[int, ...]
    first_span: tuple[int, ...]
    first_timestamp: tuple[int | None, ...]
    last_timestamp: tuple[int | None, ...]
    record_count: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Spans:
    """The strips of all files. A span begins at `start` in its file and ends where the next one begins, the
    last one of a file with the file. `kind` is a row of `Map.kinds`.

    `record_count` counts sound records (units, entries) in the span, `region_count` the regions that it is
    made of, `bad_byte_count` its bytes that belong to no sound record and should.
    """

    start: tuple[int, ...]
    kind: tuple[int, ...]
    record_count: tuple[int, ...]
    region_count: tuple[int, ...]
    bad_byte_count: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Totals:
    """Exact bytes of each commit log file by kind of region, whatever the spans leave out."""

    file: tuple[int, ...]
    kind: tuple[int, ...]
    region_count: tuple[int, ...]
    byte_count: tuple[int, ...]
    record_count: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DamageColumns:
    """Regions of the commit log that are not sound records and should be, exact, the first of the store."""

    file: tuple[int, ...]
    start: tuple[int, ...]
    end: tuple[int, ...]
    kind: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Map:
    """The map of the store. `is_walked`: spans were read off the files, not only sizes from a report."""

    is_walked: bool
    families: tuple[Family, ...]
    kinds: tuple[SpanKind, ...]
    directories: tuple[str, ...]
    files: Files
    spans: Spans
    totals: Totals
    damage: DamageColumns
    damage_counts: Counts


@dataclass(frozen=True, slots=True)
class Buckets:
    """Messages by the time of storing: `timestamp` is where a bucket begins, and `step_ms` how long each is.
    Only buckets with messages have a row."""

    timestamp: tuple[int, ...]
    message_count: tuple[int, ...]
    byte_count: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Events:
    """Events in the order of time, as `rocketfsck timeline` lists them. `file` is a row of `map.files`."""

    timestamp: tuple[int, ...]
    kind: tuple[str, ...]
    message: tuple[str, ...]
    file: tuple[int, ...]
    physical_offset: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class LostTimes:
    """Damage of the commit log in time: `byte_count` bytes are damaged at `start` of a file, between messages
    that were stored at `first_timestamp` and `last_timestamp`."""

    first_timestamp: tuple[int, ...]
    last_timestamp: tuple[int, ...]
    file: tuple[int, ...]
    start: tuple[int, ...]
    byte_count: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicTimeRows:
    """Messages of a topic in a bucket of time, the number of which is `bucket`: `topic` is a row of
    `Page.topics`, -1 for all other topics together. Only buckets with messages have a row."""

    topic: tuple[int, ...]
    bucket: tuple[int, ...]
    message_count: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicTimes:
    """Messages of the largest topics by the time of storing, as far as they could be read, in buckets of
    `step_ms`, the first of which begins at `first_timestamp` (None: no messages).

    `undated_count` messages have a time that is not a date, and are in no row. `mixed_count` messages of the
    topics that have rows are not in these, but with the other topics or undated. `unread_file_count` files of
    the log could not be read."""

    step_ms: int
    first_timestamp: int | None
    rows: TopicTimeRows
    mixed_count: int
    undated_count: int
    unread_file_count: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The store in time. `first_timestamp:last_timestamp` is where nearly all messages are: clocks that were
    wrong put a few elsewhere. `event_counts` says how many events there are."""

    step_ms: int
    first_timestamp: int | None
    last_timestamp: int | None
    buckets: Buckets
    events: Events
    event_counts: Counts
    lost: LostTimes
    topics: TopicTimes


@dataclass(frozen=True, slots=True)
class RetentionSteps:
    """Commit log files that a broker deletes at one time, with the physical offsets that they have, in the
    order of the log. `delete_timestamp` is None for files that are never deleted by their age, `is_deleted`
    is false for the last file, which stays."""

    start_offset: tuple[int, ...]
    end_offset: tuple[int, ...]
    file_count: tuple[int, ...]
    byte_count: tuple[int, ...]
    delete_timestamp: tuple[int | None, ...]
    is_deleted: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class UnconsumedRows:
    """Messages of a topic that a group has not consumed, in files that are deleted: the first of them go at
    `delete_timestamp`. The soonest come first."""

    group: tuple[str, ...]
    topic: tuple[str, ...]
    message_count: tuple[int, ...]
    delete_timestamp: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class RetentionSaid:
    """What retention takes by age: files unchanged for `reserved_hours` (fileReservedTime), in the hours of
    deleteWhen in a time zone, of a broker that runs from `now_timestamp` on. `growth_per_day` (bytes) is None
    where the log does not tell it. `problem` says why nothing is known of groups, "" where it is."""

    reserved_hours: int
    delete_hours: tuple[int, ...]
    time_zone: str
    now_timestamp: int
    growth_per_day: int | None
    steps: RetentionSteps
    step_counts: Counts
    unconsumed: UnconsumedRows
    unconsumed_counts: Counts
    problem: str


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics, by name; what is counted: messages and bytes of records in the commit log."""

    topic: tuple[str, ...]
    queue_count: tuple[int, ...]
    message_count: tuple[int, ...]
    byte_count: tuple[int, ...]
    first_timestamp: tuple[int | None, ...]
    last_timestamp: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class QueueColumns:
    """The queues. `topic` is a row of `topics`. `min_offset:max_offset` are the queue offsets that the units
    on disk have, `log_min_offset:log_max_offset` those of the records in the commit log (None: no units, no
    records). `gap_count` counts findings about missing queue offsets or units, `finding_count` all. `lag` is
    the largest of the groups', None without a group."""

    topic: tuple[int, ...]
    queue_id: tuple[int, ...]
    min_offset: tuple[int | None, ...]
    max_offset: tuple[int | None, ...]
    log_min_offset: tuple[int | None, ...]
    log_max_offset: tuple[int | None, ...]
    message_count: tuple[int | None, ...]
    gap_count: tuple[int, ...]
    finding_count: tuple[int, ...]
    lag: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Groups:
    """Where consumer groups are, largest lag first: `offset` is the queue offset that the group consumes
    next. `queue` is a row of `queues`, `group` one of `Page.groups`."""

    group: tuple[int, ...]
    queue: tuple[int, ...]
    offset: tuple[int, ...]
    lag: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Indexes:
    """The index files. `file` is a row of `map.files`. `chain_counts` has, at place n, how many slots have a
    chain of 2^(n-1) < length <= 2^n entries: the first number counts chains of one entry. `lost_entry_count`
    are entries that findings say no query finds."""

    file: tuple[int, ...]
    slot_count: tuple[int, ...]
    used_slot_count: tuple[int, ...]
    entry_count: tuple[int, ...]
    used_entry_count: tuple[int, ...]
    longest_chain: tuple[int, ...]
    chain_counts: tuple[tuple[int, ...], ...]
    lost_entry_count: tuple[int, ...]
    begin_timestamp: tuple[int, ...]
    end_timestamp: tuple[int, ...]
    begin_physical_offset: tuple[int, ...]
    end_physical_offset: tuple[int, ...]
