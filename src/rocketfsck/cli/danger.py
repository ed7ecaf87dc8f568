"""Commands that write: their help sorts options by danger, and they pause before a dangerous act.

    Safe options        they only look, or say how something is shown or how fast
    Advisory options    they decide what is changed, or take the user's word for something
    Dangerous options   they give up a way back, or go over a refusal

The pause is for somebody at a terminal who may have typed too fast; a script has no terminal and does not
wait.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import click

from rocketfsck.cli.base import Command
from rocketfsck.cli.lang import said, say_line
from rocketfsck.cli.settings import own_params, write_options
from rocketfsck.commands.shared import refuse_inside
from rocketfsck.common.options import Option

PAUSE_SECONDS = 10

SECTIONS = (
    "Safe options",
    "Advisory options, which decide what is changed or take your word",
    "Dangerous options, before which a terminal gets a pause",
)


class WritingCommand(Command):
    """A command that changes or makes stores.

    `advisory` are names of parameters; `dangers` says for names of others what they do that has no way back.
    """

    def __init__(
        self,
        *args: Any,
        advisory: Collection[str] = (),
        dangers: Mapping[str, str] | None = None,
        **given: Any,
    ) -> None:
        super().__init__(*args, **given)
        self.advisory = advisory
        self.dangers = dangers or {}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options in sections, the safe ones first."""
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in SECTIONS}
        for parameter in own_params(ctx):
            name, record = parameter.name, parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                danger = 2 if name in self.dangers else int(name in self.advisory)
                sections[SECTIONS[danger]].append(record)
        write_options(ctx, formatter, sections)


SkipPause = Annotated[
    bool, Option("Skip the pause that a dangerous option makes on a terminal.", names=("-y", "--yes"))
]
"""`--yes` of commands that ask nothing."""


def say_notes(notes: Sequence[str]) -> None:
    """Notes on standard error, a line each."""
    for note in notes:
        say_line(note, err=True)


def pause_before(output: Path | None, yes: bool, stores: Sequence[Path]) -> None:
    """`pause_before_danger`, where the output is to go to no place in these stores: else UsageError."""
    if output is not None:
        refuse_inside(output, stores)
    pause_before_danger(yes)


def pause_before_danger(yes: bool) -> None:
    """On a terminal, say what is dangerous about the options of this command line, and wait; Ctrl-C stops it.

    Nothing is said or waited for with `yes`, or without a dangerous option. Raises KeyboardInterrupt.
    """
    context = click.get_current_context()
    command = context.command
    if yes or not isinstance(command, WritingCommand) or not sys.stdin.isatty():
        return
    found = [text for name, text in command.dangers.items() if context.params.get(name)]
    if not found:
        return
    for text in found:
        say_line(f"WARNING: {text}", err=True)
    click.echo(said("Ctrl-C stops this, --yes skips the pause. Starting in"), err=True, nl=False)
    for second in range(PAUSE_SECONDS, 0, -1):
        click.echo(f" {second}", err=True, nl=False)
        time.sleep(1)
    click.echo("", err=True)
