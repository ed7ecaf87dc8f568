"""The log of repairs: one JSON line for each action, what it changed and who agreed to it.

    <area>/actions.jsonl                              the actions of one repair, next to its journal
    $XDG_STATE_HOME/rocketfsck/repairs/<digest>.jsonl all repairs of a store, by the digest of its real path
    --log FILE                                        the same, where the user wants it

An undo removes the area; the other two keep what was done, and say that it was taken back. Reference: design,
section 5.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rocketfsck._version import __version__
from rocketfsck.common.documents import from_document, json_text, to_document
from rocketfsck.common.outputs import is_special, open_through, place_of
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.repair.area.worktree import WorkTree
from rocketfsck.repair.plan.kept import state_path
from rocketfsck.repair.plan.model import Action, Plan
from rocketfsck.repair.plan.scene import hash_bytes
from rocketfsck.store.reading import named_errors
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace

NAME = "actions.jsonl"
KIND = "rocketfsck.repair.action"
MAX_SIZE = 64 << 20
"""Bytes of a log that are looked through for the actions of a repair, from its end."""

Result = Literal["applied", "taken-back", "not-published"]


@dataclass(frozen=True, slots=True)
class LoggedExtent:
    """Bytes of a file of the store that an action changed; hashes as in a plan, None where there is no file.

    Positions are half-open, `end` None for the whole file. `after` is what the repair as a whole left there.
    """

    file: str
    start: int
    end: int | None
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class LoggedAction:
    """One action of a repair. `timestamp` is in milliseconds since 1970.

    `number` counts the actions of a plan from 1, `rules` and `findings` (fingerprints) say what it answers.
    `answer` says who agreed: "plan" (the plan was applied), "asked", "preen" or "yes"; `confirmed` are the
    assumed values that the user confirmed. `problem` says why a result was not published.
    """

    timestamp: int
    tool_version: str
    store: str
    plan_digest: str
    number: int
    action: str
    target: str
    rules: tuple[str, ...]
    findings: tuple[str, ...]
    answer: str
    confirmed: tuple[str, ...]
    result: Result
    problem: str = ""
    extents: tuple[LoggedExtent, ...] = ()
    schema_version: int = 1


def logged_actions(
    plan: Plan, root: str, digest: str, answer: str, tree: WorkTree | None, problem: str = ""
) -> tuple[LoggedAction, ...]:
    """The lines of a repair, with what it changed where there is a `tree` of its result.

    Raises StoreError where that cannot be read.
    """
    now = int(time.time() * 1000)
    return tuple(
        LoggedAction(
            now,
            __version__,
            root,
            digest,
            number,
            action.name,
            action.target,
            action.rules,
            action.why,
            answer,
            tuple(item.name for item in action.assumptions if item.evidence.startswith("confirmed by ")),
            "not-published" if tree is None else "applied",
            problem,
            () if tree is None else tuple(_changed(action, tree)),
        )
        for number, action in enumerate(plan.actions, 1)
    )


def _changed(action: Action, tree: WorkTree) -> Iterator[LoggedExtent]:
    """The bytes that an action relied on and that are others in the result."""
    for extent in action.preconditions:
        path = tree.place(extent.file)
        after = None
        if os.path.isfile(path):  # noqa: PTH113 - names may be any bytes
            try:
                after = hash_bytes(path, extent.start, extent.end)
            except StoreError:
                after = None  # the file ends before
        if after != extent.sha256:
            yield LoggedExtent(extent.file, extent.start, extent.end, extent.sha256, after)


def lines_of(actions: Iterable[LoggedAction]) -> bytes:
    """The lines, each with its end."""
    documents = ({"kind": KIND, **to_document(action)} for action in actions)
    return "".join(f"{json_text(document)}\n" for document in documents).encode("ascii")


def write_actions(place: ConfinedPlace, actions: Iterable[LoggedAction]) -> None:
    """Write the lines of one repair into a new file. Raises OSError."""
    fileops.write_new(place, lines_of(actions), 0o644)


def state_log(root: str) -> Path:
    """Where all repairs of a store are logged. Raises StoreError without a home directory."""
    return state_path("repairs", root, ".jsonl")


def append_actions(path: Path, actions: Iterable[LoggedAction]) -> None:
    """Add lines to a log, durably; it is made if it is not there. Raises StoreError."""
    with named_errors(path, "cannot be written"):
        if is_special(path):
            lines = lines_of(actions)
            through = open_through(path) if lines else None
            if through is not None:
                with os.fdopen(through, "wb") as stream:
                    stream.write(lines)
            return
        real = Path(place_of(path)[0])
        with fileops.open_directory(real.parent, only=frozenset({real.name})) as shelf:
            fileops.append(shelf / real.name, lines_of(actions), 0o600)


def read_actions(path: Path) -> tuple[LoggedAction, ...]:
    """The actions in a log; lines that are not actions are passed over, and a missing log is empty.

    Of a long log the last `MAX_SIZE` bytes count.
    """
    try:
        if is_special(path):
            return ()  # what was written there is gone
        with path.open("rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - MAX_SIZE))
            lines = stream.read(MAX_SIZE).splitlines()
    except OSError:
        return ()
    found = []
    for line in lines:
        try:
            document = json.loads(line)
            document.pop("kind")
            found.append(from_document(LoggedAction, document, "repair log"))
        except (ValueError, RecursionError, KeyError, AttributeError, TypeError, UsageError):
            continue  # a line that was cut off, or somebody else's
    return tuple(found)


def taken_back(actions: Iterable[LoggedAction], digest: str) -> tuple[LoggedAction, ...]:
    """The lines that say that the last repair by a plan is taken back, from those that say it was applied."""
    now = int(time.time() * 1000)
    last = {action.number: action for action in actions if action.plan_digest == digest}
    return tuple(
        replace(action, timestamp=now, tool_version=__version__, result="taken-back")
        for _, action in sorted(last.items())
        if action.result == "applied"
    )
