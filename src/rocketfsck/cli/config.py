"""Which options a config file or the environment may set, and what is set for a command.

    color = "never"          options of all commands, before the first table
    [check]                  options of one command by their long names; [query] is for all of its commands
    level = "cross"
    [rules.CL007]            see `cli.config`

The environment has the same options: ROCKETFSCK_CHECK_LEVEL, ROCKETFSCK_COLOR. What is not in `SETTABLE`
cannot be set: the paths of stores, where something is written, consent, and what is dangerous belong on the
command line.

Where `rocketfsck.toml` is, and what is in it.

    --config FILE, ROCKETFSCK_CONFIG     this file, and no other
    ./rocketfsck.toml                    the project's
    $XDG_CONFIG_HOME/rocketfsck/config.toml, else ~/.config/rocketfsck/config.toml     the user's

A store may come from anybody, and so may what is in it: the project's file is not read from inside a store,
nor where the file belongs to another user.

Lets the config files and the environment give a command the values that its command line does not.

the command line > the environment > the project's file > the user's file

`[rules.CL007]` of a config file: what is done about a rule's findings.

    severity = "info"      how its findings are reported: info, warning or error
    preen = false          plan --preen and fix --preen leave out what answers it
    max_count = 10         so many of its findings are shown; all are counted
    ignore = true          check leaves it out, as with --ignore

A rule is named by its id or its slug. What `apply` asks of a plan is the same, whatever is set here.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import click
from click.core import ParameterSource

from rocketfsck.cli.commands import COMMANDS, command_of_function, load_command
from rocketfsck.cli.lang import say_line
from rocketfsck.cli.settings import common_params
from rocketfsck.cli.show.text import visible
from rocketfsck.commands.shared import resolved
from rocketfsck.errors import UsageError

if TYPE_CHECKING:
    from rocketfsck.verify.stopping import Policy

Kind = Literal["named", "project", "user"]
PROJECT_NAME = "rocketfsck.toml"
FILE_VARIABLE = "ROCKETFSCK_CONFIG"
MAX_SIZE = 1 << 20


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A config file that was looked for. `refused` says why one that is there is not read, "" if it is."""

    path: Path
    kind: Kind
    found: bool
    refused: str = ""
    content: Mapping[str, Any] = field(default_factory=dict)


def find_files(named: Path | None, *, none: bool = False) -> tuple[ConfigFile, ...]:
    """The config files, those first that go over others; `named` stands for all of them, `none` for no file.

    Raises UsageError for a file that cannot be read or is not TOML; of a named one, also where it is missing.
    """
    if none:
        return ()
    if named is None and os.environ.get(FILE_VARIABLE):
        named = Path(os.environ[FILE_VARIABLE])
    if named is not None:
        return (ConfigFile(named, "named", True, content=_read(named)),)
    places: list[tuple[Path, Kind]] = [(Path(PROJECT_NAME).absolute(), "project")]
    user = _user_path()
    if user is not None:
        places.append((user, "user"))
    return tuple(_look(path, kind) for path, kind in places)


def _user_path() -> Path | None:
    base = os.environ.get("XDG_CONFIG_HOME")
    try:
        return (Path(base) if base else Path.home() / ".config") / "rocketfsck" / "config.toml"
    except RuntimeError:
        return None  # no home directory


def _look(path: Path, kind: Kind) -> ConfigFile:
    try:
        owner = path.stat().st_uid
    except OSError:
        return ConfigFile(path, kind, False)
    if kind == "project":
        from rocketfsck.store.meant import is_in_store

        if is_in_store(path.parent):
            return ConfigFile(path, kind, True, "the file is inside a store")
        if owner not in (0, os.geteuid()):
            return ConfigFile(path, kind, True, "the file belongs to another user")
    return ConfigFile(path, kind, True, content=_read(path))


def _read(path: Path) -> dict[str, Any]:
    name = visible(str(path))
    try:
        # What is not a plain file, a pipe for one, might never end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"{name} is not a file")
            data = stream.read(MAX_SIZE + 1)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    if len(data) > MAX_SIZE:
        raise UsageError(f"{name} is larger than a config file may be ({MAX_SIZE:,} bytes)")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        raise UsageError(f"{name} is not TOML: {visible(str(error))}") from error


