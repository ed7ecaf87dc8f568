"""What damage is, as data: a named fault, the changes it made, and the findings that it must cause.

Rules are named by id, as text: what writes shares no code with what judges. A `Promise` says that a check of
the damaged store must report one of a few rules at an exact place; everything that a fault may cause besides
is in `Damage.may_also`.

Rules that damage of one kind may break besides those that it must: consequences, by what was lost.

A store that lost a record has units and entries that point to it, a queue whose numbers jump, perhaps a
checkpoint that names it. These sets say what of a report is explained by the damage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from rocketfsck.common.documents import LEFT_OUT, UNSAID, members, named
from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import UsageError

Rules = frozenset[RuleName]


def rules(*names: RuleName | Rules) -> Rules:
    """A set of rules, and of all that are in other sets."""
    return Rules().union(*({name} if isinstance(name, RuleName) else name for name in names))


REFERENCES = rules(RuleName.UNIT_OF_DAMAGED_RECORD, RuleName.ENTRY_OF_DAMAGED_RECORD)
"""Units and entries that point into damaged bytes."""

RECORD_LOST = rules(
    REFERENCES, RuleName.PREPARED_RECORD_MISSING, RuleName.QUEUE_OFFSET_GAP, RuleName.CHECKPOINT_AHEAD,
    RuleName.LOGICS_OFFSET, RuleName.CONFIRM_OFFSET, RuleName.EPOCH_BOUNDARY,
)  # fmt: skip
"""A record in the middle of the log is no longer a record."""

TAIL_LOST = rules(
    RECORD_LOST, RuleName.UNIT_BEYOND_LOG, RuleName.ENTRY_BEYOND_LOG, RuleName.INDEX_AHEAD_OF_LOG,
    RuleName.CONSUMER_OFFSET_OF_LOST_UNITS, RuleName.DELAY_OFFSET_RANGE, RuleName.LOGICS_OFFSET_AHEAD,
    RuleName.CONFIRM_OFFSET_AHEAD, RuleName.EPOCH_RANGE,
)  # fmt: skip
"""The log ends earlier than it did."""

RECORD_CHANGED = rules(RuleName.RECORD_PROPERTY_CRC)
"""Any byte of a record's header: covered by the property CRC, where there is one."""

KEYS_CHANGED = rules(
    RuleName.RECORD_UNINDEXED, RuleName.KEY_UNINDEXED, RuleName.ENTRY_KEY, RuleName.ENTRY_DUPLICATE
)
"""A record has other keys than its entries."""

MOVED = rules(
    RuleName.QUEUE_OFFSET_REPEATED, RuleName.QUEUE_OFFSET_GAP, RuleName.RECORD_WITHOUT_UNIT,
    RuleName.QUEUE_MISSING, RuleName.QUEUE_DELETED, RuleName.UNIT_GHOST, RuleName.UNIT_SHIFTED,
    RuleName.UNIT_OF_DAMAGED_RECORD, RuleName.QUEUE_EXPIRED, RuleName.GHOST_QUEUE,
)  # fmt: skip
"""A record says that it belongs to another queue or has another place in it."""

UNITS_LOST = rules(
    RuleName.RECORD_WITHOUT_UNIT, RuleName.CONSUMER_OFFSET_AHEAD, RuleName.CONSUMER_OFFSET_OF_LOST_UNITS,
    RuleName.DELAY_OFFSET_RANGE, RuleName.TIMER_CHECK_RANGE,
)  # fmt: skip
"""Units are gone."""

QUEUE_LOST = rules(
    RuleName.QUEUE_MISSING, RuleName.CONSUMER_OFFSET_AHEAD, RuleName.CONSUMER_OFFSET_OF_LOST_UNITS,
    RuleName.DELAY_OFFSET_RANGE, RuleName.TIMER_CHECK_RANGE, RuleName.QUEUES_OF_ANOTHER_LOG,
    RuleName.QUEUE_EXTENSION_ORPHAN,
)  # fmt: skip
"""A whole queue is gone."""

