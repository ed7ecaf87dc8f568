"""What every full screen has: a title, a line of status, and the keys that work everywhere.

The verdict on the store, on top of a screen: what `check` says first, and the next command.

What all screens share: the open store, its findings, the plan, and the work under way.

What searches and follows links is imported when somebody asks for it: the list of files comes first.
Files are opened, read and searched in worker threads, one at a time for each screen's own needs; a lock
keeps two workers from the same open files.

What is asked of the user, and the help.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.timer import Timer
from textual.widgets import Footer, Input, Static
from textual.worker import get_current_worker

from rocketfsck.cli.browse.model import files
from rocketfsck.cli.browse.views.lines import Lines, Stop, stoppable
from rocketfsck.cli.show.text import sentence
from rocketfsck.errors import CancelledError, RocketfsckError, StoreError
from rocketfsck.store.model import Store

if TYPE_CHECKING:
    from rocketfsck.cli.browse.model.findings import Findings
    from rocketfsck.cli.browse.model.links import Link
    from rocketfsck.cli.browse.model.repairs import Planned
    from rocketfsck.cli.dump.item import Item
    from rocketfsck.verify.finding import Level

HELP = """\
arrows, j, k   move; also PgUp, PgDn; Home and End: first and last
left, right    move long lines to the side
Enter          unfold a folder or a rule; open a file;
               follow a row to what it points to
Backspace      back to where you were
Tab            from the rows to the bytes, and back
g              go to an offset: 4711, 0x1267, @BYTE of this file,
               or TOPIC/QUEUE/QUEUE-OFFSET
/              search: text, key, unique key, offset, time
               (Tab: the next of these; Up and Down: the topic)
n, N           the next match, the one before it
b              show the bodies of messages, or hide them
c              check the store in the background
f              list the findings by rule; Enter shows the place
], [           the next finding in this file, the one before it
p              choose repairs, see what they cost, save the plan
               (Space: in or out; Enter: the single actions)
t, q           light or dark; quit
Escape         stop what is under way; close a dialog

E error, ! warning, i note: marks after a check, or with --report
browse only reads the store; `rocketfsck apply` carries out a plan.\
"""


class HelpScreen(ModalScreen[None]):
    """All keys and marks."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,backspace", "dismiss", "Close")]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog full"):
            yield Lines(id="help", cursor=False)
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(Lines).show_all(HELP.split("\n"))


class QuestionScreen(ModalScreen[files.Question | None]):
    """A question and its kind; for a key also the topic. Dismissed with the question, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Close"),
        Binding("tab", "kind(1)", "Next kind", priority=True),
        Binding("shift+tab", "kind(-1)", "Kind before", priority=True, show=False),
        Binding("down,up", "other", "Topic", priority=True),
    ]

    def __init__(self, before: files.Question | None, kind: files.SearchKind | None = None) -> None:
        super().__init__()
        self._before = before or files.Question("text", "")
        self._kind: files.SearchKind = kind or self._before.kind
        self._is_fixed = kind is not None

    def compose(self) -> ComposeResult:
        same = self._kind == self._before.kind
        with Vertical(classes="dialog"):
            yield Static(id="kinds", markup=False)
            yield Input(self._before.text if same else "", id="text", select_on_focus=True)
            yield Input(self._before.topic, placeholder="topic (none: every topic)", id="topic")
        yield Footer()

    def on_mount(self) -> None:
        self._show_kind()

    def _show_kind(self) -> None:
        title = Text()
        for kind in (self._kind,) if self._is_fixed else files.ASKED_KINDS:
            mine = kind == self._kind
            name = files.NAMES[kind]
            title.append(f"[{name}]" if mine else f" {name} ", "bold" if mine else "")
            title.append(" ")
        self.query_one("#kinds", Static).update(title)
        self.query_one("#text", Input).placeholder = files.HINTS[self._kind]
        self.query_one("#topic", Input).display = self._kind in ("key", "unique")
        self.query_one("#text", Input).focus()

    def action_kind(self, step: int) -> None:
        """Ask for another kind."""
        if not self._is_fixed:
            number = files.ASKED_KINDS.index(self._kind) + step
            self._kind = files.ASKED_KINDS[number % len(files.ASKED_KINDS)]
            self._show_kind()

    def action_other(self) -> None:
        """Go to the other input, where there is one."""
        topic, text = self.query_one("#topic", Input), self.query_one("#text", Input)
        (text if topic.has_focus or not topic.display else topic).focus()

    def on_input_submitted(self) -> None:
        text, topic = self.query_one("#text", Input).value, self.query_one("#topic", Input).value
        self.dismiss(files.Question(self._kind, text, topic) if text else None)


class LinksScreen(ModalScreen["Link | None"]):
    """Several links, one of which is to be followed. Dismissed with that one, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace,q", "dismiss", "Close"),
        Binding("enter", "choose", "Follow"),
    ]

    def __init__(self, title: str, links: list[Link]) -> None:
        super().__init__()
        self._title = title
        self._links = links

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall"):
            yield Static(self._title, classes="title", markup=False)
            yield Lines(id="links")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(Lines).show_all([link.title for link in self._links])

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        link = self._links[event.number]
        if link.place is not None:
            self.dismiss(link)


