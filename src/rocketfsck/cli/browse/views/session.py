"""What all screens share: the open store, its findings, the plan, and the work under way.

What searches and follows links is imported when somebody asks for it: the list of files comes first.
Files are opened, read and searched in worker threads, one at a time for each screen's own needs; a lock
keeps two workers from the same open files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocketfsck.cli.browse.model.files import FilePlace, OpenFile, Shelf
from rocketfsck.cli.browse.model.question import Question
from rocketfsck.errors import StoreError
from rocketfsck.store.model import Store

if TYPE_CHECKING:
    from rocketfsck.cli.browse.model.findings import Findings
    from rocketfsck.cli.browse.model.links import Link
    from rocketfsck.cli.browse.model.repairs import Planned
    from rocketfsck.cli.dump.item import Item
    from rocketfsck.verify.rules.rule import Level


@dataclass(slots=True)
class BrowseRequest:
    """What the command line asked for: where to begin, a report to load, the level of a check."""

    place: FilePlace | None = None
    question: Question | None = None
    level: Level = "full"


@dataclass(frozen=True, slots=True)
class Offer:
    """A store to choose among several: what it is called, and how it is opened (which raises StoreError and
    UsageError)."""

    name: str
    open: Callable[[], Session]


@dataclass(slots=True)
class Session:
    """One browsed store; `name` is what the user calls it. `unfolded` are the rules whose findings are
    listed, `finding` is the line among these that the cursor was on."""

    shelf: Shelf
    name: str
    asked: BrowseRequest = field(default_factory=BrowseRequest)
    findings: Findings | None = None
    planned: Planned | None = None
    last: Question | None = None
    hits: list[FilePlace] = field(default_factory=list)
    hit: int = 0
    bodies: bool = False
    unfolded: set[str] = field(default_factory=set)
    finding: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def store(self) -> Store:
        return self.shelf.store

    def open(self, place: FilePlace) -> OpenFile:
        """The file of a place. Raises StoreError where it is not there."""
        row = self.shelf.row(place.name)
        if row is None:
            raise StoreError("is not in this store", path=place.name)
        file = self.shelf.open(row)
        return self.shelf.with_bodies(file, shown=True) if self.bodies else file

    def links(self, file: OpenFile, item: Item) -> list[Link]:
        """What a row leads to. For worker threads; raises StoreError."""
        from rocketfsck.cli.browse.model.links import links_of
        from rocketfsck.query.view import StoreView

        with self.lock, StoreView(self.store) as view:
            return links_of(self.shelf, view, file, item)

    def chain(self, link: Link) -> list[Link]:
        """The chain that a link names. For worker threads; raises StoreError."""
        from rocketfsck.cli.browse.model.links import chain_links

        assert link.place is not None and link.slot is not None
        file = self.open(link.place)
        try:
            return chain_links(file, link.slot)
        finally:
            file.close()

    def search(self, question: Question, file: OpenFile | None, pos: int) -> list[FilePlace]:
        """The places that answer a question. For worker threads; raises what `search` does."""
        from rocketfsck.cli.browse.model.search import search
        from rocketfsck.query.view import StoreView

        with StoreView(self.store) as view:
            return search(self.shelf, view, question, file, pos)

    def next_text(self, file: OpenFile | None, pos: int, *, backward: bool) -> FilePlace | None:
        """The next place of the text that was searched for last. For worker threads; raises StoreError."""
        from rocketfsck.cli.browse.model.search import find_text, needle_of

        assert self.last is not None
        return find_text(self.shelf, file, pos, needle_of(self.last.text), backward=backward)

    def step(self, by: int) -> FilePlace | None:
        """The next of several places that a search found; None after the last and before the first."""
        if not 0 <= self.hit + by < len(self.hits):
            return None
        self.hit += by
        return self.hits[self.hit]

    def take(self, question: Question, hits: list[FilePlace]) -> None:
        """Keep what a search found, for `step`."""
        self.last, self.hits, self.hit = question, hits, 0
