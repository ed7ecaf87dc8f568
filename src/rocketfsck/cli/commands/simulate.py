"""`rocketfsck simulate STORE`: what a start of a broker would do, without a start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.output import SCHEMA_VERSION, Destination, plain_values
from rocketfsck.cli.show.text import text_columns
from rocketfsck.commands.simulate import SimulateAnswer, SimulateCommand, simulate
from rocketfsck.common.options import Option, PutAfter

if TYPE_CHECKING:
    from rocketfsck.cli.show.text import Palette
    from rocketfsck.query.start.verdict import Prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateLine(SimulateCommand):
    """A prediction, how much of it is shown, and where."""

    answer: Annotated[Destination, Formats(("text", "json"))]
    verbose: Annotated[
        bool, PutAfter("losses"), Option("List every file, queue and range.", names=("-v", "--verbose"))
    ] = False


@command_of(SimulateLine)
def command(line: SimulateLine) -> int:
    """Predict what a broker does when it starts on STORE_PATH: whether it loads, where its recovery begins,
    where it cuts the commit log, which files, units and index entries it deletes, what it dispatches
    again, and which messages become unreachable.

    Without --as-broker, simulate predicts every version that may have written the store. If all starts end
    the same, simulate shows one of them, otherwise a line for each.

    simulate writes nothing and needs no broker. Exit status 4 means that a start fails or loses something, or
    that units point to lost messages; 8 that no prediction exists for a store like this.
    """
    answer = simulate(line)
    if answer.uncovered is not None and line.answer.form != "json" and len(answer.predictions) == 1:
        raise answer.uncovered
    read = [line.store_path, *line.stated.commitlog_paths, *answer.store.commitlog.directories]
    line.answer.say(
        lambda: plain_values(
            {
                "schema_version": SCHEMA_VERSION,
                "kind": "rocketfsck.simulate",
                "store": str(line.store_path),
                "harmful": answer.harmful if answer.starts else None,
                "starts": [_start_document(item) for item in answer.predictions],
            }
        ),
        lambda palette: _lines(answer, palette, text_columns(), everything=line.verbose),
        read,
    )
    return answer.exit_code


def _lines(answer: SimulateAnswer, palette: Palette, columns: int, *, everything: bool) -> Iterator[str]:
    from rocketfsck.cli.show.start import start_lines, verdict_lines, versions_text
    from rocketfsck.query.start.verdict import verdict_of

    verdicts = [verdict_of(item) for item in answer.predictions]
    said, starts = list(verdict_lines(verdicts)), answer.starts
    if len(said) > 1 or not starts:
        yield from said
        yield "--as-broker VERSION shows one of them in detail."
        return
    own = str(answer.store.dialect.version)
    shown = next((start for start in starts if start.version == own), starts[-1])
    yield from start_lines(shown, palette, columns=columns, everything=everything)
    if len(answer.predictions) > 1:
        yield f"Brokers of {versions_text(verdicts)} end up the same."


def _start_document(item: Prediction) -> dict[str, Any]:
    """What is predicted for one class of versions; without a prediction the reasons alone."""
    reasons = getattr(item.error, "reasons", (str(item.error),))  # of other errors the text
    return {
        "alike": item.alike,
        "covered": item.start is not None,
        "not_covered": () if item.error is None else reasons,
        "harmful": None if item.start is None else item.start.harmful,
        **({"version": item.version} if item.start is None else item.start.document()),
    }
