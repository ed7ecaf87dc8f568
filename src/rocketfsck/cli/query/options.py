"""The group of the query commands, and the options that they share."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import click

from rocketfsck.cli.adapter import Formats
from rocketfsck.cli.base import Command, scrolling
from rocketfsck.cli.output import FORMATS, Bodies, BodyForm, Destination
from rocketfsck.commands.shared import Masking, StoreOptions, StorePlace
from rocketfsck.common.options import Option, PutAfter
from rocketfsck.errors import EXIT_OPERATIONAL

if TYPE_CHECKING:
    from rocketfsck.commands.masks import Masks
    from rocketfsck.query.answers import Found, Outcome
    from rocketfsck.query.view import StoreView
    from rocketfsck.store import Store

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


Via = Annotated[
    Literal["auto", "index", "scan", "both"],
    Option(
        "auto: the index, and the log where the index does not reach. both: what the index hides, too.",
        shows_default=True,
    ),
]
State = Annotated[
    Literal["started", "running"] | None,
    Option(
        "With --as-broker: the answers once it has started on the store (the default), or of one that "
        "runs on these files (the default where one does)."
    ),
]
Traced = Annotated[
    bool,
    Option("Show the way to the answer: slots, entries, files left out and why.", names=("--trace",)),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLine:
    """What all queries take: the store and its facts, and the form of the answer."""

    path: StorePlace
    stated: StoreOptions = field(default_factory=StoreOptions)
    masking: Masking = field(default_factory=Masking)
    answer: Annotated[Destination, Formats(FORMATS)]

    def request(self) -> QueryRequest:
        """The same as the queries take it."""
        return QueryRequest(self.path, self.stated, self.answer, masks=self.masking.masks())


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesLine(QueryLine):
    """A query for messages, and how they are shown."""

    bodies: Annotated[Bodies, PutAfter("path")] = field(default_factory=Bodies)
    verbose: Annotated[bool, Option("Show every field of every message.", names=("-v", "--verbose"))] = False

    def request(self, traced: bool = False) -> QueryRequest:
        """The same as the queries take it; `traced`: with the way to the answer."""
        plain = QueryLine.request(self)
        return replace(plain, body=self.bodies.form(), verbose=self.verbose, traced=traced)
