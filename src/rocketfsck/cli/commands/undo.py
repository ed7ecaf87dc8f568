"""`rocketfsck undo STORE`: takes the last repair of a store back."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocketfsck.cli.danger import WritingCommand, pause_before_danger, pause_option
from rocketfsck.cli.logging import log_option, log_undo, prepare_log
from rocketfsck.cli.options import work_dir_option
from rocketfsck.cli.output import refuse_inside
from rocketfsck.cli.params import Destination, output_options, outside_option
from rocketfsck.cli.paramtypes import StorePath
from rocketfsck.cli.settings import common_options
from rocketfsck.errors import StoreError

if TYPE_CHECKING:
    from rocketfsck.repair.plan.model import Plan


@click.command(
    cls=WritingCommand,
    advisory=("outside",),
    dangers={"force": "what was written since the repair leaves the store, and is kept next to it"},
)
@click.argument("path", metavar="STORE", type=StorePath("a repair"))
@work_dir_option
@click.option(
    "--force",
    is_flag=True,
    help="Undo even if the store changed since; the present files are kept elsewhere.",
)
@outside_option
@log_option()
@pause_option
@output_options("text", "json")
@common_options
def command(
    path: Path,
    work_dir: Path | None,
    force: bool,
    outside: tuple[Path, ...],
    log: Path | None,
    yes: bool,
    answer: Destination,
) -> None:
    """Take back the last repair of STORE, finished or interrupted: its bytes, names and times.

    After an interruption, run the same command again to finish. Messages written after the repair would leave
    the store: that needs --force.
    """
    from rocketfsck.cli.show.repair import undo_lines
    from rocketfsck.repair.apply.undoing import last_plan, undo

    if answer.path is not None:
        refuse_inside(answer.path, [path, *outside])
    prepare_log(log, [path, *outside])
    pause_before_danger(yes)
    plan = last_plan(path, work_dir)
    report = undo(path, work_dir=work_dir, force=force, outside=outside)
    log_undo(log, report)
    _keep(plan)
    answer.say(report.to_json, lambda palette: undo_lines(report, palette), [path, *outside])


def _keep(plan: Plan | None) -> None:
    """Keep the plan that was taken back, where it can be, so that `apply STORE` carries it out again."""
    from rocketfsck.repair.plan.kept import keep_plan

    if plan is not None and plan.actions:
        with suppress(StoreError):
            keep_plan(plan)
