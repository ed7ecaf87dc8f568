"""What damage is, as data: a named fault, the changes it made, and the findings that it must cause.

Rules are named by id, as text: what writes shares no code with what judges. A `Promise` says that a check of
the damaged store must report one of a few rules at an exact place; everything that a fault may cause besides
is in `Damage.may_also`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from rocketfsck.common.documents import LEFT_OUT, UNSAID, members, named
from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import UsageError

SCHEMA_VERSION = 1


class DamageError(UsageError):
    """The store has nothing that this fault could be done to, or an option makes no sense."""


@dataclass(frozen=True, slots=True)
class PromisedPlace:
    """Where a finding must be; what is None is not said. The fields are those of a finding's place.

    `file` is relative to the store's root. `start`/`end` are byte positions in it, half-open.
    """

    file: str | None = field(default=None, metadata=LEFT_OUT)
    start: int | None = field(default=None, metadata=LEFT_OUT)
    end: int | None = field(default=None, metadata=LEFT_OUT)
    physical_offset: int | None = field(default=None, metadata=LEFT_OUT)
    topic: str | None = field(default=None, metadata=LEFT_OUT)
    queue_id: int | None = field(default=None, metadata=LEFT_OUT)
    queue_offset: int | None = field(default=None, metadata=LEFT_OUT)
    slot: int | None = field(default=None, metadata=LEFT_OUT)
    entry: int | None = field(default=None, metadata=LEFT_OUT)

    def facts(self) -> dict[str, int | str]:
        """What is said, by name."""
        return dict(members(self))


class Located(Protocol):
    """Anything with the fields of a place, such as the `where` of a finding."""

    @property
    def file(self) -> str: ...

    @property
    def start(self) -> int | None: ...

    @property
    def end(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Promise:
    """A check must find one of `rules` at `where`.

    With `touches` the finding need not have the very bytes of the place: they must overlap (a finding that
    has a `start` only reaches to the end of its file).
    """

    rules: tuple[str, ...]
    where: PromisedPlace = field(default_factory=PromisedPlace)
    touches: bool = False

    def is_kept_by(self, rule: str, where: Located) -> bool:
        """Whether a finding of this rule at this place is the one that was promised."""
        facts = self.where.facts()
        if rule not in self.rules:
            return False
        if self.touches:
            low, high = facts.pop("start", 0), facts.pop("end", None)
            start, end = where.start or 0, where.end
            if (high is not None and start >= int(high)) or (end is not None and end <= int(low)):
                return False
        return all(getattr(where, name) == value for name, value in facts.items())


Action = Literal["write", "truncate", "create", "remove", "rename", "mkdir"]


@dataclass(frozen=True, slots=True)
class DamagedExtent:
    """Bytes `start:end` of a file and the SHA-256 of them (hexadecimal)."""

    start: int
    end: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one file; `before` is None where there was no file, `after` where there is none.

    `renamed_to` is the new name of a file that was renamed (its bytes did not change).
    """

    action: Action
    file: str
    before: DamagedExtent | None = None
    after: DamagedExtent | None = None
    renamed_to: str | None = None


@dataclass(frozen=True, slots=True)
class Act:
    """One fault as it was done: what was chosen, what was changed, what a check must find.

    `commitlog_paths` are the commit log's directories, relative to the root, where it has several now: the
    check must be given them. `unseen` says why no finding is promised, where that is so.
    """

    fault: str
    fault_class: str | None
    options: Mapping[str, str]
    note: str
    unseen: str
    changes: tuple[Change, ...]
    must_find: tuple[Promise, ...]
    may_also_find: frozenset[RuleName]
    commitlog_paths: tuple[str, ...] = field(default=(), metadata=UNSAID)

    @property
    def related(self) -> frozenset[str]:
        """Every rule that this act can be the cause of."""
        return self.may_also_find.union(*(promise.rules for promise in self.must_find))


@dataclass(frozen=True, slots=True)
class DamageReport:
    """What was done to which copy. The same store, faults and seed give the same report and bytes."""

    source: str
    target: str
    seed: int
    acts: tuple[Act, ...]

    @property
    def commitlog_paths(self) -> tuple[str, ...]:
        """The commit log's directories, relative to the target, where a check must be given them."""
        return tuple(dict.fromkeys(path for act in self.acts for path in act.commitlog_paths))

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return named(
            {
                "schema_version": SCHEMA_VERSION,
                "kind": "rocketfsck.damage",
                "source": self.source,
                "target": self.target,
                "seed": self.seed,
                "commitlog_paths": self.commitlog_paths,
                "acts": self.acts,
            }
        )
