"""Several stores, one of which is to be browsed: nothing of a store is listed before it is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Static

from rocketfsck.cli.browse.views.base import StoreScreen
from rocketfsck.cli.browse.views.lines import Lines
from rocketfsck.cli.browse.views.session import Offer, Session
from rocketfsck.cli.show.text import count_of, visible


class StoresScreen(StoreScreen, inherit_bindings=False):
    """The stores that a pattern names; Enter opens one, and what was opened stays open."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Open"),
        Binding("question_mark", "app.help", "Help", key_display="?"),
        Binding("q", "app.quit", "Quit"),
        Binding("t", "app.theme", "Light or dark", show=False),
        Binding("escape", "app.stop", "Stop", show=False),
    ]

    def __init__(self, offers: Sequence[Offer]) -> None:
        super().__init__()
        self._offers = offers
        self._opened: dict[int, Session] = {}

    def compose(self) -> ComposeResult:
        title = f"{count_of(len(self._offers), 'store')}: Enter opens one"
        yield Static(title, classes="title", markup=False)
        yield Lines(id="stores")
        yield Static(self.said, id="status", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        names = [visible(offer.name, keep_backslash=True) for offer in self._offers]
        self.query_one(Lines).show(len(names), lambda low, high: names[low:high], ready=True)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        known = self._opened.get(event.number)
        if known is not None:
            self.browser.enter(known, again=True)
            return

        def take(session: Session) -> None:
            self._opened[event.number] = session
            self.browser.enter(session)

        self.work("store", self._offers[event.number].open, take)

    def action_choose(self) -> None:
        self.query_one(Lines).action_choose()

    def words(self, error: BaseException) -> str:
        return visible(str(error), keep_backslash=True)
