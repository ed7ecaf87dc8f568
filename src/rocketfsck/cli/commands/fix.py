"""`rocketfsck fix STORE`: check, verdict, plan, a question, the repair, and how to take it back."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from rocketfsck.cli.config.applying import policy_in_force
from rocketfsck.cli.danger import WritingCommand, pause_before_danger
from rocketfsck.cli.logging import log_option, log_repair, prepare_log
from rocketfsck.cli.memory import memory_option
from rocketfsck.cli.options import (
    assume_option,
    choosing_options,
    delay_levels_option,
    dry_run_option,
    in_place_option,
    jobs_option,
    level_option,
    no_undo_option,
    offsets_option,
    preen_option,
    work_dir_option,
)
from rocketfsck.cli.output import refuse_inside, to_json
from rocketfsck.cli.params import (
    Destination,
    StoreOptions,
    output_options,
    outside_option,
    path_argument,
    store_options,
)
from rocketfsck.cli.settings import common_options
from rocketfsck.cli.show.fit import text_columns
from rocketfsck.cli.timing import timing_option
from rocketfsck.engine.passes import Passes, measured
from rocketfsck.errors import UsageError, outcome_of

if TYPE_CHECKING:
    from rocketfsck.cli.show.text import Palette
    from rocketfsck.repair.apply.results import ApplyReport
    from rocketfsck.repair.plan.arguments import GroupOffset
    from rocketfsck.repair.plan.model import Plan
    from rocketfsck.repair.verdict import Verdict
    from rocketfsck.store import Store
    from rocketfsck.verify.report import Report

NO_TERMINAL = "there is no terminal to ask a question on: give --yes, --preen or --dry-run"


@dataclass(frozen=True, slots=True)
class Consent:
    """What may be done without a question: nothing, what is provably safe, or everything."""

    dry_run: bool
    preen: bool
    yes: bool

    @property
    def asks(self) -> bool:
        return not (self.dry_run or self.preen or self.yes)

    @property
    def answer(self) -> str:
        """How the user agrees, as the log of repairs says it."""
        return "yes" if self.yes else "preen" if self.preen else "asked"


@click.command(
    cls=WritingCommand,
    advisory=("yes", "only", "except_", "assume", "in_place", "outside"),
    dangers={"no_undo": "the store of before is deleted in the end: this repair cannot be taken back"},
)
@path_argument("path", local="a repair")
@dry_run_option
@preen_option
@click.option(
    "-y", "--yes", is_flag=True, help="Do all of it, without a question; what is assumed needs --assume."
)
@choosing_options
@assume_option
@offsets_option
@level_option
@jobs_option
@memory_option("fix")
@delay_levels_option
@in_place_option
@work_dir_option
@no_undo_option
@outside_option
@log_option()
@store_options
@output_options("text", "json")
@timing_option
@common_options
def command(
    path: Path,
    dry_run: bool,
    preen: bool,
    yes: bool,
    only: tuple[str, ...],
    except_: tuple[str, ...],
    assume: tuple[str, ...],
    offsets: str | None,
    level: Any,
    stated: StoreOptions,
    delay_levels: str | None,
    in_place: bool,
    work_dir: Path | None,
    no_undo: bool,
    log: Path | None,
    outside: tuple[Path, ...],
    answer: Destination,
    passes: Passes | None,
) -> int:
    """Repair STORE: check it, show the verdict and the plan, ask, repair, check again.

    fix builds the result next to the store and puts it in the store's place if it is right; the former store
    is kept for `rocketfsck undo`. After an interruption, run the same command again to finish. If the bytes
    leave a value open, fix assumes one only if you confirm it. Exit status 0: nothing to repair; 1:
    corrected; 4: problems are left.
    """
    from rocketfsck.repair.build.wishes import wished_offsets
    from rocketfsck.repair.plan.basis import named_values
    from rocketfsck.repair.state import check_status
    from rocketfsck.verify.options import CheckOptions
    from rocketfsck.verify.run import check_store

    consent = Consent(dry_run, preen, yes)
    if dry_run + preen + yes > 1:
        raise UsageError("--dry-run, --preen and --yes exclude each other")
    if consent.asks and (answer.form != "text" or answer.path is not None or not sys.stdin.isatty()):
        raise UsageError(NO_TERMINAL)
    stores = [path, *stated.commitlog_paths, *outside]
    if answer.path is not None:
        refuse_inside(answer.path, stores)
    if not dry_run:
        prepare_log(log, stores)
    apply = _Applying(in_place, work_dir, not no_undo, assume, outside, log, consent.answer)
    with answer.open(stores) as stream:
        palette = answer.palette(stream)
        finished = None if dry_run else apply.finish(path)
        if finished is not None:
            _say(stream, answer, palette, None, None, finished, finished.exit_code)
            return finished.exit_code
        with measured(passes, "open"):
            store = stated.open("fix", path, delay_levels=delay_levels, **named_values(assume))
        report = check_store(store, CheckOptions(level=level), passes=passes)
        with measured(passes, "plan and verdict"):
            wished = () if offsets is None else wished_offsets(store, offsets)
            plan, verdict = _planned(store, report, consent, only, except_, assume, wished)
        if answer.form == "text":
            _show(stream, palette, report, plan, verdict)
            if plan.actions and not in_place:
                _show_cost(stream, store)
        chosen: Plan | None = None if dry_run or not plan.actions else plan
        if consent.asks and chosen is not None:
            chosen = _agreed(store, report, plan, only, except_, wished)
        if chosen is None:
            code = check_status(report, verdict.state)
            _say(stream, answer, palette, verdict, plan, None, code)
            return code
        if chosen is not plan:
            _show_plan(stream, palette, chosen)
        pause_before_danger(yes)
        with measured(passes, "repair and check"):
            done = apply.run(chosen)
        _say(stream, answer, palette, verdict, chosen, done, done.exit_code)
    return done.exit_code


def _planned(
    store: Store,
    report: Report,
    consent: Consent,
    only: tuple[str, ...],
    except_: tuple[str, ...],
    assume: tuple[str, ...],
    wished: tuple[GroupOffset, ...],
) -> tuple[Plan, Verdict]:
    """The plan that this consent covers, and the verdict; what needs a confirmation that nobody can give now
    is left out."""
    from rocketfsck.repair.apply.holding import held_plan
    from rocketfsck.repair.plan.basis import usual_sizes
    from rocketfsck.repair.plan.planning import make_plan
    from rocketfsck.repair.verdict import judge_store
    from rocketfsck.verify.policy import unpreened_rules

    unpreened = unpreened_rules(policy_in_force(click.get_current_context()))
    named = None if consent.asks or consent.dry_run else [item.partition("=")[0] for item in assume]
    if named is not None and consent.yes:
        named += usual_sizes(store)
    plan = make_plan(
        store,
        report,
        preen=consent.preen,
        only=only,
        except_=except_,
        confirmed_names=named,
        unpreened=unpreened,
        wished=wished,
    )
    plan = held_plan(plan, store, report)
    return plan, judge_store(store, report, plan=plan)


def _agreed(
    store: Store,
    report: Report,
    plan: Plan,
    only: tuple[str, ...],
    except_: tuple[str, ...],
    wished: tuple[GroupOffset, ...],
) -> Plan | None:
    """What the user agrees to of the plan, asked for kind by kind; None for nothing."""
    from rocketfsck.cli.latch import agreed_plan
    from rocketfsck.repair.apply.holding import held_plan
    from rocketfsck.repair.plan.planning import make_plan

    def replan(declined: set[str]) -> Plan:
        chosen = make_plan(store, report, only=only, except_=except_, declined=declined, wished=wished)
        return held_plan(chosen, store, report)

    return agreed_plan(plan, replan)


def _show(stream: IO[Any], palette: Palette, report: Report, plan: Plan, verdict: Verdict) -> None:
    """The verdict, and what would be done."""
    from rocketfsck.cli.show.verdict import verdict_lines

    columns = text_columns()
    shown = replace(verdict, next_command=None)  # it would be this command
    stream.writelines(f"{line}\n" for line in verdict_lines(shown, report.store, palette, columns))
    if plan.actions or plan.unanswered:
        _show_plan(stream, palette, plan)
    stream.flush()


def _show_cost(stream: IO[Any], store: Store) -> None:
    """What it costs to keep the former store whole, where that is much."""
    from rocketfsck.cli.show.text import byte_size
    from rocketfsck.repair.apply.sharing import SAID_SIZE, copied_size

    size = copied_size(store)
    if size >= SAID_SIZE:
        stream.write(
            f"To keep the former store whole, fix copies about {byte_size(size)}: all that a broker may "
            "write to. A file system with reflinks needs no room for that.\n"
        )
    stream.flush()


def _show_plan(stream: IO[Any], palette: Palette, plan: Plan) -> None:
    """What would be done."""
    from rocketfsck.cli.show.repair import plan_lines

    stream.writelines(f"{line}\n" for line in plan_lines(plan, palette, text_columns(), head=False))
    stream.flush()


def _say(
    stream: IO[Any],
    answer: Destination,
    palette: Palette,
    verdict: Verdict | None,
    plan: Plan | None,
    done: ApplyReport | None,
    code: int,
) -> None:
    """What came of it."""
    from rocketfsck.cli.show.repair import apply_lines
    from rocketfsck.common.documents import to_document
    from rocketfsck.repair.plan.document import plan_to_json

    if answer.form == "json":
        document = {
            "schema_version": 1,
            "kind": "rocketfsck.fix",
            "exit_code": code,
            "outcome": outcome_of(code),
            "verdict": None if verdict is None else to_document(verdict),
            "plan": None if plan is None else plan_to_json(plan),
            "apply": None if done is None else done.to_json(),
        }
        stream.write(to_json(document, indent=2) + "\n")
    elif done is not None:
        columns = text_columns()
        said = () if plan is None else plan.refused_actions
        done = replace(done, refused_actions=tuple(item for item in done.refused_actions if item not in said))
        stream.writelines(
            f"{line}\n" for line in apply_lines(done, palette, columns, planned=plan is not None)
        )
    elif plan is not None and (plan.actions or plan.unanswered):
        stream.write("Nothing was changed.\n")


@dataclass(frozen=True, slots=True)
class _Applying:
    """How a plan is carried out."""

    in_place: bool
    work_dir: Path | None
    keep: bool
    assume: tuple[str, ...]
    outside: tuple[Path, ...]
    log: Path | None
    answer: str

    def run(self, plan: Plan) -> ApplyReport:
        """Carry a plan out that assumes only what was agreed to."""
        from rocketfsck.repair.apply.applying import apply_plan
        from rocketfsck.repair.plan.law import all_assumptions, assumed_names

        known = {item.name for item in all_assumptions(plan.actions)}
        names = [item for item in self.assume if item.partition("=")[0] in known]
        given = {item.partition("=")[0] for item in names}
        names += [name for name in assumed_names(plan.actions) if name not in given]
        done = apply_plan(
            plan,
            in_place=self.in_place,
            work_dir=self.work_dir,
            keep=self.keep,
            assume=names,
            outside=self.outside,
            answer=self.answer,
        )
        log_repair(self.log, plan, done, self.answer)
        return done

    def finish(self, path: Path) -> ApplyReport | None:
        """Finish a repair of this store that was interrupted; None without one."""
        from rocketfsck.repair.apply.applying import interrupted_plan

        plan = interrupted_plan(path, self.work_dir)
        return None if plan is None else self.run(plan)