class PathScreen(ModalScreen[str | None]):
    """The name of a file to write. Dismissed with the name ("" for the usual place), or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Close")]

    def compose(self) -> ComposeResult:
        said = "Save the plan to this file; empty: where `rocketfsck apply STORE` finds it"
        with Vertical(classes="dialog"):
            yield Static(said, markup=False)
            yield Input(placeholder="plan.json", id="path")
        yield Footer()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)


@dataclass(slots=True)
class BrowseRequest:
    """What the command line asked for: where to begin, a report to load, the level of a check."""

    place: files.FilePlace | None = None
    question: files.Question | None = None
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

    shelf: files.Shelf
    name: str
    asked: BrowseRequest = field(default_factory=BrowseRequest)
    findings: Findings | None = None
    planned: Planned | None = None
    last: files.Question | None = None
    hits: list[files.FilePlace] = field(default_factory=list)
    hit: int = 0
    bodies: bool = False
    unfolded: set[str] = field(default_factory=set)
    finding: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def store(self) -> Store:
        return self.shelf.store

    def open(self, place: files.FilePlace) -> files.OpenFile:
        """The file of a place. Raises StoreError where it is not there."""
        row = self.shelf.row(place.name)
        if row is None:
            raise StoreError("is not in this store", path=place.name)
        file = self.shelf.open(row)
        return self.shelf.with_bodies(file, shown=True) if self.bodies else file

    def links(self, file: files.OpenFile, item: Item) -> list[Link]:
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

    def search(
        self, question: files.Question, file: files.OpenFile | None, pos: int
    ) -> list[files.FilePlace]:
        """The places that answer a question. For worker threads; raises what `search` does."""
        from rocketfsck.cli.browse.model.search import search
        from rocketfsck.query.view import StoreView

        with StoreView(self.store) as view:
            return search(self.shelf, view, question, file, pos)

    def next_text(self, file: files.OpenFile | None, pos: int, *, backward: bool) -> files.FilePlace | None:
        """The next place of the text that was searched for last. For worker threads; raises StoreError."""
        from rocketfsck.cli.browse.model.search import find_text, needle_of

        assert self.last is not None
        return find_text(self.shelf, file, pos, needle_of(self.last.text), backward=backward)

    def step(self, by: int) -> files.FilePlace | None:
        """The next of several places that a search found; None after the last and before the first."""
        if not 0 <= self.hit + by < len(self.hits):
            return None
        self.hit += by
        return self.hits[self.hit]

    def take(self, question: files.Question, hits: list[files.FilePlace]) -> None:
        """Keep what a search found, for `step`."""
        self.last, self.hits, self.hit = question, hits, 0


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

    def go(self, place: files.FilePlace) -> None:
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

    def action_choose(self) -> None:
        self.query(Lines).first().action_choose()

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
        return sentence(str(error).replace(f"{self.session.store.root}/", ""))

    def _failed(self, said: str, failed: Callable[[], None] | None, group: str) -> None:
        self._end(group)
        if failed is not None:
            failed()
        self.browser.front.say(said)


class VerdictPane(Vertical):
    """A few lines, as many as the texts need."""

    DEFAULT_CSS = """
    VerdictPane { height: auto; max-height: 8; padding: 0 1; }
    VerdictPane > #headline { height: auto; max-height: 5; }
    VerdictPane > #next { height: auto; max-height: 3; }
    VerdictPane > .error { color: $text-error; text-style: bold; }
    VerdictPane > .warning { color: $text-warning; }
    VerdictPane > .good { color: $text-success; }
    """

    def compose(self) -> ComposeResult:
        yield Static(UNCHECKED, id="headline", markup=False)
        yield Static(id="next", markup=False)

    def show(self, findings: Findings | None) -> None:
        """Show the verdict of these findings, or that there is none yet."""
        if findings is None:
            return
        headline = self.query_one("#headline", Static)
        headline.update(findings.headline)
        headline.set_classes(findings.tone)
        after = self.query_one("#next", Static)
        after.update(f"Next: {findings.next_step}")
        after.display = bool(findings.next_step)
