'''Makes the command line of a dataclass of options (`common.options`): parameters, help, completion, values.

    @command_of(CheckLine, timing="")
    def command(line: CheckLine, passes: Passes | None) -> int:
        """The help of the command."""

A dataclass of the command line (`CheckLine`) adds to that of the command how the answer is shown and where
it goes. Config files, the environment and manual pages read the parameters that are made here.

Commands that write: their help sorts options by danger, and they pause before a dangerous act.

    Safe options        they only look, or say how something is shown or how fast
    Advisory options    they decide what is changed, or take the user's word for something
    Dangerous options   they give up a way back, or go over a refusal

The pause is for somebody at a terminal who may have typed too fast; a script has no terminal and does not
wait.
'''

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import update_wrapper
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import click

from rocketfsck.cli import paramtypes
from rocketfsck.cli.base import Command
from rocketfsck.cli.commands import command_of_function
from rocketfsck.cli.lang import said, say_line
from rocketfsck.cli.output import Destination, format_params, integers_param, mode_params, output_param
from rocketfsck.cli.settings import common_params, keep_storage_options, own_params, write_options
from rocketfsck.commands.shared import refuse_inside
from rocketfsck.common.options import Argument, Completion, Option, PathKind, PutAfter
from rocketfsck.common.outputs import STDOUT
from rocketfsck.engine.passes import measured

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


NO_UNDO = {"no_undo": "the store of before is deleted in the end: this repair cannot be taken back"}
"""The danger of an option of several commands."""
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


Function = Callable[..., int | None]
Declaration = Argument | Option
_AT_ONCE: Mapping[str, Callable[[click.Context, click.Parameter, Any], None]] = {
    "storage_options": keep_storage_options
}
"""Options that are for the whole process, in force before others are read; no command gets their value."""


@dataclass(frozen=True, slots=True)
class Formats:
    """The forms of an answer, of a field that is a `Destination`, none where it has one form. `output` says
    what `-o` does, None that there is none; `integers`: that form is JSON."""

    names: tuple[str, ...] = ()
    output: str | None = "Write to this file"
    integers: bool = False


@dataclass(frozen=True, slots=True)
class OptionField:
    """A field of a dataclass of options with what is declared of it; `kind` is its type without None."""

    item: Field[Any]
    kind: Any
    marks: tuple[Any, ...]

    @property
    def name(self) -> str:
        return self.item.name

    @property
    def declaration(self) -> Declaration | None:
        return next((mark for mark in self.marks if isinstance(mark, (Argument, Option))), None)

    @property
    def formats(self) -> Formats | None:
        return next((mark for mark in self.marks if isinstance(mark, Formats)), None)

    @property
    def default(self) -> Any:
        """The default, a function that gives it, or MISSING."""
        return self.item.default if self.item.default_factory is MISSING else self.item.default_factory


def command_of(
    options: type, *, timing: str | None = None, cls: type[Command] = Command, **more: Any
) -> Callable[[Function], click.Command]:
    """Make a command of a function, which gets the options of this dataclass.

    `timing` adds `-t`: the whole command is one pass of this name; for "" the function gets `passes`. `more`
    is for the class of the command.
    """

    def make(function: Function) -> click.Command:
        command = command_of_function(function)

        def run(**values: Any) -> int | None:
            _demand_arguments(options, values)
            with paramtypes.within_budget(command, values), paramtypes.timed(values) as passes:
                line = build(options, values)
                if timing == "":
                    return function(line, passes)
                with nullcontext() if timing is None else measured(passes, timing):
                    return function(line)

        params = _params(options)
        _add_mode(options, params)
        params += [*([] if timing is None else [paramtypes.timing_param()]), *common_params()]
        made: click.Command = click.command(cls=cls, params=params, **more)(update_wrapper(run, function))
        return made

    return make


def declared(options: type) -> Iterator[OptionField]:
    """The fields of a dataclass of options."""
    hints = get_type_hints(options, include_extras=True)
    for item in fields(options):
        kind, marks = hints[item.name], ()
        if get_origin(kind) is Annotated:
            kind, *found = get_args(kind)
            marks = tuple(found)
        rest = [part for part in get_args(kind) if part is not NoneType]
        if NoneType in get_args(kind):
            kind = rest[0]
        yield OptionField(item, kind, marks)


def build(options: type, values: Mapping[str, Any]) -> Any:
    """The options that the values of a command line say."""
    made: dict[str, Any] = {}
    for field in declared(options):
        if field.formats is not None:
            made[field.name] = _destination(field.formats, values)
        elif is_dataclass(field.kind) and field.declaration is None:
            assert isinstance(field.kind, type)
            made[field.name] = build(field.kind, values)
        elif field.declaration is not None and field.name in values:
            value = values[field.name]
            if isinstance(field.declaration, Option) and field.declaration.splits:
                value = tuple(name for text in value for name in text.replace(",", " ").split())
            made[field.name] = value
    return options(**made)


