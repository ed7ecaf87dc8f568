"""What every command shares: `--color` and `--debug`, and the exit status at the end of its help."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO, Any, TypeVar

import click

from rocketfsck.errors import (
    EXIT_CANCELLED,
    EXIT_CLEAN,
    EXIT_CORRECTED,
    EXIT_CORRECTED_ACT,
    EXIT_INTERNAL,
    EXIT_OPERATIONAL,
    EXIT_PROBLEMS,
    EXIT_USAGE,
)

EXIT_STATUS: tuple[tuple[int, str], ...] = (
    (EXIT_CLEAN, "clean: nothing is wrong"),
    (EXIT_CORRECTED, "problems were corrected"),
    (EXIT_CORRECTED_ACT, "corrected, and something must be done before the broker starts"),
    (EXIT_PROBLEMS, "problems are left (also: found by a check)"),
    (EXIT_OPERATIONAL, "operational error: something could not be read or written"),
    (EXIT_USAGE, "usage error: nothing was done"),
    (EXIT_CANCELLED, "cancelled"),
    (EXIT_INTERNAL, "internal error: a bug of rocketfsck"),
)

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class Settings:
    """What the options before or after the command's name said."""

    def __init__(self, color: str = "auto", debug: bool = False) -> None:
        self.color = color
        self.debug = debug

    def colored(self, stream: IO[str]) -> bool:
        """Whether to colour what goes to `stream`: --color, then NO_COLOR, then whether it is a terminal."""
        if self.color != "auto":
            return self.color == "always"
        return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


class Command(click.Command):
    """A click command whose help ends with the table of exit statuses."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        write_exit_status(formatter)


def write_exit_status(formatter: click.HelpFormatter) -> None:
    """The last section of every help text."""
    with formatter.section("Exit status, the sum of"):
        formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_STATUS])


def settings_of(context: click.Context) -> Settings:
    """The settings of this run; commands invoked alone, as in tests, get the defaults."""
    return context.ensure_object(Settings)


def common_options(function: Decorated) -> Decorated:
    """`--color` and `--debug`, accepted before and after the command's name."""

    def set_color(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
        if value is not None:
            settings_of(context).color = value

    def set_debug(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value:
            settings_of(context).debug = True

    color = click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        expose_value=False,
        callback=set_color,
        help="Colour in the output; auto: on a terminal, unless NO_COLOR is set.",
    )
    debug = click.option(
        "--debug", is_flag=True, expose_value=False, callback=set_debug, help="Show tracebacks of errors."
    )
    return debug(color(function))
