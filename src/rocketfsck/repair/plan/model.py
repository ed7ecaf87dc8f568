"""The plan of a repair: what would be done, why, to which bytes, and what is lost. Data only.

A plan is a JSON document that can be read, mailed and compared; `apply` does exactly what it says or
refuses. The actions of a plan are carried out in their order. Design, section 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rocketfsck.common.wording import count_of
from rocketfsck.repair.plan.arguments import NONE, Arguments
from rocketfsck.verify.finding import Fates, Level

SCHEMA_VERSION = 6


@dataclass(frozen=True, slots=True)
class Extent:
    """Bytes of a file that an action relies on or changes, as they must be when it begins.

    `file` is relative to the store's root with `/` between the parts (a file of a commitlog path outside the
    root has its own full path). `start` and `end` are positions, half-open; `end` is None for the whole
    file, whose length is then part of what is hashed. `sha256` is the hex digest of these bytes; None:
    nothing of that name may exist.
    """

    file: str
    start: int
    end: int | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that will be gone, or unreachable, afterwards: `count` records, units, entries or bytes.

    `what` is "record", "unit", "entry" or "byte". Queue offsets are the first and the last of a run of a
    queue; physical offsets are half-open. What does not apply is None. `kept_in` says where the bytes go on
    to exist ("" if only the old store and the undo journal have them). `valid`: a broker or a consumer could
    still have used it; a unit that points behind the log's end, for one, is not valid.
    """

    what: str
    count: int
    topic: str | None = None
    queue_id: int | None = None
    first_queue_offset: int | None = None
    last_queue_offset: int | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    kept_in: str = ""
    valid: bool = True


How = Literal["bytes", "given", "assumed"]
"""How a value is known: from the bytes of the store, because the user gave it, or not at all."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """A value that an action writes by: its name (`repair.plan.basis`), and how it is known.

    `value` is a size in bytes, a count, or text. `how` is a `How`; `evidence` is one sentence.
    """

    name: str
    value: int | str
    how: How
    evidence: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that brokers or consumers will notice: a kind of `repair.plan.law.KINDS`, how many times.

    What `count` counts is said by the kind. `topic` and `queue_id` are None where it is about several queues.
    """

    kind: str
    count: int
    topic: str | None = None
    queue_id: int | None = None


@dataclass(frozen=True, slots=True)
class Gain:
    """Something that comes back from elsewhere: `count` records of a queue, like `Loss` in all it says.

    Queue offsets are the first and the last, physical offsets half-open. What does not apply is None.
    """

    what: str
    count: int
    topic: str | None = None
    queue_id: int | None = None
    first_queue_offset: int | None = None
    last_queue_offset: int | None = None
    start_offset: int | None = None
    end_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Conflict:
    """Records that another copy has and that are not taken from it: how many, where, and why not.

    Physical offsets, half-open.
    """

    record_count: int
    start_offset: int
    end_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Action:
    """One act of a repair: a row of the table of actions, with all that it needs to be carried out.

    `name` is the row's; `target` the file or directory it is about, relative to the root ("" is the store).
    `arguments` have the class that the row names; they determine, with the store, every byte that is written.
    `why` are the fingerprints of the findings it answers and `rules` their rules' ids; `partly` has those of
    which it answers only a number of what they count, and that number. `preconditions` are checked before
    anything is changed. `gains` counts what becomes readable again, by what it is. `write_byte_count` is in
    bytes and may be an upper bound. `note` is one sentence.

    `assumptions` are all values that the action writes by, `notices` what will be noticed of it. `preen` says
    that the action is provably safe. The law (`repair.plan.law`) decides that; planners leave it as it is.
    `finding_count` findings are answered, each of those that one stands for; planning counts them.

    `sources` are bytes outside of the store that the action takes, by their full paths; they are checked
    as the preconditions are, and are never changed. `regained` says what comes with them, queue by queue.
    """

    name: str
    target: str
    note: str
    arguments: Arguments = NONE
    why: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    preconditions: tuple[Extent, ...] = ()
    losses: tuple[Loss, ...] = ()
    gains: Mapping[str, int] = field(default_factory=dict)
    write_byte_count: int = 0
    preen: bool = False
    sources: tuple[Extent, ...] = ()
    regained: tuple[Gain, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    notices: tuple[Notice, ...] = ()
    partly: Mapping[str, int] = field(default_factory=dict)
    finding_count: int = 0


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A finding above info that no action of the plan answers, and why; `count` is how many it stands for."""

    fingerprint: str
    rule: str
    message: str
    reason: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class RefusedAction:
    """An action that is left out of a plan, because a trial of the plan shows that it does harm; and why."""

    name: str
    target: str
    reason: str


@dataclass(frozen=True, slots=True)
class PlanTarget:
    """Which store a plan is for and how its bytes are to be read, so that `apply` opens it the same way.

    `geometry` holds sizes in bytes and counts; `commitlog_paths` the directories as they were given.
    `delay_levels_given`: the user, or a broker.conf, says which delay levels the broker has.
    `log_start_offset` and `log_end_offset` are physical offsets, None without commitlog files. `versions`
    are all that fit the bytes, `version_given` says that the user named the one. `settings` are those of
    broker.conf that a check looks at.
    """

    root: str
    version: str
    geometry: Mapping[str, int]
    commitlog_paths: tuple[str, ...]
    delay_levels: str
    log_start_offset: int | None
    log_end_offset: int | None
    versions: tuple[str, ...] = ()
    version_given: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    delay_levels_given: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The ordered actions, and what they leave unanswered. `level` is that of the check it was made from.

    `counts` are that check's findings by rule id, all of them, `answered_counts` those above info that the
    actions answer; the others above info are the counts of `unanswered`. `conflicts` are the first places
    where another copy has records that are not taken from it, `conflict_count` is the number of all such
    records. `refused_actions` are those that a trial left out (`repair.apply.holding`). `messages_now` are
    the messages by what became of them, `messages_after` the same once the actions are done; None where
    nobody counted them. `is_tried`: the actions were tried, and what is unanswered was found afterwards.
    """

    store: PlanTarget
    level: Level
    tool_version: str
    actions: tuple[Action, ...]
    unanswered: tuple[Unanswered, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    conflict_count: int = 0
    answered_counts: Mapping[str, int] = field(default_factory=dict)
    refused_actions: tuple[RefusedAction, ...] = ()
    messages_now: Fates | None = None
    messages_after: Fates | None = None
    is_tried: bool = False
    schema_version: int = SCHEMA_VERSION

    def __repr__(self) -> str:
        safe = sum(action.preen for action in self.actions)
        actions = count_of(len(self.actions), "action")
        return f"<rocketfsck plan for {self.store.root!r}: {actions}, {safe} of them provably safe>"

    def _repr_html_(self) -> str:
        from rocketfsck.common.rows import html_of

        facts = [("store", self.store.root), ("findings without an action", self.unanswered_count)]
        rows = [
            (number, action.name, action.target, "yes" if action.preen else "no", action.note)
            for number, action in enumerate(self.actions, 1)
        ]
        return html_of("Plan of a repair", facts, ("", "action", "file", "safe", "what"), rows)

    @property
    def answered(self) -> frozenset[str]:
        """The fingerprints of the findings that the actions answer."""
        return frozenset(name for action in self.actions for name in action.why)

    @property
    def answered_count(self) -> int:
        """How many findings above info the actions answer, each of those that one stands for."""
        return sum(self.answered_counts.values())

    @property
    def unanswered_count(self) -> int:
        """How many findings above info no action answers, each of those that one stands for."""
        return sum(item.count for item in self.unanswered)
