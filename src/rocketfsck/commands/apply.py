"""Carries out a plan next to its store, and puts the result in its place; takes the last repair back.

Plans the repair of a store: actions, reasons and losses.

The options of commands that repair, each declared once, and the log of what they did.

`--log FILE` names a log; one that is kept for each store is written without it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rocketfsck.commands.shared import BrokerConf, DelayLevels, StoreOptions, refuse_inside
from rocketfsck.common.options import READ_FILE, WRITE_FILE, Argument, Option, PathKind, beginning
from rocketfsck.common.wording import visible
from rocketfsck.engine.passes import Passes, measured
from rocketfsck.errors import StoreError
from rocketfsck.store.reading import read_document
from rocketfsck.verify.options import CheckOptions, LevelAsked
from rocketfsck.verify.report import Report, unpreened_rules

if TYPE_CHECKING:
    from rocketfsck.repair.apply.results import ApplyReport, LoggedAction, UndoReport
    from rocketfsck.repair.plan.arguments import GroupOffset
    from rocketfsck.repair.plan.model import Plan
    from rocketfsck.store import Store
    from rocketfsck.verify.report import Policy, Report

RepairedStore = Annotated[Path, Argument(metavar="STORE", kind=PathKind(local="a repair"))]
ReportFile = Annotated[
    Path | None,
    Option(
        "Use this report (check --format json), in place of a check; -: standard input.",
        names=("--report",),
        kind=READ_FILE,
    ),
]
DryRun = Annotated[bool, Option("Change nothing, only show the plan.", names=("-n", "--dry-run"))]
Preen = Annotated[
    bool, Option("Only provably safe repairs: no valid data can be lost.", names=("-p", "--preen"))
]
Assume = Annotated[
    tuple[str, ...],
    Option(
        "Confirm a value that the plan assumes, or name the right one; may be given several times.",
        metavar="NAME[=VALUE]",
    ),
]
InPlace = Annotated[
    bool,
    Option(
        "Replace single files, not the whole store: for mount points and stores whose commit log is "
        "elsewhere."
    ),
]
WorkDir = Annotated[
    Path | None,
    Option(
        "Build, and keep what undo needs, in this directory, not next to the result.",
        metavar="DIR",
        kind=PathKind(local="what is written", written=True, file_okay=False),
    ),
]
NoUndo = Annotated[bool, Option("Delete the former store at the end; files set aside are kept.")]
Outside = Annotated[
    tuple[Path, ...],
    Option(
        "A directory outside of the store in which files may be changed, too: a commit log path of the "
        "plan, or where a symbolic link in the store leads; may be given several times.",
        metavar="DIR",
        kind=PathKind(local="what is written", file_okay=False),
    ),
]
LogFile = Annotated[
    Path | None, Option("Add a JSON line for each action to this file, too.", metavar="FILE", kind=WRITE_FILE)
]


def repairs_beginning(begun: str) -> list[str]:
    """Names of repairs that begin so."""
    from rocketfsck.repair.plan.planning import all_repairs

    return beginning(all_repairs(), begun)


@dataclass(frozen=True, slots=True)
class Wishes:
    """Which repairs are wanted, by name, and what the user knows of what they need."""

    only: Annotated[
        tuple[str, ...],
        Option("Only this repair; may be given several times.", metavar="NAME", complete=repairs_beginning),
    ] = ()
    except_: Annotated[
        tuple[str, ...],
        Option(
            "All other repairs; may be given several times.",
            names=("--except",),
            metavar="NAME",
            complete=repairs_beginning,
        ),
    ] = ()
    assume: Assume = ()
    offsets: Annotated[
        str | None,
        Option(
            "Set committed offsets: move them into their queues, or take those of the .bak, or of a FILE in "
            "the form of consumerOffset.json.",
            metavar="clamp|bak|FILE",
        ),
    ] = None

    def wished(self, store: Store) -> tuple[GroupOffset, ...]:
        """The committed offsets that are to be set. Raises as `wished_offsets` does."""
        from rocketfsck.repair.build.config import wished_offsets

        return () if self.offsets is None else tuple(wished_offsets(store, self.offsets))


def prepare_log(log: Path | None, stores: Sequence[Path]) -> None:
    """See, before anything is changed, that the log that the user named can be written.

    Raises UsageError for a file inside a store, StoreError for one that cannot be written.
    """
    from rocketfsck.repair.apply.results import append_actions

    if log is not None:
        refuse_inside(log, stores)
        append_actions(log, ())


def log_repair(log: Path | None, plan: Plan, report: ApplyReport, answer: str) -> tuple[str, ...]:
    """Log what an apply did, or why it changed nothing; gives notes about logs that cannot be written."""
    from rocketfsck.repair.apply.results import NAME, logged_actions, read_actions

    if not plan.actions:
        return ()
    if report.published:
        actions = read_actions(Path(report.kept) / NAME) if report.kept else ()
    else:
        actions = logged_actions(plan, report.store, report.plan_digest, answer, None, report.problem)
    notes: list[str] = []
    for path in _logs(log, report.store):
        known = set(read_actions(path)) if actions and actions[0].result == "applied" else set()
        notes += _write(path, log, [action for action in actions if action not in known])
    return tuple(notes)


def log_undo(log: Path | None, report: UndoReport) -> tuple[str, ...]:
    """Log that a repair was taken back: of each of its actions that the log has as applied. Gives notes."""
    from rocketfsck.repair.apply.results import read_actions, taken_back

    logs = _logs(log, report.store)
    known = [action for path in logs for action in read_actions(path)]
    actions = taken_back(sorted(known, key=lambda action: action.timestamp), report.plan_digest)
    return tuple(note for path in logs for note in _write(path, log, actions))


def _logs(log: Path | None, store: str) -> list[Path]:
    from rocketfsck.repair.apply.results import state_log

    named = [] if log is None else [log]
    try:
        return [state_log(store), *named]
    except StoreError:
        return named  # no home directory


def _write(path: Path, log: Path | None, actions: Sequence[LoggedAction]) -> list[str]:
    """Add lines to a log. The repair is done: where only the log that nobody named fails, a note says so."""
    from rocketfsck.repair.apply.results import append_actions

    if not actions:
        return []
    try:
        append_actions(path, actions)
    except StoreError as error:
        if path == log:
            raise
        return [f"Note: the repair is not logged: {visible(str(error))}"]
    return []


@dataclass(frozen=True, slots=True)
class PlanCommand:
    """What is asked of a plan."""

    path: RepairedStore
    report_path: ReportFile = None
    preen: Preen = False
    wishes: Wishes = field(default_factory=Wishes)
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
    from rocketfsck.verify.run import check_store

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
    in_place: InPlace = False
    work_dir: WorkDir = None
    no_undo: NoUndo = False
    assume: Assume = ()
    broker_conf: BrokerConf = None
    outside: Outside = ()
    log: LogFile = None


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
    prepare_log(options.log, stores)
    report = apply_plan(
        plan,
        in_place=options.in_place,
        work_dir=options.work_dir,
        keep=not options.no_undo,
        assume=options.assume,
        settings=settings,
        outside=options.outside,
    )
    return ApplyAnswer(report, stores, log_repair(options.log, plan, report, "plan"))


@dataclass(frozen=True, slots=True)
class UndoCommand:
    """Which repair is taken back, and how."""

    path: RepairedStore
    work_dir: WorkDir = None
    force: Annotated[
        bool, Option("Undo even if the store changed since; the present files are kept elsewhere.")
    ] = False
    outside: Outside = ()
    log: LogFile = None


@dataclass(frozen=True, slots=True)
class UndoAnswer:
    """What an undo did; `notes` are about logs that cannot be written."""

    report: UndoReport
    stores: list[Path]
    notes: tuple[str, ...] = ()


def undo(options: UndoCommand, pause: Pause = no_pause) -> UndoAnswer:
    """Take back the last repair of a store. Raises StoreError, and where messages would leave the store."""
    from rocketfsck.repair.apply.sharing import last_plan
    from rocketfsck.repair.apply.sharing import undo as take_back

    path, work_dir = options.path, options.work_dir
    stores = [path, *options.outside]
    pause(stores)
    prepare_log(options.log, stores)
    plan = last_plan(path, work_dir)
    report = take_back(path, work_dir=work_dir, force=options.force, outside=options.outside)
    notes = log_undo(options.log, report)
    _keep(plan)
    return UndoAnswer(report, stores, notes)


def _keep(plan: Plan | None) -> None:
    """Keep the plan that was taken back, where it can be, so that `apply STORE` carries it out again."""
    from rocketfsck.repair.plan.document import keep_plan

    if plan is not None and plan.actions:
        with suppress(StoreError):
            keep_plan(plan)
