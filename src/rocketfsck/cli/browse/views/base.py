"""What every full screen has: a title, a line of status, and the keys that work everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeVar, cast

from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Static
from textual.worker import get_current_worker

from rocketfsck.cli.browse.model.files import FilePlace
from rocketfsck.cli.browse.model.reading import stoppable
from rocketfsck.cli.browse.views.lines import Stop
from rocketfsck.cli.browse.views.session import Session
from rocketfsck.cli.show.text import visible
from rocketfsck.errors import CancelledError, RocketfsckError

Result = TypeVar("Result")
READING = "Reading… Escape stops."
UNCHECKED = "Nothing is checked yet: c checks the store."
PATIENCE = 0.5
"""Seconds after which reading that is not done yet is said."""


class Browser(Protocol):
    """What the screens ask of the application that shows them."""

    under_way: set[Stop]

    @property
    def session(self) -> Session:
        """The store that is browsed."""
        ...

    @property
    def front(self) -> StoreScreen:
        """The full screen in front, below any dialog."""
        ...

    def go(self, place: FilePlace) -> None:
        """Show a place, and remember where we were."""

    def enter(self, session: Session, *, again: bool = False) -> None:
        """Browse one of several stores; `again` where it was browsed before."""

    def action_return(self) -> None:
        """Where we were before."""

    def call_from_thread(self, callback: Callable[..., Any], *args: Any) -> Any:
        """Run a function in the thread of the application (Textual's own)."""


class StoreScreen(Screen[None]):
    """A screen of the browser."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "app.search", "Search", key_display="/"),
        Binding("g", "app.goto", "Go to"),
        Binding("n", "app.again(1)", "Next", show=False),
        Binding("N", "app.again(-1)", "Before", show=False),
        Binding("c", "app.check", "Check"),
        Binding("f", "app.findings", "Findings"),
        Binding("p", "app.repairs", "Plan"),
        Binding("question_mark", "app.help", "Help", key_display="?"),
        Binding("q", "app.quit", "Quit"),
        Binding("t", "app.theme", "Light or dark", show=False),
        Binding("escape", "app.stop", "Stop", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._patience: dict[str, Timer] = {}

    @property
    def browser(self) -> Browser:
        """The app, as what it is."""
        return cast("Browser", self.app)

    @property
    def session(self) -> Session:
        return self.browser.session

    said = ""

    def say(self, text: str) -> None:
        """Show a line of status; printable, and never markup."""
        self.said = text
        for status in self.query("#status").results(Static):  # none yet, before the screen is composed
            status.update(text)

    def findings_changed(self) -> None:
        """Called when a check or a report brought findings."""

    def work(
        self,
        group: str,
        do: Callable[[], Result],
        then: Callable[[Result], None],
        stop: Stop | None = None,
        failed: Callable[[], None] | None = None,
    ) -> None:
        """Do something in a worker thread, and hand over what came of it, unless other work of the group
        began meanwhile. Escape stops it. Errors become the line of status; `failed` is called before that."""
        stop = stop or Stop()
        app = self.browser
        app.under_way.add(stop)
        self._end(group)
        self._patience[group] = self.set_timer(PATIENCE, self._say_reading)

        def run() -> None:
            worker = get_current_worker()
            stop.follow(worker)
            try:
                with stoppable(stop):
                    result = do()
            except (RocketfsckError, MemoryError) as error:
                said = "Stopped." if isinstance(error, CancelledError) else self.words(error)
                if not worker.is_cancelled:
                    app.call_from_thread(self._failed, said or "out of memory", failed, group)
                return
            finally:
                app.under_way.discard(stop)
            if not worker.is_cancelled:
                app.call_from_thread(self._done, then, result, group)

        self.run_worker(run, thread=True, exclusive=True, group=group)

    def _say_reading(self) -> None:
        """Say that something takes its time, where nothing else is said; whoever is done takes it back."""
        if not self.said:
            self.say(READING)

    def _end(self, group: str) -> None:
        timer = self._patience.pop(group, None)
        if timer is not None:
            timer.stop()
        if self.said == READING:
            self.say("")

    def _done(self, then: Callable[[Result], None], result: Result, group: str) -> None:
        self._end(group)
        then(result)

    def words(self, error: BaseException) -> str:
        """An error in a line; files by their places in the store."""
        return visible(str(error).replace(f"{self.session.store.root}/", ""), keep_backslash=True)

    def _failed(self, said: str, failed: Callable[[], None] | None, group: str) -> None:
        self._end(group)
        if failed is not None:
            failed()
        self.browser.front.say(said)
