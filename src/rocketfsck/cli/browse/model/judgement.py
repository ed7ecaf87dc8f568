"""The verdict on top of the browser: the first line that `check` prints of a store, and what to run next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketfsck.cli.show.text import count_of, visible
from rocketfsck.cli.show.verdict import START_IT, Tone, headline_of, tone_of_state
from rocketfsck.verify.finding import Severity

if TYPE_CHECKING:
    from rocketfsck.repair.verdict import Verdict
    from rocketfsck.verify.report import Report

NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


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
        return tone_of_state(verdict.state)
    worst = report.worst
    return "error" if worst == Severity.ERROR else "warning" if worst == Severity.WARNING else "good"
