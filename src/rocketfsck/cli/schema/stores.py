"""What `info`, `count`, `dump`, `query` and `explain` say of stores, as types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from rocketfsck.cli.commands.count import COLUMNS as COUNT_COLUMNS
from rocketfsck.cli.dump.item import KINDS, load_kind
from rocketfsck.cli.dump.source import DumpFilter
from rocketfsck.cli.output import BodyForm
from rocketfsck.cli.query.found import found_columns
from rocketfsck.cli.schema.making import maybe, members_of, record, row
from rocketfsck.commands.explain import Explained
from rocketfsck.common.rows import columns_of
from rocketfsck.formats.checkpoint import CHECKPOINT
from rocketfsck.formats.indexfile import HEADER
from rocketfsck.formats.layout import Layout
from rocketfsck.formats.names import shown_name
from rocketfsck.formats.timer import TIMER_CHECK
from rocketfsck.query.answers import Dispatched, IndexStep, Lead, Outcome, ScanStep
from rocketfsck.query.asof import QueueThen
from rocketfsck.query.evidence import TextEvidence
from rocketfsck.query.info.model import FileInfo, StoreInfo
from rocketfsck.query.info.statistics import StatisticsInfo
from rocketfsck.query.life import IndexPlace, LifeEvent
from rocketfsck.query.offsets import GROUP_COUNTS, GroupOffsets, QueueOffsets
from rocketfsck.query.places import TimeAnswer
from rocketfsck.query.retention import DiskLevel, FileRetention, UnconsumedMessages
from rocketfsck.query.serving.pulls import PullAnswer
from rocketfsck.query.timers import TimedMessage


def _fields(layout: Layout) -> dict[str, Any]:
    return {shown_name(item.name): maybe(int) for item in layout.fields}


@dataclass
class _DocumentHead:
    schema_version: int
    kind: str


def info_store() -> Any:
    """The document of `info STORE`."""
    return record(
        "InfoStore",
        _DocumentHead,
        StoreInfo,
        kind=Literal["rocketfsck.info.store"],
        statistics=maybe(StatisticsInfo),
    )


def info_file() -> Any:
    """The document of `info FILE`: what is inside has names of the layout."""
    inside = ("unit_count", "min_offset", "max_offset", "used_entry_count")
    layouts = (HEADER, CHECKPOINT, TIMER_CHECK)
    fields = {name: kind for layout in layouts for name, kind in _fields(layout).items()}
    return record(
        "InfoFile",
        _DocumentHead,
        FileInfo,
        kind=Literal["rocketfsck.info.file"],
        **dict.fromkeys(inside, maybe(int)),
        first_store_timestamp=maybe(int | None),
        **fields,
    )


def _table(kind: str, rows: Any, **head: Any) -> Any:
    """A document of rows, or a line of it."""
    whole = {"schema_version": int, "kind": Literal[f"rocketfsck.{kind}"], **head}
    return record(f"{kind} table", **whole, rows=maybe(list[rows]))


def count() -> Any:
    """The document of `count`."""
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
    return _table("count", row("Counts", COUNT_COLUMNS), **counts, failed=list[failed], keys=keys | None)


def explain() -> Any:
    """The document of `explain`."""
    return _table("explain", row("Explained", columns_of(Explained)))


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


def find() -> Any:
    """The document of `find`: what a text is, each with its messages."""
    members = members_of(TextEvidence).items()
    said = {name: maybe(kind) for name, kind in members if name not in ("found", "command")}
    rows = _message(note=maybe(str), **said | {"command": maybe(str | None)})
    return _table("find", rows, outcome=Outcome, text=str)


def query_timers() -> Any:
    """The document of `query timers`: units of the timer log that wait, and their messages."""
    return _table("query.timers", record("Timer", **members_of(TimedMessage), kind=str), outcome=Outcome)


def query_offsets() -> Any:
    """The document of `query offsets`: queues and groups."""
    both = members_of(QueueOffsets) | members_of(GroupOffsets) | {"kind": str}
    more = dict.fromkeys(("count", *GROUP_COUNTS), maybe(int | None))
    rows = record(
        "Offsets", **{name: maybe(kind) for name, kind in both.items()}, queue_kind=maybe(str), **more
    )
    return _table("query.offsets", rows, outcome=Outcome, why=str | None)


def query_as_of() -> Any:
    """The document of `query as-of`: the queues of then."""
    rows = record("QueueThen", **members_of(QueueThen), count=int)
    return _table(
        "query.as-of",
        rows,
        outcome=Outcome,
        timestamp=int,
        start_offset=int,
        end_offset=int,
        next_timestamp=int | None,
    )


def query_retention() -> Any:
    """The document of `query retention`: files, groups that lose messages, and how far the disk is used."""
    parts = (members_of(kind) for kind in (FileRetention, UnconsumedMessages, DiskLevel))
    members = {name: maybe(kind) for part in parts for name, kind in part.items()}
    members["delete_timestamp"] = maybe(int | None)
    return _table(
        "query.retention",
        record("Retention", **members, kind=str),
        outcome=Outcome,
        why=str | None,
        reserved_hours=int,
        delete_hours=list[int],
        max_used_percent=int,
        time_zone=str,
        now_timestamp=int,
        growth_per_day=int | None,
    )
