"""`rocketfsck fix STORE`: check, verdict, plan, a question, the repair, and how to take it back."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from rocketfsck.cli.base import Command, common_options
from rocketfsck.cli.checking import check_named
from rocketfsck.cli.output import refuse_inside, to_json
from rocketfsck.cli.params import (
    Answer,
    Told,
    level_option,
    output_options,
    outside_option,
    path_argument,
    store_options,
)
from rocketfsck.cli.progress import progress
from rocketfsck.cli.show.fit import text_columns
from rocketfsck.errors import EXIT_PROBLEMS, UsageError

if TYPE_CHECKING:
    from rocketfsck.cli.show.palette import Palette
    from rocketfsck.repair.apply.results import ApplyReport
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


@click.command(cls=Command)
@path_argument("path", local="a repair")
@click.option("-n", "--dry-run", is_flag=True, help="Change nothing: show what would be done.")
@click.option("-p", "--preen", is_flag=True, help="Do what is provably safe, without a question.")
@click.option(
    "-y", "--yes", is_flag=True, help="Do all of it, without a question; what is assumed needs --assume."
)
@click.option("--only", "only", multiple=True, metavar="NAME", help="Only this repair; repeatable.")
@click.option("--except", "except_", multiple=True, metavar="NAME", help="All but this repair; repeatable.")
@click.option(
    "--assume",
    "assume",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Confirm a value that the plan assumes; repeatable.",
)
@level_option("How thorough the check is, before and after.")
@click.option("-j", "--jobs", type=click.IntRange(1), help="Files at once; default: one a core.")
@click.option("--delay-levels", metavar="LEVELS", help="messageDelayLevel of the broker: '1s 5s 10s …'.")
@click.option(
    "--in-place", is_flag=True, help="Replace single files in the store, where it is a mount point."
)
@click.option(
    "--work-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Build and keep in this directory, not beside the store.",
)
@click.option("--no-undo", is_flag=True, help="Delete what was there before in the end.")
@outside_option
@store_options
@output_options("text", "json")
@common_options
def command(
    path: Path,
    dry_run: bool,
    preen: bool,
    yes: bool,
    only: tuple[str, ...],
    except_: tuple[str, ...],
    assume: tuple[str, ...],
    level: Any,
    jobs: int | None,
    told: Told,
    delay_levels: str | None,
    in_place: bool,
    work_dir: Path | None,
    no_undo: bool,
    outside: tuple[Path, ...],
    answer: Answer,
) -> int:
    """Repair the store at PATH: check it, show the verdict and the plan, ask, repair, check again.

    The result is built beside the store and put in its place when it is right; what was there before is kept
    for `rocketfsck undo`. Interrupted, it is finished by the same command. What the bytes do not tell is
    assumed only where you confirm it. Exit status 0: nothing to repair; 1: corrected; 4: problems are left.
    """
    from rocketfsck.verify.options import CheckOptions

    consent = Consent(dry_run, preen, yes)
    if dry_run + preen + yes > 1:
        raise UsageError("--dry-run, --preen and --yes exclude each other")
    if consent.asks and (answer.form != "text" or answer.path is not None or not sys.stdin.isatty()):
        raise UsageError(NO_TERMINAL)
    stores = [path, *told.commitlog_paths, *outside]
    if answer.path is not None:
        refuse_inside(answer.path, stores)
    apply = _Applying(in_place, work_dir, not no_undo, assume, outside)
    with answer.open(stores) as stream:
        palette = answer.palette(stream)
        finished = None if dry_run else apply.finish(path)
        if finished is not None:
            _say(stream, answer, palette, None, None, finished)
            return finished.exit_code
        store = told.open("fix", path, delay_levels=delay_levels)
        report = check_named(store, CheckOptions(level=level, jobs=jobs or 0), path)
        plan, verdict = _planned(store, report, consent, only, except_, assume)
        if answer.form == "text":
            _show(stream, palette, report, plan, verdict)
        if not plan.actions or dry_run or (consent.asks and not _agreed(plan)):
            _say(stream, answer, palette, verdict, plan, None)
            return report.exit_code | (EXIT_PROBLEMS if verdict.may_start is False else 0)
        done = apply.run(plan, confirm_all=consent.asks)
        _say(stream, answer, palette, verdict, plan, done)
    return done.exit_code


def _planned(
    store: Store,
    report: Report,
    consent: Consent,
    only: tuple[str, ...],
    except_: tuple[str, ...],
    assume: tuple[str, ...],
) -> tuple[Plan, Verdict]:
    """The plan that this consent covers, and the verdict; what needs a confirmation that nobody can give now
    is left out."""
    from rocketfsck.repair.plan.planning import make_plan
    from rocketfsck.repair.verdict import judge_store

    named = None if consent.asks or consent.dry_run else [item.partition("=")[0] for item in assume]
    plan = make_plan(store, report, preen=consent.preen, only=only, except_=except_, confirmed_names=named)
    return plan, judge_store(store, report, plan=plan)


def _show(stream: IO[Any], palette: Palette, report: Report, plan: Plan, verdict: Verdict) -> None:
    """The verdict, and what would be done."""
    from rocketfsck.cli.show.repair import plan_lines
    from rocketfsck.cli.show.verdict import verdict_lines

    columns = text_columns()
    shown = replace(verdict, next_command=None)  # it would be this command
    stream.writelines(f"{line}\n" for line in verdict_lines(shown, report.store, palette, columns))
    if plan.actions or plan.unanswered:
        stream.writelines(f"{line}\n" for line in plan_lines(plan, palette, columns, head=False))
    stream.flush()


def _agreed(plan: Plan) -> bool:
    """Ask whether the plan is to be carried out."""
    from rocketfsck.cli.show.text import count_of
    from rocketfsck.repair.plan.law import assumed_names

    assumed = assumed_names(plan.actions)
    right = f"Is what is assumed right ({', '.join(assumed)}), and shall" if assumed else "Shall"
    actions = count_of(len(plan.actions), "action")
    return click.confirm(
        f"{right} {'this' if len(plan.actions) == 1 else 'these'} {actions} be carried out?", err=True
    )


def _say(
    stream: IO[Any],
    answer: Answer,
    palette: Palette,
    verdict: Verdict | None,
    plan: Plan | None,
    done: ApplyReport | None,
) -> None:
    """What came of it."""
    from rocketfsck.cli.show.repair import apply_lines
    from rocketfsck.documents import to_document
    from rocketfsck.repair.plan.document import plan_to_json

    if answer.form == "json":
        document = {
            "schema_version": 1,
            "kind": "rocketfsck.fix",
            "verdict": None if verdict is None else to_document(verdict),
            "plan": None if plan is None else plan_to_json(plan),
            "apply": None if done is None else done.to_json(),
        }
        stream.write(to_json(document, indent=2) + "\n")
    elif done is not None:
        columns = text_columns()
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

    def run(self, plan: Plan, *, confirm_all: bool) -> ApplyReport:
        """Carry a plan out. `confirm_all`: the user has agreed to what it assumes."""
        from rocketfsck.repair.apply.applying import apply_plan
        from rocketfsck.repair.plan.law import all_assumptions, assumed_names

        known = {item.name for item in all_assumptions(plan.actions)}
        names = [item for item in self.assume if item.partition("=")[0] in known]
        if confirm_all:
            given = {item.partition("=")[0] for item in names}
            names += [name for name in assumed_names(plan.actions) if name not in given]
        with progress("check the result") as bar:
            return apply_plan(
                plan,
                in_place=self.in_place,
                work_dir=self.work_dir,
                keep=self.keep,
                progress=bar.update,
                assume=names,
                outside=self.outside,
            )

    def finish(self, path: Path) -> ApplyReport | None:
        """Finish a repair of this store that was interrupted; None without one."""
        from rocketfsck.repair.apply.applying import interrupted_plan

        plan = interrupted_plan(path, self.work_dir)
        return None if plan is None else self.run(plan, confirm_all=True)
