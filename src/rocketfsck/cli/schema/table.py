"""The documents by name: what each is, and the type that it has.

The settings in force, and what a repair keeps next to its journal, as types.

What `check` and `rebuild` say of several stores, as types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypedDict

from rocketfsck.cli.commands.config import KIND, ConfigSaid
from rocketfsck.cli.schema import repairs
from rocketfsck.cli.schema.making import maybe, record, row, schema_of
from rocketfsck.commands.bugreport import BugReport
from rocketfsck.commands.certify import Certificate, VerifiedCertificate
from rocketfsck.commands.learn import LearnAnswer
from rocketfsck.page.fleet import FleetPage
from rocketfsck.page.model import Page
from rocketfsck.pipeline.fleet.model import STORE_COLUMNS, FleetHead
from rocketfsck.pipeline.fleet.records import RebuildRecord, RebuiltStores
from rocketfsck.progress import Unit
from rocketfsck.repair.apply.ledger import Ledger
from rocketfsck.repair.apply.results import KIND as ACTION
from rocketfsck.repair.apply.results import LoggedAction
from rocketfsck.repair.area.journal import Journal, Manifests
from rocketfsck.verify.since.state import SinceState
from rocketfsck.verify.tasks.resume import Baseline, CheckState
from rocketfsck.writer.manifest import WrittenMessage


def config() -> Any:
    """The document of `config`."""
    return record(KIND, ConfigSaid, kind=Literal["rocketfsck.config"])


def repair_log() -> Any:
    """A line of the log of repairs."""
    return record(ACTION, LoggedAction, kind=Literal["rocketfsck.repair.action"])


def ledger() -> Any:
    """ledger.json next to a repaired store."""
    return record("ledger.json", Ledger, kind=Literal["rocketfsck.ledger"])


def check_stores() -> Any:
    """The document of `check` of several stores."""
    rows = maybe(list[row("CheckedStore", STORE_COLUMNS)])  # type: ignore[misc]
    return record("CheckedStores", FleetHead, schema_version=int, rows=rows)


def rebuilt_stores() -> Any:
    """The document of `rebuild` of several stores."""
    return record("RebuiltStores", RebuiltStores, schema_version=int)


# The lines of `--progress json`.


class ProgressLine(TypedDict):
    schema_version: int
    type: Literal["progress"]
    phase: str
    done: int
    total: int | None
    unit: Unit
    rate: float
    elapsed_seconds: float
    eta_seconds: float | None
    note: str


class ProgressEnd(TypedDict):
    schema_version: int
    type: Literal["end"]
    exit_status: int
    elapsed_seconds: float


class Document(NamedTuple):
    """One kind of document: where it comes from, and its type, or what makes it."""

    about: str
    kind: type | Callable[[], Any]


_MESSAGES = "what `rocketfsck query {0}` prints"

DOCUMENTS: Mapping[str, Document] = {
    "apply": Document("what `rocketfsck apply` prints; result.json next to a repaired store", repairs.apply),
    "baseline": Document("what `rocketfsck check --write-baseline` writes", Baseline),
    "bugreport": Document("what `rocketfsck bugreport` prints; about.json in its archive", BugReport),
    "certificate": Document("what `rocketfsck certify` prints", Certificate),
    "certificate-verified": Document("what `rocketfsck certify --against` prints", VerifiedCertificate),
    "check": Document("what `rocketfsck check` prints; of JSON lines the first", repairs.check),
    "check-finding": Document(
        "a finding, as `rocketfsck check --format jsonl` prints it", repairs.FindingSaid
    ),
    "check-since": Document("what `rocketfsck check --since` writes", SinceState),
    "check-state": Document("what `rocketfsck check --resume` writes", CheckState),
    "compare": Document("what `rocketfsck compare` prints", repairs.compare),
    "check-stores": Document("what `rocketfsck check` prints of several stores", check_stores),
    "config": Document("what `rocketfsck config` prints", config),
    "damage": Document("what `rocketfsck damage` prints; DIR.damage.json", repairs.damage),
    "damage-faults": Document("what `rocketfsck damage --list` prints", repairs.damage_faults),
    "dump": Document("what `rocketfsck dump` prints", repairs.dump),
    "explain": Document("what `rocketfsck explain` prints", repairs.explain),
    "export": Document("what `rocketfsck export --format json` prints", repairs.export),
    "export-manifest": Document("_manifest.json in an exported directory", repairs.export_manifest),
    "find": Document("what `rocketfsck find` prints", repairs.find),
    "fix": Document("what `rocketfsck fix` prints", repairs.fix),
    "info-file": Document("what `rocketfsck info FILE` prints", repairs.info_file),
    "info-store": Document("what `rocketfsck info STORE` prints", repairs.info_store),
    "journal": Document("journal.json next to a repaired store", Journal),
    "ledger": Document("ledger.json next to a repaired store", ledger),
    "learn": Document("what `rocketfsck learn` prints", LearnAnswer),
    "manifests": Document("manifests.json next to a repaired store", Manifests),
    "page": Document("what a report page of one store shows; in its HTML as JSON", Page),
    "page-fleet": Document("what a report page of several stores shows", FleetPage),
    "plan": Document("what `rocketfsck plan` and `compare --heal` print and write", repairs.plan),
    "progress": Document("a line of `--progress json`", ProgressLine),
    "progress-end": Document("the last line of `--progress json`", ProgressEnd),
    "query-id": Document(_MESSAGES.format("id"), lambda: repairs.query_messages("id")),
    "query-key": Document(
        _MESSAGES.format("key` and `query unique-key"), lambda: repairs.query_messages("key")
    ),
    "query-life": Document(_MESSAGES.format("life"), repairs.query_life),
    "query-offset": Document(_MESSAGES.format("offset"), lambda: repairs.query_messages("offset")),
    "query-offsets": Document(_MESSAGES.format("offsets"), repairs.query_offsets),
    "query-as-of": Document(_MESSAGES.format("as-of"), repairs.query_as_of),
    "query-retention": Document(_MESSAGES.format("retention"), repairs.query_retention),
    "query-scan": Document(_MESSAGES.format("scan"), repairs.query_scan),
    "query-timers": Document(_MESSAGES.format("timers"), repairs.query_timers),
    "query-time": Document(_MESSAGES.format("time"), repairs.query_time),
    "rebuild": Document("what `rocketfsck rebuild` prints", repairs.rebuild),
    "rebuild-record": Document(
        "DIR/.rebuilt/NAME.INODE.json of a result of `rocketfsck rebuild` of several stores", RebuildRecord
    ),
    "rebuild-stores": Document("what `rocketfsck rebuild` prints of several stores", rebuilt_stores),
    "repair-log": Document(
        "a line of actions.jsonl next to a repaired store, and of `--log FILE`", repair_log
    ),
    "count": Document("what `rocketfsck count` prints", repairs.count),
    "salvage": Document("what `rocketfsck salvage` and `compare --heal --into` print", repairs.salvage),
    "extract": Document("what `rocketfsck extract` prints", repairs.extract),
    "convert": Document("what `rocketfsck convert` prints", repairs.convert),
    "salvage-ledger": Document("a line of NAME.ledger.jsonl", repairs.salvage_ledger),
    "simulate": Document("what `rocketfsck simulate` prints", repairs.simulate),
    "timeline": Document(
        "what `rocketfsck timeline` prints; a line of JSON lines is a row", repairs.timeline
    ),
    "undo": Document("what `rocketfsck undo` prints", repairs.undo),
    "write-manifest": Document("NAME.manifest.json next to a written store", repairs.write_manifest),
    "write-message": Document("a line of NAME.messages.jsonl", WrittenMessage),
}


def document_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a document; raises KeyError."""
    about, kind = DOCUMENTS[name]
    return schema_of(kind if isinstance(kind, type) else kind(), name, about)
