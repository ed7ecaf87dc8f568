"""Verdicts on starts as text: what brokers do with a repaired or rebuilt store, and what they did before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rocketfsck.cli.show.palette import Palette
from rocketfsck.cli.show.table import wrapped
from rocketfsck.cli.show.text import visible
from rocketfsck.formats.dialect import ALL_VERSION_NAMES

if TYPE_CHECKING:
    from rocketfsck.query.start.verdict import StartVerdict
    from rocketfsck.repair.apply.startjudge import StartComparison

_FACTS = (
    ("hidden_file_count", "it does not see {} of its files", "it does not see {} of its files"),
    ("cut_count", "{} message is cut off the log", "{} messages are cut off the log"),
    ("lost_count", "{} message is lost to consumers", "{} messages are lost to consumers"),
    ("lost_key_count", "{} message is lost to queries by key", "{} messages are lost to queries by key"),
    ("unreadable_count", "{} message cannot be read", "{} messages cannot be read"),
    ("shifted_count", "{} unit is put at a wrong queue offset", "{} units are put at a wrong queue offset"),
    ("reissued_count", "{} queue offset is given out twice", "{} queue offsets are given out twice"),
    (
        "phantom_count",
        "zeros are taken for a message in {} queue",
        "zeros are taken for a message in {} queues",
    ),
    ("deleted_file_count", "{} file is deleted", "{} files are deleted"),
)


def verdict_text(verdict: StartVerdict) -> str:
    """What a broker does, without its version: "starts and loses nothing", "does not start: …"."""
    if not verdict.covered:
        return f"is not covered: {visible(verdict.reason, keep_backslash=True)}"
    if not verdict.loads:
        return f"does not start: {visible(verdict.reason, keep_backslash=True)}"
    facts = ["all consume queues are deleted"] if verdict.queues_destroyed else []
    for name, one, many in _FACTS:
        count = getattr(verdict, name)
        if count:
            facts.append((one if count == 1 else many).format(f"{count:,}"))
    if not facts:
        return "starts and loses nothing" if verdict.lost_count is not None else "starts"
    return f"starts; {'; '.join(facts)}"


def versions_text(verdicts: Sequence[StartVerdict]) -> str:
    """The versions that verdicts are about: "5.3.3", "4.9.3 to 4.9.8", "4.2.0 to 4.8.0, 5.0.0"."""
    names = {version for verdict in verdicts for version in verdict.alike}
    runs: list[list[str]] = [[]]
    for version in (*ALL_VERSION_NAMES, *sorted(names.difference(ALL_VERSION_NAMES))):
        if version in names:
            runs[-1].append(version)
        elif runs[-1]:
            runs.append([])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs if run)


def comparison_lines(items: Sequence[StartComparison], palette: Palette, columns: int) -> Iterator[str]:
    """What brokers of every version in question do with the store as it was, and with the repaired one.

    What is the same for many of them is said once.
    """
    if not items:
        return
    yield ""
    yield palette.bold("Start of a broker (predicted)")
    told: dict[tuple[str, tuple[str, ...]], list[StartVerdict]] = {}
    for item in items:
        text = verdict_text(item.after)
        then = text if item.before is None else verdict_text(item.before)
        if then != text:
            text += f" (before the repair: {then})"
        told.setdefault((text, item.worse), []).append(item.after)
    for (text, worse), verdicts in told.items():
        paint = palette.error if worse else str
        yield from (paint(line) for line in wrapped(f"{versions_text(verdicts)}: {text}", columns, "  "))
        for reason in worse:
            yield from (
                paint(line) for line in wrapped(f"worse than before: {visible(reason)}", columns, "    ")
            )


def verdict_lines(verdicts: Sequence[StartVerdict]) -> Iterator[str]:
    """What brokers do with what was built; what is the same for many versions is said once."""
    told: dict[str, list[StartVerdict]] = {}
    for verdict in verdicts:
        told.setdefault(verdict_text(verdict), []).append(verdict)
    for text, alike in told.items():
        yield f"start of a broker (predicted), {versions_text(alike)}: {text}"


def bad_count(verdicts: Sequence[StartVerdict]) -> int:
    """How many of the starts are refused or take something."""
    return sum(verdict.covered and not verdict.harmless for verdict in verdicts)
