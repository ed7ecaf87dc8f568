"""The verdict on top of the browser: the first line that `check` prints of a store, and what to run next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rocketfsck.cli.show.text import count_of, visible
from rocketfsck.cli.show.verdict import headline_of
from rocketfsck.verify.finding import Severity

if TYPE_CHECKING:
    from rocketfsck.repair.state import State
    from rocketfsck.repair.verdict import Verdict
    from rocketfsck.verify.report import Report

Tone = Literal["good", "warning", "error"]
TONES: dict[State, Tone] = {
    "healthy": "good",
    "unclean": "good",
    "interrupted": "error",
    "harmful": "error",
    "refused": "error",
    "unread": "error",
    "lost": "error",
}
"""How the states of a store are coloured; the others are warnings, as in the text of `check`."""
NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
START_IT = "start the broker; nothing has to be repaired"


def headline(report: Report, verdict: Verdict | None) -> str:
    """The first line of `check`, printable; of a report without a verdict how much was found."""
    if verdict is not None:
        return headline_of(verdict)
    counts = report.severity_counts
    said = [count_of(counts[severity], noun) for severity, noun in NOUNS.items() if counts[severity]]
    return f"The report has no verdict. Found: {', '.join(said) or 'nothing'}."


def next_step(report: Report, verdict: Verdict | None) -> str:
    """The command line to run next, printable; "" for none."""
    if verdict is None:
        command = next(iter(report.next_commands), None)
    elif verdict.next_command is None and verdict.state == "unclean":
        return START_IT
    else:
        command = verdict.next_command
    return "" if command is None else visible(command, keep_backslash=True)


def tone_of(report: Report, verdict: Verdict | None) -> Tone:
    """How bad it is, for a colour; the headline says the same in words."""
    if verdict is not None:
        return TONES.get(verdict.state, "warning")
    worst = report.worst
    return "error" if worst == Severity.ERROR else "warning" if worst == Severity.WARNING else "good"
