"""Verdicts on starts as text: what brokers do with a repaired or rebuilt store, and what they did before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rocketfsck.cli.show.table import wrapped
from rocketfsck.cli.show.text import Palette, visible
from rocketfsck.common.wording import fill_numbers
from rocketfsck.formats.dialect import ALL_VERSIONS, parse_version, run_text, runs_of

if TYPE_CHECKING:
    from rocketfsck.query.start.verdict import StartVerdict
    from rocketfsck.repair.apply.startjudge import StartComparison

_FACTS = (
    ("hidden_file_count", "does not see {count:file}"),
    ("astray_count", "loses {count:sound message} in files with wrong names"),
    ("cut_count", "cuts {count:message} off the log"),
    ("lost_count", "hides {count:message} from consumers"),
    ("lost_key_count", "hides {count:message} from queries by key"),
    ("unreadable_count", "cannot read {count:message}"),
    ("shifted_count", "puts {count:unit} at a wrong queue offset"),
    ("reissued_count", "reuses {count:queue offset}"),
    ("phantom_count", "reads zeros as a message in {count:queue}"),
    ("deleted_file_count", "deletes {count:file}"),
)
"""What a start takes, as verbs of the broker with their objects."""


def verdict_text(verdict: StartVerdict) -> str:
    """What a broker does, without its version: "starts and loses nothing", "does not start: …"."""
    if not verdict.covered:
        return f"cannot be predicted: {visible(verdict.obstacle, keep_backslash=True)}"
    if not verdict.loads:
        return f"does not start: {visible(verdict.obstacle, keep_backslash=True)}"
    facts = ["deletes all consume queues"] if verdict.queues_destroyed else []
    facts += [fill_numbers(text, count=count) for name, text in _FACTS if (count := getattr(verdict, name))]
    facts += map(visible, verdict.unread_parts)
    if not facts:
        return "starts and loses nothing" if verdict.lost_count is not None else "starts"
    return f"starts; {'; '.join(facts)}"


def versions_text(verdicts: Sequence[StartVerdict], among: Iterable[StartVerdict] = ()) -> str:
    """The versions that verdicts are about: "5.3.3", "4.9.3 to 4.9.8", "4.2.0 to 4.8.0, 5.0.0".

    With `among`, the verdicts of all versions in question, ranges leave out what is not in question.
    """
    versions = {parse_version(name) for verdict in verdicts for name in verdict.alike}
    known = sorted({parse_version(name) for verdict in among for name in verdict.alike})
    return ", ".join(map(run_text, runs_of(versions, known or ALL_VERSIONS)))


def comparison_lines(items: Sequence[StartComparison], palette: Palette, columns: int) -> Iterator[str]:
    """What brokers of every version in question do with the store as it was, and with the repaired one.

    Versions are grouped as in the verdict: by what they do with the repaired store, the worst first.
    """
    if not items:
        return
    yield ""
    yield palette.bold("Start of a broker (predicted)")
    by_start = {id(item.after): item for item in items}
    everything = [item.after for item in items]
    for text, verdicts in grouped_starts(everything):
        group = [by_start[id(verdict)] for verdict in verdicts]
        paint = palette.error if any(item.worse for item in group) else str
        said = [(f"{versions_text(verdicts, everything)}: {text}", "  ")]
        earlier = [item.before for item in group if item.before is not None]
        for then, before in grouped_starts(earlier):
            if then != text:
                said.append((f"before the repair, {versions_text(before, everything)}: {then}", "    "))
        worse = dict.fromkeys(reason for item in group for reason in item.worse)
        said += [(f"worse than before: {visible(reason)}", "    ") for reason in worse]
        yield from (paint(line) for words, indent in said for line in wrapped(words, columns, indent))


def grouped_starts(starts: Iterable[StartVerdict]) -> list[tuple[str, list[StartVerdict]]]:
    """The starts of versions that do the same, with what they do: refused ones first, harmless ones last."""
    groups: dict[str, list[StartVerdict]] = {}
    for start in starts:
        groups.setdefault(verdict_text(start), []).append(start)
    return sorted(groups.items(), key=lambda item: _rank(item[1][0]))


def _rank(start: StartVerdict) -> int:
    if not start.covered:
        return 2
    return 0 if not start.loads else 1 if start.takes() else 3


def verdict_lines(verdicts: Sequence[StartVerdict]) -> Iterator[str]:
    """What brokers do with what was built; what is the same for many versions is said once."""
    for text, alike in grouped_starts(verdicts):
        yield f"start of a broker (predicted), {versions_text(alike)}: {text}"


def bad_count(verdicts: Sequence[StartVerdict]) -> int:
    """How many of the starts are refused or take something."""
    return sum(verdict.covered and not verdict.harmless for verdict in verdicts)
