"""`rocketfsck fix STORE`: check, verdict, plan, a question, the repair, and how to take it back."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Annotated, Any

import click

from rocketfsck.cli import adapter
from rocketfsck.cli.adapter import Formats, WritingCommand, command_of
from rocketfsck.cli.config import policy_in_force
from rocketfsck.cli.output import Destination, to_json
from rocketfsck.cli.paramtypes import Jobs, max_memory
from rocketfsck.cli.show.text import byte_size, text_columns
from rocketfsck.commands.fix import FixAnswer, FixCommand, Proposal, fix
from rocketfsck.commands.shared import refuse_inside
from rocketfsck.common.documents import to_document
from rocketfsck.common.options import PutAfter
from rocketfsck.engine.passes import Passes
from rocketfsck.errors import UsageError, outcome_of

if TYPE_CHECKING:
    from rocketfsck.cli.show.text import Palette
    from rocketfsck.repair.plan.model import Plan
    from rocketfsck.repair.verdict import Verdict
    from rocketfsck.store import Store
    from rocketfsck.verify.report import Report

NO_TERMINAL = "there is no terminal to ask a question on: give --yes, --preen or --dry-run"


@dataclass(frozen=True, slots=True, kw_only=True)
class FixLine(FixCommand):
    """A repair, and where its answer goes."""

    answer: Annotated[Destination, Formats(("text", "json"))]
    jobs: Annotated[Jobs, PutAfter("level")] = None
    max_memory: Annotated[int | None, max_memory("fix")] = None


@command_of(
    FixLine,
    timing="",
    cls=WritingCommand,
    advisory=("yes", "only", "except_", "assume", "in_place", "outside"),
    dangers=adapter.NO_UNDO,
)
def fix_command(line: FixLine, passes: Passes | None) -> int:
    """Repair STORE: check it, show the verdict and the plan, ask, repair, check again.

    fix builds the result next to the store and puts it in the store's place if it is right; the former store
    is kept for `rocketfsck undo`. After an interruption, run the same command again to finish. If the bytes
    leave a value open, fix assumes one only if you confirm it. Exit status 0: nothing to repair; 1:
    corrected; 4: problems are left.
    """
    answer = line.answer
    if line.asks and (answer.form != "text" or answer.path is not None or not sys.stdin.isatty()):
        raise UsageError(NO_TERMINAL)
    stores = [line.path, *line.stated.commitlog_paths, *line.outside]
    refuse_inside(answer.path, stores)
    with answer.open(stores) as stream:
        palette = answer.palette(stream)
        policy = policy_in_force(click.get_current_context())
        came = fix(line, lambda proposal: _agreed(line, proposal, stream, palette), policy, passes)
        adapter.say_notes(came.notes)
        _say(stream, answer, palette, came)
    return came.exit_code


def _agreed(line: FixLine, proposal: Proposal, stream: IO[Any], palette: Palette) -> Plan | None:
    """What the user agrees to of the plan, which is shown; asked for kind by kind where nothing says so."""
    from rocketfsck.cli.latch import agreed_plan

    plan: Plan | None = proposal.plan
    if line.answer.form == "text":
        _show(stream, palette, proposal.report, proposal.plan, proposal.verdict)
        if proposal.plan.actions and not line.in_place:
            _show_cost(stream, proposal.store)
    if line.dry_run or not proposal.plan.actions:
        return None
    if line.asks:
        plan = agreed_plan(proposal.plan, proposal.replan)
    if plan is None:
        return None
    if plan is not proposal.plan:
        _show_plan(stream, palette, plan)
    adapter.pause_before_danger(line.yes)
    return plan


def _show(stream: IO[Any], palette: Palette, report: Report, plan: Plan, verdict: Verdict) -> None:
    """The verdict, and what would be done."""
    from rocketfsck.cli.show.verdict import verdict_lines

    columns = text_columns()
    shown = replace(verdict, next_command=None)  # it would be this command
    stream.writelines(f"{line}\n" for line in verdict_lines(shown, report.store, palette, columns))
    if plan.actions or plan.unanswered:
        _show_plan(stream, palette, plan)
    stream.flush()


def _show_cost(stream: IO[Any], store: Store) -> None:
    """What it costs to keep the former store whole, where that is much."""
    from rocketfsck.repair.apply.undoing import SAID_SIZE, copied_size

    size = copied_size(store)
    if size >= SAID_SIZE:
        stream.write(
            f"To keep the former store whole, fix copies about {byte_size(size)}: all that a broker may "
            "write to. A file system with reflinks needs no room for that.\n"
        )
    stream.flush()


def _show_plan(stream: IO[Any], palette: Palette, plan: Plan) -> None:
    """What would be done."""
    from rocketfsck.cli.show.repair import plan_lines

    stream.writelines(f"{line}\n" for line in plan_lines(plan, palette, text_columns(), head=False))
    stream.flush()


def _say(stream: IO[Any], answer: Destination, palette: Palette, came: FixAnswer) -> None:
    """What came of it."""
    from rocketfsck.cli.show.repair import apply_lines
    from rocketfsck.repair.plan.document import plan_to_json

    verdict, plan, done = came.verdict, came.plan, came.done
    if answer.form == "json":
        document = {
            "schema_version": 1,
            "kind": "rocketfsck.fix",
            "exit_code": came.exit_code,
            "outcome": outcome_of(came.exit_code),
            "verdict": None if verdict is None else to_document(verdict),
            "plan": None if plan is None else plan_to_json(plan),
            "apply": None if done is None else done.to_json(),
        }
        stream.write(to_json(document, indent=2) + "\n")
    elif done is not None:
        columns = text_columns()
        said = () if plan is None else plan.refused_actions
        done = replace(done, refused_actions=tuple(item for item in done.refused_actions if item not in said))
        lines = apply_lines(done, palette, columns, planned=plan is not None)
        stream.writelines(f"{line}\n" for line in lines)
    elif plan is not None and (plan.actions or plan.unanswered):
        stream.write("Nothing was changed.\n")
