"""What each action is given besides its target: plain values that determine, with the store, what is written.

The row of a repair names the class of its actions' arguments, and a plan is read by these types: what is
missing, unknown, of another type or out of range is refused before anything is looked at. Whether the values
fit the store is for the acts to say.

Offsets are physical offsets in the log unless they are called queue offsets; ranges are half-open; sizes and
positions are in bytes; timestamps are in ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from msgspec import Meta

from rocketfsck.formats.smallfiles import EpochEntry

Natural = Annotated[int, Meta(ge=0)]
Name = tuple[str, int]
"""A queue: its topic and its queueId."""
ConfigSource = Literal["backup", "beginning", "log", "groups"]
EndsSource = Literal["database", "topics", "log"]
QueueType = Literal["SimpleCQ", "BatchCQ"]
HeaderField = Literal[
    "beginTimestamp", "endTimestamp", "beginPhyOffset", "endPhyOffset", "hashSlotCount", "indexCount"
]
TimerField = Literal[
    "lastReadTimeMs",
    "lastTimerLogFlushPos",
    "lastTimerQueueOffset",
    "masterTimerQueueOffset",
    "stateVersion",
    "timestamp",
    "counter",
]
HEADER_FIELDS: tuple[HeaderField, ...] = get_args(HeaderField)
TIMER_FIELDS: tuple[TimerField, ...] = get_args(TimerField)


@dataclass(frozen=True, slots=True)
class Arguments:
    """What an action is given; most are given nothing more than their target."""


NONE = Arguments()


@dataclass(frozen=True, slots=True)
class NewSize(Arguments):
    """The length that a file gets."""

    size: Natural


@dataclass(frozen=True, slots=True)
class FileParts(Arguments):
    """The length of each part of a file, of which the first keeps the name, and the names of the others,
    relative to the root; "" for one that another file has."""

    size: Natural
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NewName(Arguments):
    """The name that a file gets, relative to the root; "" for a `circle`.

    `circle` has the last parts of the names of files of which each has the name of another: each gets the
    name after its own, the last one the first.
    """

    new_name: str = ""
    circle: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordPositions(Arguments):
    """Where records begin in the file."""

    positions: tuple[Natural, ...]


@dataclass(frozen=True, slots=True)
class FlippedBits(Arguments):
    """The bits that are turned back, by their positions in the file, in order: 8 for each byte in front of
    theirs, and their place in it, 0 for the lowest."""

    bits: tuple[Natural, ...]


@dataclass(frozen=True, slots=True)
class RangeArgument:
    """Bytes of the log."""

    start_offset: Natural
    end_offset: Natural


@dataclass(frozen=True, slots=True)
class CopiedRanges(Arguments):
    """Ranges of the file at `start_offset` that come from another copy, one from each source of the action.

    The file gets `size` bytes where it has fewer. One that is made gets the time `store_timestamp`.
    """

    ranges: tuple[RangeArgument, ...]
    start_offset: Natural
    size: Natural
    store_timestamp: int


@dataclass(frozen=True, slots=True)
class LogCut(Arguments):
    """Where zeros begin that reach to the end of the file; `whole_file`: the file is set aside instead."""

    start_offset: Natural
    whole_file: bool = False


@dataclass(frozen=True, slots=True)
class BlankPlace(Arguments):
    """Where the BLANK begins."""

    start_offset: Natural


@dataclass(frozen=True, slots=True)
class Fence:
    """A range that filler records take, and their storeTimestamp."""

    start_offset: Natural
    end_offset: Natural
    store_timestamp: int


@dataclass(frozen=True, slots=True)
class Fences(Arguments):
    """The fences of a file, and the broker version whose records the fillers are."""

    fences: tuple[Fence, ...]
    version: str


@dataclass(frozen=True, slots=True)
class FencedFile(Arguments):
    """A file of `size` bytes at `start_offset`: filler records up to `end_offset`, and a BLANK."""

    start_offset: Natural
    end_offset: Natural
    size: Natural
    store_timestamp: int
    version: str


@dataclass(frozen=True, slots=True)
class LogEndArgument(Arguments):
    """Where the log ends."""

    end_offset: Natural


@dataclass(frozen=True, slots=True)
class UnitsFrom(Arguments):
    """The first unit that becomes zeros."""

    queue_offset: Natural


@dataclass(frozen=True, slots=True)
class QueuesToBuild(Arguments):
    """The queues that are built; None: all that the store or its log has.

    `delay_levels` is `messageDelayLevel` as a broker.conf has it; None: as the store has it.
    """

    queues: tuple[Name, ...] | None
    delay_levels: str | None = None


@dataclass(frozen=True, slots=True)
class DatabaseToBuild(Arguments):
    """A database of consume queues that is built.

    `source` says which queues there are: the "database" itself by its rows of ends, the "topics" of the
    broker, or the "log" alone. `restored` are queues that get rows of all their records whether or not the
    database had them; None for all that were not deleted. `delayed`: rows of delay levels are made, and no
    former row shows the delays.
    """

    restored: tuple[Name, ...] | None
    source: EndsSource
    delayed: bool = False


@dataclass(frozen=True, slots=True)
class MessageRowsToBuild(Arguments):
    """A database of messages that is built; `index`: with the rows of an index."""

    index: bool


@dataclass(frozen=True, slots=True)
class IndexPartArgument(Arguments):
    """The first record that is indexed again, and the name of the first index file that is made again.

    `from_offset` is None where all files are; `first_file` is "" where only entries after the last file are
    missing.
    """

    from_offset: int | None = None
    first_file: str = ""


@dataclass(frozen=True, slots=True)
class HeaderValue:
    """A field of an index file's header and its right value."""

    field: HeaderField
    value: int


