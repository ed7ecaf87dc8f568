"""Carves records out of anything, and writes them to a new store, with a ledger."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rocketfsck.commands.repairing import DryRun
from rocketfsck.commands.shared import (
    BrokerConf,
    BrokerVersion,
    CommitlogFileSize,
    DelayLevels,
    IntoOrNone,
    Ledger,
    StorageTexts,
    refuse_inside,
)
from rocketfsck.common.options import Argument, Option, PathKind
from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import EXIT_CLEAN, EXIT_CORRECTED, EXIT_PROBLEMS, UsageError

if TYPE_CHECKING:
    from rocketfsck.repair.salvage.ledger import Salvage
    from rocketfsck.repair.salvage.salvage import SalvageDocument, SalvagedStore
    from rocketfsck.verify.report import Report

LOSS_RULE = RuleName.QUEUE_OFFSET_GAP
"""What a check says of queue offsets that have no record; a salvage tells of them itself."""


@dataclass(frozen=True, slots=True)
class SalvageCommand:
    """Where records are looked for, which of them are taken, and where they go."""

    paths: Annotated[tuple[Path, ...], Argument(metavar="PATH…", kind=PathKind(stdin=True))]
    into: IntoOrNone = None
    layout: Annotated[
        Literal["auto", "keep", "pack"],
        Option(
            "keep: every record at its physical offset, fences in between. pack: records without gaps, "
            "physicalOffset rewritten. auto: keep where the offsets fit and brokers will deliver all "
            "messages.",
            shows_default=True,
        ),
    ] = "auto"
    min_confidence: Annotated[
        Literal["low", "medium", "high"],
        Option("Least confidence of a record; low includes damaged ones.", shows_default=True),
    ] = "medium"
    dry_run: DryRun = False
    ledger: Ledger = None
    commitlog_file_size: CommitlogFileSize = None
    broker_version: BrokerVersion = None
    broker_conf: BrokerConf = None
    delay_levels: DelayLevels = None
    storage_options: StorageTexts = ()


@dataclass(frozen=True, slots=True)
class SalvageAnswer:
    """What was found, and the store that was written, None for a dry run; `note` is a warning or None."""

    salvage: Salvage
    written: SalvagedStore | None
    note: str | None = None

    @property
    def exit_code(self) -> int:
        """0: all that there was is in the new store. 1: something is missing. 4: that store has problems."""
        return exit_code(self.salvage, self.written)

    def document(self) -> SalvageDocument:
        """The whole result as JSON says it."""
        from rocketfsck.repair.salvage.ledger import SCHEMA_VERSION
        from rocketfsck.repair.salvage.salvage import SalvageDocument

        said = SalvageDocument(
            SCHEMA_VERSION, "rocketfsck.salvage", self.salvage.head(), self.salvage.story.queues
        )
        made = self.written
        if made is None:
            return said
        found = problems_of(made.report)
        return replace(said, into=made.path, ledger=made.ledger_path, findings=found, starts=made.starts)


def salvage(options: SalvageCommand) -> SalvageAnswer:
    """Find records, and write them unless nothing is to be written. Raises UsageError, StoreError."""
    from rocketfsck.repair.carve.confidence import Level
    from rocketfsck.repair.salvage.ledger import SalvageOptions
    from rocketfsck.repair.salvage.salvage import default_ledger, find_records, write_store
    from rocketfsck.store.newer import index_note

    into = options.into
    if into is None and not options.dry_run:
        raise UsageError("give --into DIR, or --dry-run")
    if into is not None:
        for written in (into, options.ledger or default_ledger(into)):
            refuse_inside(written, options.paths)
    asked = SalvageOptions(
        level=Level[options.min_confidence.upper()],
        layout=options.layout,
        file_size=options.commitlog_file_size,
        version=options.broker_version,
        broker_conf=options.broker_conf,
        delay_levels=options.delay_levels,
    )
    found = find_records(options.paths, asked)
    made = None
    if into is not None and not options.dry_run:
        made = write_store(found, into, ledger_path=options.ledger)
    return SalvageAnswer(found, made, None if found.origin is None else index_note(found.origin))


def exit_code(salvage: Salvage, written: SalvagedStore | None) -> int:
    """0: all that there was is in the new store. 1: something is missing. 4: the new store has problems."""
    if written is not None and (
        problems_of(written.report) or any(start.covered and not start.harmless for start in written.starts)
    ):
        return EXIT_PROBLEMS
    counts = salvage.counts
    whole = not salvage.head().missing_count and not any(
        counts.get(name) for name in ("unsure", "overlapped", "too-large", "earlier-life")
    )
    return EXIT_CLEAN if whole else EXIT_CORRECTED


def problems_of(report: Report) -> dict[str, int]:
    """Findings above info of the new store by rule, without those of what is missing."""
    from rocketfsck.verify.finding import Severity
    from rocketfsck.verify.rules.catalog import RULES

    return {
        rule: count
        for rule, count in report.counts.items()
        if count and rule != LOSS_RULE and RULES[rule].severity > Severity.INFO
    }
