"""What every command shares: colour, tracebacks, config files, progress, exit statuses in its help.

The examples at the end of each command's help: what they do, and the command line. A test runs them all.

STORE and REPLICA stand for a store and another copy of it, NEW for a directory that is made, MSGID, UNIQKEY
and KEY for what a message has.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from rocketfsck import errors
from rocketfsck.cli.lang import said, say_line
from rocketfsck.cli.settings import Settings, own_params, settings_of, write_options
from rocketfsck.cli.show.text import SpokenContext

Examples = tuple[tuple[str, str], ...]

EXAMPLES: Mapping[str, Examples] = {
    "info": (
        ("what is there, and which broker wrote it", "info STORE"),
        ("messages by topic, queue and day", "info --stats STORE"),
    ),
    "dump": (
        ("messages with their bodies", "dump STORE --topic Seg0 --body text --limit 3"),
        ("one record, byte by byte", "dump STORE --physical-offset 0: --limit 1 --hex"),
        ("the units of a queue, as CSV", "dump STORE/consumequeue/Seg0/0 --format csv"),
    ),
    "find": (("what a word of a complaint is", "find STORE KEY"),),
    "query id": (("a message by its id", "query id STORE MSGID"),),
    "query offset": (("the message at queue offset 5", "query offset STORE Seg0 0 5"),),
    "query key": (("messages with a key, and how they were found", "query key STORE Seg0 KEY --trace"),),
    "query unique-key": (("a message by its UNIQ_KEY", "query unique-key STORE Seg0 UNIQKEY"),),
    "query time": (("where a consumer that seeks begins", "query time STORE Seg0 0 2023-11-14T22:15"),),
    "query scan": (
        ("by fields", """query scan STORE 'topic == "Seg0" and queue_id in (0, 1)' --limit 3"""),
        ("by content", "query scan STORE 'content ~ /pay(ed|ing)/i'"),
    ),
    "query life": (("all that became of a message", "query life STORE UNIQKEY"),),
    "query offsets": (("how far consumers are behind", "query offsets STORE --topic Seg0"),),
    "query timers": (("the next messages of the timer wheel", "query timers STORE --limit 10"),),
    "query as-of": (("what was there on that morning", "query as-of STORE 2024-05-17T08:00"),),
    "query retention": (("what the broker deletes next", "query retention STORE"),),
    "check": (
        ("may the broker start, what is lost, what next", "check STORE"),
        ("the verdict alone, of a store of 4.9.8", "check -q --broker-version 4.9.8 STORE"),
        ("findings for another tool", "check --format sarif -o findings.sarif STORE"),
    ),
    "fix": (
        ("show what would be done, and ask", "fix STORE"),
        ("do it without a question", "fix --yes STORE"),
        ("only what is provably safe, as at boot", "fix --preen STORE"),
    ),
    "page": (("a saved check as an HTML page", "page check.json --store STORE -o page.html"),),
    "plan": (("write a plan, to be read and applied", "plan STORE -o plan.json"),),
    "apply": (("carry out a plan", "apply plan.json --yes"),),
    "undo": (("bring the store back as it was", "undo STORE --yes"),),
    "rebuild": (("all queues, from the log", "rebuild consumequeue STORE --into NEW"),),
    "salvage": (("records out of whatever is left", "salvage STORE/commitlog --into NEW"),),
    "extract": (("one topic, for another broker", "extract STORE --topic Seg0 --into NEW"),),
    "convert": (("a store for a controller", "convert controller STORE --into NEW"),),
    "compare": (
        ("where two replicas differ", "compare STORE REPLICA"),
        ("a plan to take from the replica what is missing", "compare STORE REPLICA --heal -o heal.json"),
    ),
    "count": (("messages by topic and day", "count STORE --by topic-day"),),
    "timeline": (("what happened when", "timeline STORE"),),
    "export": (("messages of a topic as Parquet", "export STORE --topic Seg0 --into NEW"),),
    "browse": (("begin at a message with a key", "browse STORE --find KEY"),),
    "write": (
        (
            "a store of 100 messages that a seed decides",
            "write --synth plain --messages 100 --seed 7 --into NEW",
        ),
    ),
    "damage": (("a copy with a torn tail", "damage STORE --fault torn-tail --seed 7 --into NEW"),),
    "learn": (("five damaged stores to practise on", "learn NEW"),),
    "certify": (("a certificate of a store", "certify STORE --format json -o certificate.json"),),
    "simulate": (("what version 5.3.2 would do", "simulate STORE --as-broker 5.3.2"),),
    "bugreport": (("a small masked copy", "bugreport STORE --shrink -o bug.tar.gz"),),
    "explain": (
        ("a rule", "explain CL004"),
        ("a class of damage", "explain C1"),
        ("a line of a log", "explain 'found a illegal magic code 0x0'"),
    ),
    "config": (("what is set, and where", "config"),),
    "schema": (("of what `check --format json` prints", "schema check"),),
    "completion": (("for bash", "completion bash"),),
}
"""By the name of the command, without the program's."""


