"""How the answers of queries are shown: the options that several of them have."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import click

from rocketfsck.cli.base import Command
from rocketfsck.cli.output import Bodies, BodyForm, Destination
from rocketfsck.commands.query import QueryCommand
from rocketfsck.commands.shared import StoreOptions
from rocketfsck.common.options import Option


class QueryGroup(Command, click.Group):
    """A group whose help ends with the table of exit statuses, as that of every command."""


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """Which store was asked, how the answer is shown, and where it goes."""

    path: Path
    stated: StoreOptions
    answer: Destination
    body: BodyForm = "none"
    verbose: bool = False
    traced: bool = False


Traced = Annotated[
    bool, Option("Show the way to the answer: slots, entries, files left out and why.", names=("--trace",))
]


@dataclass(frozen=True, slots=True)
class Shown:
    """How the messages of an answer are shown."""

    bodies: Bodies = field(default_factory=Bodies)
    verbose: Annotated[bool, Option("Show every field of every message.", names=("-v", "--verbose"))] = False

    def request(self, query: QueryCommand, answer: Destination, *, traced: bool = False) -> QueryRequest:
        """The same for a query; `traced`: with the way to the answer. Raises UsageError as `Bodies.form`."""
        return QueryRequest(query.path, query.stated, answer, self.bodies.form(), self.verbose, traced)
