"""What `check`, `simulate`, `compare` and all that repairs, writes and damages say, as types.

What `info`, `count`, `dump`, `query` and `explain` say of stores, as types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict, get_args

from rocketfsck.cli.commands.info import COLUMNS as COUNT_COLUMNS
from rocketfsck.cli.commands.simulate import COLUMNS as TIMELINE_COLUMNS
from rocketfsck.cli.dump.item import KINDS, DumpFilter, load_kind
from rocketfsck.cli.output import BodyForm
from rocketfsck.cli.query.found import found_columns
from rocketfsck.cli.schema.making import chosen, maybe, members_of, record, row
from rocketfsck.commands.explain import Explained
from rocketfsck.common.rows import columns_of
from rocketfsck.engine.passes import Pass
from rocketfsck.errors import Outcome
from rocketfsck.formats import checkpoint, indexfile, timer
from rocketfsck.formats.layout import Layout, shown_name
from rocketfsck.pipeline.export.model import DeletedRange
from rocketfsck.query.answers import Dispatched, IndexStep, Lead, ScanStep
from rocketfsck.query.answers import Outcome as QueryOutcome
from rocketfsck.query.evidence import TextEvidence
from rocketfsck.query.info.model import FileInfo, StoreInfo
from rocketfsck.query.info.statistics import StatisticsInfo
from rocketfsck.query.life import IndexPlace, LifeEvent
from rocketfsck.query.offsets import GROUP_COUNTS, GroupOffsets, QueueOffsets, QueueThen
from rocketfsck.query.places import TimeAnswer
from rocketfsck.query.retention import DiskLevel, FileRetention, UnconsumedMessages
from rocketfsck.query.serving.pulls import PullAnswer
from rocketfsck.query.start.model import Start
from rocketfsck.query.start.verdict import StartVerdict
from rocketfsck.query.timers import TimedMessage
from rocketfsck.repair.apply.results import ApplyReport, UndoReport
from rocketfsck.repair.build.run import Rebuilt
from rocketfsck.repair.compare.compare import ComparisonDocument
from rocketfsck.repair.convert.model import ConvertDocument, ExtractDocument
from rocketfsck.repair.plan.model import Action, Assumption, Plan
from rocketfsck.repair.repairs import ALL
from rocketfsck.repair.salvage.ledger import QueueAccount, SalvageHead
from rocketfsck.repair.salvage.salvage import SalvageDocument
from rocketfsck.repair.verdict import Verdict
from rocketfsck.store.circumstances import GEOMETRY_DEFAULTS
from rocketfsck.verify.finding import Facts, SeverityName, Where
from rocketfsck.verify.report import Coverage, Report
from rocketfsck.writer.damage.job import Damage
from rocketfsck.writer.damage.model import Act, Promise
from rocketfsck.writer.manifest import WriteManifest


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
    layouts = (indexfile.HEADER, checkpoint.CHECKPOINT, timer.TIMER_CHECK)
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
        outcome=QueryOutcome,
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
    outcome = {"outcome": QueryOutcome, "why": str | None, "complete": bool, "unique_key": str | None}
    return _table("query.life", rows, **outcome)


def find() -> Any:
    """The document of `find`: what a text is, each with its messages."""
    members = members_of(TextEvidence).items()
    said = {name: maybe(kind) for name, kind in members if name not in ("found", "command")}
    rows = _message(note=maybe(str), **said | {"command": maybe(str | None)})
    return _table("find", rows, outcome=QueryOutcome, text=str)


def query_timers() -> Any:
    """The document of `query timers`: units of the timer log that wait, and their messages."""
    return _table("query.timers", record("Timer", **members_of(TimedMessage), kind=str), outcome=QueryOutcome)


def query_offsets() -> Any:
    """The document of `query offsets`: queues and groups."""
    both = members_of(QueueOffsets) | members_of(GroupOffsets) | {"kind": str}
    more = dict.fromkeys(("count", *GROUP_COUNTS), maybe(int | None))
    rows = record(
        "Offsets", **{name: maybe(kind) for name, kind in both.items()}, queue_kind=maybe(str), **more
    )
    return _table("query.offsets", rows, outcome=QueryOutcome, why=str | None)


def query_as_of() -> Any:
    """The document of `query as-of`: the queues of then."""
    rows = record("QueueThen", **members_of(QueueThen), count=int)
    return _table(
        "query.as-of",
        rows,
        outcome=QueryOutcome,
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
        outcome=QueryOutcome,
        why=str | None,
        reserved_hours=int,
        delete_hours=list[int],
        max_used_percent=int,
        time_zone=str,
        now_timestamp=int,
        growth_per_day=int | None,
    )


class FindingSaid(TypedDict):
    schema_version: int
    kind: NotRequired[Literal["rocketfsck.finding"]]
    rule: str
    slug: str
    severity: SeverityName
    message: str
    where: Where
    found: Facts
    expected: Facts
    count: int
    fingerprint: str
    fault_class: str | None
    repair: str | None
    suggest: list[list[str]]


class Target(TypedDict):
    offset: NotRequired[int]
    file: str
    pos: int


class CopyOf(TypedDict):
    path: str
    start: int


class Bounds(TypedDict):
    min: int | None
    max: int | None


class ExportedFile(TypedDict):
    path: str
    partition: Mapping[str, str | None]
    row_count: int
    size: int
    offset: NotRequired[Bounds]
    store_timestamp: NotRequired[Bounds]
    queue_offset: NotRequired[Bounds]


def _document(kind: str, *kinds: type, **members: Any) -> Any:
    head = {"schema_version": int, "kind": Literal[f"rocketfsck.{kind}"]}
    return record(f"rocketfsck.{kind}", *kinds, **(head | members))


def check() -> Any:
    """The document of `check`, or the first line of it."""
    coverage = record("CoverageSaid", Coverage, statement=str)
    findings = maybe(list[FindingSaid])
    return _document(
        "check",
        Report,
        coverage=coverage,
        findings=findings,
        exit_code=int,
        outcome=Outcome,
        verdict=Verdict,
        timing=maybe(list[Pass]),
    )


def fix() -> Any:
    """The document of `fix`."""
    done = {"plan": plan() | None, "apply": apply() | None}
    return _document(
        "fix", schema_version=int, exit_code=int, outcome=Outcome, verdict=Verdict | None, **done
    )


def simulate() -> Any:
    """The document of `simulate`; of a start without a prediction there are the version and the reasons."""
    start = {name: kind if name == "version" else maybe(kind) for name, kind in members_of(Start).items()}
    head = {"alike": list[str], "covered": bool, "not_covered": list[str], "harmful": bool | None}
    starts = list[record("SimulatedStart", **head, **start)]  # type: ignore[misc, valid-type]
    return _document("simulate", store=str, harmful=bool | None, starts=starts)


def plan() -> Any:
    """A plan."""
    arguments = {row.name: row.arguments for row in ALL}
    return _document("plan", Plan, actions=list[chosen(Action, "name", "arguments", arguments)])  # type: ignore[misc]


def apply() -> Any:
    """The document of `apply`, and result.json."""
    return _document("apply", ApplyReport, exit_code=int, outcome=Outcome)


def undo() -> Any:
    """The document of `undo`."""
    return _document("undo", UndoReport, exit_code=int)


def compare() -> Any:
    """The document of `compare`."""
    return _document("compare", ComparisonDocument, schema_version=int, further=list[Any])


def rebuild() -> Any:
    """The document of `rebuild`."""
    judged = {"starts": list[StartVerdict], "assumptions": list[Assumption]}
    return _document("rebuild", Rebuilt, store=str, into=str, version=str, **judged)


def salvage() -> Any:
    """The document of `salvage`, and of `compare --heal --into`."""
    return _document("salvage", SalvageDocument)


def convert() -> Any:
    """The document of `convert`."""
    return _document("convert", ConvertDocument)


def extract() -> Any:
    """The document of `extract`."""
    return _document("extract", ExtractDocument)


def salvage_ledger() -> Any:
    """A line of the ledger of a salvage: which members it has depends on its kind."""
    kinds = ("head", "source", "skipped", "records", "nothing", "fence", "queue")
    numbers = ("size", "base_offset", "start", "end", "record_count", "physical_offset", "end_offset")
    members = members_of(SalvageHead) | members_of(QueueAccount)
    members |= dict.fromkeys(numbers, int | None)
    texts = ("path", "reason", "level", "fate", "what", "file", "into")
    members |= dict.fromkeys(texts, str) | {"reasons": list[str], "target": Target, "copy_of": CopyOf}
    members |= dict.fromkeys(("confidence", "queue_offset", "store_timestamp", "pos"), int)
    kind = Literal[tuple(f"rocketfsck.salvage.{name}" for name in kinds)]  # type: ignore[valid-type]
    optional = {name: maybe(inner) for name, inner in members.items()}
    return record("Line", schema_version=int, kind=kind, **optional)


def damage() -> Any:
    """The document of `damage`, and DIR.damage.json."""
    promise: Any = record("MustFind", Promise, rules=list[str], where=Mapping[str, int | str])
    act: Any = record("ActSaid", Act, must_find=list[promise], may_also_find=list[str])
    return _document("damage", source=str, target=str, seed=int, commitlog_paths=list[str], acts=list[act])


def damage_faults() -> Any:
    """The document of `damage --list`."""
    fault: Any = record("FaultSaid", Damage, causes=list[str], may_also=list[str])
    return _document("damage.faults", faults=list[fault])


def write_manifest() -> Any:
    """NAME.manifest.json next to a store that was written."""
    options = record(
        "Options",
        version=str,
        end_state=str,
        time_zone=str,
        batch_topics=list[str],
        delay_levels=Mapping[str, int],
        queue_start_offsets=list[tuple[str, int, int]],
        property_map_capacity=maybe(int),
        **dict.fromkeys(GEOMETRY_DEFAULTS, int),
        **dict.fromkeys(_NUMBERS, int),
        **dict.fromkeys(_SWITCHES, bool),
    )
    return _document("write.manifest", WriteManifest, options=options)


_NUMBERS = ("start_offset", "max_message_size", "pid", "master_flushed_offset", "confirm_physical_offset")
_SWITCHES = (
    "consumequeue_ext",
    "multi_dispatch",
    "append_property_crc",
    "message_index",
    "sync_flush",
    "preallocate",
    "topics_file",
)


def export() -> Any:
    """The document of `export`."""
    counts = ("row_count", "file_count", "size", "corrupt_count")
    texts = ("into", "manifest", "view", "format")
    return _document(
        "export",
        **dict.fromkeys(texts, str),
        **dict.fromkeys(counts, int),
        **dict.fromkeys(("damage_count", "damaged_byte_count"), int | None),
        **dict.fromkeys(("appended", "mended"), bool),
        gaps=list[record("ExportGap", DeletedRange)],  # type: ignore[misc]
        leftovers=list[str],
        failed=list[record("FailedStore", broker=str, error=str)],  # type: ignore[misc]
    )


def timeline() -> Any:
    """The document of `timeline`."""
    return _document("timeline", store=str, rows=list[row("TimelineEvent", TIMELINE_COLUMNS)])  # type: ignore[misc]


def export_manifest() -> Any:
    """_manifest.json in a directory that was exported."""
    return _document(
        "export",
        version=str,
        run=maybe(str),
        view=str,
        partition=list[str],
        stores=list[dict[str, Any]],
        **dict.fromkeys(("format", "mode"), str),
        selection=Mapping[str, Any],
        **dict.fromkeys(("row_count", "damage_count", "damaged_byte_count", "corrupt_count"), int),
        damage_told=bool,
        files=list[ExportedFile],
    )
