"""The findings of the store, the worst first; Enter shows the place of one."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Static

from rocketfsck.cli.browse.model.findings import Findings
from rocketfsck.cli.browse.views.base import StoreScreen
from rocketfsck.cli.browse.views.lines import Fetch, Lines
from rocketfsck.verify.rules.catalog import RULES


class FindingsScreen(StoreScreen):
    """All findings; below them what the one under the cursor means."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Show"),
        Binding("backspace", "app.return", "Back", key_display="Bksp"),
    ]

    def compose(self) -> ComposeResult:
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
        self.query_one("#title", Static).update(findings.about)
        self.query_one(Lines).show(len(findings.all), self._lines(findings), ready=True)
        self._explain(0)

    def _lines(self, findings: Findings) -> Fetch:
        def lines(low: int, high: int) -> list[str]:
            return [f"{item.mark} {item.title}" for item in findings.all[low:high]]

        return lines

    def _explain(self, number: int) -> None:
        findings = self.session.findings
        if findings is None or number >= len(findings.all):
            self.query_one("#why", Static).update("")
            return
        item = findings.all[number]
        rule = RULES[item.finding.rule]
        repair = f" Repair: {rule.repair}." if rule.repair else ""
        self.query_one("#why", Static).update(f"{item.where}\n{item.title}\n{rule.slug}: {rule.why}{repair}")

    def on_lines_moved(self, event: Lines.Moved) -> None:
        self._explain(event.number)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        findings = self.session.findings
        assert findings is not None
        place = findings.all[event.number].place
        if place is None:
            self.say("This finding is about no file that can be shown.")
        else:
            self.browser.go(place)

    def action_choose(self) -> None:
        self.query_one(Lines).action_choose()
