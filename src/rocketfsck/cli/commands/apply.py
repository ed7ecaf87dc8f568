"""`rocketfsck apply PLAN`: does what a plan says, next to the store, and puts the result in its place."""

from __future__ import annotations

from pathlib import Path

import click

from rocketfsck.cli.danger import WritingCommand, pause_before_danger, pause_option
from rocketfsck.cli.logging import log_option, log_repair, prepare_log
from rocketfsck.cli.options import assume_option, in_place_option, no_undo_option, work_dir_option
from rocketfsck.cli.output import refuse_inside
from rocketfsck.cli.params import Destination, broker_conf_option, output_options, outside_option
from rocketfsck.cli.paramtypes import InputPath
from rocketfsck.cli.settings import common_options
from rocketfsck.cli.show.fit import text_columns


@click.command(
    cls=WritingCommand,
    advisory=("in_place", "assume", "broker_conf", "outside"),
    dangers={"no_undo": "the store of before is deleted in the end: this repair cannot be taken back"},
)
@click.argument("plan_path", metavar="PLAN|STORE", type=InputPath())
@in_place_option
@work_dir_option
@no_undo_option
@assume_option
@broker_conf_option
@outside_option
@log_option()
@pause_option
@output_options("text", "json")
@common_options
def command(
    plan_path: Path,
    in_place: bool,
    work_dir: Path | None,
    no_undo: bool,
    assume: tuple[str, ...],
    broker_conf: Path | None,
    outside: tuple[Path, ...],
    log: Path | None,
    yes: bool,
    answer: Destination,
) -> int:
    """Carry out the plan in the file PLAN, or the last plan of STORE that was made without a file.

    apply builds the result next to the store, checks it, and only then puts it in the store's place; the
    former store is kept for `rocketfsck undo`. After an interruption, run the same command again to finish.
    If the plan assumes values that the bytes do not show, confirm them by --assume or by the settings in
    --broker-conf. Exit status 1: corrected; 4: problems are left, or the result was not as planned and
    nothing was changed; 16: an assumption is not confirmed.
    """
    from rocketfsck.cli.show.repair import apply_lines
    from rocketfsck.repair.apply.applying import apply_plan
    from rocketfsck.repair.plan.document import read_plan
    from rocketfsck.repair.plan.kept import kept_plan
    from rocketfsck.store.settings import read_settings

    plan = kept_plan(plan_path) if plan_path.is_dir() else read_plan(plan_path)
    settings = None if broker_conf is None else read_settings(broker_conf)
    stores = [Path(plan.store.root), *map(Path, plan.store.commitlog_paths), *outside]
    if answer.path is not None:
        refuse_inside(answer.path, stores)
    prepare_log(log, stores)
    pause_before_danger(yes)
    report = apply_plan(
        plan,
        in_place=in_place,
        work_dir=work_dir,
        keep=not no_undo,
        assume=assume,
        settings=settings,
        outside=outside,
    )
    log_repair(log, plan, report, "plan")
    columns = text_columns()
    answer.say(report.to_json, lambda palette: apply_lines(report, palette, columns), stores)
    return report.exit_code