def examples_of(command_path: str) -> Examples:
    """The examples of a command by its whole name, `rocketfsck query id`; without any: none."""
    return EXAMPLES.get(command_path.partition(" ")[2], ())


EXIT_STATUS: tuple[tuple[int, str], ...] = (
    (errors.EXIT_CLEAN, "clean: nothing is wrong"),
    (errors.EXIT_CORRECTED, "problems were corrected"),
    (errors.EXIT_CORRECTED_ACT, "corrected, and something must be done before the broker starts"),
    (errors.EXIT_PROBLEMS, "problems are left (also: found by a check)"),
    (errors.EXIT_OPERATIONAL, "operational error: something could not be read or written"),
    (errors.EXIT_USAGE, "usage error: nothing was done"),
    (errors.EXIT_CANCELLED, "cancelled"),
    (errors.EXIT_INTERNAL, "internal error: a bug of rocketfsck"),
)


class Command(click.Command):
    """A click command whose help ends with the table of exit statuses.

    Options that its command line does not give get values from config files and the environment.
    """

    context_class = SpokenContext

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not isinstance(self, click.Group) and not ctx.resilient_parsing:
            given, _, order = self.make_parser(ctx).parse_args(args=[*args])
            settings = settings_of(ctx)
            asked = {name for param in order for name in param.opts}
            if not asked & {"--help", "--help-all"}:
                from rocketfsck.cli.config import apply_config

                named = given.get("config")
                none = bool(given.get("no_config")) or (settings.no_config and named is None)
                above = None if none else settings.config
                apply_config(ctx, above if named is None else Path(named), none)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        if isinstance(self, click.Group):
            return super().invoke(ctx)
        from rocketfsck.cli.config import refuse_own_config

        refuse_own_config(ctx)
        _begin_progress(ctx)
        result = super().invoke(ctx)
        if ctx.params.get("verbose") and _compiled_in_vain():
            text = "no directory can keep the compiled kernels, so that every run compiles them; see "
            say_line(f"Note: {text}ROCKETFSCK_CACHE_DIR", err=True)
        return result

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = [param.get_help_record(ctx) for param in own_params(ctx)]
        write_options(ctx, formatter, {"Options": [record for record in records if record is not None]})
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)

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
    raise errors.UsageError(f"--progress-fd {given}: the descriptor is not open for writing")


def _compiled_in_vain() -> bool:
    """Whether kernels were compiled that nothing could keep."""
    library = sys.modules.get("rocketfsck.scan.machine.library")
    return library is not None and bool(library.unkept)


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

    examples = examples_of(command_path)
    if examples:
        with formatter.section("Examples"):
            for what, line in examples:
                formatter.write(f"{'':>{formatter.current_indent}}rocketfsck {line}\n")
                formatter.write(f"{'':>{formatter.current_indent}}    {said(what)}\n")


def write_exit_status(formatter: click.HelpFormatter) -> None:
    """The last section of every help text."""
    with formatter.section("Exit status, the sum of"):
        formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_STATUS])
