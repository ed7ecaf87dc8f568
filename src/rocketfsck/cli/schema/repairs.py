"""What `check`, `simulate`, `compare` and all that repairs, writes and damages say, as types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict

from rocketfsck.cli.commands.timeline import COLUMNS as TIMELINE_COLUMNS
from rocketfsck.cli.schema.making import chosen, maybe, members_of, record, row
from rocketfsck.engine.passes import Pass
from rocketfsck.errors import Outcome
from rocketfsck.pipeline.export.model import DeletedRange
from rocketfsck.query.start.model import Start
from rocketfsck.query.start.verdict import StartVerdict
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
