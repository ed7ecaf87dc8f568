"""What the options of all commands say, before or after the command's name, and those options."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, Protocol

import click

from rocketfsck.cli.lang import LANGUAGES, speak

_ALL = "rocketfsck.help-all"
"""In what click keeps for a command line: the help is to have all options."""


Sections = Mapping[str, Sequence[tuple[str, str]]]
"""Titles of a help, and what is below them: options with what they do."""


class Shown(Protocol):
    """Who shows how far a command is (`cli.progress`)."""

    def hidden(self) -> AbstractContextManager[None]:
        """While the block runs, nothing is shown."""
        ...

    def finish(self, exit_status: int) -> None:
        """Say the exit status, and end."""


class Settings:
    """What the options before or after the command's name said."""

    def __init__(self, color: str = "auto", debug: bool = False) -> None:
        self.color = color
        self.debug = debug
        self.integer_texts = False
        self.config: Path | None = None
        self.no_config = False
        self.progress = "auto"
        self.progress_descriptor: int | None = None
        self.is_whole_run = False  # a command invoked alone, as in tests, shows no progress
        self.monitor: Shown | None = None

    def colored(self, stream: IO[str]) -> bool:
        """Whether to colour what goes to `stream`: --color, then NO_COLOR, then whether it is a terminal."""
        if self.color != "auto":
            return self.color == "always"
        return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def settings_of(context: click.Context) -> Settings:
    """The settings of this run; commands invoked alone, as in tests, get the defaults."""
    return context.ensure_object(Settings)


def _option(name: str, setting: str, **given: Any) -> click.Option:
    """An option whose value is kept as this setting; False and None are what was not given."""

    def keep(context: click.Context, _parameter: click.Parameter, value: Any) -> None:
        if value is not None and value is not False:
            setattr(settings_of(context), setting, value)

    return click.Option([name], expose_value=False, callback=keep, **given)


def common_params() -> list[click.Parameter]:
    """The options that every command accepts, before and after the command's name."""
    return [
        _option(
            "--config",
            "config",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Take settings from this file, not from ./rocketfsck.toml and the user's config file.",
        ),
        _option("--no-config", "no_config", is_flag=True, help="Take settings from no file."),
        _option("--debug", "debug", is_flag=True, help="Show tracebacks of errors."),
        _option(
            "--color",
            "color",
            type=click.Choice(["auto", "always", "never"]),
            help="Colour in the output; auto: on a terminal, unless NO_COLOR is set.",
        ),
        click.Option(
            ["--lang"],
            type=click.Choice(LANGUAGES),
            expose_value=False,
            callback=_speak,
            help="The language of texts; default: that of the locale, else English. JSON is the same in all.",
        ),
        _option(
            "--progress",
            "progress",
            type=click.Choice(["auto", "none", "json"]),
            help="auto: a line on a terminal. json: lines of JSON, at least one a second.",
        ),
        _option(
            "--progress-fd",
            "progress_descriptor",
            type=click.IntRange(0),
            metavar="N",
            help="The descriptor for --progress json; default: 2, standard error.",
        ),
        click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_all,
            help="Show the help with the options that every command has.",
        ),
    ]


def _speak(_context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    """The language that a config file names; that of the command line is in use already."""
    if value is not None:
        speak(value)


def _show_all(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        context.meta[_ALL] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


def own_params(context: click.Context) -> list[click.Parameter]:
    """The parameters that the help of a command has: of those that every command has, only if all are to be
    shown."""
    common = set() if context.meta.get(_ALL) else {name for param in common_params() for name in param.opts}
    return [param for param in context.command.get_params(context) if not common.intersection(param.opts)]


def write_options(context: click.Context, formatter: click.HelpFormatter, sections: Sections) -> None:
    """The options of a command below their titles, and those that every command has in one line."""
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)
    if not context.meta.get(_ALL):
        names = ", ".join(param.opts[0] for param in common_params())
        formatter.write_paragraph()
        formatter.write_text(f"Every command has {names}, which explains them.")


def keep_storage_options(context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> None:
    """A callback that has `--storage-option` hold for all URLs of a command line."""
    if values:
        from rocketfsck.store.places.urls import read_options, set_default_options

        set_default_options(read_options(values))
        context.call_on_close(lambda: set_default_options({}))
