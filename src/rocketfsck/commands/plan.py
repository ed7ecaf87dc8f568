"""Plans the repair of a store: actions, reasons and losses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocketfsck.commands.repairing import Preen, RepairedStore, ReportFile, Wishes
from rocketfsck.commands.shared import DelayLevels, StoreOptions
from rocketfsck.engine.passes import Passes, measured
from rocketfsck.verify.options import CheckOptions, LevelAsked

if TYPE_CHECKING:
    from rocketfsck.repair.plan.model import Plan
    from rocketfsck.store import Store
    from rocketfsck.verify.policy import Policy
    from rocketfsck.verify.report import Report


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
    from rocketfsck.store.reading import read_document
    from rocketfsck.verify.policy import unpreened_rules
    from rocketfsck.verify.report import Report
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
