"""`rocketfsck apply PLAN`: does what a plan says, next to the store, and puts the result in its place.

`rocketfsck undo STORE`: takes the last repair of a store back.

`rocketfsck plan STORE`: what a repair would do, in order, with what is lost; written to plan.json.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from rocketfsck.cli import adapter
from rocketfsck.cli.adapter import Formats, SkipPause, WritingCommand, command_of, pause_before
from rocketfsck.cli.config import policy_in_force
from rocketfsck.cli.output import Destination, open_output, to_json
from rocketfsck.cli.paramtypes import Jobs, max_memory
from rocketfsck.cli.show.text import Palette, sentence, text_columns
from rocketfsck.commands.apply import ApplyCommand, PlanCommand, UndoCommand, apply, plan, undo
from rocketfsck.commands.shared import refuse_inside
from rocketfsck.common.options import WRITE_FILE, Option, PutAfter
from rocketfsck.common.outputs import STDOUT
from rocketfsck.engine.passes import Passes

if TYPE_CHECKING:
    from rocketfsck.repair.plan.model import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLine(PlanCommand):
    """A plan, and where it goes."""

    answer: Annotated[Destination, Formats(("text", "json"), output=None)]
    output: Annotated[
        Path | None,
        Option(
            "Write the plan as JSON to this file (-: standard output); without it, the plan is kept where "
            "`apply STORE` finds it.",
            names=("-o", "--output"),
            kind=WRITE_FILE,
        ),
    ] = None
    jobs: Annotated[Jobs, PutAfter("level")] = None
    max_memory: Annotated[int | None, max_memory("plan")] = None


@command_of(PlanLine, timing="")
def plan_command(line: PlanLine, passes: Passes | None) -> int:
    """Plan the repair of STORE: actions, reasons and losses. Only reads the store.

    The plan names the bytes that it relies on; apply rejects the plan if these bytes have changed. Exit
    status 4 means that the store has problems.
    """
    from rocketfsck.repair.plan.document import keep_plan, plan_text, plan_to_json

    stores = [line.path, *line.stated.commitlog_paths]
    refuse_inside(line.output, stores)
    answer = plan(line, policy_in_force(click.get_current_context()), passes)
    if line.output is None and answer.plan.actions:
        keep_plan(answer.plan)
    if line.output is not None:
        forbidden = [*stores, *answer.store.data_directories]
        with open_output(line.output, binary=False, forbidden=forbidden) as stream:
            stream.write(plan_text(answer.plan))
    if line.output == STDOUT:
        return answer.exit_code
    with line.answer.open() as stream:
        if line.answer.form == "json":
            stream.write(to_json(plan_to_json(answer.plan), indent=2) + "\n")
        else:
            _write_text(answer.plan, line.path, line.output, stream, line.answer.palette(stream))
    return answer.exit_code


def _write_text(plan: Plan, path: Path, output: Path | None, stream: Any, palette: Palette) -> None:
    from rocketfsck.cli.show.repair import plan_lines
    from rocketfsck.repair.plan.law import all_assumptions, assume_options

    stream.writelines(f"{line}\n" for line in plan_lines(plan, palette, text_columns()))
    if plan.actions:
        command = f"rocketfsck apply {shlex.quote(str(path if output is None else output))}"
        options = assume_options(all_assumptions(plan.actions))
        stream.write(f"Next: {palette.good(sentence(command + options))}\n")
        if options:
            right = "  if what is assumed is right; --broker-conf FILE lets the broker's settings say so"
            stream.write(f"{right}\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoLine(UndoCommand):
    """An undo, with a pause before what is dangerous, and where its answer goes."""

    yes: SkipPause = False
    answer: Annotated[Destination, Formats(("text", "json"))]


FORCE = {"force": "what was written since the repair leaves the store, and is kept next to it"}


@command_of(UndoLine, cls=WritingCommand, advisory=("outside",), dangers=FORCE)
def undo_command(line: UndoLine) -> None:
    """Take back the last repair of STORE, finished or interrupted: its bytes, names and times.

    After an interruption, run the same command again to finish. Messages written after the repair would leave
    the store: that needs --force.
    """
    from rocketfsck.cli.show.repair import undo_lines

    answer = undo(line, partial(pause_before, line.answer.path, line.yes))
    adapter.say_notes(answer.notes)
    line.answer.say(answer.report.to_json, lambda palette: undo_lines(answer.report, palette), answer.stores)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyLine(ApplyCommand):
    """An apply, with a pause before what is dangerous, and where its answer goes."""

    yes: SkipPause = False
    answer: Annotated[Destination, Formats(("text", "json"))]


@command_of(
    ApplyLine,
    cls=WritingCommand,
    advisory=("in_place", "assume", "broker_conf", "outside"),
    dangers=adapter.NO_UNDO,
)
def apply_command(line: ApplyLine) -> int:
    """Carry out the plan in the file PLAN, or the last plan of STORE that was made without a file.

    apply builds the result next to the store, checks it, and only then puts it in the store's place; the
    former store is kept for `rocketfsck undo`. After an interruption, run the same command again to finish.
    If the plan assumes values that the bytes do not show, confirm them by --assume or by the settings in
    --broker-conf. Exit status 1: corrected; 4: problems are left, or the result was not as planned and
    nothing was changed; 16: an assumption is not confirmed.
    """
    from rocketfsck.cli.show.repair import apply_lines

    answer = apply(line, partial(pause_before, line.answer.path, line.yes))
    adapter.say_notes(answer.notes)
    report, columns = answer.report, text_columns()
    line.answer.say(report.to_json, lambda palette: apply_lines(report, palette, columns), answer.stores)
    return answer.exit_code
