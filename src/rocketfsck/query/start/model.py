"""What a broker's start would do to a store, as values: `simulate.simulate_start` makes them.

Offsets are physical or queue offsets as their names say, ranges half-open. All classes are plain data;
`Start.document` is the whole as JSON's kinds of values. Reference 6.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from rocketfsck.store.rocks.families import MESSAGE_DATABASE

Change = Literal["deleted", "created", "resized"]
Fate = Literal["kept", "extended", "created"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the broker does not start: the file (its path below the root) and the broker's own reason."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that the start deletes, creates or resizes. Sizes in bytes.

    `file` of an index file that is created ends in `?`: its name is the time of that moment.
    """

    file: str
    change: Change
    size: int
    why: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """A file that the broker does not see, so that what is in it does not exist for it."""

    file: str
    why: str


@dataclass(frozen=True, slots=True)
class LogScan:
    """The recovery's scan of the commit log: from `start_offset` on, which lies in `first_file`.

    `stop_offset` is where it ends, `stop` why: `end` (no further file), `blank` (the last file is full),
    `invalid` or `half` (a record that is not one). `read_byte_count` counts the bytes that the broker reads.
    """

    first_file: str
    start_offset: int
    stop_offset: int
    stop: str
    file_count: int
    read_byte_count: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """A range of the commit log that the dispatcher passes over, or where it gets stuck (`stuck`)."""

    start_offset: int
    end_offset: int
    why: str
    stuck: bool = False


@dataclass(frozen=True, slots=True)
class DispatchStart:
    """What is dispatched to queues and index: by the recovery itself, and by the dispatcher from its start.

    `recovery_record_count` and `record_count` are records handed to the queues by either. `skipped` are the
    ranges that a dispatcher in this broker's role meets; a slave gets stuck where a master skips.
    """

    start_offset: int
    end_offset: int
    recovery_record_count: int
    record_count: int
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True)
class QueueStart:
    """One consume queue after the start. Counts are in units, offsets are queue offsets.

    `found_count` units are on disk for the broker when it has recovered the queue, `cut_count` of them go in
    the truncation or with the queue's files, `added_count` are appended. `hidden_count` units come after
    one that is not valid, where no recovery looks. `shifted_count` of the added are at another place than
    the queueOffset of their record. `reissued_count` queue offsets from `max_offset` on are in use by records
    of the log already, and are given out a second time. `unreachable_count` records of the log have no unit.
    `phantom_count` are not real units: the broker counts the first of a last file as one, whatever it is.
    """

    topic: str
    queue_id: int
    kind: Literal["file", "batch"]
    min_offset: int
    max_offset: int
    found_count: int
    cut_count: int
    hidden_count: int
    added_count: int
    shifted_count: int
    reissued_count: int
    unreachable_count: int
    phantom_count: int = 0


@dataclass(frozen=True, slots=True)
class IndexFileStart:
    """An index file that the broker has after its start; counts are in entries."""

    file: str
    fate: Fate
    entry_count: int
    added_count: int
    begin_physical_offset: int
    end_physical_offset: int


@dataclass(frozen=True, slots=True)
class IndexStart:
    """The index after the start.

    `deleted_entry_count` entries go with the files that are deleted, `added_entry_count` are put again.
    `blocked_until_offset`: new messages below this physical offset are not indexed (None: all are).
    """

    files: tuple[IndexFileStart, ...]
    deleted_entry_count: int
    added_entry_count: int
    blocked_until_offset: int | None


@dataclass(frozen=True, slots=True)
class TimerStart:
    """What the start makes of the arbitrary-delay timers (5.0.0+). Reference 1.8.

    `wheel` is the file that the slots are read from, "" where there is none and an empty wheel is made, or
    the database that has the timers (5.4.0+): then there are no slots, and no timer log. The
    timer log is scanned from `scan_pos` and ends at `end_pos`; `cut_count` units go with what is behind.
    `changed_slot_count` slots are put right from the log. The timer topic is read again from queue offset
    `queue_offset`; `reread_count` of its messages were there before. `read_timestamp` (ms) is the time from
    which slots are delivered.

    Of the messages that wait, `waiting_count` are on the wheel afterwards or come on it. `lost_count` are
    neither; `lost` are the first of them, by physical offset. `repeated_count` messages are delivered again,
    or are put on the wheel a second time. `endless_slot_count` slots have a chain that leads back into
    itself: a broker reads there until it has no memory left. `skipped_count` new messages of the timer topic
    are passed over, because its queue ends in front of `queue_offset`. A start later than
    `latest_start_timestamp` passes over messages that wait (None: none waits on the wheel).
    """

    wheel: str
    scan_pos: int
    end_pos: int
    cut_count: int
    changed_slot_count: int
    queue_offset: int
    reread_count: int
    read_timestamp: int
    waiting_count: int
    lost_count: int
    lost: tuple[int, ...]
    repeated_count: int
    endless_slot_count: int
    skipped_count: int
    latest_start_timestamp: int | None

    @property
    def in_database(self) -> bool:
        return self.wheel == MESSAGE_DATABASE

    @property
    def harmful(self) -> bool:
        """Whether messages are lost or delivered twice by the start, or it does not come to an end."""
        return bool(self.lost_count or self.repeated_count or self.endless_slot_count or self.skipped_count)


