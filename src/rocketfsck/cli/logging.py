"""`--log FILE` of commands that repair, and the log of repairs that is kept without it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocketfsck.cli.output import refuse_inside
from rocketfsck.cli.params import Decorator
from rocketfsck.cli.paramtypes import OutputPath
from rocketfsck.cli.show.text import visible
from rocketfsck.errors import StoreError

if TYPE_CHECKING:
    from rocketfsck.repair.apply.repairlog import LoggedAction
    from rocketfsck.repair.apply.results import ApplyReport, UndoReport
    from rocketfsck.repair.plan.model import Plan


def log_option() -> Decorator:
    """`--log`."""
    return click.option(
        "--log",
        "log",
        type=OutputPath(),
        metavar="FILE",
        help="Add a JSON line for each action to this file, too.",
    )


def prepare_log(log: Path | None, stores: Sequence[Path]) -> None:
    """See, before anything is changed, that the log that the user named can be written.

    Raises UsageError for a file inside a store, StoreError for one that cannot be written.
    """
    from rocketfsck.repair.apply.repairlog import append_actions

    if log is not None:
        refuse_inside(log, stores)
        append_actions(log, ())


def log_repair(log: Path | None, plan: Plan, report: ApplyReport, answer: str) -> None:
    """Log what an apply did, or why it changed nothing."""
    from rocketfsck.repair.apply.repairlog import NAME, logged_actions, read_actions

    if not plan.actions:
        return
    if report.published:
        actions = read_actions(Path(report.kept) / NAME) if report.kept else ()
    else:
        actions = logged_actions(plan, report.store, report.plan_digest, answer, None, report.problem)
    _write(log, report.store, actions)


def log_undo(log: Path | None, report: UndoReport) -> None:
    """Log that a repair was taken back: of each of its actions that the log has as applied."""
    from rocketfsck.repair.apply.repairlog import read_actions, taken_back

    logs = _logs(log, report.store)
    known = [action for path in logs for action in read_actions(path)]
    actions = taken_back(sorted(known, key=lambda action: action.timestamp), report.plan_digest)
    for path in logs:
        _write_one(path, log, actions)


def _write(log: Path | None, store: str, actions: Sequence[LoggedAction]) -> None:
    from rocketfsck.repair.apply.repairlog import read_actions

    for path in _logs(log, store):
        known = set(read_actions(path)) if actions and actions[0].result == "applied" else set()
        _write_one(path, log, [action for action in actions if action not in known])


def _logs(log: Path | None, store: str) -> list[Path]:
    from rocketfsck.repair.apply.repairlog import state_log

    named = [] if log is None else [log]
    try:
        return [state_log(store), *named]
    except StoreError:
        return named  # no home directory


def _write_one(path: Path, log: Path | None, actions: Sequence[LoggedAction]) -> None:
    """Add lines to a log. The repair is done: where only the log that nobody named fails, a note says so."""
    from rocketfsck.repair.apply.repairlog import append_actions

    if not actions:
        return
    try:
        append_actions(path, actions)
    except StoreError as error:
        if path == log:
            raise
        click.echo(f"Note: the repair is not logged: {visible(str(error))}", err=True)