Scope = Literal["all", "user"]
RULES_TABLE = "rules"
PREFIX = "ROCKETFSCK_"

SETTABLE: Mapping[str, Scope] = {
    **dict.fromkeys(("log", "master", "spark-conf", "work-dir"), "user"),
    **dict.fromkeys((
        "all", "background", "baseline", "body", "broker-conf", "broker-version", "bwlimit", "by", "color",
        "lang", "delay-levels", "engine", "except", "format", "ignore", "jobs", "json-integers", "keys",
        "level", "max-duration", "quiet", "scrub", "select", "subset", "time-zone", "verbose", "via",
    ), "all"),
}  # fmt: skip
"""Options by long name. "user": not in a project's file, since it leads to other places or machines."""


@click.command(params=common_params())
def _common() -> None:
    """Has the options of all commands."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One value that is in force: of an option of a command ("" for all commands), and where it is set."""

    command: str
    option: str
    value: Any
    origin: str


def settings_in_force(files: Sequence[ConfigFile], names: Sequence[str]) -> Iterator[Setting]:
    """What is set for the commands of these names and for all commands, by the file or variable that decides.

    Raises UsageError for what no command has, may not be set, or has a value of another kind.
    """
    for file in files:
        _refuse_unknown_tables(file)
    for name in ("", *names):
        found: dict[str, Setting] = {}
        for file in reversed(files):
            content = file.content.get(name, {}) if name else _top(file.content)
            if not isinstance(content, dict):
                raise UsageError(f"{visible(str(file.path))}: {name} is not a table")
            for key, value in content.items():
                option = _option(file, name, str(key))
                found[option] = Setting(name, option, value, str(file.path))
        for option in options_of(name):
            variable = variable_name(name, option)
            if os.environ.get(variable):
                found[option] = Setting(name, option, os.environ[variable], variable)
        yield from found.values()


def variable_name(command: str, option: str) -> str:
    """The environment variable of an option: ROCKETFSCK_CHECK_LEVEL."""
    words = [command, option] if command else [option]
    return PREFIX + "_".join(words).replace("-", "_").upper()


def options_of(command: str) -> dict[str, list[click.Option]]:
    """The options of a command that can be set, by long name; of all commands for ""."""
    if not command:
        return {name: found for name, found in _named([_common]) if name in SETTABLE}
    common = options_of("")
    return {
        name: same for name, same in _named(_commands(command)) if name in SETTABLE and name not in common
    }


def _named(commands: Sequence[click.Command]) -> Iterator[tuple[str, list[click.Option]]]:
    names: dict[str, list[click.Option]] = {}
    for command in commands:
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                names.setdefault(long_name(parameter), []).append(parameter)
    yield from names.items()


def long_name(option: click.Option) -> str:
    """An option's name as it is typed, without the hyphens before it."""
    return max(option.opts, key=len).lstrip("-")


def _top(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if not isinstance(value, dict)}


def _refuse_unknown_tables(file: ConfigFile) -> None:
    for key, value in file.content.items():
        if isinstance(value, dict) and key not in COMMANDS and key != RULES_TABLE:
            near = _near(key, [*COMMANDS, RULES_TABLE])
            raise UsageError(f"{visible(str(file.path))}: there is no command {visible(key)!r}{near}")


def _option(file: ConfigFile, command: str, key: str) -> str:
    """The long name that a key means. Raises UsageError for one that cannot be set."""
    option, known = key.replace("_", "-"), options_of(command)
    place = f"{visible(str(file.path))}: {f'[{command}] ' if command else ''}{visible(key)}"
    if option not in known:
        if command and any(option == name for name, _ in _named(_commands(command))):
            raise UsageError(f"{place} cannot be set in a file: give it on the command line")
        raise UsageError(f"{place}: there is no such option{_near(option, known)}")
    if file.kind == "project" and SETTABLE[option] == "user":
        raise UsageError(f"{place} cannot be set by a project: set it in your own config file")
    return option


