"""The options that several commands share, each declared once: one name has one meaning, type and help.

A test walks all commands (`tests/unit/cli/test_options.py`) and names what differs, and why. Which store is
meant and where the answer goes is in `cli.params`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from rocketfsck.cli.params import Decorator, Function, mode_option
from rocketfsck.cli.paramtypes import ByteSize, InputPath, NumberRange, OutputPath, StorePath, Timestamp
from rocketfsck.common.budget import within

# What a shell may put behind an option or as an argument: names of rules, classes and repairs.

EVERY_REPAIR = "repairs"
"""What `explain` accepts for the list of all repairs."""


def complete_rules(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Ids and slugs of rules that begin so; of a list with commas its last word."""
    from rocketfsck.verify.rules.catalog import RULES

    before, comma, word = begun.rpartition(",")
    names = [*RULES, *(rule.slug for rule in RULES.values())]
    return [f"{before}{comma}{name}" for name in _beginning(names, word)]


def complete_repairs(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Names of repairs that begin so."""
    from rocketfsck.repair.plan.planning import all_repairs

    return _beginning([*all_repairs()], begun)


def complete_explained(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Ids, slugs, classes and repairs that begin so."""
    from rocketfsck.repair.plan.planning import all_repairs
    from rocketfsck.verify.rules.catalog import RULES
    from rocketfsck.verify.rules.faultclasses import FAULT_CLASSES

    slugs = [rule.slug for rule in RULES.values()]
    return _beginning([*RULES, *slugs, *FAULT_CLASSES, EVERY_REPAIR, *all_repairs()], begun)


def _beginning(names: list[str], begun: str) -> list[str]:
    return [name for name in names if name.lower().startswith(begun.lower())]


Decorated = TypeVar("Decorated", bound=Callable[..., Any])

level_option: Decorator = click.option(
    "--level",
    type=click.Choice(["quick", "cross", "full"]),
    default="full",
    show_default=True,
    help="How thorough a check is. quick: names, sizes, headers, tails. cross: every frame, unit, chain and "
    "reference, no bodies. full: every checksum and property, too.",
)
report_option: Decorator = click.option(
    "--report",
    "report_path",
    type=InputPath(dir_okay=False),
    help="Use this report (check --format json), in place of a check; -: standard input.",
)


def jobs_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`-j`: the whole command runs on as many threads, whatever it does besides reading files."""

    @wraps(function)
    def run(*args: Any, jobs: int | None, **given: Any) -> Any:
        with within(jobs=jobs):
            return function(*args, **given)

    option = click.option(
        "-j",
        "--jobs",
        type=click.IntRange(1),
        metavar="N",
        help="Work on N files at once; default: one per core.",
    )
    return option(run)


dry_run_option: Decorator = click.option(
    "-n", "--dry-run", is_flag=True, help="Change nothing, only show the plan."
)


def limit_option(default: int | None = None) -> Decorator:
    """`--limit`."""
    return click.option(
        "--limit", type=click.IntRange(0), default=default, metavar="N", help="Show at most N."
    )


def time_options(function: Decorated) -> Decorated:
    """`--begin` and `--end`: of the storeTimestamp; of messages that wait for a timer, when they are due."""
    zone = "milliseconds, or a date and time, of UTC unless it names a zone"
    begin = click.option("--begin", type=Timestamp(), help=f"Only from this time on: {zone}.")
    end = click.option("--end", type=Timestamp(), help="Only before this time.")
    return begin(end(function))


topic_option: Decorator = click.option("--topic", help="Only this topic.")
queue_option: Decorator = click.option(
    "--queue", "queue_id", type=int, metavar="ID", help="Only this queueId."
)
tag_option: Decorator = click.option("--tag", help="Only messages whose TAGS are this.")
key_option: Decorator = click.option("--key", help="Only messages with this key, among KEYS or as UNIQ_KEY.")
physical_offset_option: Decorator = click.option(
    "--physical-offset",
    "physical_offsets",
    type=NumberRange(),
    help="Only items that begin at these physical offsets.",
)


def into_option(*, required: bool = False, remote: bool = False) -> Decorator:
    """`--into`; with `remote` a URL will do."""
    option = click.option(
        "--into",
        required=required,
        type=StorePath(None if remote else "what is written", written=True),
        metavar="DIR",
        help="The new directory, which must not exist; it appears when complete.",
    )

    def add(function: Function) -> Function:
        return mode_option(option(function))

    return add


work_dir_option: Decorator = click.option(
    "--work-dir",
    type=StorePath("what is written", written=True, file_okay=False),
    metavar="DIR",
    help="Build, and keep what undo needs, in this directory, not next to the result.",
)
no_undo_option: Decorator = click.option(
    "--no-undo",
    is_flag=True,
    help="Delete the former store at the end; files set aside are kept.",
)
no_sync_option: Decorator = click.option(
    "--no-sync", is_flag=True, help="Do not wait until the bytes are on the disk."
)
in_place_option: Decorator = click.option(
    "--in-place",
    is_flag=True,
    help="Replace single files, not the whole store: for mount points and stores whose commit log is "
    "elsewhere.",
)
preen_option: Decorator = click.option(
    "-p", "--preen", is_flag=True, help="Only provably safe repairs: no valid data can be lost."
)
assume_option: Decorator = click.option(
    "--assume",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Confirm a value that the plan assumes, or name the right one; may be given several times.",
)


def choosing_options(function: Decorated) -> Decorated:
    """`--only` and `--except` of a plan, as `only` and `except_`."""
    only = click.option(
        "--only",
        multiple=True,
        shell_complete=complete_repairs,
        metavar="NAME",
        help="Only this repair; may be given several times.",
    )
    but = click.option(
        "--except",
        "except_",
        shell_complete=complete_repairs,
        multiple=True,
        metavar="NAME",
        help="All other repairs; may be given several times.",
    )
    return only(but(function))


offsets_option: Decorator = click.option(
    "--offsets",
    metavar="clamp|bak|FILE",
    help="Set committed offsets: move them into their queues, or take those of the .bak, or of a FILE in the "
    "form of consumerOffset.json.",
)
ledger_option: Decorator = click.option(
    "--ledger",
    type=OutputPath(),
    help="File that lists the source of every record; default: NAME.ledger.jsonl next to the store.",
)
delay_levels_option: Decorator = click.option(
    "--delay-levels", metavar="LEVELS", help="messageDelayLevel of the broker: '1s 5s 10s …'."
)
seed_option: Decorator = click.option(
    "--seed", type=int, metavar="N", help="The same seed gives the same bytes, on any machine; default 0."
)
time_zone_option: Decorator = click.option(
    "--time-zone",
    default="UTC",
    show_default=True,
    help="The broker's time zone, in which index files are named.",
)
start_offset_option: Decorator = click.option(
    "--start-offset",
    type=ByteSize(),
    metavar="OFFSET",
    help="Offset of the first byte: of a commit log, or of a file that lost its name.",
)
commitlog_file_size_option: Decorator = click.option(
    "--commitlog-file-size", type=ByteSize(), help="Size of a commit log file."
)


def index_options(function: Decorated) -> Decorated:
    """`--slots` and `--entries`, as `slot_count` and `entry_count`."""
    slots = click.option(
        "--slots", "slot_count", type=click.IntRange(1), metavar="N", help="Hash slots of an index file."
    )
    entries = click.option(
        "--entries", "entry_count", type=click.IntRange(1), metavar="N", help="Entries of an index file."
    )
    return slots(entries(function))


broker_name_option: Decorator = click.option(
    "--broker-name",
    "brokers",
    multiple=True,
    metavar="NAME",
    help="The broker's name of each store, in their order.",
)


as_broker_option: Decorator = click.option(
    "--as-broker",
    metavar="VERSION",
    help="Predict a broker of this version: its start, or its answer with its limits.",
)
"""Which broker is predicted, whoever wrote the store."""
