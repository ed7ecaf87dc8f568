"""The group of the query commands, and the options that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from rocketfsck.cli.base import Command
from rocketfsck.cli.params import (
    Answer,
    Decorator,
    Function,
    StorePath,
    Timestamp,
    Told,
    body_option,
    output_options,
    store_options,
)
from rocketfsck.errors import EXIT_OPERATIONAL

if TYPE_CHECKING:
    from rocketfsck.query.answers import Found, Outcome
    from rocketfsck.query.view import StoreView
    from rocketfsck.store import Store

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
BodyForm = Literal["none", "text", "hex", "base64"]

FOUND_CODE, NOT_FOUND_CODE, AMBIGUOUS_CODE = 0, 4, 64
"""Of the table of exit statuses: 4 leaves the question open; with 8, because what it is about is not there to
be read; with 16, because it can be put in two ways. One that cannot be put at all is 16, as everywhere."""


class QueryGroup(Command, click.Group):
    """A group whose help ends with the table of exit statuses, as that of every command."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The options that say which store is asked and where the answer goes."""

    path: Path
    told: Told
    answer: Answer
    body: BodyForm = "none"
    verbose: bool = False
    traced: bool = False

    def open(self) -> Store:
        """The store, read-only, with the queues and configs of its databases until the command ends."""
        from rocketfsck.store.rocks.lifting import lifted

        context = click.get_current_context()
        store = self.told.open(f"query {context.info_name}", self.path)
        return context.with_resource(lifted(store)).store

    @property
    def max_body_size(self) -> int:
        """What is read of bodies: nothing where they are not shown."""
        from rocketfsck.scan.views.messages import MAX_BODY_SIZE

        return 0 if self.body == "none" else MAX_BODY_SIZE


@contextmanager
def asked_progress(asked: Asked, what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar for a scan; none where the answer scrolls over the same terminal."""
    import sys

    from rocketfsck.cli.progress import progress

    with progress(what, wanted=not (asked.answer.path is None and sys.stdout.isatty())) as bar:
        yield bar.update


def asked_view(store: Store, via: str) -> StoreView:
    """The store for a query: a large file is walked where nothing less tells whether a message in it is live,
    unless the index alone is asked."""
    from rocketfsck.query.view import StoreView

    return StoreView(store, walks=via != "index")


def exit_code(outcome: Outcome, found: Iterable[Found] = ()) -> int:
    """The exit status of an answer with these messages."""
    from rocketfsck.query.answers import is_settled

    codes = {
        "found": FOUND_CODE,
        "not-found": NOT_FOUND_CODE,
        "unknown-topic": NOT_FOUND_CODE,
        "ambiguous": AMBIGUOUS_CODE,
    }
    return codes[outcome.value] | (0 if is_settled(found) else EXIT_OPERATIONAL)


def store_argument(function: Decorated) -> Decorated:
    return click.argument("path", metavar="STORE", type=StorePath())(function)


def asked_options(*formats: str) -> Decorator:
    """What all queries take: the store's facts, the form of the answer."""

    def add(function: Function) -> Function:
        return store_options(output_options(*(formats or ("text", "json", "jsonl")))(function))

    return add


def message_options(function: Decorated) -> Decorated:
    """How messages are shown."""
    verbose = click.option("-v", "--verbose", is_flag=True, help="Show every field of every message.")
    return body_option(verbose(function))


def trace_option(function: Decorated) -> Decorated:
    return click.option(
        "--trace",
        "traced",
        is_flag=True,
        help="Show the way to the answer: slots, entries, files left out and why.",
    )(function)


def via_option(function: Decorated) -> Decorated:
    return click.option(
        "--via",
        type=click.Choice(["auto", "index", "scan", "both"]),
        default="auto",
        show_default=True,
        help="auto: the index, and the log where the index does not reach. both: what the index hides, too.",
    )(function)


def broker_option(function: Decorated) -> Decorated:
    return click.option(
        "--broker",
        metavar="VERSION",
        help="Answer exactly as a broker of this version would, with its limits.",
    )(function)


def state_option(function: Decorated) -> Decorated:
    return click.option(
        "--state",
        type=click.Choice(["started", "running"]),
        help="With --broker: the answers once it has started on the store (the default), or of one that runs "
        "on these files (the default where one does).",
    )(function)


def window_options(function: Decorated) -> Decorated:
    """`--begin`, `--end`, `--max`."""
    begin = click.option("--begin", type=Timestamp(), help="Only what was stored at this time or later.")
    end = click.option("--end", type=Timestamp(), help="Only what was stored before this time.")
    most = click.option(
        "--max", "max_count", type=click.IntRange(1), metavar="N", help="Only the N newest messages."
    )
    return begin(end(most(function)))
