"""Lets the config files and the environment give a command the values that its command line does not.

the command line > the environment > the project's file > the user's file

`[rules.CL007]` of a config file: what is done about a rule's findings.

    severity = "info"      how its findings are reported: info, warning or error
    preen = false          plan --preen and fix --preen leave out what answers it
    max_count = 10         so many of its findings are shown; all are counted
    ignore = true          check leaves it out, as with --ignore

A rule is named by its id or its slug. What `apply` asks of a plan is the same, whatever is set here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

import click
from click.core import ParameterSource

from rocketfsck.cli.config.options import (
    RULES_TABLE,
    ConfigFile,
    convert,
    find_files,
    long_name,
    settings_in_force,
)
from rocketfsck.cli.lang import say_line
from rocketfsck.cli.show.text import visible
from rocketfsck.commands.shared import resolved
from rocketfsck.errors import UsageError
from rocketfsck.verify.finding import SeverityName
from rocketfsck.verify.policy import Policy, RulePolicy
from rocketfsck.verify.rules.catalog import RULES

_KINDS: dict[str, tuple[type, str]] = {
    "severity": (str, f"one of {', '.join(get_args(SeverityName))}"),
    "preen": (bool, "true or false"),
    "max_count": (int, "a number, 0 or more"),
    "ignore": (bool, "true or false"),
}


def read_policy(files: Sequence[ConfigFile]) -> tuple[Policy, dict[str, str]]:
    """The policy for each rule that the files name, and by "RULE.key" the file that sets it.

    Raises UsageError for a rule, a key or a value that there is not.
    """
    values: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    for file in reversed(files):
        table = file.content.get(RULES_TABLE, {})
        if not isinstance(table, dict):
            raise UsageError(f"{visible(str(file.path))}: {RULES_TABLE} is not a table")
        for name, given in table.items():
            rule = _rule(file, name)
            if not isinstance(given, dict):
                raise UsageError(f"{visible(str(file.path))}: [{RULES_TABLE}] {visible(name)} is not a table")
            for key, value in given.items():
                place = f"{visible(str(file.path))}: [{RULES_TABLE}.{visible(name)}] {visible(key)}"
                _refuse_odd(place, key, value)
                values.setdefault(rule, {})[key] = value
                origins[f"{rule}.{key}"] = str(file.path)
    return {rule: RulePolicy(**given) for rule, given in values.items()}, origins


def _rule(file: ConfigFile, name: str) -> str:
    slugs = {rule.slug: rule.id for rule in RULES.values()}
    found = name.upper() if name.upper() in RULES else slugs.get(name.lower())
    if found is None:
        near = get_close_matches(name.upper(), RULES, 1) or get_close_matches(name.lower(), slugs, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        place = f"{visible(str(file.path))}: [{RULES_TABLE}]"
        raise UsageError(f"{place} there is no rule {visible(name)!r}{hint}")
    return found


def _refuse_odd(place: str, key: str, value: Any) -> None:
    assert set(_KINDS) == {item.name for item in fields(RulePolicy)}
    if key not in _KINDS:
        near = get_close_matches(key, _KINDS, 1)
        raise UsageError(f"{place}: there is no such key{f'; did you mean {near[0]!r}?' if near else ''}")
    kind, words = _KINDS[key]
    wrong = type(value) is not kind or (key == "severity" and value not in get_args(SeverityName))
    if wrong or (kind is int and value < 0):
        raise UsageError(f"{place} is not {words}")


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
            say_line(f"Note: {visible(str(file.path))} is not read: {file.refused}.", err=True)
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
