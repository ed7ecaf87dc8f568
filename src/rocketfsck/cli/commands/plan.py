"""`rocketfsck plan STORE`: what a repair would do, in order, with what is lost; written to plan.json."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.base import Command, common_options
from rocketfsck.cli.checking import check_named
from rocketfsck.cli.output import Format, open_output, refuse_inside
from rocketfsck.cli.params import Answer, Told, format_option, level_option, path_argument, store_options
from rocketfsck.cli.show.fit import text_columns
from rocketfsck.cli.show.palette import Palette

if TYPE_CHECKING:
    from rocketfsck.repair.plan.model import Plan
    from rocketfsck.verify.report import Report


@click.command(cls=Command)
@path_argument("path", local="a repair")
@click.option(
    "--report",
    "report_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Plan from this report (check --format json); else the store is checked now.",
)
@click.option("--preen", is_flag=True, help="Only what is provably safe: nothing valid can get lost by it.")
@click.option("--only", "only", multiple=True, metavar="NAME", help="Only this repair; repeatable.")
@click.option("--except", "except_", multiple=True, metavar="NAME", help="All but this repair; repeatable.")
@level_option("How thorough the check is, as for check; apply checks its result at the same level.")
@click.option("-j", "--jobs", type=click.IntRange(1), help="Files at once; default: one a core.")
@click.option("--delay-levels", metavar="LEVELS", help="messageDelayLevel of the broker: '1s 5s 10s …'.")
@store_options
@format_option("text", "json", text="Form of the standard output.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the plan as JSON to this file; without it, the plan is kept where `apply STORE` finds it.",
)
@common_options
def command(
    path: Path,
    report_path: Path | None,
    preen: bool,
    only: tuple[str, ...],
    except_: tuple[str, ...],
    level: Any,
    jobs: int | None,
    told: Told,
    delay_levels: str | None,
    output_format: Format,
    output: Path | None,
) -> int:
    """Plan the repair of the store at PATH: what would be done, why, and what is lost. Only reads the store.

    The plan says which bytes it relies on; apply refuses it once they are others. Exit status 4 says that
    the store has problems.
    """
    from rocketfsck.repair.plan.document import plan_text
    from rocketfsck.repair.plan.kept import keep_plan
    from rocketfsck.repair.plan.planning import make_plan
    from rocketfsck.verify.options import CheckOptions

    stores = [path, *told.commitlog_paths]
    if output is not None:
        refuse_inside(output, stores)
    store = told.open("plan", path, delay_levels=delay_levels)
    stores += store.commitlog.directories
    report = (
        _read_report(report_path)
        if report_path is not None
        else check_named(store, CheckOptions(level=level, jobs=jobs or 0), path)
    )
    plan = make_plan(store, report, preen=preen, only=only, except_=except_)
    if output is None and plan.actions:
        keep_plan(plan)
    if output is not None:
        with open_output(output, binary=False, forbidden=stores) as stream:
            stream.write(plan_text(plan))
    stdout = Answer(output_format, None)
    with stdout.open() as stream:
        if output_format == "json":
            stream.write(plan_text(plan))
        else:
            _write_text(plan, path, output, stream, stdout.palette(stream))
    return report.exit_code


def _read_report(path: Path) -> Report:
    from rocketfsck.verify.documents import read_document
    from rocketfsck.verify.report import Report

    return Report.from_json(read_document(path))


def _write_text(plan: Plan, path: Path, output: Path | None, stream: Any, palette: Palette) -> None:
    from rocketfsck.cli.show.repair import plan_lines
    from rocketfsck.cli.show.text import visible
    from rocketfsck.repair.plan.law import all_assumptions, assume_options

    for line in plan_lines(plan, palette, text_columns()):
        stream.write(line + "\n")
    if plan.actions:
        command = f"rocketfsck apply {shlex.quote(str(path if output is None else output))}"
        options = assume_options(all_assumptions(plan.actions))
        stream.write(f"Next: {palette.good(visible(command + options, keep_backslash=True))}\n")
        if options:
            stream.write(
                "  if what is assumed is right; --broker-conf FILE lets the broker's settings say so\n"
            )
