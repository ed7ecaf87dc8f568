"""One file: its rows above, the fields and bytes of the row under the cursor below."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Footer, Static

from rocketfsck.cli.browse.model.cells import Fields, Table
from rocketfsck.cli.browse.model.files import FilePlace, OpenFile
from rocketfsck.cli.browse.views.base import UNCHECKED, LinksScreen, StoreScreen
from rocketfsck.cli.browse.views.lines import Lines
from rocketfsck.cli.dump.item import Item
from rocketfsck.cli.show.text import count_of, visible
from rocketfsck.verify.finding import Severity

if TYPE_CHECKING:
    from rocketfsck.cli.browse.model.links import Link

# The rows of one file: a window of items that grows as the cursor comes near its end.

NEAR = 100
"""So near to an end of the window, more is asked for."""
PAGE = 200
"""Rows that are fetched at once."""
MOST = 4 * PAGE
"""Rows that are kept."""

Direction = Literal["forward", "backward", "first", "last"]


class Rows(Lines):
    """Items in a window. `Needed` asks for more of them; `take` and `extend` give them."""

    BINDINGS: ClassVar[list[BindingType]] = []
    DEFAULT_CSS = "Rows { scrollbar-size-vertical: 0; }"

    class Needed(Message):
        """More rows are wanted in a direction."""

        def __init__(self, direction: Direction) -> None:
            super().__init__()
            self.direction = direction

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.items: list[Item] = []
        self.is_first = self.is_last = True
        self.is_waiting = False
        self.table_title = ""

    @property
    def item(self) -> Item | None:
        """The item that the cursor is on."""
        return self.items[self.cursor] if 0 <= self.cursor < len(self.items) else None

    def take(self, window: RowWindow, *, jump: bool) -> None:
        """Show another window. Unless it is a `jump`, the cursor's line stays where it is on the screen."""
        self.items, table, cursor = window.items, window.table, window.cursor
        self.is_first, self.is_last, self.is_waiting = window.first, window.last, False
        self.table_title = table.title
        above = None if jump else self.cursor - int(self.scroll_offset.y)
        self.show_all(table.lines, cursor, above)

    def move_to(self, number: int) -> None:
        super().move_to(number)
        if number < NEAR and not self.is_first:
            self._need("backward")
        elif number >= self.count - NEAR and not self.is_last:
            self._need("forward")

    def action_to(self, number: int) -> None:
        """Go to the first or the last row of the file, wherever that is."""
        if number < 0 and not self.is_last:
            self._need("last")
        elif number == 0 and not self.is_first:
            self._need("first")
        else:
            super().action_to(number)

    def _need(self, direction: Direction) -> None:
        if not self.is_waiting:
            self.is_waiting = True
            self.post_message(self.Needed(direction))


class FieldLines(Lines):
    """The fields of a row, each in a colour next to those of its neighbours, wrong ones as errors."""

    BINDINGS: ClassVar[list[BindingType]] = []
    COMPONENT_CLASSES: ClassVar[set[str]] = {"fields--0", "fields--1", "fields--2", "fields--place"}
    DEFAULT_CSS = """
    FieldLines > .fields--0 { color: $text-primary; }
    FieldLines > .fields--1 { color: $text-success; }
    FieldLines > .fields--2 { color: $text-accent; }
    FieldLines > .fields--place { text-style: dim; }
    """
    COLOURS = 3

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id, cursor=False)
        self.fields: Fields | None = None

    def drawn(self, number: int, text: str) -> Strip:
        """A line in the colour of its field, or of the finding that it is about."""
        fields = self.fields
        if fields is None or number < 0:
            return super().drawn(number, text)
        field, severity = fields.field_of(number), fields.severity_of(number)
        name = "" if severity is None else STYLES.get(severity, "")
        if not name and field is not None:
            name = f"fields--{field % self.COLOURS}"
        style = self.rich_style
        if name:
            style += self.get_component_rich_style(name, partial=True)
        digits = 0 if field is None else fields.digits
        dim = style + self.get_component_rich_style("fields--place", partial=True)
        strip = Strip([Segment(text[:digits], dim), Segment(text[digits:], style)]).crop(self.shift)
        return strip.crop_extend(0, self.size.width, self.rich_style)


