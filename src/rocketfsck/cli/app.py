"""The click group, its commands by name, and the exit status of every way to end.

A command is an attribute of a module of `rocketfsck.cli.commands`, imported when it is called;
the group's own help is made from the table here and imports none of them.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any

import click

from rocketfsck import errors
from rocketfsck._version import __version__
from rocketfsck.cli.base import Command
from rocketfsck.cli.commands import COMMANDS, GROUPS, KNOWN_ELSEWHERE, PLUMBING, load_command
from rocketfsck.cli.lang import chosen_language, said, speak
from rocketfsck.cli.settings import Settings, common_params
from rocketfsck.cli.show.text import SpokenContext, sentence, terminal_columns
from rocketfsck.common.outputs import limited

# Signals that end a command: SIGTERM and SIGHUP end it as Ctrl-C does, and nothing is left of its work.

Handler = Callable[[int, Any], Any] | int | None
"""What the signal module says of a signal: what is called, or what the system does."""
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class TerminatedError(KeyboardInterrupt):
    """Somebody wants the process to end, who is not at the keyboard."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raise TerminatedError at the first signal within the block; more of them do not stop the cleaning up.

    A signal that whoever started the process wants ignored (`nohup`) stays ignored.
    """
    before: dict[int, Handler] = {}

    def end(_number: int, _frame: object) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise TerminatedError

    try:
        for number in _SIGNALS:
            if signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, end)
    except ValueError:  # not the main thread: whoever runs us there handles signals
        pass
    try:
        yield
    finally:
        for changed, handler in before.items():
            signal.signal(changed, handler)


class OutputClosedError(Exception):
    """Whoever read standard output has gone; nobody is left to tell."""


class Group(Command, click.Group):
    """A group that knows its commands' names and one-liners, and imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command = load_command(cmd_name)
        assert isinstance(command, Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", line) for name, line in commands.items()])
        formatter.write_paragraph()
        formatter.write_text(f"Also: {', '.join(PLUMBING)}. Each command has --help.")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}.{_hint(args)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise OutputClosedError from error
        except EOFError as error:  # click would take this for the end of somebody's input: "Cancelled."
            raise RuntimeError(f"unexpected end of data: {error}") from error
        return result


def _hint(words: Sequence[str]) -> str:
    """What somebody may have meant who typed these words for a command."""
    from difflib import get_close_matches

    first, *rest = words
    known = KNOWN_ELSEWHERE.get(first.lower())
    if known is not None:
        return f" Try: {shlex.join(['rocketfsck', known, *rest])}"
    if "://" in first or os.path.lexists(first):
        return f" To check that store: {shlex.join(['rocketfsck', 'check', *words])}"
    near = get_close_matches(first, COMMANDS, 1)
    return f" Did you mean {near[0]!r}?" if near else ""


@click.command(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="rocketfsck")
def group() -> None:
    """Reads, verifies, explains and writes Apache RocketMQ message stores, offline.

    Commands open stores only for reading and write only new files. Only fix, apply and undo change a store:
    as their last step, and they keep the former store.
    """


group.params += common_params()


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status; nothing is raised."""
    settings = Settings(debug="--debug" in arguments)
    settings.is_whole_run = True
    code = errors.EXIT_INTERNAL
    try:
        with limited(), terminable():
            code = _run(arguments, settings)
    finally:
        if settings.monitor is not None:
            settings.monitor.finish(code)
    return code


def _run(arguments: Sequence[str], settings: Settings) -> int:
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its escape, not a traceback.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    speak(chosen_language(arguments, os.environ))
    # numpy's BLAS would start a thread a core on import; nothing here multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        # With the width given, click need not ask shutil, whose import is a tenth of the time to help.
        help_width = max(50, min(terminal_columns() or 80, 80) - 2)
        if not arguments and "_ROCKETFSCK_COMPLETE" not in os.environ:
            bare = SpokenContext(
                group, info_name="rocketfsck", terminal_width=help_width, **group.context_settings
            )
            print(group.get_help(bare), file=sys.stderr)
            return errors.EXIT_USAGE
        result = group.main(
            list(arguments), "rocketfsck", standalone_mode=False, obj=settings, terminal_width=help_width
        )
    except click.ClickException as error:
        usage = error.ctx.get_usage() if isinstance(error, click.UsageError) and error.ctx else ""
        print(usage, end="\n" if usage else "", file=sys.stderr)
        _complain(f"Error: {error.format_message()}")
        return errors.EXIT_USAGE if isinstance(error, click.UsageError) else errors.EXIT_OPERATIONAL
    except OutputClosedError:
        return _reader_gone()
    except (click.Abort, KeyboardInterrupt) as error:
        ended = isinstance(error, TerminatedError) or isinstance(error.__cause__, TerminatedError)
        _complain("Terminated." if ended else "Cancelled.")
        return errors.EXIT_CANCELLED
    except errors.RocketfsckError as error:
        _trace(settings)
        _complain(f"Error: {error}")
        return error.exit_code
    except SystemExit as stop:
        # click itself ends so: after completion (0), or with 1 where the reader of its help has gone.
        return errors.EXIT_CLEAN if not stop.code else _reader_gone()
    except Exception as error:  # noqa: BLE001  the last line of defence: short words, never a traceback
        _trace(settings)
        return _unexpected(error)
    return result if isinstance(result, int) else errors.EXIT_CLEAN


def _open_closed_streams() -> None:
    """Give standard streams that were closed by the caller something to be.

    What is written to a closed standard output fails as it does for other programs; complaints that nobody
    can get are dropped.
    """
    for name, flags in (("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), "w", encoding="utf-8"))


def _trace(settings: Settings) -> None:
    """The traceback of what is being handled, if --debug asks for it."""
    if settings.debug:
        from traceback import format_exc

        _complain(*format_exc().rstrip().split("\n"))


def _reader_gone() -> int:
    _drop_output()
    return errors.EXIT_CANCELLED


def _drop_output() -> None:
    """Let the interpreter flush into nothing at its end, or it would complain about the closed pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _unexpected(error: Exception) -> int:
    if isinstance(error, MemoryError):
        _complain("Error: out of memory.")
        return errors.EXIT_OPERATIONAL
    if isinstance(error, ModuleNotFoundError):
        name = (error.name or "").partition(".")[0]
        extra = next((extra for extra, packages in errors.EXTRAS.items() if name in packages), None)
        if extra is not None:
            _complain(f"Error: this needs {name}, which is not installed: run {errors.install_hint(extra)}")
            return errors.EXIT_USAGE
    if isinstance(error, OSError):
        try:
            sys.stdout.flush()
        except OSError:
            _drop_output()
        name = f"{error.filename}: " if error.filename is not None else ""
        _complain(f"Error: {name}{error.strerror or error}")
        return errors.EXIT_OPERATIONAL
    _complain(
        f"Internal error: {type(error).__name__}: {error}",
        "The cause is a bug of rocketfsck, not your store. Please report it with the output of the same",
        "command with --debug added; the store has not been changed.",
    )
    return errors.EXIT_INTERNAL


def _complain(*lines: str) -> None:
    """Lines on standard error; whatever is quoted in them, each stays one printable line."""
    for line in lines:
        print(said(sentence(line)), file=sys.stderr)
