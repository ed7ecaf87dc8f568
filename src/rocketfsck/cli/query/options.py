"""The group of the query commands, and the options that they share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rocketfsck.cli.base import Command, scrolling
from rocketfsck.cli.bodies import BodyForm, body_options
from rocketfsck.cli.maskoptions import mask_options
from rocketfsck.cli.options import limit_option, time_options
from rocketfsck.cli.params import (
    Destination,
    Function,
    StoreOptions,
    output_options,
    store_options,
    verbose_option,
)
from rocketfsck.cli.paramtypes import StorePath
from rocketfsck.errors import EXIT_OPERATIONAL

if TYPE_CHECKING:
    from rocketfsck.cli.masks import Masks
    from rocketfsck.query.answers import Found, Outcome
    from rocketfsck.query.view import StoreView
    from rocketfsck.store import Store

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Value = TypeVar("Value")
_NAMED = ("topic", "key", "group", "name", "message_id")
"""Arguments that an answer may repeat."""

FOUND_CODE, NOT_FOUND_CODE, AMBIGUOUS_CODE = 0, 4, 64
"""Of the table of exit statuses: 4 leaves the question open; with 8, because what it is about is not there to
be read; with 16, because it can be put in two ways. One that cannot be put at all is 16, as everywhere."""


class QueryGroup(Command, click.Group):
    """A group whose help ends with the table of exit statuses, as that of every command."""


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """The options that say which store is asked and where the answer goes."""

    path: Path
    stated: StoreOptions
    answer: Destination
    body: BodyForm = "none"
    verbose: bool = False
    traced: bool = False
    masks: Masks | None = None

    def masked(self, value: Value) -> Value:
        """An answer, or a part of one, as it is shown: with --mask, without names and bodies."""
        return value if self.masks is None else self.masks.of(value)

    def open(self) -> Store:
        """The store, read-only, with the queues and configs of its databases until the command ends."""
        from rocketfsck.store.rocks.lifting import lifted

        context = click.get_current_context()
        store = context.with_resource(lifted(self.stated.open(f"query {context.info_name}", self.path))).store
        if self.masks is not None:
            self.masks.learn_store(store)
            asked = (context.params.get(name) for name in _NAMED)
            self.masks.learn(name for name in asked if isinstance(name, str))
        return store

    @property
    def max_body_size(self) -> int:
        """How much of bodies is read: nothing where they are left out."""
        from rocketfsck.scan.views.messages import MAX_BODY_SIZE

        return 0 if self.body == "none" else MAX_BODY_SIZE


def quiet_terminal(asked: QueryRequest) -> AbstractContextManager[None]:
    """No progress is shown where the answer scrolls over the same terminal."""
    return nullcontext() if asked.answer.path is not None else scrolling(sys.stdout)


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


def asked_options(function: Function) -> Function:
    """What all queries take: the store's facts, the form of the answer."""
    decorated: Function = store_options(mask_options(output_options()(function)))
    return decorated


def message_options(function: Function) -> Function:
    """How messages are shown."""
    verbose = verbose_option("Show every field of every message.")
    return body_options(verbose(function))


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


def state_option(function: Decorated) -> Decorated:
    return click.option(
        "--state",
        type=click.Choice(["started", "running"]),
        help="With --as-broker: the answers once it has started on the store (the default), or of one that "
        "runs on these files (the default where one does).",
    )(function)


def window_options(function: Function) -> Function:
    """`--begin`, `--end`, `--limit`."""
    return time_options(limit_option()(function))
