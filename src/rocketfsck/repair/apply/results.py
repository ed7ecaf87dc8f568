"""What an apply or an undo has to say: data, of which text and JSON are renderings.

What is left of the messages of a kept store, some of whose files somebody changed since it was kept.

    units of the kept queues --> record in the kept log? --> in the present log? --> in neither

Only units that lead into files of the log that changed are followed. Reference 2.1, 3.1.

The log of repairs: one JSON line for each action, what it changed and who agreed to it.

    <area>/actions.jsonl                              the actions of one repair, next to its journal
    $XDG_STATE_HOME/rocketfsck/repairs/<digest>.jsonl all repairs of a store, by the digest of its real path
    --log FILE                                        the same, where the user wants it

An undo removes the area; the other two keep what was done, and say that it was taken back. Reference: design,
section 5.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rocketfsck import errors
from rocketfsck._version import __version__
from rocketfsck.common.documents import from_document, json_text, printable, to_document
from rocketfsck.common.outputs import is_special, open_through, place_of
from rocketfsck.common.wording import count_of
from rocketfsck.formats.javatext import java_decode
from rocketfsck.reader.records import LogReader
from rocketfsck.reader.units import UnitReader, read_data_blocks
from rocketfsck.repair.apply.judging import StartComparison
from rocketfsck.repair.apply.ledger import Ledger
from rocketfsck.repair.area.worktree import WorkTree
from rocketfsck.repair.plan.document import state_path
from rocketfsck.repair.plan.model import Action, Assumption, Plan, RefusedAction, Unanswered
from rocketfsck.repair.plan.table import hash_bytes
from rocketfsck.repair.state import State
from rocketfsck.store.model import ConsumeQueue, Store
from rocketfsck.store.opening import open_store
from rocketfsck.store.reading import named_errors
from rocketfsck.verify.finding import Fates
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
            except errors.StoreError:
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
        except (ValueError, RecursionError, KeyError, AttributeError, TypeError, errors.UsageError):
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


_SHOWN = 3


@dataclass(frozen=True, slots=True)
class LostUnits:
    """Messages of one queue that neither store has: `count`, and their first and last queue offset."""

    topic: str
    queue_id: int
    first_queue_offset: int
    last_queue_offset: int
    count: int


@dataclass(frozen=True, slots=True)
class SpoiledMessages:
    """Messages of the kept store that led into files that changed: where they can still be read.

    `kept_count` in the kept store, `present_count` in the present one alone, `lost_count` in neither; `lost`
    says of which queues those are.
    """

    kept_count: int = 0
    present_count: int = 0
    lost_count: int = 0
    lost: tuple[LostUnits, ...] = ()

    @property
    def words(self) -> str:
        """A clause; "" where no message led into these files."""
        if not (self.kept_count or self.present_count or self.lost_count):
            return ""
        text = (
            f"of the messages in these files, {self.kept_count:,} are still in the kept store, "
            f"{self.present_count:,} only in the present one, and {self.lost_count:,} in neither"
        )
        places = [
            f"{count_of(item.count, 'message')} of {printable(item.topic)} queue {item.queue_id}, "
            f"queue offsets {item.first_queue_offset} to {item.last_queue_offset}"
            for item in self.lost[:_SHOWN]
        ]
        more = f" and of {count_of(len(self.lost) - _SHOWN, 'more queue')}" if len(self.lost) > _SHOWN else ""
        return f"{text} ({'; '.join(places)}{more})" if places else text


def spoiled_messages(kept: str, present: str, files: Collection[str]) -> SpoiledMessages:
    """Where the messages are that led into these files (names below the root) of the `kept` store.

    Stores that cannot be opened or read have no messages to tell of.
    """
    try:
        one, other = open_store(Path(kept)), open_store(Path(present))
        ranges = [
            (file.start_offset, file.start_offset + file.size)
            for file in one.commitlog.files
            if file.start_offset is not None and file.relative in files
        ]
        return _counted(one, other, ranges) if ranges else SpoiledMessages()
    except errors.RocketfsckError:
        return SpoiledMessages()


def _counted(kept: Store, present: Store, ranges: list[tuple[int, int]]) -> SpoiledMessages:
    counts = {"kept": 0, "present": 0}
    lost = []
    with LogReader(kept.commitlog) as one, LogReader(present.commitlog) as other:
        for queue in kept.queues:
            if queue.kind != "file":
                continue
            gone = []
            for index, offset, size in chain.from_iterable(_units(queue, ranges)):
                if _is_there(one, queue, index, offset, size):
                    counts["kept"] += 1
                elif _is_there(other, queue, index, offset, size):
                    counts["present"] += 1
                else:
                    gone.append(index)
            if gone:
                lost.append(LostUnits(queue.topic, queue.queue_id, gone[0], gone[-1], len(gone)))
    total = sum(item.count for item in lost)
    return SpoiledMessages(counts["kept"], counts["present"], total, tuple(lost))


def _units(queue: ConsumeQueue, ranges: list[tuple[int, int]]) -> Iterator[list[tuple[int, int, int]]]:
    """The queue offset, physical offset and size of each unit that leads into one of the ranges."""
    with UnitReader(queue) as reader:
        for first, _, units in read_data_blocks(reader):
            if units is None:
                continue
            offsets, sizes = units["offset"].astype(np.int64), units["size"].astype(np.int64)
            inside = np.zeros(len(units), bool)
            for start, end in ranges:
                inside |= (offsets >= start) & (offsets < end) & (sizes > 0)
            rows = np.flatnonzero(inside)
            yield list(
                zip((rows + first).tolist(), offsets[rows].tolist(), sizes[rows].tolist(), strict=True)
            )


def _is_there(log: LogReader, queue: ConsumeQueue, index: int, offset: int, size: int) -> bool:
    head = log.head(offset)
    return (
        head is not None
        and head.total_size == size
        and (head.queue_id, head.queue_offset) == (queue.queue_id, index)
        and java_decode(head.topic) == queue.topic
    )


SCHEMA_VERSION = 3


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """How a plan was carried out.

    `published`: the store is the new one. `kept` is the directory that `undo` needs, "" without. `finished`:
    it had been interrupted before, and was brought to its end. `before` and `after` are the findings above
    info by rule id. `left` are findings above info that are still there, `unmet` those that were addressed
    and still are, `fresh` those that were not there before: either of the last two, or a ledger that does
    not balance, keeps the result from being published; `problem` then says so. So does one of `starts` that
    is worse with the result than with the store as it was. `assumptions` are what the plan wrote by, and how
    each was known or confirmed. `outside` are the directories outside of the store that the user named, which
    `undo` must be given again. `not_kept` says which owners, permissions and attributes of files could not be
    kept. `state` is what the result is for whoever starts a broker on it, and `check_exit_code` the exit
    status of its check; both are None where nobody checked it. `refused_actions` are those of the plan that
    were not done, and why. `messages_before` and `messages_after` are the messages by what became of them,
    None where nobody counted them.
    """

    store: str
    mode: str
    plan_digest: str
    actions: tuple[str, ...]
    published: bool = False
    finished: bool = False
    kept: str = ""
    problem: str = ""
    before: Mapping[str, int] = field(default_factory=dict)
    after: Mapping[str, int] = field(default_factory=dict)
    left: tuple[Unanswered, ...] = ()
    unmet: tuple[Unanswered, ...] = ()
    fresh: tuple[Unanswered, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)
    assumptions: tuple[Assumption, ...] = ()
    starts: tuple[StartComparison, ...] = ()
    outside: tuple[str, ...] = ()
    not_kept: tuple[str, ...] = ()
    refused_actions: tuple[RefusedAction, ...] = ()
    messages_before: Fates | None = None
    messages_after: Fates | None = None
    state: State | None = None
    check_exit_code: int | None = None
    schema_version: int = SCHEMA_VERSION

    @property
    def left_count(self) -> int:
        """How many findings above info are left, each of those that one stands for."""
        return sum(item.count for item in self.left)

    @property
    def exit_code(self) -> int:
        """1 where something was corrected, plus 4 where a check of the result finds problems."""
        corrected = errors.EXIT_CORRECTED if self.published and self.actions else errors.EXIT_CLEAN
        left = (
            bool(self.left)
            if self.check_exit_code is None
            else bool(self.check_exit_code & errors.EXIT_PROBLEMS)
        )
        return corrected | (errors.EXIT_PROBLEMS if left or self.problem else errors.EXIT_CLEAN)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        said = {"exit_code": self.exit_code, "outcome": errors.outcome_of(self.exit_code)}
        return {"kind": "rocketfsck.apply", **to_document(self), **said}

    @classmethod
    def from_json(cls, document: Any) -> ApplyReport:
        """The report that `to_json` of this release or an earlier one wrote; raises UsageError for others."""
        inner = dict(document) if isinstance(document, dict) else {}
        for name in ("kind", "exit_code", "outcome"):
            inner.pop(name, None)
        return from_document(cls, inner, "report", exact=False)


def undo_command(root: str, work_dir: Path | str | None, outside: Iterable[str] = ()) -> str:
    """What is typed to take the last repair of a store back; control characters are as they are."""
    words = ["rocketfsck", "undo", root]
    if work_dir is not None:
        words += ["--work-dir", os.fspath(work_dir)]
    for path in outside:
        words += ["--outside", path]
    return shlex.join(words)


@dataclass(frozen=True, slots=True)
class UndoReport:
    """How a repair was taken back. `kept` is where the repaired store went, if it was changed since.

    `not_restored` are the files whose names, lengths or times are not those of before the repair, `messages`
    says where the messages in them can be read. `kept_is_shared`: files of what is kept are the store's own,
    so that a broker may change them.
    """

    store: str
    mode: str
    plan_digest: str
    finished: bool = False
    kept: str = ""
    not_restored: tuple[str, ...] = ()
    messages: SpoiledMessages = field(default_factory=SpoiledMessages)
    kept_is_shared: bool = False
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {"kind": "rocketfsck.undo", **to_document(self), "exit_code": errors.EXIT_CLEAN}