def _destination(formats: Formats, values: Mapping[str, Any]) -> Destination:
    output: Path | None = values["output"] if formats.output is not None else None
    is_dash = output == STDOUT
    return Destination(values.get("output_format", "text"), None if is_dash else output, is_dash)


def _demand_arguments(options: type, values: Mapping[str, Any]) -> None:
    """Raises click's UsageError where neither an argument nor the option in its place is given."""
    for field in declared(options):
        argument = field.declaration
        if not isinstance(argument, Argument) or argument.instead is None:
            continue
        if not values[field.name] and values[argument.instead] is None:
            raise click.UsageError(f"Missing argument '{argument.metavar}'.", click.get_current_context())


def _params(options: type) -> list[click.Parameter]:
    """The parameters of all fields, in the order of a command line."""
    found: list[click.Parameter] = []
    place: int | None = None
    for field in declared(options):
        params = list(_params_of(field))
        for mark in field.marks:
            if isinstance(mark, PutAfter):
                place = next(n for n, param in enumerate(found, 1) if param.name == mark.field)
        if place is None:
            found += params
        else:
            found[place:place] = params
            place += len(params)
    return found


def _params_of(field: OptionField) -> Iterator[click.Parameter]:
    if field.formats is not None:
        if field.formats.names:
            yield from format_params(field.formats.names)
        if field.formats.output is not None:
            yield output_param(field.formats.output)
        if field.formats.integers:
            yield integers_param()
    elif isinstance(field.declaration, Option):
        yield _option(field, field.declaration)
    elif isinstance(field.declaration, Argument):
        yield _argument(field, field.declaration)
    elif is_dataclass(field.kind):
        assert isinstance(field.kind, type)
        yield from _params(field.kind)


def _add_mode(options: type, params: list[click.Parameter]) -> None:
    """Put `--mode` next to the last option that says where something is written."""
    places = [number for number, param in enumerate(params) if param.name in ("output", "into")]
    if places:
        own = {field.name for field in declared(options)}  # of the command itself: what it writes
        place = places[-1] + ("output" in own and params[places[-1]].name == "output")
        params[place:place] = mode_params(params)


def _argument(field: OptionField, argument: Argument) -> click.Argument:
    several = get_origin(field.kind) is tuple
    more: dict[str, Any] = {"nargs": -1} if several else {}
    if argument.metavar is not None:
        more["metavar"] = argument.metavar
    if argument.complete is not None:
        more["shell_complete"] = _completed(argument.complete)
    return click.Argument(
        [field.name], type=_type(field, argument), required=field.default is MISSING, **more
    )


def _option(field: OptionField, option: Option) -> click.Option:
    names = option.names or ("--" + field.name.replace("_", "-"),)
    more: dict[str, Any] = {"help": option.help, "metavar": option.metavar}
    if field.kind is bool:
        more["is_flag"] = True
    else:
        more |= {"type": _type(field, option), "multiple": _is_several(field)}
    if field.default is MISSING:
        more["required"] = True
    elif option.typed_default is not None:
        more["default"] = option.typed_default
    elif not any(field.default is nothing for nothing in (None, False, ())):
        more["default"] = field.default
    if option.shows_default:
        more["show_default"] = option.shows_default
    if option.complete is not None:
        more["shell_complete"] = _completed(option.complete)
    if option.alone is not None:
        more |= {"is_flag": False, "flag_value": option.alone}
    if field.name in _AT_ONCE:
        more |= {"callback": _AT_ONCE[field.name], "is_eager": True, "expose_value": False}
    return click.Option([field.name, *names], **more)


def _completed(complete: Completion) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    return lambda _context, _parameter, begun: complete(begun)


def _is_several(field: OptionField) -> bool:
    return get_origin(field.kind) is tuple and get_args(field.kind)[-1] is ...


def _type(field: OptionField, declaration: Declaration) -> click.ParamType[Any]:
    """What click makes of a text."""
    single = get_args(field.kind)[0] if _is_several(field) else field.kind
    kind = declaration.kind
    if isinstance(kind, PathKind):
        return _path_type(kind)
    if kind is not None:
        return paramtypes.QUANTITIES[kind]
    if isinstance(declaration, Option):
        if declaration.parse is not None:
            return paramtypes.ParsedText(declaration.parse)
        if declaration.choices:
            return click.Choice(declaration.choices)
        if declaration.least is not None:
            return click.IntRange(declaration.least)
    if get_origin(single) is Literal:
        any_case = isinstance(declaration, Option) and declaration.any_case
        return click.Choice(get_args(single), case_sensitive=not any_case)
    return click.INT if single is int else click.STRING


def _path_type(kind: PathKind) -> click.ParamType[Any]:
    okay = {"file_okay": kind.file_okay, "dir_okay": kind.dir_okay, "exists": kind.exists}
    match kind.use:
        case "store":
            return paramtypes.StorePath(kind.local, written=kind.written, stdin=kind.stdin, **okay)
        case "read":
            return paramtypes.InputPath(dir_okay=kind.dir_okay)
        case "write":
            return paramtypes.OutputPath()
        case _:
            return click.Path(path_type=Path, **okay)
