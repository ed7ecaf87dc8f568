"""The browser: its screens, the way through them, and the work that runs in the background.

The files of the store: the first screen.

Several stores, one of which is to be browsed: nothing of a store is listed before it is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.timer import Timer
from textual.widgets import Footer, Static

from rocketfsck import progress
from rocketfsck.cli.browse.model import tree
from rocketfsck.cli.browse.model.files import FilePlace, OpenFile, Question
from rocketfsck.cli.browse.views import base
from rocketfsck.cli.browse.views.filescreen import FileScreen
from rocketfsck.cli.browse.views.lines import Lines, Stop
from rocketfsck.cli.show.text import byte_size, count_of, sentence, visible

if TYPE_CHECKING:
    from rocketfsck.cli.browse.model.findings import CheckProgress, FindingCounts, Findings
    from rocketfsck.cli.browse.model.tree import TreeLine


class FilesScreen(base.StoreScreen):
    """All files that can be looked at, as a tree; Enter unfolds a folder, and opens a file."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Open"),
        Binding("backspace", "app.return", "Back", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._tree: tuple[tree.Folder, ...] = ()
        self._unfolded: set[tuple[str, ...]] = set()
        self._shown: list[TreeLine] = []
        self._counts: dict[tuple[str, ...], FindingCounts] = {}

    def compose(self) -> ComposeResult:
        yield Static(id="title", classes="title", markup=False)
        yield base.VerdictPane()
        yield Static(tree.file_title(), classes="columns", markup=False)
        yield Lines(id="files")
        yield Static(self.said, id="status", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        rows, store = self.session.shelf.rows, self.session.store
        size = byte_size(sum(row.size for row in rows))
        live = "; a broker is running" if store.live.locked else ""
        said = f"{visible(self.session.name)}: {count_of(len(rows), 'file')}, {size}"
        self.query_one("#title", Static).update(f"{said}, RocketMQ {store.dialect.version}{live}")
        self._tree = tree.file_tree(rows)
        self._unfolded = tree.unfolded_at_first(self._tree)
        self._take_findings()
        is_open = bool(self._tree) and self._tree[0].key in self._unfolded
        self._show(cursor=1 if is_open else 0, above=1)

    def _show(self, cursor: int, above: int) -> None:
        self._shown = tree.tree_lines(self._tree, self._unfolded)
        self.query_one(Lines).show(len(self._shown), self._lines, ready=True, cursor=cursor, above=above)

    def _lines(self, low: int, high: int) -> list[str]:
        return [
            tree.line_text(line, self._counts_of(line), self.size.width - 2) for line in self._shown[low:high]
        ]

    def _counts_of(self, line: TreeLine) -> FindingCounts | None:
        findings = self.session.findings
        if findings is None:
            return None
        what = line.what
        return self._counts.get(what.key) if isinstance(what, tree.Folder) else findings.counts(what.key)

    def _take_findings(self) -> None:
        findings = self.session.findings
        self.query_one(base.VerdictPane).show(findings)
        self._counts = {} if findings is None else tree.folder_counts(self._tree, findings)

    def on_resize(self) -> None:
        self.query_one(Lines).again()

    def findings_changed(self) -> None:
        self._take_findings()
        self.query_one(Lines).again()

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        what = self._shown[event.number].what
        if isinstance(what, tree.Folder):
            self._unfolded ^= {what.key}
            self._show(event.number, event.number - int(event.lines.scroll_offset.y))
        else:
            self.browser.go(FilePlace(what.key))


class StoresScreen(base.StoreScreen, inherit_bindings=False):
    """The stores that a pattern names; Enter opens one, and what was opened stays open."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Open"),
        Binding("question_mark", "app.help", "Help", key_display="?"),
        Binding("q", "app.quit", "Quit"),
        Binding("t", "app.theme", "Light or dark", show=False),
        Binding("escape", "app.stop", "Stop", show=False),
    ]

    def __init__(self, offers: Sequence[base.Offer]) -> None:
        super().__init__()
        self._offers = offers
        self._opened: dict[int, base.Session] = {}

    def compose(self) -> ComposeResult:
        title = f"{count_of(len(self._offers), 'store')}: Enter opens one"
        yield Static(title, classes="title", markup=False)
        yield Lines(id="stores")
        yield Static(self.said, id="status", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(Lines).show_all([sentence(offer.name) for offer in self._offers])

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        known = self._opened.get(event.number)
        if known is not None:
            self.browser.enter(known, again=True)
            return

        def take(session: base.Session) -> None:
            self._opened[event.number] = session
            self.browser.enter(session)

        self.work("store", self._offers[event.number].open, take)

    def words(self, error: BaseException) -> str:
        return sentence(str(error))


MOST_BACK = 1_000
"""Steps back that are remembered."""
SEARCHING, STOPS = "Searching", "Escape stops."
LOOK_SECONDS = 0.2
DARK, LIGHT = "textual-dark", "textual-light"


class BrowseApp(App[None]):
    """`rocketfsck browse`."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "rocketfsck browse"
    BINDINGS: ClassVar[list[BindingType]] = []
    CSS = """
    .title { text-style: bold; height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    .columns { height: 1; text-style: underline; text-wrap: nowrap; padding: 0 0 0 2; }
    #status { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    #about { padding: 0 1; }
    #why { height: auto; max-height: 9; padding: 0 1; }
    Choices { height: auto; max-height: 40%; }
    ModalScreen { align: center middle; }
    .dialog { width: 96%; max-width: 100; height: auto; border: solid $primary; background: $surface; }
    .dialog.tall { height: 90%; }
    .dialog.full { height: 1fr; }
    .dialog Static { padding: 0 1; }
    """

    def __init__(self, session: base.Session | Sequence[base.Offer]) -> None:
        super().__init__()
        self.offers = () if isinstance(session, base.Session) else session
        self._session = session if isinstance(session, base.Session) else None
        self.under_way: set[Stop] = set()
        self._back: list[FilePlace] = []
        self._watch: Timer | None = None

    @property
    def session(self) -> base.Session:
        """The store that is browsed."""
        assert self._session is not None
        return self._session

    def get_default_screen(self) -> base.StoreScreen:
        if not self.offers:
            return FilesScreen()

        return StoresScreen(self.offers)

    def on_mount(self) -> None:
        self.theme = DARK
        if self._session is not None:
            self.call_after_refresh(self._begin)

    def enter(self, session: base.Session, *, again: bool = False) -> None:
        """Browse one of several stores; `again` where it was browsed before."""
        self._session, self._back = session, []
        self.push_screen(FilesScreen())
        if not again:
            self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        """Go where the command line says."""
        asked = self.session.asked
        if asked.place is not None:
            self.go(asked.place)
        if asked.question is not None:
            self._ask(asked.question)

    @property
    def front(self) -> base.StoreScreen:
        """The full screen in front, below any dialog."""
        return next(screen for screen in reversed(self.screen_stack) if isinstance(screen, base.StoreScreen))

    @property
    def files_screen(self) -> FilesScreen:
        """The screen with the files of the store, above that of several stores."""
        return next(screen for screen in self.screen_stack if isinstance(screen, FilesScreen))

    @property
    def file_screen(self) -> FileScreen | None:
        """The screen of the file that is open."""
        return next((screen for screen in self.screen_stack if isinstance(screen, FileScreen)), None)

    def go(self, place: FilePlace) -> None:
        """Show a place, and remember where we were."""
        screen = self.file_screen
        if screen is None:
            files = self.files_screen
            while self.screen is not files:
                self.pop_screen()
            self.push_screen(FileScreen(place))
            return
        self._back = [*self._back[1 - MOST_BACK :], screen.place]
        while self.screen is not screen:
            self.pop_screen()
        screen.load(place)

    def action_return(self) -> None:
        """Where we were before."""
        screen = self.file_screen
        if self.front is screen and self._back:
            screen.load(self._back.pop())
        elif len(self.screen_stack) > 1:
            self.pop_screen()

    def action_help(self) -> None:
        self.push_screen(base.HelpScreen())

    def action_theme(self) -> None:
        """Light or dark."""
        self.theme = LIGHT if self.theme == DARK else DARK

    def action_stop(self) -> None:
        """Stop all that is under way: searches, checks, plans, reads."""
        for stop in tuple(self.under_way):
            stop.set()

    def action_search(self) -> None:
        self.push_screen(base.QuestionScreen(self.session.last), self._asked)

    def action_goto(self) -> None:
        self.push_screen(base.QuestionScreen(None, "offset"), self._asked)

    def _asked(self, question: Question | None) -> None:
        if question is not None:
            self._ask(question)

    def _here(self) -> tuple[OpenFile | None, int]:
        screen = self.file_screen
        return (None, -1) if screen is None else (screen.file, screen.place.pos)

    def _ask(self, question: Question) -> None:
        """Search in the background."""
        file, pos = self._here()

        def take(places: list[FilePlace]) -> None:
            self.session.take(question, places)
            self.front.say("")
            if not places:
                self.front.say("Not found.")
                return
            self.go(places[0])
            self._say_hit()

        self._search(lambda: self.session.search(question, file, pos), take)

    def _search(self, find: Callable[[], base.Result], take: Callable[[base.Result], None]) -> None:
        """Search in the background, and say how far it is."""
        self._end_search()
        self.front.say(f"{SEARCHING}… {STOPS}")
        self._watch = self.set_interval(LOOK_SECONDS, self._say_how_far)

        def done(result: base.Result) -> None:
            self._end_search()
            take(result)

        self.front.work("search", find, done, failed=self._end_search)

    def _say_how_far(self) -> None:
        """Say what is searched, and how much of it is done."""
        if all(worker.is_finished for worker in self.workers if worker.group == "search"):
            self._end_search()  # the screen that asked is gone, and its search with it
            return
        state = progress.state()
        if state is not None:
            share = f" {100 * state.done // state.total} %" if state.total else ""
            self.front.say(f"{SEARCHING}: {state.phase.removeprefix('searching ')}{share}… {STOPS}")

    def _end_search(self) -> None:
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        for screen in self.screen_stack:
            if isinstance(screen, base.StoreScreen) and screen.said.startswith(SEARCHING):
                screen.say("")

    def action_again(self, step: int) -> None:
        """The next of what was searched for, or the one before."""
        last = self.session.last
        if last is None:
            self.front.say("Nothing was searched for yet: / searches.")
            return
        if last.kind != "text":
            place = self.session.step(step)
            if place is None:
                self.front.say("No more matches.")
            else:
                self.go(place)
                self._say_hit()
            return
        screen, (file, pos) = self.file_screen, self._here()
        item = None if screen is None else screen.rows.item
        if item is not None and step > 0:
            pos = item.end - 1

        def take(place: FilePlace | None) -> None:
            if place is None:
                self.front.say("No more matches.")
            else:
                self.front.say("")
                self.go(place)

        self._search(lambda: self.session.next_text(file, pos, backward=step < 0), take)

    def _say_hit(self) -> None:
        count = len(self.session.hits)
        more = f"Match {self.session.hit + 1} of {count}; n and N go on." if count > 1 else ""
        screen = self.file_screen
        if screen is not None:
            screen.say(more)

    def action_check(self) -> None:
        """Check the store in the background."""
        stop = Stop()
        self.front.say("Checking… Escape stops.")

        def stated(progress: CheckProgress) -> None:
            if stop.is_set():  # the screen may be gone
                return
            share = "" if not progress.total else f" {100 * progress.done // progress.total} %"
            self.call_from_thread(self._say, f"Check: {progress.phase}{share}… Escape stops.")

        def check() -> Findings:
            from rocketfsck.cli.browse.model.findings import run_check

            return run_check(self.session.shelf, self.session.asked.level, stop, stated)

        self.files_screen.work("check", check, self._take_findings, stop)

    def _say(self, text: str) -> None:
        self.front.say(text)

    def _take_findings(self, findings: Findings) -> None:
        self.session.findings = findings
        self.session.planned = None
        self.session.unfolded, self.session.finding = set(), 0
        for screen in self.screen_stack:
            if isinstance(screen, base.StoreScreen):
                screen.findings_changed()
                if screen.said == base.UNCHECKED:
                    screen.say("")
        count = sum(findings.report.severity_counts.values())
        self.front.say(f"Checked: {count_of(count, 'finding')}. f lists, p plans repairs.")

    def action_findings(self) -> None:
        from rocketfsck.cli.browse.views.findingsscreen import FindingsScreen

        self._over(FindingsScreen)

    def action_repairs(self) -> None:
        from rocketfsck.cli.browse.views.findingsscreen import RepairsScreen  # half a second of imports

        self._over(RepairsScreen)

    def _over(self, kind: type[base.StoreScreen]) -> None:
        """Show a screen about findings over the others."""
        if self.session.findings is None:
            self.front.say(base.UNCHECKED)
        elif not isinstance(self.front, kind):
            self.push_screen(kind())
