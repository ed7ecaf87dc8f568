"""Lets the config files and the environment give a command the values that its command line does not.

the command line > the environment > the project's file > the user's file
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from rocketfsck.cli.config.files import ConfigFile, find_files
from rocketfsck.cli.config.options import convert, long_name, settings_in_force
from rocketfsck.cli.show.text import visible
from rocketfsck.commands.places import resolved
from rocketfsck.errors import UsageError
from rocketfsck.verify.policy import Policy

_KEPT = f"{__name__}.files"


def apply_config(context: click.Context, named: Path | None, none: bool) -> None:
    """Set the defaults of the command of `context`, before its own arguments are taken.

    `named` is the file that the user named, `none` that no file counts. Raises UsageError for a file that
    cannot be read, or what it must not say.
    """
    if named is not None and none:
        raise UsageError("--config and --no-config exclude each other")
    files = find_files(named, none=none)
    context.meta[_KEPT] = files
    for file in files:
        if file.refused:
            click.echo(f"Note: {visible(str(file.path))} is not read: {file.refused}.", err=True)
    options = {long_name(item): item for item in context.command.params if isinstance(item, click.Option)}
    defaults = {}
    for setting in settings_in_force(files, [*filter(None, [command_name(context)])]):
        option = options.get(setting.option)
        if option is not None and (setting.command or not _given_above(context, option)):
            defaults[option.name] = convert(setting, option, context)
    if defaults:
        context.default_map = defaults


def command_name(context: click.Context) -> str:
    """The command's name in the table of commands: of `query key`, query; "" for one that is not in it."""
    above = context
    while above.parent is not None and above.parent.parent is not None:
        above = above.parent
    package, _, name = getattr(above.command.callback, "__module__", "").rpartition(".")
    return name if package == "rocketfsck.cli.commands" else ""


def _given_above(context: click.Context, option: click.Option) -> bool:
    """Whether an option of all commands is on the command line before the command's name."""
    above = context.parent
    while above is not None:
        if above.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE:
            return True
        above = above.parent
    return False


def files_of(context: click.Context) -> tuple[ConfigFile, ...]:
    """The config files that were looked for when this command began."""
    files: tuple[ConfigFile, ...] = context.meta.get(_KEPT, ())
    return files


def policy_in_force(context: click.Context) -> Policy:
    """What the config files want for single rules. Raises UsageError for what they must not say."""
    files = files_of(context)
    if not any(file.content for file in files):
        return {}
    from rocketfsck.cli.config.rules import read_policy

    return read_policy(files)[0]


def refuse_own_config(context: click.Context) -> None:
    """Raises UsageError where the project's config file is inside a store that the command line names."""
    project = [file for file in files_of(context) if file.kind == "project" and file.content]
    for file in project:
        place = resolved(file.path)
        for path in _paths(context):
            if place.is_relative_to(resolved(path)):
                raise UsageError(
                    f"{visible(str(file.path))} is inside {visible(str(path))}, which must not say how it is "
                    "checked: move it, or give --no-config, or name it with --config"
                )


def _paths(context: click.Context) -> Iterator[Path]:
    """The stores and files that a command line names."""
    for parameter in context.command.params:
        if isinstance(parameter, click.Argument) or parameter.name == "commitlog_paths":
            value = context.params.get(str(parameter.name))
            items: Sequence[object] = value if isinstance(value, (list, tuple)) else (value,)
            yield from (item for item in items if type(item) is type(Path()) and item.exists())
