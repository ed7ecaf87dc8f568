"""`rocketfsck simulate STORE`: what a start of a broker would do, without a start."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.base import Command
from rocketfsck.cli.options import as_broker_option
from rocketfsck.cli.output import SCHEMA_VERSION, plain_values
from rocketfsck.cli.params import (
    Destination,
    StoreOptions,
    output_options,
    path_argument,
    store_options,
    verbose_option,
)
from rocketfsck.cli.settings import common_options
from rocketfsck.cli.show.fit import text_columns
from rocketfsck.errors import EXIT_CLEAN, EXIT_OPERATIONAL, EXIT_PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketfsck.cli.show.text import Palette
    from rocketfsck.query.start.verdict import Prediction


@click.command(cls=Command)
@path_argument("store_path")
@as_broker_option
@click.option(
    "--losses/--no-losses",
    default=True,
    show_default=True,
    help="Look for messages that come out of reach: reads the whole commit log once.",
)
@verbose_option("List every file, queue and range.")
@store_options
@output_options("text", "json")
@common_options
def command(
    store_path: Path,
    as_broker: str | None,
    losses: bool,
    verbose: bool,
    stated: StoreOptions,
    answer: Destination,
) -> int:
    """Predict what a broker does when it starts on STORE_PATH: whether it loads, where its recovery begins,
    where it cuts the commit log, which files, units and index entries it deletes, what it dispatches
    again, and which messages become unreachable.

    Without --as-broker, simulate predicts every version that may have written the store. If all starts end
    the same, simulate shows one of them, otherwise a line for each.

    simulate writes nothing and needs no broker. Exit status 4 means that a start fails or loses something, or
    that units point to lost messages; 8 that no prediction exists for a store like this.
    """
    from rocketfsck.cli.show.simulate import start_lines
    from rocketfsck.cli.show.start import verdict_lines, versions_text
    from rocketfsck.query.start.verdict import predict_each, start_classes, verdict_of, versions_of

    store = stated.open("simulate", store_path)  # as what wrote it, whichever broker is to start on it
    if as_broker is None:
        classes = start_classes(versions_of(store))
    else:
        from rocketfsck.formats.dialect import dialect_for

        classes = [(dialect_for(as_broker).version,)]
    found = predict_each(store, classes, losses=losses)
    uncovered = next((item.error for item in found if item.error is not None), None)
    if uncovered is not None and answer.form != "json" and len(found) == 1:
        raise uncovered
    starts = [item.start for item in found if item.start is not None]
    harmful = any(start.harmful for start in starts)
    columns = text_columns()

    def document() -> dict[str, Any]:
        return plain_values({
            "schema_version": SCHEMA_VERSION,
            "kind": "rocketfsck.simulate",
            "store": str(store_path),
            "harmful": harmful if starts else None,
            "starts": [_start_document(item) for item in found],
        })  # fmt: skip

    def lines(palette: Palette) -> Iterator[str]:
        verdicts = [verdict_of(item) for item in found]
        said = list(verdict_lines(verdicts))
        shown = next((start for start in starts if start.version == str(store.dialect.version)), None)
        if len(said) > 1 or not starts:
            yield from said
            yield "--as-broker VERSION shows one of them in detail."
            return
        yield from start_lines(shown or starts[-1], palette, columns=columns, everything=verbose)
        if len(found) > 1:
            yield f"Brokers of {versions_text(verdicts)} end up the same."

    answer.say(document, lines, [store_path, *stated.commitlog_paths, *store.commitlog.directories])
    return (EXIT_PROBLEMS if harmful else EXIT_CLEAN) | (
        EXIT_CLEAN if uncovered is None else EXIT_OPERATIONAL
    )


def _start_document(item: Prediction) -> dict[str, Any]:
    """What is predicted for one class of versions; without a prediction the reasons alone."""
    reasons = getattr(item.error, "reasons", (str(item.error),))  # of other errors the text
    return {
        "alike": item.alike,
        "covered": item.start is not None,
        "not_covered": () if item.error is None else reasons,
        "harmful": None if item.start is None else item.start.harmful,
        **({"version": item.version} if item.start is None else item.start.document()),
    }
