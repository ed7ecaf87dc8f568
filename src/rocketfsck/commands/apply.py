"""Carries out a plan next to its store, and puts the result in its place; takes the last repair back.

Plans the repair of a store: actions, reasons and losses.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rocketfsck.commands import repairing
from rocketfsck.commands.shared import BrokerConf, DelayLevels, StoreOptions
from rocketfsck.common.options import Argument, Option, PathKind
from rocketfsck.engine.passes import Passes, measured
from rocketfsck.errors import StoreError
from rocketfsck.verify.options import CheckOptions, LevelAsked

if TYPE_CHECKING:
    from rocketfsck.repair.apply.results import ApplyReport, UndoReport
    from rocketfsck.repair.plan.model import Plan
    from rocketfsck.store import Store
    from rocketfsck.verify.report import Report
    from rocketfsck.verify.stopping import Policy


@dataclass(frozen=True, slots=True)
class PlanCommand:
    """What is asked of a plan."""

    path: repairing.RepairedStore
    report_path: repairing.ReportFile = None
    preen: repairing.Preen = False
    wishes: repairing.Wishes = field(default_factory=repairing.Wishes)
    level: LevelAsked = "full"
    delay_levels: DelayLevels = None
    stated: StoreOptions = field(default_factory=StoreOptions)


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """A plan, and the report that it is made of."""

    store: Store
    report: Report
    plan: Plan

    @property
    def exit_code(self) -> int:
        return self.report.exit_code


def plan(options: PlanCommand, policy: Policy | None = None, passes: Passes | None = None) -> PlanAnswer:
    """Check a store, unless its report is given, and plan its repair. Only reads the store.

    `policy` says which rules preening leaves alone. Raises UsageError for names of no repair, StoreError for
    what is not a store or cannot be read.
    """
    from rocketfsck.repair.apply.holding import held_plan
    from rocketfsck.repair.plan.basis import named_values
    from rocketfsck.repair.plan.planning import make_plan
    from rocketfsck.store.reading import read_document
    from rocketfsck.verify.report import Report
    from rocketfsck.verify.run import check_store
    from rocketfsck.verify.stopping import unpreened_rules

    stated, wishes = options.stated, options.wishes
    with measured(passes, "open"):
        named = named_values(wishes.assume)
        store = stated.open("plan", options.path, delay_levels=options.delay_levels, **named)
    if options.report_path is not None:
        report = Report.from_json(read_document(options.report_path, "report"))
    else:
        report = check_store(store, CheckOptions(level=options.level), passes=passes)
    with measured(passes, "plan"):
        made = make_plan(
            store,
            report,
            preen=options.preen,
            only=wishes.only,
            except_=wishes.except_,
            unpreened=unpreened_rules(policy or {}),
            wished=wishes.wished(store),
        )
        return PlanAnswer(store, report, held_plan(made, store, report))


Pause = Callable[[list[Path]], None]
"""Called with the directories of a store before anything in them is changed; raises to stop it."""


def no_pause(_stores: list[Path]) -> None:
    """The pause of whoever wants none."""


@dataclass(frozen=True, slots=True)
class ApplyCommand:
    """How a plan is carried out: that in a file, or the last of a store that was made without a file."""

    plan_path: Annotated[Path, Argument(metavar="PLAN|STORE", kind=PathKind(use="read"))]
    in_place: repairing.InPlace = False
    work_dir: repairing.WorkDir = None
    no_undo: repairing.NoUndo = False
    assume: repairing.Assume = ()
    broker_conf: BrokerConf = None
    outside: repairing.Outside = ()
    log: repairing.LogFile = None


@dataclass(frozen=True, slots=True)
class ApplyAnswer:
    """What an apply did; `notes` are about logs that cannot be written."""

    report: ApplyReport
    stores: list[Path]
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        return self.report.exit_code


def apply(options: ApplyCommand, pause: Pause = no_pause) -> ApplyAnswer:
    """Carry out a plan. Raises UsageError for assumptions that nobody confirms, StoreError."""
    from rocketfsck.repair.apply.applying import apply_plan
    from rocketfsck.repair.plan.document import kept_plan, read_plan
    from rocketfsck.store.circumstances import read_settings

    path = options.plan_path
    plan = kept_plan(path) if path.is_dir() else read_plan(path)
    settings = None if options.broker_conf is None else read_settings(options.broker_conf)
    stores = [Path(plan.store.root), *map(Path, plan.store.commitlog_paths), *options.outside]
    pause(stores)
    repairing.prepare_log(options.log, stores)
    report = apply_plan(
        plan,
        in_place=options.in_place,
        work_dir=options.work_dir,
        keep=not options.no_undo,
        assume=options.assume,
        settings=settings,
        outside=options.outside,
    )
    return ApplyAnswer(report, stores, repairing.log_repair(options.log, plan, report, "plan"))


@dataclass(frozen=True, slots=True)
class UndoCommand:
    """Which repair is taken back, and how."""

    path: repairing.RepairedStore
    work_dir: repairing.WorkDir = None
    force: Annotated[
        bool, Option("Undo even if the store changed since; the present files are kept elsewhere.")
    ] = False
    outside: repairing.Outside = ()
    log: repairing.LogFile = None


@dataclass(frozen=True, slots=True)
class UndoAnswer:
    """What an undo did; `notes` are about logs that cannot be written."""

    report: UndoReport
    stores: list[Path]
    notes: tuple[str, ...] = ()


def undo(options: UndoCommand, pause: Pause = no_pause) -> UndoAnswer:
    """Take back the last repair of a store. Raises StoreError, and where messages would leave the store."""
    from rocketfsck.repair.apply.undoing import last_plan
    from rocketfsck.repair.apply.undoing import undo as take_back

    path, work_dir = options.path, options.work_dir
    stores = [path, *options.outside]
    pause(stores)
    repairing.prepare_log(options.log, stores)
    plan = last_plan(path, work_dir)
    report = take_back(path, work_dir=work_dir, force=options.force, outside=options.outside)
    notes = repairing.log_undo(options.log, report)
    _keep(plan)
    return UndoAnswer(report, stores, notes)


def _keep(plan: Plan | None) -> None:
    """Keep the plan that was taken back, where it can be, so that `apply STORE` carries it out again."""
    from rocketfsck.repair.plan.document import keep_plan

    if plan is not None and plan.actions:
        with suppress(StoreError):
            keep_plan(plan)
