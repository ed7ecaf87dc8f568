"""The findings of the store by rule, the worst first; Enter unfolds a rule, and shows a finding's place.

Repairs to choose from, and the plan of those that are chosen: what is lost, regained, assumed, noticed.

The findings as they are listed: a line for each rule, and below a rule that is unfolded its findings.

E   CL004 record-body-crc (1): body of the record at 458817 does not match its CRC (…)
i ▾ CL011 properties-differ (2,040)
i     commitlog/00000000000000000000 at byte 615: the properties of 32 records …
i     … and 2,039 more that the report does not list
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Static

from rocketfsck.cli.browse.model.files import MARKS
from rocketfsck.cli.browse.model.findings import Findings, Placed, RuleGroup
from rocketfsck.cli.browse.model.repairs import Choice, Planned, plan_all, plan_without, save_plan, toggled
from rocketfsck.cli.browse.model.tree import FOLDED, UNFOLDED
from rocketfsck.cli.browse.views.base import PathScreen, StoreScreen, VerdictPane
from rocketfsck.cli.browse.views.lines import Lines
from rocketfsck.cli.show.text import sentence
from rocketfsck.repair.plan.planning import full_scene
from rocketfsck.verify.rules.catalog import RULES


@dataclass(frozen=True, slots=True)
class FindingEntry:
    """One line: a rule (`folds`, or with its single finding), a finding, or how many are not listed."""

    group: RuleGroup
    title: str
    item: Placed | None = None
    folds: bool = False

    @property
    def explained(self) -> str:
        """What it means, in printable paragraphs."""
        rule = RULES[self.group.rule]
        repair = f" Repair: {rule.repair}." if rule.repair else ""
        meaning = f"{rule.slug}: {rule.why}{repair}"
        return meaning if self.item is None else f"{self.item.where}\n{self.item.title}\n{meaning}"


def finding_entries(findings: Findings, unfolded: Collection[str]) -> list[FindingEntry]:
    """The lines, with the findings of the rules that are `unfolded`."""
    return [entry for group in findings.groups for entry in _entries(group, unfolded)]


def _entries(group: RuleGroup, unfolded: Collection[str]) -> Iterator[FindingEntry]:
    mark = MARKS[group.severity]
    if group.is_single:
        yield FindingEntry(group, f"{mark}   {group.title}", group.items[0])
        return
    is_open = group.rule in unfolded
    yield FindingEntry(group, f"{mark} {UNFOLDED if is_open else FOLDED} {group.title}", folds=True)
    if not is_open:
        return
    for item in group.items:
        yield FindingEntry(group, f"{mark}     {item.where}: {item.text}", item)
    if group.left_count:
        more = f"… and {group.left_count:,} more that the report does not list"
        yield FindingEntry(group, f"{mark}     {more}")


TITLE = "Repairs that answer the findings: Space takes in or out, Enter lists actions"
PLANNING = "Planning… Escape stops."


class Choices(Lines):
    """The repairs and their actions; space takes one in or out, Enter lists the actions of a repair."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "take", "Take in or out", show=False)]

    class Taken(Lines.Chosen):
        """A line is to be taken in or out."""

    def action_take(self) -> None:
        if self.count:
            self.post_message(self.Taken(self, self.cursor))


class RepairsScreen(StoreScreen):
    """The repairs that answer the findings, above the plan of the chosen ones."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "take", "In or out", key_display="Space"),
        Binding("enter", "choose", "Actions"),
        Binding("w", "save", "Save plan"),
        Binding("backspace", "app.return", "Back", key_display="Bksp"),
        Binding("tab", "app.focus_next", "Pane", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._unfolded: frozenset[str] = frozenset()
        self._choices: list[Choice] = []

    def compose(self) -> ComposeResult:
        yield Static(TITLE, classes="title", markup=False)
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
        store, report = self.session.store, findings.report
        self.say(PLANNING)
        self.work("plan", lambda: plan_all(full_scene(store, report)), self._take, failed=self._leave)

    def _leave(self) -> None:
        """Without a plan there is nothing to choose from."""
        if self.browser.front is self:
            self.browser.action_return()

    def _take(self, planned: Planned) -> None:
        self.session.planned = planned
        self._show_choices(planned)
        self.query_one("#plan", Lines).show_all(planned.lines(max(self.size.width - 2, 40)))
        self.say("" if planned.actions else "No repair is needed, or none is possible.")

    def _show_choices(self, planned: Planned) -> None:
        self._choices = planned.choices(self._unfolded)
        lines = self.query_one(Choices)
        lines.show_all([choice.title for choice in self._choices], lines.cursor)
        self.query_one("#about", Static).update(planned.about())

    def on_choices_taken(self, event: Choices.Taken) -> None:
        planned = self.session.planned
        if planned is not None:
            left_out = toggled(planned, self._choices[event.number])
            self.say(PLANNING)
            self.work("plan", lambda: plan_without(planned, left_out), self._take)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """List the actions of a repair, or no longer; one alone is taken in or out."""
        planned = self.session.planned
        if planned is None or event.lines.id != "choices":
            return
        choice = self._choices[event.number]
        if len(choice.actions) == 1:
            self.query_one(Choices).action_take()
            return
        self._unfolded ^= {choice.name}
        self._show_choices(planned)

    def action_take(self) -> None:
        self.query_one(Choices).action_take()

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
            argument = self.session.store.root if path is None else written
            self.say(f"Saved. Next: rocketfsck apply {sentence(str(argument))}")

        self.work("save", lambda: save_plan(planned, path), said)


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
        lines.show_all([entry.title for entry in entries], cursor)
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
