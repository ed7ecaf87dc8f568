"""`rocketfsck config`: which config files count, what is in force for which command, and where it is set.

`rocketfsck completion SHELL`: the script that teaches a shell to complete the command line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import click
from click.shell_completion import get_completion_class

from rocketfsck.cli import config
from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.commands import COMMANDS
from rocketfsck.cli.output import Destination
from rocketfsck.cli.show.text import Palette, aligned, visible
from rocketfsck.common.documents import json_text, to_document
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
def completion_command(line: CompletionLine) -> None:
    """Print the completion script for SHELL."""
    kind = get_completion_class(line.shell)
    assert kind is not None
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, "rocketfsck", "_ROCKETFSCK_COMPLETE").source())


KIND = "rocketfsck.config"


@dataclass(frozen=True, slots=True)
class FileSaid:
    """A config file: whose it is, whether it is there, and why it is not read, "" if it is."""

    path: str
    whose: config.Kind
    found: bool
    refused: str


@dataclass(frozen=True, slots=True)
class RuleSetting:
    """One value that is in force for a rule, and the file that sets it."""

    rule: str
    key: str
    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class ConfigSaid:
    """All that is in force."""

    files: tuple[FileSaid, ...]
    settings: tuple[config.Setting, ...]
    rules: tuple[RuleSetting, ...]
    schema_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigLine:
    """Where the answer goes."""

    answer: Annotated[Destination, Formats(("text", "json"))]


@command_of(ConfigLine)
def config_command(line: ConfigLine) -> None:
    """Show the settings in force, and where each is set.

    The command line goes over the environment (ROCKETFSCK_CHECK_LEVEL), that over ./rocketfsck.toml, and that
    over the user's config file. All of these are read and judged: what is wrong with one is an error.
    """
    context = click.get_current_context()
    files = config.files_of(context)
    settings = tuple(config.settings_in_force(files, tuple(COMMANDS)))
    config.check_values(settings, context)
    policy, origins = config.read_policy(files)
    rules = tuple(
        RuleSetting(rule, key, getattr(policy[rule], key), origin)
        for name, origin in sorted(origins.items())
        for rule, _, key in [name.partition(".")]
    )
    found = tuple(FileSaid(str(file.path), file.kind, file.found, file.refused) for file in files)
    said = ConfigSaid(found, settings, rules)
    line.answer.say(lambda: {"kind": KIND, **to_document(said)}, lambda palette: _lines(said, palette))


def _lines(said: ConfigSaid, palette: Palette) -> Iterator[str]:
    yield palette.bold("Config files, each over those below it")
    rows = [(file.whose, visible(file.path), _state(file)) for file in said.files]
    yield from (f"  {line}" for line in aligned(rows or [("none",)]))
    yield ""
    yield palette.bold("Settings in force")
    named = [(item.command or "all commands", item.option, item.value, item.origin) for item in said.settings]
    named += [(item.rule, item.key, item.value, item.origin) for item in said.rules]
    cells = [(*names, visible(json_text(value)), visible(origin)) for *names, value, origin in named]
    yield from (f"  {line}" for line in aligned(cells or [("none",)]))


def _state(file: FileSaid) -> str:
    if file.refused:
        return f"not read: {file.refused}"
    return "read" if file.found else "not there"
