"""`rocketfsck undo STORE`: takes the last repair of a store back."""

from __future__ import annotations

from pathlib import Path

import click

from rocketfsck.cli.base import Command, common_options
from rocketfsck.cli.output import refuse_inside
from rocketfsck.cli.params import Answer, StorePath, output_options, outside_option


@click.command(cls=Command)
@click.argument("path", metavar="STORE", type=StorePath("a repair"))
@click.option(
    "--work-dir", type=click.Path(path_type=Path, file_okay=False), help="The directory that apply was given."
)
@click.option(
    "--force", is_flag=True, help="Even if the store changed since; what is there now is kept elsewhere."
)
@outside_option
@output_options("text", "json")
@common_options
def command(
    path: Path,
    work_dir: Path | None,
    force: bool,
    outside: tuple[Path, ...],
    answer: Answer,
) -> None:
    """Take back the last repair of STORE, finished or interrupted: its bytes, names and times.

    Interrupted, it is finished by the same command. Messages written after the repair go, too: that needs
    --force.
    """
    from rocketfsck.cli.show.repair import undo_lines
    from rocketfsck.repair.apply.undoing import undo

    if answer.path is not None:
        refuse_inside(answer.path, [path, *outside])
    report = undo(path, work_dir=work_dir, force=force, outside=outside)
    answer.say(report.to_json, lambda palette: undo_lines(report, palette), [path, *outside])
