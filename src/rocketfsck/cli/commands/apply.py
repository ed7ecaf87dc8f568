"""`rocketfsck apply PLAN`: does what a plan says, beside the store, and puts the result in its place."""

from __future__ import annotations

from pathlib import Path

import click

from rocketfsck.cli.base import Command, common_options
from rocketfsck.cli.output import refuse_inside
from rocketfsck.cli.params import Answer, StorePath, output_options, outside_option
from rocketfsck.cli.progress import progress
from rocketfsck.cli.show.fit import text_columns


@click.command(cls=Command)
@click.argument("plan_path", metavar="PLAN|STORE", type=click.Path(path_type=Path))
@click.option(
    "--in-place",
    is_flag=True,
    help="Replace single files in the store, not the store as a whole: where it is a mount point, or its "
    "commit log is elsewhere.",
)
@click.option(
    "--work-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Build and keep in this directory, not beside the store; on another file system only --in-place.",
)
@click.option(
    "--no-undo", is_flag=True, help="Delete what was there before in the end; what was set aside is kept."
)
@click.option(
    "--assume",
    "assume",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Confirm a value that the plan assumes; repeatable.",
)
@click.option(
    "--broker-conf",
    type=StorePath(dir_okay=False),
    help="Confirm what the plan assumes by the settings of this broker; they must agree with the plan.",
)
@outside_option
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
    answer: Answer,
) -> int:
    """Carry out the plan in the file PLAN, or the last plan that was made for STORE without a file.

    The result is built beside the store, checked, and only then put in its place; what was there before is
    kept for `rocketfsck undo`. Interrupted, it is finished by the same command. A plan that assumes what the
    bytes do not tell is refused until that is confirmed. Exit status 1: corrected; 4: problems are left, or
    the result was not as promised and nothing was changed; 16: an assumption is not confirmed.
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
    with progress("check the result") as bar:
        report = apply_plan(
            plan,
            in_place=in_place,
            work_dir=work_dir,
            keep=not no_undo,
            progress=bar.update,
            assume=assume,
            settings=settings,
            outside=outside,
        )
    columns = text_columns()
    answer.say(report.to_json, lambda palette: apply_lines(report, palette, columns), stores)
    return report.exit_code
