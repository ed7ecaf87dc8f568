"""Checks a store, or several: what is wrong, where, what that means for a broker, what a repair would do."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rocketfsck.commands import shared
from rocketfsck.common.options import STORE, Argument, Option, PathKind
from rocketfsck.common.outputs import limit_to
from rocketfsck.engine.passes import Passes, measured
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.store.places.urls import is_remote
from rocketfsck.verify.options import CheckOptions

if TYPE_CHECKING:
    from rocketfsck.commands.masks import Masks
    from rocketfsck.engine import Engine
    from rocketfsck.pipeline.fleet.model import FleetReport
    from rocketfsck.pipeline.fleet.tables import RunTables
    from rocketfsck.query.start.verdict import Prediction
    from rocketfsck.repair.plan.model import Plan
    from rocketfsck.repair.verdict import Verdict
    from rocketfsck.store import Store
    from rocketfsck.verify.finding import Finding
    from rocketfsck.verify.report import Report
    from rocketfsck.verify.stopping import Policy
    from rocketfsck.verify.tasks.task import Fact


@dataclass(frozen=True, slots=True)
class CheckCommand:
    """What is asked of a check of one store (`check`) or of several (`check_fleet`).

    For programs alone: `plans`, that the answer has the plan of a repair, and `while_running`, that starts
    are predicted next to a running broker, too.
    """

    paths: Annotated[tuple[Path, ...], Argument(metavar="PATH…", kind=STORE, instead="stores_from")] = ()
    options: CheckOptions = field(default_factory=CheckOptions)
    stores_from: Annotated[Path | None, shared.stores_from("Check")] = None
    tables: Annotated[
        Path | None,
        Option(
            "Add a row for each store to the table DIR/stores, and its findings to DIR/findings. "
            "DIR may be a URL.",
            metavar="DIR",
            kind=PathKind(written=True, file_okay=False),
        ),
    ] = None
    table_format: shared.TableFormat = "parquet"
    alert_on: Annotated[
        Literal["problems", "new"],
        Option(
            "What exit status 4 is for: any problem, or one that the last run of the store in the tables did "
            "not have.",
            shows_default=True,
        ),
    ] = "problems"
    properties: shared.CatalogProperties = ()
    workers: shared.Workers = field(default_factory=shared.Workers)
    delay_levels: shared.DelayLevels = None
    as_broker: shared.AsBroker = None
    gate: Annotated[
        bool,
        Option(
            "For whatever starts a broker: look only at what its start reads (level quick), and exit with 0 "
            "only if the start takes nothing from the store."
        ),
    ] = False
    stated: shared.StoreOptions = field(default_factory=shared.StoreOptions)
    masking: shared.Masking = field(default_factory=shared.Masking)
    plans: bool = False
    while_running: bool = False

    def looked_at(self) -> CheckOptions:
        """The options of the check itself: a gate has a level of its own. Raises UsageError for options that
        contradict."""
        if not self.gate:
            return self.options
        if self.options.resume is not None or self.options.since is not None:
            raise UsageError("--gate looks at all that a start reads: leave out --resume and --since")
        return replace(self.options, level="quick")

    @property
    def stores(self) -> shared.StoresWanted:
        """The stores that are named. Raises UsageError for options that contradict."""
        if self.tables is None and self.table_format != "parquet":
            raise UsageError("--table-format is for --tables")
        if self.properties and self.table_format != "iceberg":
            raise UsageError("--catalog is for --table-format iceberg")
        if self.tables is None and self.alert_on == "new":
            raise UsageError("--alert-on new is for --tables")
        return shared.StoresWanted(self.paths, self.stores_from)

    def find(self) -> shared.StoresFound:
        """What the names mean; with `tables`, one store is several, too. Raises UsageError, StoreError."""
        found = self.stores.find()
        return found if self.tables is None else replace(found, is_many=True)


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """What a check of one store has found: its report as the policy wants it, and the verdict.

    `asked` is what was checked in fact, `found` all findings, whatever the policy says of them; `facts` is
    what the checks saw of files and queues, `predictions` are the starts that were predicted. `plan` is None
    where nobody asked for it or nothing is to be repaired. Report and verdict have masks where these are
    wanted; all else is as the store has it.
    """

    store: Store
    asked: CheckOptions
    report: Report
    verdict: Verdict
    exit_code: int
    found: tuple[Finding, ...]
    facts: Sequence[Fact]
    predictions: Sequence[Prediction]
    plan: Plan | None
    engine: Engine
    masks: Masks | None


def check(options: CheckCommand, policy: Policy | None = None, passes: Passes | None = None) -> CheckAnswer:
    """Check one store and judge it. `policy` says what is wanted for single rules, `passes` takes times.

    Raises UsageError for options that contradict, StoreError for what is not a store or cannot be read.
    """
    from rocketfsck.query.start.verdict import verdict_of
    from rocketfsck.repair.state import check_status, gate_status
    from rocketfsck.repair.verdict import judge_store, plan_or_obstacle, predicted, ranked
    from rocketfsck.store.rocks.lifting import kept_databases
    from rocketfsck.verify.run import check_store
    from rocketfsck.verify.stopping import report_by

    asked = _asked(options, policy)
    named = options.find()
    if named.is_many:
        raise UsageError("a check of one store has one path; check_fleet checks several stores")
    path, stated, version = named.only, options.stated, options.as_broker
    _demand_place(asked.since)
    for kept in (asked.resume, asked.since):
        shared.refuse_inside(kept, [path, *stated.commitlog_paths])
    with measured(passes, "open"):
        store = stated.open("check", path, delay_levels=options.delay_levels)
    for kept in (asked.resume, asked.since):
        shared.refuse_inside(kept, store.commitlog.directories)  # a broker.conf may name some outside
    engine = options.workers.start([path, *stated.commitlog_paths], typed=options.paths)
    facts: list[Fact] = []
    with kept_databases():
        report = check_store(store, asked, engine=engine, passes=passes, seen=facts.extend)
        with measured(passes, "verdict"):
            predictions = predicted(store, report, version=version, while_running=options.while_running)
            starts = list(map(verdict_of, predictions))
            plan = plan_or_obstacle(store, report, starts)[0] if options.plans else None
            verdict = judge_store(store, report, version=version, plan=plan, predictions=predictions)
    report = ranked(report, verdict)
    found, report = report.findings, report_by(report, policy or {})
    narrowed = bool(asked.select or asked.ignore or asked.baseline is not None)
    code = check_status(report, verdict.state, narrowed=narrowed)
    if options.gate:
        code = gate_status(code, verdict.state)
    masks = options.masking.masks()
    if masks is not None:
        masks.learn_store(store)
        report, verdict = masks.of(report), masks.of(verdict)
    return CheckAnswer(store, asked, report, verdict, code, found, facts, predictions, plan, engine, masks)


def _demand_place(state: Path | None) -> None:
    """Raise UsageError or StoreError, before anything is read, for a place that cannot have the state."""
    if state is None or is_remote(state):
        return
    if state.is_dir():
        raise UsageError(f"{state} is a directory, as for several stores: for one, STATE is a file")
    if not state.absolute().parent.is_dir():
        raise StoreError(f"cannot be written: {os.strerror(errno.ENOENT)}", path=os.fspath(state))


def _asked(options: CheckCommand, policy: Policy | None) -> CheckOptions:
    """The options of the check itself, without the rules that the policy leaves out."""
    from rocketfsck.verify.stopping import ignored_rules

    if options.as_broker is not None:
        from rocketfsck.formats.dialect import dialect_for

        dialect_for(options.as_broker)  # what is not a version is an error at once
    asked = options.looked_at()
    return replace(asked, ignore=(*asked.ignore, *ignored_rules(policy or {})))


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    """What a check of several stores has found, and where they are; `earlier` are the stores in earlier runs
    in the tables, as `pipeline.fleet.tables` gives them, where a page asks for findings."""

    report: FleetReport
    places: tuple[Path, ...]
    earlier: Sequence[Mapping[str, Any]] = ()


def check_fleet(
    options: CheckCommand,
    policy: Policy | None = None,
    passes: Passes | None = None,
    *,
    places: Sequence[Path] | None = None,
    keeps_findings: bool = False,
) -> FleetAnswer:
    """Check several stores, judge each, and add what was found to the tables that are asked for.

    `places` are the stores, where they were looked for already; `keeps_findings`: the report has the findings
    of each, too. Raises UsageError for options that are for one store, StoreError.
    """
    from rocketfsck.pipeline.fleet.run import FINDING_LIMIT, check_stores
    from rocketfsck.pipeline.fleet.tables import compared, earlier_states
    from rocketfsck.repair.compare.groups import MEMBER_LIMIT, groups_of

    asked = _asked(options, policy)
    if options.gate:
        raise UsageError("--gate is for the check of one store")
    if options.masking.is_wanted:
        raise UsageError("--mask is for the check of one store")
    if options.stated.commitlog_paths:
        raise UsageError("--commitlog-path is for the check of one store")
    found = options.find().places if places is None else tuple(places)
    for place in found:
        limit_to(place)
    for written in (options.tables, asked.since):
        shared.refuse_inside(written, found)
    tables = _run_tables(options)
    with measured(passes, "stores"):
        report = check_stores(
            found,
            asked,
            shared.without_paths(options.workers.start(options.paths)),
            finding_limit=FINDING_LIMIT if tables is not None or keeps_findings else 0,
            facts={**options.stated.facts, "delay_levels": options.delay_levels},
            policy=policy,
            version=options.as_broker,
        )
    if tables is not None:
        with measured(passes, "changes"):
            report = compared(replace(report, alert_on=options.alert_on), tables)
    if len(found) <= MEMBER_LIMIT and asked.level != "quick":
        with measured(passes, "groups"):
            worse = {Path(row.root) for row in report.stores if row.error_count}
            groups = groups_of(list(_opened(options, found)), worse)
            report = replace(report, node_groups=tuple(groups))
    earlier: list[dict[str, Any]] = []
    if tables is not None:
        tables.append(report)
        if keeps_findings:
            with suppress(StoreError, UsageError):  # `not_compared` says why
                earlier = earlier_states(tables, report.run_id)
    return FleetAnswer(report, found, earlier)


def _opened(options: CheckCommand, places: Sequence[Path]) -> Iterator[Store]:
    """The stores that can be opened: what is said of the others is in the report."""
    for place in places:
        with suppress(StoreError, UsageError):
            yield options.stated.open("check", place, delay_levels=options.delay_levels)


def _run_tables(options: CheckCommand) -> RunTables | None:
    """The tables that the run is added to, if there are to be any. Raises as `RunTables.demand` does."""
    from rocketfsck.pipeline.fleet.tables import RunTables

    if options.tables is None:
        return None
    tables = RunTables(options.tables, options.table_format, shared.properties_of(options.properties))
    tables.demand()
    return tables
