"""`rocketfsck plan STORE`: what a repair would do, in order, with what is lost; written to plan.json."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.base import Command
from rocketfsck.cli.config.applying import policy_in_force
from rocketfsck.cli.memory import memory_option
from rocketfsck.cli.options import (
    assume_option,
    choosing_options,
    delay_levels_option,
    jobs_option,
    level_option,
    offsets_option,
    preen_option,
    report_option,
)
from rocketfsck.cli.output import Format, open_output, refuse_inside, to_json
from rocketfsck.cli.params import (
    Destination,
    StoreOptions,
    format_option,
    mode_option,
    path_argument,
    store_options,
)
from rocketfsck.cli.paramtypes import OutputPath
from rocketfsck.cli.settings import common_options
from rocketfsck.cli.show.fit import text_columns
from rocketfsck.cli.show.text import Palette
from rocketfsck.cli.timing import timing_option
from rocketfsck.common.outputs import STDOUT
from rocketfsck.engine.passes import Passes, measured

if TYPE_CHECKING:
    from rocketfsck.repair.plan.model import Plan
    from rocketfsck.verify.report import Report


@click.command(cls=Command)
@path_argument("path", local="a repair")
@report_option
@preen_option
@choosing_options
@assume_option
@offsets_option
@level_option
@jobs_option
@memory_option("plan")
@delay_levels_option
@store_options
@format_option("text", "json")
@click.option(
    "-o",
    "--output",
    type=OutputPath(),
    help="Write the plan as JSON to this file (-: standard output); without it, the plan is kept where "
    "`apply STORE` finds it.",
)
@mode_option
@timing_option
@common_options
def command(
    path: Path,
    report_path: Path | None,
    preen: bool,
    only: tuple[str, ...],
    except_: tuple[str, ...],
    assume: tuple[str, ...],
    offsets: str | None,
    level: Any,
    stated: StoreOptions,
    delay_levels: str | None,
    output_format: Format,
    output: Path | None,
    passes: Passes | None,
) -> int:
    """Plan the repair of STORE: actions, reasons and losses. Only reads the store.

    The plan names the bytes that it relies on; apply rejects the plan if these bytes have changed. Exit
    status 4 means that the store has problems.
    """
    from rocketfsck.repair.apply.holding import held_plan
    from rocketfsck.repair.build.wishes import wished_offsets
    from rocketfsck.repair.plan.basis import named_values
    from rocketfsck.repair.plan.document import plan_text, plan_to_json
    from rocketfsck.repair.plan.kept import keep_plan
    from rocketfsck.repair.plan.planning import make_plan
    from rocketfsck.verify.options import CheckOptions
    from rocketfsck.verify.policy import unpreened_rules
    from rocketfsck.verify.run import check_store

    stores = [path, *stated.commitlog_paths]
    if output is not None:
        refuse_inside(output, stores)
    with measured(passes, "open"):
        store = stated.open("plan", path, delay_levels=delay_levels, **named_values(assume))
    stores += store.commitlog.directories
    report = (
        _read_report(report_path)
        if report_path is not None
        else check_store(store, CheckOptions(level=level), passes=passes)
    )
    with measured(passes, "plan"):
        unpreened = unpreened_rules(policy_in_force(click.get_current_context()))
        plan = make_plan(
            store,
            report,
            preen=preen,
            only=only,
            except_=except_,
            unpreened=unpreened,
            wished=() if offsets is None else wished_offsets(store, offsets),
        )
        plan = held_plan(plan, store, report)
    if output is None and plan.actions:
        keep_plan(plan)
    if output is not None:
        with open_output(output, binary=False, forbidden=stores) as stream:
            stream.write(plan_text(plan))
    if output == STDOUT:
        return report.exit_code
    stdout = Destination(output_format, None)
    with stdout.open() as stream:
        if output_format == "json":
            stream.write(to_json(plan_to_json(plan), indent=2) + "\n")
        else:
            _write_text(plan, path, output, stream, stdout.palette(stream))
    return report.exit_code


def _read_report(path: Path) -> Report:
    from rocketfsck.verify.documents import read_document
    from rocketfsck.verify.report import Report

    return Report.from_json(read_document(path, "report"))


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
