"""What is asked of the user, and the help."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Static

from rocketfsck.cli.browse.model.question import HINTS, KINDS, NAMES, Question, SearchKind
from rocketfsck.cli.browse.views.lines import Lines

if TYPE_CHECKING:
    from rocketfsck.cli.browse.model.links import Link

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

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,backspace", "dismiss", "Close"),
    ]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog full"):
            yield Lines(id="help", cursor=False)
        yield Footer()

    def on_mount(self) -> None:
        lines = HELP.split("\n")
        self.query_one(Lines).show(len(lines), lambda low, high: lines[low:high], ready=True)


class QuestionScreen(ModalScreen[Question | None]):
    """A question and its kind; for a key also the topic. Dismissed with the question, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "give_up", "Close"),
        Binding("tab", "kind(1)", "Next kind", priority=True),
        Binding("shift+tab", "kind(-1)", "Kind before", priority=True, show=False),
        Binding("down,up", "other", "Topic", priority=True),
    ]

    def __init__(self, before: Question | None, kind: SearchKind | None = None) -> None:
        super().__init__()
        self._before = before or Question("text", "")
        self._kind: SearchKind = kind or self._before.kind
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
        for kind in (self._kind,) if self._is_fixed else KINDS:
            mine = kind == self._kind
            title.append(f"[{NAMES[kind]}]" if mine else f" {NAMES[kind]} ", "bold" if mine else "")
            title.append(" ")
        self.query_one("#kinds", Static).update(title)
        self.query_one("#text", Input).placeholder = HINTS[self._kind]
        self.query_one("#topic", Input).display = self._kind in ("key", "unique")
        self.query_one("#text", Input).focus()

    def action_kind(self, step: int) -> None:
        """Ask for another kind."""
        if not self._is_fixed:
            self._kind = KINDS[(KINDS.index(self._kind) + step) % len(KINDS)]
            self._show_kind()

    def action_other(self) -> None:
        """Go to the other input, where there is one."""
        topic, text = self.query_one("#topic", Input), self.query_one("#text", Input)
        (text if topic.has_focus or not topic.display else topic).focus()

    def action_give_up(self) -> None:
        self.dismiss(None)

    def on_input_submitted(self) -> None:
        text, topic = self.query_one("#text", Input).value, self.query_one("#topic", Input).value
        self.dismiss(Question(self._kind, text, topic) if text else None)


class LinksScreen(ModalScreen["Link | None"]):
    """Several links, one of which is to be followed. Dismissed with that one, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace,q", "give_up", "Close"),
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
        titles = [link.title for link in self._links]
        self.query_one(Lines).show(len(titles), lambda low, high: titles[low:high], ready=True)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        link = self._links[event.number]
        if link.place is not None:
            self.dismiss(link)

    def action_give_up(self) -> None:
        self.dismiss(None)


class PathScreen(ModalScreen[str | None]):
    """The name of a file to write. Dismissed with the name ("" for the usual place), or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", "Close")]

    def compose(self) -> ComposeResult:
        said = "Save the plan to this file; empty: where `rocketfsck apply STORE` finds it"
        with Vertical(classes="dialog"):
            yield Static(said, markup=False)
            yield Input(placeholder="plan.json", id="path")
        yield Footer()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)

    def action_give_up(self) -> None:
        self.dismiss(None)
