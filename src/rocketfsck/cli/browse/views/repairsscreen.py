"""Repairs to choose from, and the plan of those that are chosen: what is lost, regained, assumed, noticed."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Static

from rocketfsck.cli.browse.model.repairs import Planned, plan_all, plan_without, save_plan
from rocketfsck.cli.browse.views.base import StoreScreen
from rocketfsck.cli.browse.views.dialogs import PathScreen
from rocketfsck.cli.browse.views.lines import Lines
from rocketfsck.cli.show.text import count_of, visible


class Choices(Lines):
    """The repairs; space takes one in or out."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "choose", "Take in or out", show=False)]


class RepairsScreen(StoreScreen):
    """The repairs that answer the findings, above the plan of the chosen ones."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space,enter", "choose", "In or out", key_display="Space"),
        Binding("w", "save", "Save plan"),
        Binding("backspace", "app.return", "Back", key_display="Bksp"),
        Binding("tab", "app.focus_next", "Pane", show=False),
    ]

    def compose(self) -> ComposeResult:
        yield Static("Repairs that answer the findings", classes="title", markup=False)
        yield Choices(id="choices")
        yield Static(id="about", classes="columns", markup=False)
        yield Lines(id="plan", cursor=False)
        yield Static(self.said, id="status", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(Choices).focus()
        self.findings_changed()

    def findings_changed(self) -> None:
        findings, planned = self.session.findings, self.session.planned
        assert findings is not None
        if planned is not None and planned.report is findings.report:
            self._take(planned)
            return
        self.say("Planning…")
        self.work("plan", lambda: plan_all(self.session.store, findings.report), self._take)

    def _take(self, planned: Planned) -> None:
        self.session.planned = planned
        choices = self.query_one(Choices)
        chosen = [
            f"[{' ' if choice.name in planned.left_out else 'x'}] {choice.title}"
            for choice in planned.choices
        ]
        choices.show(len(chosen), lambda low, high: chosen[low:high], ready=True, cursor=choices.cursor)
        lines = planned.lines(max(self.size.width - 2, 40))
        self.query_one("#plan", Lines).show(len(lines), lambda low, high: lines[low:high], ready=True)
        self.query_one("#about", Static).update(f"The plan: {count_of(len(planned.plan.actions), 'action')}")
        self.say("" if planned.choices else "No repair is needed, or none is possible.")

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        planned = self.session.planned
        if planned is None or event.lines.id != "choices":
            return
        name = planned.choices[event.number].name
        left_out = planned.left_out ^ {name}
        self.say("Planning…")
        self.work("plan", lambda: plan_without(planned, left_out), self._take)

    def action_choose(self) -> None:
        self.query_one(Choices).action_choose()

    def action_save(self) -> None:
        """Ask for the name of a file, and write the plan there."""
        if self.session.planned is not None and self.session.planned.plan.actions:
            self.app.push_screen(PathScreen(), self._save)
        else:
            self.say("The plan has no actions.")

    def _save(self, name: str | None) -> None:
        planned = self.session.planned
        if name is None or planned is None:
            return
        path = Path(name) if name else None

        def said(written: Path) -> None:
            argument = planned.store.root if path is None else written
            self.say(f"Saved. Next: rocketfsck apply {visible(str(argument), keep_backslash=True)}")

        self.work("save", lambda: save_plan(planned, path), said)
