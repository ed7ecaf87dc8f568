"""The files of the store: the first screen."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Static

from rocketfsck.cli.browse.model.cells import file_line, file_title
from rocketfsck.cli.browse.model.files import FilePlace
from rocketfsck.cli.browse.views.base import StoreScreen
from rocketfsck.cli.browse.views.lines import Lines
from rocketfsck.cli.show.text import byte_size, count_of, visible


class FilesScreen(StoreScreen):
    """All files that can be looked at, in the order of the store."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Open"),
        Binding("backspace", "app.return", "Back", show=False),
    ]

    def compose(self) -> ComposeResult:
        yield Static(id="title", classes="title", markup=False)
        yield Static(file_title(), classes="columns", markup=False)
        yield Lines(id="files")
        yield Static(self.said, id="status", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        rows, store = self.session.shelf.rows, self.session.store
        size = byte_size(sum(row.size for row in rows))
        live = "; a broker is running" if store.live.locked else ""
        said = f"{visible(self.session.name)}: {count_of(len(rows), 'file')}, {size}"
        self.query_one("#title", Static).update(f"{said}, RocketMQ {store.dialect.version}{live}")
        self.query_one(Lines).show(len(rows), self._lines, ready=True)
        self.say("Nothing is checked yet: c checks the store." if self.session.findings is None else "")

    def _lines(self, low: int, high: int) -> list[str]:
        rows, columns = self.session.shelf.rows[low:high], self.size.width - 2
        return [file_line(row, self.session.findings, columns) for row in rows]

    def on_resize(self) -> None:
        self.query_one(Lines).again()

    def findings_changed(self) -> None:
        self.query_one(Lines).again()

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        self.browser.go(FilePlace(self.session.shelf.rows[event.number].key))

    def action_choose(self) -> None:
        self.query_one(Lines).action_choose()
