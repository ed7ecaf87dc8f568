"""Findings: what a check yields. Data only; the words are in `verify.rules.catalog`.

The account of the messages as values: tallies that are exact, and the ranges of what is lost.

    message := what a record, a unit, an index entry, the checkpoint or a committed offset gives evidence of
    tally   := messages with one fate, one reason and one degree of certainty

Every number of messages that a person reads comes from here. Design, section 7; reference 3.8, 9.3.

What a rule is: one row of the table that every finding refers to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Literal, get_args

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import plain_template

if TYPE_CHECKING:
    from rocketfsck.store.model import ConsumeQueue

Fate = Literal["served", "unreachable", "damaged", "lost", "replaced", "removed"]
"""What became of a message.

    served       a consumer of its queue gets it
    unreachable  its record is in the log, and no unit of its queue leads there
    damaged      a consumer gets it, and its body or its properties are not what the producer sent
    lost         its record is not in the log any more
    replaced     a repair put a filler record in its place
    removed      gone on purpose: its topic was deleted
"""

Sure = Literal["certain", "at least", "perhaps"]
"""How the number is known: exact, a lower bound, or by evidence that has other explanations, too."""

Why = Literal[
    "unit leads to it",
    "no unit",
    "no queue",
    "misnamed file",
    "body",
    "properties",
    "beyond the log",
    "missing file",
    "damaged bytes",
    "no unit, no record",
    "unit of another record",
    "file of another store",
    "index entry",
    "checkpoint",
    "committed offset",
    "filler record",
    "topic deleted",
]

WHYS: Mapping[Why, str] = {
    "unit leads to it": "a unit leads to the record",
    "no unit": "in the commit log, but not in the consume queue",
    "no queue": "in the commit log, but the consume queue is missing",
    "misnamed file": "in commit log files with wrong names",
    "body": "the body does not match its checksum",
    "properties": "the properties are damaged",
    "beyond the log": "in the consume queue, but beyond the end of the commit log",
    "missing file": "commit log files are missing",
    "damaged bytes": "in the consume queue, but the commit log is damaged there",
    "no unit, no record": "queue offsets that neither the consume queue nor the commit log has",
    "unit of another record": "in the consume queue, but other messages are at their places",
    "file of another store": "a file of another store has replaced the commit log file that had them",
    "index entry": "in the index, but beyond the end of the commit log",
    "checkpoint": "the checkpoint names a later message than the commit log has",
    "committed offset": "consumer groups committed offsets beyond the end of the queue",
    "filler record": "a repair put filler messages in place of lost ones",
    "topic deleted": "the topic was deleted",
}
"""What each reason means, as a clause."""


@dataclass(frozen=True, slots=True)
class FateCount:
    """`message_count` messages with one fate, one reason and one certainty."""

    fate: Fate
    why: Why
    sure: Sure
    message_count: int


@dataclass(frozen=True, slots=True)
class LostRun:
    """Neighbouring messages of one queue that are lost, by queue offset (half-open).

    `topic` is "" where only the place in the log is known. Physical offsets are the lowest and the highest at
    which a unit or an entry says that one of the messages began; None where nothing says it. `message_count`
    messages are lost in it.
    """

    topic: str
    queue_id: int
    start_queue_offset: int
    end_queue_offset: int
    message_count: int
    why: Why
    sure: Sure
    first_physical_offset: int | None = None
    last_physical_offset: int | None = None


@dataclass(frozen=True, slots=True)
class GroupEffect:
    """What a consumer group notices of its committed offsets: messages that it gets again, and new ones that
    it skips at most. `group` is "" for all groups together, where none has an offset, and `DELIVERY` for the
    broker itself, which delivers what is due."""

    group: str
    again_count: int
    skipped_count: int


@dataclass(frozen=True, slots=True)
class GroupEffects:
    """What all groups notice: the sums, and the groups that notice most. All numbers are upper bounds."""

    group_count: int = 0
    again_count: int = 0
    skipped_count: int = 0
    worst: tuple[GroupEffect, ...] = ()


NO_EFFECTS = GroupEffects()


@dataclass(frozen=True, slots=True)
class Fates:
    """How many messages have each fate at one time: now, after a start, after a repair.

    Each message has one of them. `lost_count` are lost for certain, or at least so many; `perhaps_lost_count`
    are further ones.
    """

    served_count: int = 0
    unreached_count: int = 0
    damaged_count: int = 0
    lost_count: int = 0
    perhaps_lost_count: int = 0
    replaced_count: int = 0
    removed_count: int = 0

    @property
    def total_count(self) -> int:
        """All messages that anything knows of."""
        return sum(getattr(self, item.name) for item in fields(self))

    @property
    def got_count(self) -> int:
        """Messages that consumers get, as they were sent or damaged."""
        return self.served_count + self.damaged_count

    @property
    def in_log_count(self) -> int:
        """Messages whose records are in the log."""
        return self.got_count + self.unreached_count


@dataclass(frozen=True, slots=True)
class MessageAccount:
    """What became of the messages of a store, as it is now.

    `tallies` are exact, in the order of `Fate`; `lost` has the ranges of what is lost, by queue, and
    `unlisted_count` messages are lost in further ranges. `is_complete`: every commit log file and queue was
    gone through. `bodies_checked`: damage of bodies was looked for. `groups` is what consumers notice.
    """

    tallies: tuple[FateCount, ...] = ()
    lost: tuple[LostRun, ...] = ()
    unlisted_count: int = 0
    is_complete: bool = True
    bodies_checked: bool = True
    groups: GroupEffects = NO_EFFECTS

    def count(self, fate: Fate, *sures: Sure) -> int:
        """How many messages have a fate; with `sures`, those that are known so."""
        tallies = (tally for tally in self.tallies if tally.fate == fate)
        return sum(tally.message_count for tally in tallies if not sures or tally.sure in sures)

    @property
    def fates(self) -> Fates:
        """The messages by what became of them."""
        return Fates(
            self.count("served"),
            self.unreachable_count,
            self.damaged_count,
            self.lost_count,
            self.perhaps_lost_count,
            self.count("replaced"),
            self.count("removed"),
        )

    @property
    def lost_count(self) -> int:
        """Messages that are lost for certain: exact, or a lower bound."""
        return self.count("lost", "certain", "at least")

    @property
    def perhaps_lost_count(self) -> int:
        """Further messages that are perhaps lost."""
        return self.count("lost", "perhaps")

    @property
    def unreachable_count(self) -> int:
        """Messages of the log that no consumer gets."""
        return self.count("unreachable")

    @property
    def damaged_count(self) -> int:
        """Messages that consumers get in another form than they were sent."""
        return self.count("damaged")

    @property
    def is_whole(self) -> bool:
        """Whether every message that anything knows of is served as it was sent, or gone on purpose."""
        return not any(tally.fate in ("unreachable", "damaged", "lost") for tally in self.tallies)


Scalar = int | str | bool | None
Facts = Mapping[str, Scalar]
"""Named values of a finding: exact integers, text, or None. Bytes are given as hex text."""


SeverityName = Literal["info", "warning", "error"]


class Severity(IntEnum):
    """How bad a finding is. Exit status 4 follows from any finding above INFO."""

    INFO = 0
    WARNING = 1
    ERROR = 2

    @property
    def word(self) -> SeverityName:
        """What it is called in reports."""
        return get_args(SeverityName)[self]  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, order=True)
class Where:
    """The exact place of a finding; what does not apply is None.

    `file` is relative to the store's root with `/` between the parts ("" is the store as a whole; a file of
    a second commitlog path keeps its own full path). `start`/`end` are byte positions in that file,
    half-open. `physical_offset` is the place in the commitlog stream. `slot` and `entry` number an index
    file's hash slot and index entry.
    """

    file: str = ""
    start: int | None = None
    end: int | None = None
    physical_offset: int | None = None
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    slot: int | None = None
    entry: int | None = None


TREES = {"file": "consumequeue", "batch": "batchconsumequeue"}


def queue_directory(topic: str, queue_id: int, kind: str = "file") -> str:
    """The directory of a queue, relative to the store's root."""
    return f"{TREES[kind]}/{topic}/{queue_id}"