STYLES = {Severity.ERROR: "lines--error", Severity.WARNING: "lines--warning"}
WIDE = 110
"""Columns from which on a line of bytes has 16 of them."""
EMPTY, NO_ROWS = "The file is empty.", "The database has no rows of this kind."
NOWHERE, NO_FURTHER = "This row leads to nothing else.", "No further finding in this file."


@dataclass(frozen=True, slots=True)
class RowWindow:
    """Items of a file and the row that the cursor goes to; `first` and `last` say whether it begins or ends
    where the file does."""

    file: OpenFile
    items: list[Item]
    table: Table
    cursor: int
    first: bool
    last: bool


class FileScreen(StoreScreen):
    """The rows of a file, and the bytes of one of them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "follow", "Follow"),
        Binding("backspace", "app.return", "Back", key_display="Bksp"),
        Binding("tab", "app.focus_next", "Pane", show=False),
        Binding("b", "bodies", "Bodies", show=False),
        Binding("right_square_bracket", "finding(1)", "Next finding", show=False),
        Binding("left_square_bracket", "finding(-1)", "Finding before", show=False),
    ]

    def __init__(self, place: FilePlace) -> None:
        super().__init__()
        self._start = self._sought = place
        self.file: OpenFile | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="title", classes="title", markup=False)
        yield Static(id="columns", classes="columns", markup=False)
        yield Rows(id="rows")
        yield Static(id="about", classes="columns", markup=False)
        yield FieldLines(id="fields")
        yield Static(self.said, id="status", markup=False)
        yield Footer()

    @property
    def rows(self) -> Rows:
        return self.query_one(Rows)

    @property
    def place(self) -> FilePlace:
        """Where the cursor is."""
        item = self.rows.item
        return self._start if item is None or self.file is None else FilePlace(self.file.row.key, item.start)

    def on_mount(self) -> None:
        self.rows.focus()
        self.load(self._start)

    def on_unmount(self) -> None:
        if self.file is not None:
            self.file.close()

    def _forget(self) -> None:
        """Take back what was said of a row or file that is left."""
        if self.said in (EMPTY, NO_ROWS, NOWHERE, NO_FURTHER):
            self.say("")

    def load(self, place: FilePlace) -> None:
        """Show a place: open its file if need be, and the rows around it."""
        self._forget()
        self._start = self._sought = place
        self.work("rows", lambda: self._around(place), self._take_window)

    def _around(self, place: FilePlace) -> RowWindow:
        """The window around a place, in a worker thread."""
        with self.session.lock:
            before = self.file
            same = before is not None and before.row.key == place.name
            file = before if before is not None and same else self.session.open(place)
            pages = file.pages
            start = pages.locate(min(place.pos, max(file.end - 1, 0)))
            behind = pages.backward(start, PAGE)
            ahead = pages.forward(start, PAGE)
            return self._window(file, [*behind, *ahead], len(behind), not ahead or len(ahead) < PAGE)

    def _window(self, file: OpenFile, items: list[Item], cursor: int, last: bool) -> RowWindow:
        first = not items or items[0].start == 0
        table = Table(file, items, self.session.findings)
        return RowWindow(file, items, table, cursor, first, last or items[-1].end >= file.end)

    def _take_window(self, window: RowWindow, *, jump: bool = True) -> None:
        if self.file is not None and self.file.source is not window.file.source:
            self.file.close()
        self.file = window.file
        row = window.file.row
        self.rows.take(window, jump=jump)
        self.query_one("#title", Static).update(f"{visible(row.key)}: {row.title}, {row.size} bytes")
        self._show_titles()
        if not window.items:
            self.say(EMPTY if window.file.source.database is None else NO_ROWS)
        self._show_item()

    def _show_titles(self) -> None:
        """The titles of the columns, above their cells."""
        self.query_one("#columns", Static).update(self.rows.table_title[self.rows.shift :])

    def on_lines_shifted(self, event: Lines.Shifted) -> None:
        if event.lines is self.rows:
            self._show_titles()

    def on_rows_needed(self, event: Rows.Needed) -> None:
        file, items, cursor = self.file, list(self.rows.items), self.rows.cursor
        if file is None or not items:
            return

        def more() -> RowWindow:
            with self.session.lock:
                if event.direction == "first":
                    ahead = file.pages.forward(0, PAGE)
                    return self._window(file, ahead, 0, len(ahead) < PAGE)
                if event.direction == "last":
                    behind = file.pages.backward(file.end, PAGE)
                    return self._window(file, behind, len(behind) - 1, True)
                if event.direction == "forward":
                    ahead = file.pages.forward(items[-1].end, PAGE)
                    drop = max(len(items) + len(ahead) - MOST, 0)
                    kept = [*items, *ahead][drop:]
                    return self._window(file, kept, cursor - drop, len(ahead) < PAGE)
                behind = file.pages.backward(items[0].start, PAGE)
                return self._window(file, [*behind, *items][:MOST], cursor + len(behind), False)

        def take(window: RowWindow) -> None:
            grows = event.direction in ("forward", "backward")
            moved = self.rows.cursor - cursor if grows else 0
            self._take_window(replace(window, cursor=window.cursor + moved), jump=not grows)

        def failed() -> None:
            self.rows.is_waiting = False

        self.work("rows", more, take, failed=failed)

    def on_lines_moved(self, event: Lines.Moved) -> None:
        if event.lines is self.rows:
            self._forget()
            self._show_item()

    def on_lines_chosen(self) -> None:
        self.action_follow()

    def _show_item(self) -> None:
        """Show the fields and bytes of the row under the cursor."""
        file, item = self.file, self.rows.item
        lines = self.query_one(FieldLines)
        if file is None or item is None:
            lines.fields = None
            lines.show_all(())
            self.query_one("#about", Static).update("")
            return
        findings = self.session.findings
        found = [] if findings is None else findings.at(file.row.key, item.start, item.end)
        columns = self.size.width - 1  # the scroll bar
        line_size = 16 if self.size.width >= WIDE else 8
        if file.source.database is None:
            share = f" ({100 * item.start // max(file.source.size, 1)} %)"
            about = f"{item.kind}, bytes {item.start} to {item.end} of {file.source.size}{share}"
        else:
            about = f"{item.kind}, row {item.start}"
        if found:
            about += f", {count_of(len(found), 'finding')}"
        self.query_one("#about", Static).update(about)

        def read() -> Fields:
            with self.session.lock:
                return Fields(file, item, found, line_size=line_size, columns=columns)

        def show(fields: Fields) -> None:
            sought = self._sought.pos if self._sought.name == file.row.key else item.start
            line = fields.line_of(sought) if item.start < sought < item.end else 0
            lines.fields = fields
            lines.show(fields.count, fields.lines, ready=False, cursor=line)

        self.work("fields", read, show)

    def on_resize(self) -> None:
        if self.file is not None:
            self._show_item()

    def findings_changed(self) -> None:
        if self.file is not None:
            self.load(self.place)

    def action_bodies(self) -> None:
        """Show bodies, or hide them."""
        self.session.bodies = not self.session.bodies
        if self.file is not None:
            self.file = self.session.shelf.with_bodies(self.file, shown=self.session.bodies)
            self.say("Bodies are shown." if self.session.bodies else "Bodies are hidden.")
            self.load(self.place)

    def action_finding(self, step: int) -> None:
        """Go to the next finding of this file, or the one before."""
        findings = self.session.findings
        if findings is None or self.file is None:
            self.say(UNCHECKED)
            return
        item = self.rows.item
        pos = 0 if item is None else item.end - 1 if step > 0 else item.start
        found = findings.next(self.file.row.key, pos, backward=step < 0)
        if found is None or found.place is None:
            self.say(NO_FURTHER)
        else:
            self.browser.go(found.place)

    def action_follow(self) -> None:
        """Follow the row to what it leads to; where that is more than one thing, ask."""
        file, item = self.file, self.rows.item
        if file is None or item is None:
            return
        self.work("links", lambda: self.session.links(file, item), self._choose_link)

    def _choose_link(self, links: list[Link]) -> None:
        if not links:
            self.say(NOWHERE)
        elif len(links) == 1 and links[0].place is not None and links[0].slot is None:
            self._follow(links[0])
        else:
            self.app.push_screen(LinksScreen("This row leads to", links), self._follow)

    def _follow(self, link: Link | None) -> None:
        if link is None or link.place is None:
            return
        if link.slot is None:
            self.browser.go(link.place)
            return

        def show(chain: list[Link]) -> None:
            self.app.push_screen(LinksScreen(link.title, chain), self._follow)

        self.work("links", lambda: self.session.chain(link), show)
