"""What `info`, `report`, `dump`, `query` and `explain` say of stores, as types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict, get_args

from rocketfsck.cli.bodies import BodyForm
from rocketfsck.cli.commands.explain import COLUMNS as EXPLAIN_COLUMNS
from rocketfsck.cli.commands.report import COLUMNS as REPORT_COLUMNS
from rocketfsck.cli.dump.kinds import KINDS, load_kind
from rocketfsck.cli.dump.source import DumpFilter
from rocketfsck.cli.query.found import found_columns
from rocketfsck.cli.schema.making import maybe, members_of, record, row, said
from rocketfsck.formats.checkpoint import CHECKPOINT
from rocketfsck.formats.indexfile import HEADER
from rocketfsck.formats.layout import Layout
from rocketfsck.formats.names import shown_name
from rocketfsck.formats.timer import TIMER_CHECK
from rocketfsck.query.answers import Lead, Outcome, UnitState
from rocketfsck.query.counts.counting import Tally
from rocketfsck.query.life import IndexPlace, LifeEvent
from rocketfsck.query.offsets import GroupOffsets, QueueOffsets
from rocketfsck.query.places import TimeAnswer
from rocketfsck.query.serving.pulls import PullAnswer
from rocketfsck.query.timers import TimedMessage
from rocketfsck.query.trace import IndexStep, ScanStep


@said
class WhatWhy(TypedDict):
    what: str
    why: str


@said
class WrittenBy(TypedDict):
    dialect: str
    versions: list[str]
    given: bool
    conflict: bool | str | None
    known_from: list[WhatWhy]


@said
class Size(TypedDict):
    value: int
    source: Literal["given", "inferred", "default"]
    note: str | None


@said
class Live(TypedDict):
    state: str
    how: str
    pid: int | None
    command: str | None


@said
class Abort(TypedDict):
    present: bool
    pid: int | None
    error: NotRequired[str]


@said
class LogFile(TypedDict):
    file: str
    start_offset: int | None
    size: int
    allocated_size: int
    first_store_timestamp: int | None
    error: NotRequired[str]


@said
class Log(TypedDict):
    directories: list[str]
    file_size: int
    start_offset: int | None
    end_offset: int | None
    dispatched_end_offset: int | None
    files: list[LogFile]


@said
class Files(TypedDict):
    file_count: int
    byte_count: int
    allocated_byte_count: int


@said
class Queue(Files):
    topic: str
    queue_id: int
    kind: str
    min_offset: int | None
    max_offset: int | None
    physical_end_offset: int | None
    error: NotRequired[str]


@said
class ExtQueue(TypedDict):
    topic: str
    queue_id: int
    orphan: bool
    files: Files


@said
class Config(TypedDict):
    file: str
    size: int


@said
class Other(Files):
    kind: str
    file: str
    topic: str | None
    queue_id: int | None
    families: NotRequired[dict[str, int] | None]
    estimated: NotRequired[bool]
    error: NotRequired[str]


@said
class Stray(TypedDict):
    file: str
    reason: str
    size: int
    detail: str | None


Chains = TypedDict("Chains", {"from": int, "to": int, "slot_count": int})


@said
class HotKey(TypedDict):
    key_hash: int
    entry_count: int
    topic: str | None
    key: str | None


@said
class Skew(TypedDict):
    file: str
    slot_count: NotRequired[int]
    entry_count: NotRequired[int]
    used_slot_count: NotRequired[int]
    expected_used_slot_count: NotRequired[int]
    longest_chain: NotRequired[int]
    longest_chain_slot: NotRequired[int | None]
    chain_lengths: NotRequired[list[Chains]]
    hot_key: NotRequired[HotKey | None]
    error: NotRequired[str]


@said
class Retention(TypedDict):
    reserved_hours: int
    reserved_source: Literal["given", "default"]
    now_timestamp: int
    expired_file_count: int
    expired_byte_count: int


@said
class Dispatched(TypedDict):
    topic: str
    queue_id: int
    queue_offset: int
    state: UnitState


def _fields(layout: Layout) -> dict[str, Any]:
    return {shown_name(item.name): maybe(int) for item in layout.fields}


def info_store() -> Any:
    """The document of `info STORE`."""
    counted = dict.fromkeys(("queue_id", "min_offset", "max_offset"), int)
    statistics = record(
        "Statistics",
        total=Tally | None,
        topics=list[record("TopicTally", Tally, topic=str)],  # type: ignore[misc]
        queues=list[record("QueueTally", Tally, topic=str, **counted)],  # type: ignore[misc]
        days=list[record("DayTally", Tally, day=str | None)],  # type: ignore[misc]
        uncounted_queues=int,
        retention=Retention,
        indexes=list[Skew],
    )
    sizes = dict.fromkeys(("size", "allocated_size"), int)
    used = {"used_entry_count": maybe(int), "error": maybe(str)}
    names = dict.fromkeys(("cluster", "broker_name"), maybe(str))
    state = {"node": maybe(str), **dict.fromkeys(("group", "voted_for"), maybe(str | None))}
    state |= dict.fromkeys(("current_term", "committed_index"), maybe(int | None))
    index = record("IndexFile", file=str, **sizes, **_fields(HEADER), **used)
    return record(
        "InfoStore",
        schema_version=int,
        kind=Literal["rocketfsck.info.store"],
        root=str,
        written_by=WrittenBy,
        notes=list[WhatWhy],
        geometry=Mapping[str, Size],
        live=Live,
        abort=Abort,
        checkpoint=record("CheckpointFields", **_fields(CHECKPOINT), error=maybe(str)) | None,
        identity=record("Identity", file=str, **names, broker_id=maybe(int), error=maybe(str)) | None,
        dledger=record("Node", **state, error=maybe(str)) | None,
        commitlog=Log,
        queues=list[Queue],
        ext_queues=list[ExtQueue],
        indexes=list[index],  # type: ignore[valid-type]
        configs=list[Config],
        others=list[Other],
        strays=list[Stray],
        statistics=maybe(statistics),
    )


def info_file() -> Any:
    """The document of `info FILE`."""
    numbers = ("start_offset", "file_size", "queue_id", "slot_count", "entry_count", "used_entry_count")
    inside = ("unit_count", "min_offset", "max_offset")
    return record(
        "InfoFile",
        schema_version=int,
        kind=Literal["rocketfsck.info.file"],
        path=str,
        file_kind=str,
        how=str,
        size=int,
        allocated_size=int,
        topic=maybe(str),
        first_store_timestamp=maybe(int | None),
        error=maybe(str),
        **dict.fromkeys((*numbers, *inside), maybe(int)),
        **{
            name: kind
            for layout in (HEADER, CHECKPOINT, TIMER_CHECK)
            for name, kind in _fields(layout).items()
        },
    )


def _table(kind: str, rows: Any, **head: Any) -> Any:
    """A document of rows, or a line of it."""
    whole = {"schema_version": int, "kind": Literal[f"rocketfsck.{kind}"], **head}
    return record(f"{kind} table", **whole, rows=maybe(list[rows]))


def report() -> Any:
    """The document of `report`."""
    keys = record(
        "Keys",
        word_count=int,
        distinct_words_estimate=int,
        distinct_unique_estimate=int,
        missed=int,
        is_complete=bool,
    )
    counts = dict.fromkeys(("uncounted_queues", "uncounted_days"), int)
    failed: Any = record("FailedStore", broker=str, error=str)
    return _table("report", row("Counts", REPORT_COLUMNS), **counts, failed=list[failed], keys=keys | None)


def explain() -> Any:
    """The document of `explain`."""
    return _table("explain", row("Explained", EXPLAIN_COLUMNS))


def dump() -> Any:
    """The document of `dump`: the columns of all kinds of files."""
    kinds = [load_kind(name, DumpFilter()) for name in KINDS]
    kinds += [load_kind("commitlog", DumpFilter(body=body)) for body in get_args(BodyForm)]
    columns = dict.fromkeys(column for kind in kinds for column in kind.columns)
    content = maybe(Any)  # of a config file what is in it, of a text file its text
    return _table("dump", row("Item", columns, content=content), paths=list[str])


def _message(**members: Any) -> type:
    columns = dict.fromkeys(column for body in get_args(BodyForm) for column in found_columns(body))
    found = {"via": maybe(list[str]), "queues": maybe(list[Dispatched])}
    return row("Message", columns, kind=str, **found, **members)


def query_messages(name: str) -> Any:
    """The document of a query that finds messages."""
    trace = record(
        "Trace",
        key=str | None,
        key_hash=int | None,
        notes=list[str],
        index=list[IndexStep],
        scans=list[ScanStep],
    )
    return _table(
        f"query.{name}",
        _message(),
        outcome=Outcome,
        why=str | None,
        complete=bool,
        hidden=list[int],
        leads=list[Lead],
        pull=maybe(PullAnswer),
        trace=maybe(trace),
    )


def query_scan() -> Any:
    """The document of `query scan`: messages, and whose content could not be read."""
    return _table("query.scan", _message(reason=maybe(str), message_count=maybe(int)), expression=str)


def query_time() -> Any:
    """The document of `query time`, of the files or of a broker."""
    answer = {name: maybe(kind) for name, kind in members_of(TimeAnswer).items()}
    return _table(
        "query.time", Any, **answer, **dict.fromkeys(("broker", "state"), maybe(str)), offset=maybe(int)
    )


def query_life() -> Any:
    """The document of `query life`: the records of a message, and what happened."""
    members = members_of(LifeEvent).items()
    event = {name: maybe(kind) for name, kind in members if name not in ("kind", "offset")}
    rows = _message(event=maybe(str), note=maybe(str), index=maybe(list[IndexPlace]), **event)
    outcome = {"outcome": Outcome, "why": str | None, "complete": bool, "unique_key": str | None}
    return _table("query.life", rows, **outcome)


def query_timers() -> Any:
    """The document of `query timers`: units of the timer log that wait, and their messages."""
    return _table("query.timers", record("Timer", **members_of(TimedMessage), kind=str), outcome=Outcome)


def query_offsets() -> Any:
    """The document of `query offsets`: queues and groups."""
    both = members_of(QueueOffsets) | members_of(GroupOffsets) | {"kind": str}
    more = dict.fromkeys(("count", "lag", "lost_count"), maybe(int))
    rows = record(
        "Offsets", **{name: maybe(kind) for name, kind in both.items()}, queue_kind=maybe(str), **more
    )
    return _table("query.offsets", rows, outcome=Outcome, why=str | None)