@dataclass(frozen=True, slots=True)
class LostRange:
    """Consecutive records, by where they are; `offsets` are those of the first and after the last."""

    start_offset: int
    end_offset: int
    record_count: int


@dataclass(frozen=True, slots=True)
class Losses:
    """Messages that are there now and out of reach after the start. None: not looked for.

    `cut` are the records at and after the cut; `stale_count` counts further ones there that are older than
    the last record kept, remains of an earlier truncation. `by_queue` and `by_key` are records that stay in
    the log without a unit in their queue, or without an entry in the index; the `new` ones of them have it
    now and lose it by the start. `reached_count` records have a unit afterwards. `unreadable` are ranges of
    physical offsets that no file of the log holds and units lead to, with how many of them (`record_count`):
    their messages are gone, start or no start. `astray_count` sound records are in files that the start
    deletes or does not see, because their names are wrong, and in no other file. `deleted_count` of those
    in `by_queue` belong to queues that were deleted on purpose.
    """

    cut: tuple[LostRange, ...]
    cut_record_count: int
    stale_count: int
    by_queue_count: int | None
    new_by_queue_count: int | None
    by_queue: tuple[LostRange, ...]
    by_key_count: int | None
    new_by_key_count: int | None
    by_key: tuple[LostRange, ...]
    reached_count: int | None = None
    unreadable_count: int | None = None
    unreadable: tuple[LostRange, ...] = ()
    astray_count: int = 0
    deleted_count: int = 0


@dataclass(frozen=True, slots=True)
class Unread:
    """A part of the store that brokers of other versions read and this one does not: a clause on the broker.

    `count` says of how many messages or queues, None where nobody counted.
    """

    what: str
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """What a broker of `version` does when it starts on the store.

    With `refusals` it does not start; what else is listed happens before it gives up. `cut_offset` is
    the end of the commit log after the recovery (None: there is no log), `min_offset` its beginning (-1
    without files). `queues_destroyed` says that every consume queue is deleted (fault class C8). `notes` are
    what the prediction assumes or leaves out. `timers` is None for a broker without them, or a store.
    `unread_parts` are what only brokers of other versions read.
    """

    version: str
    loads: bool
    refusals: tuple[Refusal, ...]
    recovery: Literal["normal", "abnormal"]
    scan: LogScan | None
    cut_offset: int | None
    min_offset: int
    max_offset: int
    files: tuple[FileChange, ...]
    ignored: tuple[Ignored, ...]
    queues_destroyed: bool
    dispatch: DispatchStart | None
    queues: tuple[QueueStart, ...]
    index: IndexStart
    losses: Losses
    notes: tuple[str, ...]
    timers: TimerStart | None = None
    unread_parts: tuple[Unread, ...] = ()

    @property
    def harmful(self) -> bool:
        """Whether the start fails or leaves less than there was: files, units, messages, queue offsets.

        Units that lead to messages which are gone count: consumers will be given them.
        """
        losses = self.losses
        lost = losses.cut_record_count or losses.new_by_queue_count or losses.new_by_key_count
        lost = lost or losses.unreadable_count or losses.astray_count
        skipped = self.dispatch is not None and bool(self.dispatch.skipped)
        return bool(
            not self.loads
            or self.ignored
            or self.queues_destroyed
            or lost
            or self.unread_parts
            or skipped
            or self.index.blocked_until_offset is not None
            or (self.timers is not None and self.timers.harmful)
            or any(
                queue.reissued_count or queue.shifted_count or queue.phantom_count for queue in self.queues
            )
        )

    def document(self) -> dict[str, Any]:
        """The whole as dicts, lists, numbers and texts."""
        return asdict(self)
