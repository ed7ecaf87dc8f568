"""`rocketfsck simulate STORE --broker VERSION`: what a start would do, without a start."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.base import Command, common_options
from rocketfsck.cli.output import SCHEMA_VERSION, plain_values
from rocketfsck.cli.params import (
    Answer,
    StorePath,
    commitlog_path_option,
    output_options,
    path_argument,
    storage_option,
)
from rocketfsck.cli.show.fit import text_columns
from rocketfsck.errors import EXIT_CLEAN, EXIT_OPERATIONAL, EXIT_PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketfsck.cli.show.palette import Palette
    from rocketfsck.query.start.model import Start


@click.command(cls=Command)
@path_argument("store_path")
@click.option("--broker", "version", required=True, metavar="VERSION", help="The broker that is to start.")
@click.option(
    "--conf",
    "broker_conf",
    type=StorePath(dir_okay=False),
    help="Its broker.conf: file sizes, commit log paths, what recovery and index are told to do.",
)
@commitlog_path_option
@click.option(
    "--losses/--no-losses",
    default=True,
    show_default=True,
    help="Look for messages that come out of reach: reads the whole commit log once.",
)
@click.option("-v", "--verbose", is_flag=True, help="List every file, queue and range.")
@storage_option
@output_options("text", "json")
@common_options
def command(
    store_path: Path,
    version: str,
    broker_conf: Path | None,
    commitlog_paths: tuple[Path, ...],
    losses: bool,
    verbose: bool,
    answer: Answer,
) -> int:
    """Predict what a broker of the given version does when it starts on STORE_PATH: whether it loads, from
    where it recovers, where it cuts the commit log, which files, units and index entries go, what is
    dispatched anew, and which messages nobody can reach afterwards.

    Nothing is written, and no broker is needed. Exit status 4 says that the start fails or loses something,
    or that units lead to messages that are gone; 8 that a store like this is not covered.
    """
    from rocketfsck.cli.show.simulate import start_lines
    from rocketfsck.cli.storepath import open_named_store
    from rocketfsck.query.start.settings import NotCoveredError
    from rocketfsck.query.start.simulate import simulate_start

    store = open_named_store(
        "simulate", store_path, broker_conf=broker_conf, version=version, commitlog_paths=commitlog_paths
    )
    start: Start | None = None
    reasons: tuple[str, ...] = ()
    try:
        start = simulate_start(store, version, losses=losses)
    except NotCoveredError as error:
        if answer.form != "json":
            raise
        reasons = error.reasons
    forbidden = [store_path, *commitlog_paths, *store.commitlog.directories]
    columns = text_columns()

    def document() -> dict[str, Any]:
        return plain_values({
            "schema_version": SCHEMA_VERSION,
            "kind": "rocketfsck.simulate.start",
            "store": str(store_path),
            "covered": start is not None,
            "not_covered": reasons,
            "harmful": None if start is None else start.harmful,
            **({"version": version} if start is None else start.document()),
        })  # fmt: skip

    def lines(palette: Palette) -> Iterator[str]:
        assert start is not None  # else the answer is JSON
        return start_lines(start, palette, columns=columns, everything=verbose)

    answer.say(document, lines, forbidden)
    if start is None:
        return EXIT_OPERATIONAL
    return EXIT_PROBLEMS if start.harmful else EXIT_CLEAN
