"""Compares replicas: where their logs differ, a plan to heal one, and a store healed from both.

Carves records out of anything, and writes them to a new store, with a ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rocketfsck.commands import shared
from rocketfsck.commands.repairing import DryRun, WorkDir
from rocketfsck.common.options import STORE, Argument, Option, PathKind
from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import EXIT_CLEAN, EXIT_CORRECTED, EXIT_PROBLEMS, UsageError
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.options import LevelAsked

if TYPE_CHECKING:
    from rocketfsck.query.start.verdict import StartVerdict
    from rocketfsck.repair.compare.compare import Comparison
    from rocketfsck.repair.plan.model import Plan
    from rocketfsck.repair.salvage.ledger import Salvage
    from rocketfsck.repair.salvage.salvage import SalvageDocument, SalvagedStore
    from rocketfsck.store import Store
    from rocketfsck.verify.report import Report

LOSS_RULE = RuleName.QUEUE_OFFSET_GAP
"""What a check says of queue offsets that have no record; a salvage tells of them itself."""


@dataclass(frozen=True, slots=True)
class SalvageCommand:
    """Where records are looked for, which of them are taken, and where they go."""

    paths: Annotated[tuple[Path, ...], Argument(metavar="PATH…", kind=PathKind(stdin=True))]
    into: shared.IntoOrNone = None
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
    ledger: shared.Ledger = None
    commitlog_file_size: shared.CommitlogFileSize = None
    broker_version: shared.BrokerVersion = None
    broker_conf: shared.BrokerConf = None
    delay_levels: shared.DelayLevels = None
    storage_options: shared.StorageTexts = ()


@dataclass(frozen=True, slots=True)
class SalvageAnswer:
    """What was found, and the store that was written, None for a dry run; `note` is a warning or None."""

    salvage: Salvage
    written: SalvagedStore | None
    note: str | None = None

    @property
    def exit_code(self) -> int:
        """0: all that there was is in the new store. 1: something is missing. 4: that store has problems."""
        made, counts = self.written, self.salvage.counts
        if made is not None and (problems_of(made.report) or any(map(_is_harmful, made.starts))):
            return EXIT_PROBLEMS
        lacks = any(counts.get(name) for name in ("unsure", "overlapped", "too-large", "earlier-life"))
        return EXIT_CORRECTED if lacks or self.salvage.head().missing_count else EXIT_CLEAN

    def document(self) -> SalvageDocument:
        """The whole result as JSON says it."""
        from rocketfsck.repair.salvage.ledger import SCHEMA_VERSION
        from rocketfsck.repair.salvage.salvage import SalvageDocument

        head, queues = self.salvage.head(), self.salvage.story.queues
        said = SalvageDocument(SCHEMA_VERSION, "rocketfsck.salvage", head, queues)
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
    from rocketfsck.store.elsewhere import index_note

    into = options.into
    if into is None and not options.dry_run:
        raise UsageError("give --into DIR, or --dry-run")
    if into is not None:
        for written in (into, options.ledger or default_ledger(into)):
            shared.refuse_inside(written, options.paths)
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


def _is_harmful(start: StartVerdict) -> bool:
    return start.covered and not start.harmless


def problems_of(report: Report) -> dict[str, int]:
    """Findings above info of the new store by rule, without those of what is missing."""
    from rocketfsck.verify.rules.catalog import RULES

    return {
        rule: count
        for rule, count in report.counts.items()
        if count and rule != LOSS_RULE and RULES[rule].severity > Severity.INFO
    }


@dataclass(frozen=True, slots=True)
class CompareCommand:
    """Which replicas are compared, and whether A is to be healed from B."""

    a: Annotated[Path, Argument(metavar="A", kind=STORE)]
    b: Annotated[Path, Argument(metavar="B", kind=STORE)]
    further: Annotated[tuple[Path, ...], Argument(metavar="[STORE…]", kind=STORE)] = ()
    heal: Annotated[
        bool,
        Option(
            "Plan to repair A: each record is taken from where it is valid; -o PLAN is for "
            "`rocketfsck apply`."
        ),
    ] = False
    into: shared.IntoOrNone = None
    prefer: Annotated[
        Literal["A", "B"] | None,
        Option("With --heal: the store whose records count where both are valid and differ."),
    ] = None
    dry_run: DryRun = False
    ledger: shared.Ledger = None
    level: LevelAsked = "full"
    work_dir: WorkDir = None
    broker_version: shared.BrokerVersion = None
    workers: shared.Workers = field(default_factory=shared.Workers)
    storage_options: shared.StorageTexts = ()

    @property
    def is_direct(self) -> bool:
        """Whether the healed store is made now, and not by `apply`."""
        return self.into is not None or self.dry_run

    def demand_sense(self) -> None:
        """Raises UsageError for options that contradict."""
        given = self.is_direct or any(item is not None for item in (self.prefer, self.ledger, self.work_dir))
        if not self.heal and given:
            raise UsageError("--into, --prefer, --ledger, --work-dir and --dry-run are for --heal")
        if self.heal and self.ledger is not None and not self.is_direct:
            raise UsageError("--ledger is for --heal --into; apply keeps one with what it did")
        if self.heal and self.further:
            raise UsageError("--heal needs exactly two stores")
        if self.heal and self.workers.engine != "local":
            raise UsageError("--heal works on this machine: leave out --engine")

    def found(self) -> list[Path]:
        """Where the stores are: each path means one. Raises UsageError for a path that means several."""
        return [_one(path) for path in (self.a, self.b, *self.further)]

    def open(self, places: Sequence[Path] | None = None) -> list[Store]:
        """All stores, `places` where they were found already. Raises as `found` and `open_named_store` do."""
        places = self.found() if places is None else places
        return [shared.open_named_store("compare", path, version=self.broker_version) for path in places]


SHOWN = 3
"""Stores that a refusal names of those that a path means."""


def _one(path: Path) -> Path:
    found = shared.StoresWanted((path,)).find()
    if len(found.places) > 1:
        names = ", ".join(map(str, found.places[:SHOWN]))
        raise UsageError(f"{path} means {len(found.places)} stores ({names} …); name one")
    return found.only


@dataclass(frozen=True, slots=True)
class CompareAnswer:
    """Each store compared with every one before it."""

    comparisons: list[Comparison]

    @property
    def exit_code(self) -> int:
        return EXIT_CLEAN if all(item.same for item in self.comparisons) else EXIT_PROBLEMS


@dataclass(frozen=True, slots=True)
class HealPlanAnswer:
    """A plan that heals A; `directories` are those of the stores, where nothing may be written."""

    plan: Plan
    exit_code: int
    directories: list[Path]


def compare(options: CompareCommand) -> CompareAnswer:
    """Compare the stores. Raises UsageError for options that contradict, StoreError."""
    from rocketfsck.repair.compare.compare import compare_stores

    options.demand_sense()
    places = options.found()
    stores = options.open(places)
    engine = options.workers.start(places, typed=(options.a, options.b, *options.further))
    pairs = ((one, other) for number, other in enumerate(stores) for one in stores[:number])
    return CompareAnswer([compare_stores(*pair, engine=engine) for pair in pairs])


def plan_healing(options: CompareCommand, output: Path | None = None) -> HealPlanAnswer:
    """Plan how A gets from B what A lacks or has damaged; `output` is where the plan is to go, which must be
    outside of the stores. Raises UsageError, StoreError."""
    from rocketfsck.repair.heal.plan import HealOptions, plan_heal

    options.demand_sense()
    a, b = options.open()
    roots, work_dir = _directories((a, b)), options.work_dir
    for written in (output, work_dir):
        shared.refuse_inside(written, roots)
    if work_dir is not None and not work_dir.is_dir():
        raise UsageError(f"{work_dir} is not a directory")
    asked = HealOptions(options.prefer == "B", options.level, work_dir=work_dir)
    plan, report = plan_heal(a, b, asked)
    code = report.exit_code | (EXIT_PROBLEMS if plan.actions else EXIT_CLEAN)
    return HealPlanAnswer(plan, code, roots)


def heal(options: CompareCommand) -> tuple[SalvageAnswer, list[Path]]:
    """Make a store of what is valid in both, unless for a dry run; gives the directories of the stores, too.

    Raises UsageError, StoreError.
    """
    from rocketfsck.repair.heal.records import heal_stores
    from rocketfsck.repair.salvage.ledger import SalvageOptions
    from rocketfsck.repair.salvage.salvage import default_ledger, write_store

    options.demand_sense()
    a, b = options.open()
    roots, into = _directories((a, b)), options.into
    if into is not None:
        for written in (into, options.ledger or default_ledger(into)):
            shared.refuse_inside(written, roots)
    found = heal_stores(a, b, SalvageOptions(version=options.broker_version), prefer=options.prefer)
    made = None if into is None else write_store(found, into, ledger_path=options.ledger)
    return SalvageAnswer(found, made), roots


def _directories(stores: Sequence[Store]) -> list[Path]:
    return [directory for store in stores for directory in store.data_directories]