SEGMENT_LOST = rules(
    RuleName.UNIT_IN_MISSING_SEGMENT, RuleName.ENTRY_IN_MISSING_SEGMENT, RuleName.SEGMENT_GAP,
    RuleName.PREPARED_RECORD_MISSING, RuleName.QUEUE_OFFSET_GAP, RuleName.CHECKPOINT_AHEAD,
    RuleName.LOGICS_OFFSET, RuleName.LOGICS_OFFSET_AHEAD, RuleName.CONFIRM_OFFSET, RuleName.EPOCH_BOUNDARY,
    RuleName.UNIT_GHOST, RuleName.ENTRY_DANGLING, RuleName.GHOST_QUEUE, RuleName.QUEUE_MISSING,
)  # fmt: skip
"""A commit log file is gone, or not where it was."""

ENTRIES_LOST = rules(
    RuleName.RECORD_UNINDEXED, RuleName.KEY_UNINDEXED, RuleName.INDEX_NOT_FULL, RuleName.CHECKPOINT_INDEX_TIME
)
"""Index entries are gone."""

LINKS = (
    RuleName.INDEX_CHAIN_SELF_LOOP, RuleName.INDEX_CHAIN_CYCLE, RuleName.INDEX_CHAIN_NOT_DECREASING,
    RuleName.INDEX_CHAIN_OUT_OF_RANGE, RuleName.INDEX_CHAIN_CROSS_LINK, RuleName.INDEX_CHAIN_SKIPS,
)  # fmt: skip
"""A link between two entries of an index file was changed."""

SLOTS = (RuleName.INDEX_SLOT_OUT_OF_RANGE, RuleName.INDEX_SLOT_HEAD)
"""A slot of an index file was changed."""

CHAINS = rules(*LINKS, *SLOTS, RuleName.INDEX_ENTRY_ORPHAN)
"""A link or a slot of an index file was changed."""

ANY_LOG = rules(
    TAIL_LOST, RECORD_CHANGED, KEYS_CHANGED, MOVED, RuleName.LOG_BOUNDARY_LOST, RuleName.LOG_TORN_TAIL,
    RuleName.RECORD_MALFORMED, RuleName.RECORD_BODY_CRC, RuleName.RECORD_PHYSICAL_OFFSET,
    RuleName.RECORD_SYS_FLAG, RuleName.RECORD_HOST_PORT, RuleName.RECORD_NEGATIVE_FIELD,
    RuleName.RECORD_STORE_TIMESTAMP, RuleName.RECORD_TOPIC, RuleName.RECORD_PROPERTIES_NUL,
    RuleName.RECORD_DELAY_LEVEL, RuleName.RECORD_INNER_BATCH, RuleName.RECORD_END_OF_FILE,
    RuleName.RECORD_COMPRESSED_BODY, RuleName.BLANK_SIZE, RuleName.BLANK_MISSING, RuleName.BLANK_TOO_EARLY,
    RuleName.STALE_TAIL, RuleName.BYTES_BEHIND_END, RuleName.LOG_NO_RECORDS, RuleName.RECORD_WITHOUT_TARGET,
    RuleName.UNIT_SIZE, RuleName.UNIT_TAGS_CODE, RuleName.EXT_UNIT_CONTENT, RuleName.MULTI_DISPATCH_LISTS,
    RuleName.BATCH_UNIT_CONTENT, RuleName.ENTRY_DANGLING, RuleName.ENTRY_TIME, RuleName.INDEX_HEADER_RANGE,
    RuleName.SEGMENTS_NEVER_FILLED, RuleName.SEGMENT_ZERO_INSIDE, RuleName.CHECKPOINT_FUTURE,
    RuleName.CHECKPOINT_BEHIND, RuleName.CHECKPOINT_ZERO,
)  # fmt: skip
"""Bytes of the commit log were changed, whichever."""