@dataclass(frozen=True, slots=True)
class HeaderValues(Arguments):
    """Fields of an index file's header that are written; `empty_entry0`: entry 0 becomes zeros, too."""

    fields: tuple[HeaderValue, ...]
    empty_entry0: bool = False


@dataclass(frozen=True, slots=True)
class TimerValue:
    """A field of timercheck and its new value."""

    field: TimerField
    value: int


@dataclass(frozen=True, slots=True)
class TimerValues(Arguments):
    """Fields of timercheck that are written."""

    fields: tuple[TimerValue, ...]


@dataclass(frozen=True, slots=True)
class WheelPrecision(Arguments):
    """The length of a slot of the timer wheel, in ms."""

    precision_ms: Annotated[int, Meta(ge=1)]


@dataclass(frozen=True, slots=True)
class CheckpointTail(Arguments):
    """Whether zeros are written behind the fields of the checkpoint, where there is damage."""

    zero_tail: bool = False


@dataclass(frozen=True, slots=True)
class IndexTime(Arguments):
    """The least that indexMsgTimestamp becomes."""

    index_msg_timestamp: int


@dataclass(frozen=True, slots=True)
class Epochs(Arguments):
    """The entries that the epoch file gets; without any it is set aside."""

    epochs: tuple[EpochEntry, ...]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A newly made topic, and the number and the kind of its queues."""

    topic: str
    queue_count: Natural
    queue_type: QueueType


@dataclass(frozen=True, slots=True)
class ConfigOrigin(Arguments):
    """What a config file is made of: its .bak, its own beginning, the log and the queues, or what other
    configs say of groups.

    `topics` are those that topics.json gets out of log and queues, `groups` those that subscriptionGroup.json
    gets.
    """

    source: ConfigSource
    topics: tuple[NewTopic, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """The queue offset that a group consumes next in a queue."""

    group: str
    topic: str
    queue_id: Natural
    offset: Natural


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """A committed offset and what it becomes. `former_offset` is None where there was none."""

    group: str
    topic: str
    queue_id: Natural
    former_offset: int | None
    offset: Natural


@dataclass(frozen=True, slots=True)
class OffsetChanges(Arguments):
    """The committed offsets that are set."""

    changes: tuple[OffsetChange, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicType:
    """A topic and the kind of its queues."""

    topic: str
    queue_type: QueueType


@dataclass(frozen=True, slots=True)
class TopicTypes(Arguments):
    """The topics whose queue.type is written."""

    topics: tuple[TopicType, ...]


@dataclass(frozen=True, slots=True)
class TopicNames(Arguments):
    """The topics that get their names."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LevelOffset:
    """The queue offset that a delay level delivers next."""

    level: int
    offset: Natural


@dataclass(frozen=True, slots=True)
class DelayLevels(Arguments):
    """The delay levels whose offsets are brought into their queues, and those that get other ones first."""

    levels: tuple[int, ...]
    offsets: tuple[LevelOffset, ...] = ()
