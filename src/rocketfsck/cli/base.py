"""What every command shares: colour, tracebacks, config files, progress, exit statuses in its help."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from rocketfsck.cli.settings import Settings, settings_of
from rocketfsck.errors import (
    EXIT_CANCELLED,
    EXIT_CLEAN,
    EXIT_CORRECTED,
    EXIT_CORRECTED_ACT,
    EXIT_INTERNAL,
    EXIT_OPERATIONAL,
    EXIT_PROBLEMS,
    EXIT_USAGE,
    UsageError,
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


class Command(click.Command):
    """A click command whose help ends with the table of exit statuses.

    Options that its command line does not give get values from config files and the environment.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not isinstance(self, click.Group) and not ctx.resilient_parsing:
            given, _, order = self.make_parser(ctx).parse_args(args=[*args])
            settings = settings_of(ctx)
            if self.get_help_option(ctx) not in order:
                from rocketfsck.cli.config.applying import apply_config

                named = given.get("config")
                none = bool(given.get("no_config")) or (settings.no_config and named is None)
                above = None if none else settings.config
                apply_config(ctx, above if named is None else Path(named), none)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        if isinstance(self, click.Group):
            return super().invoke(ctx)
        from rocketfsck.cli.config.applying import refuse_own_config

        refuse_own_config(ctx)
        _begin_progress(ctx)
        result = super().invoke(ctx)
        if ctx.params.get("verbose") and _compiled_in_vain():
            text = "no directory can keep the compiled kernels, so that every run compiles them; see "
            click.echo(f"Note: {text}ROCKETFSCK_CACHE_DIR", err=True)
        return result

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        write_examples(formatter, ctx.command_path)
        write_exit_status(formatter)


def _begin_progress(ctx: click.Context) -> None:
    """Show from now on what the command does."""
    settings = settings_of(ctx)
    if settings.is_whole_run and settings.monitor is None:
        from rocketfsck.cli.progress import Monitor

        descriptor = _own_descriptor(settings) if settings.progress == "json" else None
        monitor = Monitor(settings.progress, descriptor, quiet=ctx.params.get("quiet") is True)
        settings.monitor = monitor
        monitor.start()


def _own_descriptor(settings: Settings) -> int | None:
    """A descriptor of our own for the lines of `--progress json`; None where standard error is closed.

    Raises UsageError for one that is not open for writing: later a file of the store might have its number.
    """
    given = settings.progress_descriptor
    number = 2 if given is None else given
    try:
        if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
            return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:
        pass
    if given is None:
        return None
    raise UsageError(f"--progress-fd {given}: the descriptor is not open for writing")


def _compiled_in_vain() -> bool:
    """Whether kernels were compiled that nothing could keep."""
    compiler = sys.modules.get("rocketfsck.scan.machine.compiler")
    return compiler is not None and bool(compiler.unkept)


@contextmanager
def scrolling(stream: IO[Any]) -> Iterator[None]:
    """Write line after line to a stream: a terminal that they go to shows no progress meanwhile."""
    monitor = settings_of(click.get_current_context()).monitor
    if monitor is None or not stream.isatty():
        yield
        return
    with monitor.hidden():
        yield


def write_examples(formatter: click.HelpFormatter, command_path: str) -> None:
    """What a command does with which words, one line each: lines are to be pasted, and never wrapped."""
    from rocketfsck.cli.examples import examples_of

    examples = examples_of(command_path)
    if examples:
        with formatter.section("Examples"):
            for what, line in examples:
                formatter.write(f"{'':>{formatter.current_indent}}rocketfsck {line}\n")
                formatter.write(f"{'':>{formatter.current_indent}}    {what}\n")


def write_exit_status(formatter: click.HelpFormatter) -> None:
    """The last section of every help text."""
    with formatter.section("Exit status, the sum of"):
        formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_STATUS])
