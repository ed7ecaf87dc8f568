"""`rocketfsck completion SHELL`: the script that teaches a shell to complete the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import click
from click.shell_completion import get_completion_class

from rocketfsck.cli.adapter import command_of
from rocketfsck.common.options import Argument

HOW = {
    "bash": 'eval "$(rocketfsck completion bash)"            # in ~/.bashrc',
    "zsh": 'eval "$(rocketfsck completion zsh)"             # in ~/.zshrc',
    "fish": "rocketfsck completion fish > ~/.config/fish/completions/rocketfsck.fish",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionLine:
    """Whose script is printed."""

    shell: Annotated[Literal["bash", "zsh", "fish"], Argument()]


@command_of(CompletionLine, epilog="\b\n" + "\n".join(HOW.values()))
def command(line: CompletionLine) -> None:
    """Print the completion script for SHELL."""
    kind = get_completion_class(line.shell)
    assert kind is not None
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, "rocketfsck", "_ROCKETFSCK_COMPLETE").source())
