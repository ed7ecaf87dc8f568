"""`rocketfsck undo STORE`: takes the last repair of a store back."""

from __future__ import annotations

from pathlib import Path

import click

from rocketfsck.cli.base import Command, common_options, settings_of
from rocketfsck.cli.output import Format, open_output, refuse_inside, to_json
from rocketfsck.cli.params import StorePath, output_options, outside_option
from rocketfsck.cli.show.palette import Palette


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
@click.pass_context
@common_options
def command(
    context: click.Context,
    /,
    path: Path,
    work_dir: Path | None,
    force: bool,
    outside: tuple[Path, ...],
    output_format: Format,
    output: Path | None,
) -> None:
    """Take back the last repair of STORE, finished or interrupted: its bytes, names and times.

    Interrupted, it is finished by the same command. Messages written after the repair go, too: that needs
    --force.
    """
    from rocketfsck.repair.apply.undoing import undo

    if output is not None:
        refuse_inside(output, [path, *outside])
    report = undo(path, work_dir=work_dir, force=force, outside=outside)
    with open_output(output, binary=False, forbidden=[path, *outside]) as stream:
        if output_format == "json":
            stream.write(to_json(report.to_json(), indent=2) + "\n")
        else:
            from rocketfsck.cli.show.repair import undo_lines

            palette = Palette(output is None and settings_of(context).colored(stream))
            stream.writelines(f"{line}\n" for line in undo_lines(report, palette))
