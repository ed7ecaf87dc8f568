"""The options of commands that repair, each declared once, and the log of what they did.

`--log FILE` names a log; one that is kept for each store is written without it, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rocketfsck.commands.shared import refuse_inside
from rocketfsck.common.options import READ_FILE, WRITE_FILE, Argument, Option, PathKind, beginning
from rocketfsck.common.wording import visible
from rocketfsck.errors import StoreError

if TYPE_CHECKING:
    from rocketfsck.repair.apply.results import ApplyReport, LoggedAction, UndoReport
    from rocketfsck.repair.plan.arguments import GroupOffset
    from rocketfsck.repair.plan.model import Plan
    from rocketfsck.store import Store

RepairedStore = Annotated[Path, Argument(metavar="STORE", kind=PathKind(local="a repair"))]
ReportFile = Annotated[
    Path | None,
    Option(
        "Use this report (check --format json), in place of a check; -: standard input.",
        names=("--report",),
        kind=READ_FILE,
    ),
]
DryRun = Annotated[bool, Option("Change nothing, only show the plan.", names=("-n", "--dry-run"))]
Preen = Annotated[
    bool, Option("Only provably safe repairs: no valid data can be lost.", names=("-p", "--preen"))
]
Assume = Annotated[
    tuple[str, ...],
    Option(
        "Confirm a value that the plan assumes, or name the right one; may be given several times.",
        metavar="NAME[=VALUE]",
    ),
]
InPlace = Annotated[
    bool,
    Option(
        "Replace single files, not the whole store: for mount points and stores whose commit log is "
        "elsewhere."
    ),
]
WorkDir = Annotated[
    Path | None,
    Option(
        "Build, and keep what undo needs, in this directory, not next to the result.",
        metavar="DIR",
        kind=PathKind(local="what is written", written=True, file_okay=False),
    ),
]
NoUndo = Annotated[bool, Option("Delete the former store at the end; files set aside are kept.")]
Outside = Annotated[
    tuple[Path, ...],
    Option(
        "A directory outside of the store in which files may be changed, too: a commit log path of the "
        "plan, or where a symbolic link in the store leads; may be given several times.",
        metavar="DIR",
        kind=PathKind(local="what is written", file_okay=False),
    ),
]
LogFile = Annotated[
    Path | None, Option("Add a JSON line for each action to this file, too.", metavar="FILE", kind=WRITE_FILE)
]


def repairs_beginning(begun: str) -> list[str]:
    """Names of repairs that begin so."""
    from rocketfsck.repair.plan.planning import all_repairs

    return beginning(all_repairs(), begun)


@dataclass(frozen=True, slots=True)
class Wishes:
    """Which repairs are wanted, by name, and what the user knows of what they need."""

    only: Annotated[
        tuple[str, ...],
        Option("Only this repair; may be given several times.", metavar="NAME", complete=repairs_beginning),
    ] = ()
    except_: Annotated[
        tuple[str, ...],
        Option(
            "All other repairs; may be given several times.",
            names=("--except",),
            metavar="NAME",
            complete=repairs_beginning,
        ),
    ] = ()
    assume: Assume = ()
    offsets: Annotated[
        str | None,
        Option(
            "Set committed offsets: move them into their queues, or take those of the .bak, or of a FILE in "
            "the form of consumerOffset.json.",
            metavar="clamp|bak|FILE",
        ),
    ] = None

    def wished(self, store: Store) -> tuple[GroupOffset, ...]:
        """The committed offsets that are to be set. Raises as `wished_offsets` does."""
        from rocketfsck.repair.build.config import wished_offsets

        return () if self.offsets is None else tuple(wished_offsets(store, self.offsets))


def prepare_log(log: Path | None, stores: Sequence[Path]) -> None:
    """See, before anything is changed, that the log that the user named can be written.

    Raises UsageError for a file inside a store, StoreError for one that cannot be written.
    """
    from rocketfsck.repair.apply.results import append_actions

    if log is not None:
        refuse_inside(log, stores)
        append_actions(log, ())


def log_repair(log: Path | None, plan: Plan, report: ApplyReport, answer: str) -> tuple[str, ...]:
    """Log what an apply did, or why it changed nothing; gives notes about logs that cannot be written."""
    from rocketfsck.repair.apply.results import NAME, logged_actions, read_actions

    if not plan.actions:
        return ()
    if report.published:
        actions = read_actions(Path(report.kept) / NAME) if report.kept else ()
    else:
        actions = logged_actions(plan, report.store, report.plan_digest, answer, None, report.problem)
    notes: list[str] = []
    for path in _logs(log, report.store):
        known = set(read_actions(path)) if actions and actions[0].result == "applied" else set()
        notes += _write(path, log, [action for action in actions if action not in known])
    return tuple(notes)


def log_undo(log: Path | None, report: UndoReport) -> tuple[str, ...]:
    """Log that a repair was taken back: of each of its actions that the log has as applied. Gives notes."""
    from rocketfsck.repair.apply.results import read_actions, taken_back

    logs = _logs(log, report.store)
    known = [action for path in logs for action in read_actions(path)]
    actions = taken_back(sorted(known, key=lambda action: action.timestamp), report.plan_digest)
    return tuple(note for path in logs for note in _write(path, log, actions))


def _logs(log: Path | None, store: str) -> list[Path]:
    from rocketfsck.repair.apply.results import state_log

    named = [] if log is None else [log]
    try:
        return [state_log(store), *named]
    except StoreError:
        return named  # no home directory


def _write(path: Path, log: Path | None, actions: Sequence[LoggedAction]) -> list[str]:
    """Add lines to a log. The repair is done: where only the log that nobody named fails, a note says so."""
    from rocketfsck.repair.apply.results import append_actions

    if not actions:
        return []
    try:
        append_actions(path, actions)
    except StoreError as error:
        if path == log:
            raise
        return [f"Note: the repair is not logged: {visible(str(error))}"]
    return []
