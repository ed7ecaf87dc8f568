"""What came of a sample: counts and shares by package, and the changes that no test has noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import get_args

from tests.mutation.running import Outcome, Verdict

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
KILLED: tuple[Verdict, ...] = ("killed", "hung")
JUDGED: tuple[Verdict, ...] = ("killed", "hung", "survived")

_INTRODUCTION = """\
# Mutation testing

Made by `make mutation`: a sample of small changes of the source, one at a time, and whether a test notices.

Killed: a test failed, or the tests did not end (hung). Survived: every test passed that was run. Not covered:
no test of this run calls the function. Left out: the changed code does not fit into the function. The share
is that of killed and hung among those whose tests were run. A change that makes no difference survives, too.
"""


def share(outcomes: Sequence[Outcome]) -> str:
    """The share of mutants that were killed among those whose tests were run, in per cent."""
    judged = [outcome for outcome in outcomes if outcome.verdict in JUDGED]
    killed = sum(outcome.verdict in KILLED for outcome in judged)
    return f"{100 * killed / len(judged):.1f} %" if judged else "-"


def table(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """A row for each package and one for all; the head first."""
    rows = [["package", "mutants", *VERDICTS, "share killed"]]
    packages = sorted({outcome.mutant.package for outcome in outcomes})
    parts = [(name, [item for item in outcomes if item.mutant.package == name]) for name in packages]
    for name, part in [*parts, ("all", list(outcomes))]:
        counts = Counter(outcome.verdict for outcome in part)
        rows.append([name, str(len(part)), *(str(counts[verdict]) for verdict in VERDICTS), share(part)])
    return rows


def having(outcomes: Sequence[Outcome], verdict: Verdict) -> list[Outcome]:
    """The outcomes with this verdict, by place."""
    found = (outcome for outcome in outcomes if outcome.verdict == verdict)
    return sorted(
        found, key=lambda outcome: (outcome.mutant.module, outcome.mutant.line, outcome.mutant.step)
    )


def text(outcomes: Sequence[Outcome]) -> str:
    """The summary for a terminal."""
    rows = table(outcomes)
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    shown: tuple[Verdict, ...] = ("survived", "not covered", "broken")
    for verdict in shown:
        found = having(outcomes, verdict)
        lines += ["", f"{verdict}: {len(found)}"] if found else []
        lines += [f"  {outcome.mutant}{_ran(outcome)}" for outcome in found]
    return "\n".join(line.rstrip() for line in lines)


def page(outcomes: Sequence[Outcome], what: Sequence[str]) -> str:
    """The summary as a page of Markdown; `what` are lines about the sample."""
    rows = table(outcomes)
    lines = [_INTRODUCTION, *(f"- {line}" for line in what), ""]
    lines += [_row(rows[0]), "|---" + "|---:" * (len(rows[0]) - 1) + "|", *(_row(row) for row in rows[1:])]
    titles: dict[Verdict, str] = {"survived": "Survivors", "not covered": "Not covered"}
    for verdict, title in titles.items():
        found = having(outcomes, verdict)
        if found:
            lines += ["", f"## {title}", "", "| place | change | line | tests |", "|---|---|---|---:|"]
        for outcome in found:
            mutant = outcome.mutant
            ran = f"{outcome.ran_count} of {outcome.calling_count}"
            cells = [f"{mutant.module}:{mutant.line}", mutant.operator, _code(mutant.text), ran]
            lines.append(_row([cells[0], _code(cells[1]), *cells[2:]]))
    return "\n".join(lines) + "\n"


def _ran(outcome: Outcome) -> str:
    return f"  [{outcome.ran_count} of {outcome.calling_count} tests]" if outcome.ran_count else ""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _code(text: str) -> str:
    """Text as code in a cell, in which a bar would end the cell."""
    mark = "``" if "`" in text else "`"
    return f"{mark}{text.replace('|', chr(92) + '|')}{mark}"
