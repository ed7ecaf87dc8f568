"""Repairs a store: check, verdict, plan, what is agreed to, the repair, and a check of the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from rocketfsck.commands import repairing
from rocketfsck.commands.shared import DelayLevels, StoreOptions
from rocketfsck.common.options import Option
from rocketfsck.engine.passes import Passes, measured
from rocketfsck.errors import UsageError
from rocketfsck.verify.options import CheckOptions, LevelAsked

if TYPE_CHECKING:
    from rocketfsck.repair.apply.results import ApplyReport
    from rocketfsck.repair.plan.arguments import GroupOffset
    from rocketfsck.repair.plan.model import Plan
    from rocketfsck.repair.verdict import Verdict
    from rocketfsck.store import Store
    from rocketfsck.verify.report import Report
    from rocketfsck.verify.stopping import Policy


@dataclass(frozen=True, slots=True)
class FixCommand:
    """What is asked of a repair, and what may be done without a question."""

    path: repairing.RepairedStore
    dry_run: repairing.DryRun = False
    preen: repairing.Preen = False
    yes: Annotated[
        bool,
        Option("Do all of it, without a question; what is assumed needs --assume.", names=("-y", "--yes")),
    ] = False
    wishes: repairing.Wishes = field(default_factory=repairing.Wishes)
    level: LevelAsked = "full"
    delay_levels: DelayLevels = None
    in_place: repairing.InPlace = False
    work_dir: repairing.WorkDir = None
    no_undo: repairing.NoUndo = False
    outside: repairing.Outside = ()
    log: repairing.LogFile = None
    stated: StoreOptions = field(default_factory=StoreOptions)

    @property
    def asks(self) -> bool:
        """Whether somebody must agree to the plan."""
        return not (self.dry_run or self.preen or self.yes)

    @property
    def consent(self) -> str:
        """How the user agrees, as the log of repairs says it."""
        return "yes" if self.yes else "preen" if self.preen else "asked"


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a repair would do, for whoever is to agree; `replan` makes the plan without kinds of actions."""

    store: Store
    report: Report
    verdict: Verdict
    plan: Plan
    replan: Callable[[set[str]], Plan]


Agree = Callable[[Proposal], "Plan | None"]
"""Called with a proposal, before anything is changed: the plan that is carried out, None for nothing."""


@dataclass(frozen=True, slots=True)
class FixAnswer:
    """What came of it. `done` is None where nothing was to be done or agreed to; verdict and plan are None
    where a repair was finished that was interrupted. `notes` are about logs that cannot be written."""

    exit_code: int
    verdict: Verdict | None = None
    plan: Plan | None = None
    done: ApplyReport | None = None
    notes: tuple[str, ...] = ()


def fix(
    options: FixCommand,
    agree: Agree | None = None,
    policy: Policy | None = None,
    passes: Passes | None = None,
) -> FixAnswer:
    """Repair a store, or finish a repair of it that was interrupted.

    `agree` is asked whatever the options say, so that it can show what is done; without it, they must give
    consent. Raises UsageError for options that contradict or give none, StoreError.
    """
    from rocketfsck.repair.plan.basis import named_values
    from rocketfsck.repair.state import check_status
    from rocketfsck.store.rocks.lifting import kept_databases
    from rocketfsck.verify.run import check_store

    if options.dry_run + options.preen + options.yes > 1:
        raise UsageError("--dry-run, --preen and --yes exclude each other")
    if options.asks and agree is None:
        raise UsageError("somebody must agree to a repair: give --yes, --preen or --dry-run")
    path, stated = options.path, options.stated
    if not options.dry_run:
        repairing.prepare_log(options.log, [path, *stated.commitlog_paths, *options.outside])
        finished = _finish(options)
        if finished is not None:
            return finished
    with measured(passes, "open"):
        named = named_values(options.wishes.assume)
        store = stated.open("fix", path, delay_levels=options.delay_levels, **named)
    with kept_databases():
        report = check_store(store, CheckOptions(level=options.level), passes=passes)
        with measured(passes, "plan and verdict"):
            proposal = _proposal(options, store, report, policy or {})
    plan, verdict = proposal.plan, proposal.verdict
    chosen = plan if agree is None else agree(proposal)
    if options.dry_run or chosen is None or not chosen.actions:
        return FixAnswer(check_status(report, verdict.state), verdict, plan)
    with measured(passes, "repair and check"):
        done, notes = _carry_out(options, chosen)
    return FixAnswer(done.exit_code, verdict, chosen, done, notes)


def _proposal(options: FixCommand, store: Store, report: Report, policy: Policy) -> Proposal:
    """The plan that the consent covers, and the verdict; what needs a confirmation that nobody can give now
    is left out."""
    from rocketfsck.query.start.verdict import verdict_of
    from rocketfsck.repair.apply.holding import held_plan
    from rocketfsck.repair.plan.basis import usual_sizes
    from rocketfsck.repair.plan.planning import make_plan
    from rocketfsck.repair.verdict import judge_store, predicted
    from rocketfsck.verify.stopping import unpreened_rules

    wishes = options.wishes
    wished: tuple[GroupOffset, ...] = wishes.wished(store)
    named = None
    if options.preen or options.yes:
        named = [item.partition("=")[0] for item in wishes.assume]
        if options.yes:
            named += usual_sizes(store)
    plan = make_plan(
        store,
        report,
        preen=options.preen,
        only=wishes.only,
        except_=wishes.except_,
        confirmed_names=named,
        unpreened=unpreened_rules(policy),
        wished=wished,
    )
    predictions = predicted(store, report)
    starts = list(map(verdict_of, predictions))
    plan = held_plan(plan, store, report, starts=starts)

    def replan(declined: set[str]) -> Plan:
        left = make_plan(
            store, report, only=wishes.only, except_=wishes.except_, declined=declined, wished=wished
        )
        return held_plan(left, store, report, starts=starts)

    verdict = judge_store(store, report, plan=plan, predictions=predictions)
    return Proposal(store, report, verdict, plan, replan)


def _finish(options: FixCommand) -> FixAnswer | None:
    """Finish a repair of this store that was interrupted; None without one."""
    from rocketfsck.repair.apply.applying import interrupted_plan

    plan = interrupted_plan(options.path, options.work_dir)
    if plan is None:
        return None
    done, notes = _carry_out(options, plan)
    return FixAnswer(done.exit_code, done=done, notes=notes)


def _carry_out(options: FixCommand, plan: Plan) -> tuple[ApplyReport, tuple[str, ...]]:
    """Carry a plan out that assumes only what was agreed to, and log it."""
    from rocketfsck.repair.apply.applying import apply_plan
    from rocketfsck.repair.plan.law import all_assumptions, assumed_names

    known = {item.name for item in all_assumptions(plan.actions)}
    names = [item for item in options.wishes.assume if item.partition("=")[0] in known]
    given = {item.partition("=")[0] for item in names}
    names += [name for name in assumed_names(plan.actions) if name not in given]
    done = apply_plan(
        plan,
        in_place=options.in_place,
        work_dir=options.work_dir,
        keep=not options.no_undo,
        assume=names,
        outside=options.outside,
        answer=options.consent,
    )
    return done, repairing.log_repair(options.log, plan, done, options.consent)
