"""The findings of the store by rule, the worst first; Enter unfolds a rule, and shows a finding's place."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Static

from rocketfsck.cli.browse.model.findinglist import FindingEntry, finding_entries
from rocketfsck.cli.browse.views.base import StoreScreen
from rocketfsck.cli.browse.views.lines import Lines
from rocketfsck.cli.browse.views.verdictpane import VerdictPane


class FindingsScreen(StoreScreen):
    """All findings by rule; below them what the one under the cursor means."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Unfold, show"),
        Binding("backspace", "app.return", "Back", key_display="Bksp"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._entries: list[FindingEntry] = []

    def compose(self) -> ComposeResult:
        yield VerdictPane()
        yield Static(id="title", classes="title", markup=False)
        yield Lines(id="findings")
        yield Static(id="why", markup=False)
        yield Static(self.said, id="status", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        self.findings_changed()
        self.query_one(Lines).focus()

    def findings_changed(self) -> None:
        findings = self.session.findings
        assert findings is not None
        self.query_one(VerdictPane).show(findings)
        self.query_one("#title", Static).update(findings.about)
        self._show(self.session.finding)

    def _show(self, cursor: int) -> None:
        findings = self.session.findings
        assert findings is not None
        entries = self._entries = finding_entries(findings, self.session.unfolded)
        lines = self.query_one(Lines)
        lines.show(
            len(entries),
            lambda low, high: [entry.title for entry in entries[low:high]],
            ready=True,
            cursor=cursor,
        )
        self._explain(lines.cursor)

    def _explain(self, number: int) -> None:
        self.session.finding = number
        said = self._entries[number].explained if number < len(self._entries) else ""
        self.query_one("#why", Static).update(said)

    def on_lines_moved(self, event: Lines.Moved) -> None:
        self._explain(event.number)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        entry = self._entries[event.number]
        if entry.folds:
            self.session.unfolded ^= {entry.group.rule}
            self._show(event.number)
        elif entry.item is None:
            self.say(f"The report lists no more of them: rocketfsck explain {entry.group.rule}")
        elif entry.item.place is None:
            self.say("This finding is about no file that can be shown.")
        else:
            self.browser.go(entry.item.place)

    def action_choose(self) -> None:
        self.query_one(Lines).action_choose()