ANY_QUEUE = rules(
    UNITS_LOST, QUEUE_LOST, RuleName.UNIT_HOLE, RuleName.UNIT_ORDER, RuleName.PRE_BLANK_MISPLACED,
    RuleName.UNIT_STALE, RuleName.UNIT_INVALID, RuleName.UNIT_PARTIAL, RuleName.QUEUE_LAST_FILE_EMPTY,
    RuleName.EXT_ADDRESS_DANGLING, RuleName.EXT_UNIT_MALFORMED, RuleName.BATCH_UNIT_BASE,
    RuleName.BATCH_UNIT_RESERVED, RuleName.UNIT_BEYOND_LOG, RuleName.UNIT_GHOST, RuleName.UNIT_SHIFTED,
    RuleName.UNIT_SIZE, RuleName.UNIT_TAGS_CODE, RuleName.UNIT_OF_DAMAGED_RECORD,
    RuleName.UNIT_IN_MISSING_SEGMENT, RuleName.EXT_UNIT_CONTENT, RuleName.BATCH_UNIT_CONTENT,
    RuleName.GHOST_QUEUE,
)  # fmt: skip
"""Bytes of a consume queue were changed, whichever."""

ANY_INDEX = rules(
    CHAINS, ENTRIES_LOST, RuleName.INDEX_LENGTH, RuleName.INDEX_HEADER_COUNT, RuleName.INDEX_SLOT_COUNT,
    RuleName.INDEX_SLOT_COUNT_KIND, RuleName.INDEX_HEADER_RANGE, RuleName.INDEX_ENTRY_HASH,
    RuleName.INDEX_ENTRY_TIME_NEGATIVE, RuleName.INDEX_ENTRY_ORDER, RuleName.INDEX_ENTRY_BEHIND_COUNT,
    RuleName.INDEX_ENTRY_ZERO, RuleName.INDEX_EMPTY, RuleName.INDEX_EMPTY_MANY, RuleName.INDEX_FILE_ORDER,
    RuleName.INDEX_FIRST_TIME_WRONG, RuleName.INDEX_CHAINS_NOT_WALKED, RuleName.ENTRY_BEYOND_LOG,
    RuleName.ENTRY_DANGLING, RuleName.ENTRY_KEY, RuleName.ENTRY_DUPLICATE, RuleName.ENTRY_TIME,
    RuleName.ENTRIES_EXPIRED, RuleName.INDEX_AHEAD_OF_LOG, RuleName.ENTRY_OF_DAMAGED_RECORD,
    RuleName.ENTRY_IN_MISSING_SEGMENT, RuleName.INDEX_FILE_DOOMED,
)  # fmt: skip
"""Bytes of an index file were changed, whichever."""

ANY_CHECKPOINT = rules(
    RuleName.INDEX_FILE_DOOMED, RuleName.RECOVERY_SCANS_ALL, RuleName.CHECKPOINT_LENGTH,
    RuleName.CHECKPOINT_TAIL, RuleName.CHECKPOINT_NEGATIVE, RuleName.CHECKPOINT_FUTURE,
    RuleName.CHECKPOINT_AHEAD, RuleName.CHECKPOINT_INDEX_TIME, RuleName.CONFIRM_OFFSET,
    RuleName.CONFIRM_OFFSET_AHEAD, RuleName.CHECKPOINT_ZERO,
)  # fmt: skip
"""Bytes of the checkpoint were changed, whichever."""

CONFIG_LOST = rules(
    RuleName.CONFIG_BACKUP_NEWER, RuleName.CONFIG_SHAPE, RuleName.CONSUMER_OFFSET_OF_LOST_UNITS,
    RuleName.CONSUMER_OFFSET_NEGATIVE, RuleName.GHOST_QUEUE, RuleName.DELAY_OFFSET_RANGE,
    RuleName.QUEUE_MISSING, RuleName.QUEUE_KIND_ATTRIBUTE,
)  # fmt: skip
"""A file of settings or offsets cannot be read, or says less than it did."""

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


ANYWHERE = PromisedPlace()


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
        head = {"schema_version": SCHEMA_VERSION, "kind": "rocketfsck.damage", **dict(members(self))}
        acts = head.pop("acts")
        return named({**head, "commitlog_paths": self.commitlog_paths, "acts": acts})
