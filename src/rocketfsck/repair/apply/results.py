"""What an apply or an undo has to say: data, of which text and JSON are renderings."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocketfsck.common.documents import from_document, to_document
from rocketfsck.errors import EXIT_CLEAN, EXIT_CORRECTED, EXIT_PROBLEMS, outcome_of
from rocketfsck.repair.apply.ledger import Ledger
from rocketfsck.repair.apply.spoiled import SpoiledMessages
from rocketfsck.repair.apply.startjudge import StartComparison
from rocketfsck.repair.plan.model import Assumption, RefusedAction, Unanswered
from rocketfsck.repair.state import State
from rocketfsck.verify.account.model import Fates

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
        corrected = EXIT_CORRECTED if self.published and self.actions else EXIT_CLEAN
        left = bool(self.left) if self.check_exit_code is None else bool(self.check_exit_code & EXIT_PROBLEMS)
        return corrected | (EXIT_PROBLEMS if left or self.problem else EXIT_CLEAN)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        said = {"exit_code": self.exit_code, "outcome": outcome_of(self.exit_code)}
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
        return {"kind": "rocketfsck.undo", **to_document(self), "exit_code": EXIT_CLEAN}
