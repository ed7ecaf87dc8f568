"""`rocketfsck completion SHELL`: the script that teaches a shell to complete the command line."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from rocketfsck.cli.base import Command
from rocketfsck.cli.settings import common_options

HOW = {
    "bash": 'eval "$(rocketfsck completion bash)"            # in ~/.bashrc',
    "zsh": 'eval "$(rocketfsck completion zsh)"             # in ~/.zshrc',
    "fish": "rocketfsck completion fish > ~/.config/fish/completions/rocketfsck.fish",
}


@click.command(cls=Command, epilog="\b\n" + "\n".join(HOW.values()))
@click.argument("shell", type=click.Choice(list(HOW)))
@click.pass_context
@common_options
def command(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL."""
    kind = get_completion_class(shell)
    assert kind is not None
    root = context.find_root().command
    click.echo(kind(root, {}, "rocketfsck", "_ROCKETFSCK_COMPLETE").source())