def queue_place(topic: str, queue_id: int, kind: str = "file") -> Where:
    """Where a finding on a whole queue is."""
    return Where(queue_directory(topic, queue_id, kind), topic=topic, queue_id=queue_id)


def unit_place(queue: ConsumeQueue, index: int, count: int = 1, physical_offset: int | None = None) -> Where:
    """Where units `index:index + count` of a queue are: in the file that holds the first of them."""
    size = queue.unit_size
    pos = index * size
    for file in reversed(queue.files):
        start = file.start_offset
        if start is not None and start <= pos:
            pos -= start
            end = min(pos + count * size, max(file.size, pos))
            name = queue.topic, queue.queue_id
            return Where(file.relative, pos, end, physical_offset, *name, index)
    whole = queue_place(queue.topic, queue.queue_id, queue.kind)
    return replace(whole, physical_offset=physical_offset, queue_offset=index)


@dataclass(frozen=True, slots=True)
class Finding:
    """One breach of one rule at one place.

    `found` and `expected` hold the values that the rule's template names. `count` is above 1 where one
    finding stands for a run of equal neighbours (then `where` spans the run).
    """

    rule: str
    where: Where
    found: Facts = field(default_factory=dict)
    expected: Facts = field(default_factory=dict)
    count: int = 1

    @property
    def fingerprint(self) -> str:
        """16 hex digits that name this finding in baselines and plans: rule, place and facts, no wording."""
        place = {name: getattr(self.where, name) for name in Where.__slots__}
        text = json.dumps([self.rule, place, dict(self.found), dict(self.expected)], sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


Findings = Iterator[Finding]

Strictness = Literal["strict", "dialect", "heuristic", "config"]
"""`strict` holds in every store; `dialect` depends on the broker version; `heuristic` has legal exceptions;
`config` depends on the broker's configuration."""

Level = Literal["quick", "cross", "full"]
"""`quick`: names, sizes, headers, tails. `cross`: every frame, unit, chain and cross-reference, no bodies.
`full`: every body's CRC and every property too."""

LEVELS: tuple[Level, ...] = ("quick", "cross", "full")

DETAIL_LIMIT = 100
"""Findings kept for one rule in one file; the rest is one finding with their exact count."""

FAMILIES: dict[str, str] = {
    "ST": "store and names",
    "CL": "commit log",
    "CQ": "consume queue",
    "IX": "index",
    "CP": "checkpoint, abort, lock and epoch",
    "CF": "config",
    "KV": "compaction",
    "TM": "timer",
    "XR": "cross-reference",
    "RK": "RocksDB databases",
    "TS": "tiered storage",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One invariant: its identity, how bad a breach is, and what to say about it.

    `template` is one line in the form of `common.wording`: `{name}` is a value of the finding (`found`,
    else a part of `where`), `{expected.name}` an expected one; `meaning` is the same line for readers.
    `repair` names the action that answers a breach, if any does; `reference` the section of the format
    reference; `fault_class` the class of the fault catalogue.
    `unknown`: a finding is nothing wrong, but something regular that this version of the tool does not know.
    Repairs keep their hands off its area (`verify.watched`, ADR 0011).
    """

    id: RuleName
    severity: Severity
    template: str
    why: str
    strictness: Strictness
    level: Level
    reference: str
    repair: str | None = None
    fault_class: str | None = None
    unknown: bool = False

    @property
    def slug(self) -> str:
        """The name as it is printed."""
        return self.id.slug

    @property
    def meaning(self) -> str:
        """The template with the names of its values."""
        return plain_template(self.template)

    @property
    def family(self) -> str:
        """The two letters before the number, one of `FAMILIES`."""
        return self.id[:2]

    def applies_at(self, level: Level) -> bool:
        """Whether a check at this level looks for breaches of this rule."""
        return LEVELS.index(self.level) <= LEVELS.index(level)