def _commands(name: str) -> list[click.Command]:
    found = load_command(name)
    return [found, *found.commands.values()] if isinstance(found, click.Group) else [found]


def _near(key: str, known: Any) -> str:
    near = get_close_matches(key, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def convert(setting: Setting, option: click.Option, context: click.Context) -> Any:
    """The value of a setting as its option takes it. Raises UsageError for one of another kind."""
    value = setting.value
    from_text = isinstance(value, str)
    if not all(
        isinstance(item, (str, int, float)) for item in (value if isinstance(value, list) else [value])
    ):
        raise _wrong(setting, "is neither a text nor a number")
    if option.multiple:
        value = value.replace(",", " ").split() if from_text else value
        if not isinstance(value, list):
            raise _wrong(setting, "is not a list")
    elif isinstance(value, list):
        raise _wrong(setting, "is not one value")
    if option.is_flag and not isinstance(value, bool):
        flags = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
        if not from_text or value.lower() not in flags:
            raise _wrong(setting, "is neither true nor false")
        return flags[value.lower()]
    if not option.is_flag and isinstance(value, bool):
        raise _wrong(setting, "is not a flag")
    plain = [str(item) for item in value] if option.multiple else value if option.is_flag else str(value)
    try:
        option.type_cast_value(context, plain)
    except click.BadParameter as error:
        raise _wrong(setting, error.message) from error
    return plain


def check_values(settings: Sequence[Setting], context: click.Context) -> None:
    """Raises UsageError for a value that its option does not take."""
    for setting in settings:
        for option in options_of(setting.command)[setting.option]:
            convert(setting, option, context)


def _wrong(setting: Setting, why: str) -> UsageError:
    place = f"[{setting.command}] {setting.option}" if setting.command else setting.option
    return UsageError(f"{visible(setting.origin)}: {place}: {visible(why)}")


_SEVERITIES = ("info", "warning", "error")
_KINDS: dict[str, tuple[type, str]] = {
    "severity": (str, f"one of {', '.join(_SEVERITIES)}"),
    "preen": (bool, "true or false"),
    "max_count": (int, "a number, 0 or more"),
    "ignore": (bool, "true or false"),
}


def read_policy(files: Sequence[ConfigFile]) -> tuple[Policy, dict[str, str]]:
    """The policy for each rule that the files name, and by "RULE.key" the file that sets it.

    Raises UsageError for a rule, a key or a value that there is not.
    """
    from rocketfsck.verify.finding import SeverityName
    from rocketfsck.verify.stopping import RulePolicy  # loads what a check does: others need not wait for it

    assert set(_KINDS) == {item.name for item in fields(RulePolicy)} and get_args(SeverityName) == _SEVERITIES
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
    from rocketfsck.verify.rules.catalog import RULES

    slugs = {rule.slug: rule.id for rule in RULES.values()}
    found = name.upper() if name.upper() in RULES else slugs.get(name.lower())
    if found is None:
        near = get_close_matches(name.upper(), RULES, 1) or get_close_matches(name.lower(), slugs, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        place = f"{visible(str(file.path))}: [{RULES_TABLE}]"
        raise UsageError(f"{place} there is no rule {visible(name)!r}{hint}")
    return found


def _refuse_odd(place: str, key: str, value: Any) -> None:
    if key not in _KINDS:
        near = get_close_matches(key, _KINDS, 1)
        raise UsageError(f"{place}: there is no such key{f'; did you mean {near[0]!r}?' if near else ''}")
    kind, words = _KINDS[key]
    wrong = type(value) is not kind or (key == "severity" and value not in _SEVERITIES)
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
    function = above.command.callback
    return command_of_function(function) if function is not None else ""


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


def refuse_config_of(places: tuple[Path, ...]) -> None:
    """The same for stores that the command line has found: they stand for the paths that name them."""
    context = click.get_current_context()
    context.params["paths"] = places
    refuse_own_config(context)


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
