"""The verdict on the store, on top of a screen: what `check` says first, and the next command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from rocketfsck.cli.browse.views.base import UNCHECKED

if TYPE_CHECKING:
    from rocketfsck.cli.browse.model.findings import Findings


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
