"""What is left of the messages of a kept store, some of whose files somebody changed since it was kept.

    units of the kept queues --> record in the kept log? --> in the present log? --> in neither

Only units that lead into files of the log that changed are followed. Reference 2.1, 3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from rocketfsck.common.documents import printable
from rocketfsck.common.wording import count_of
from rocketfsck.errors import RocketfsckError
from rocketfsck.formats.javatext import java_decode
from rocketfsck.reader.records import LogReader
from rocketfsck.reader.units import UnitReader
from rocketfsck.store.model import ConsumeQueue, Store
from rocketfsck.store.opening import open_store

_CHUNK_COUNT = 1 << 15
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
    except RocketfsckError:
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
        for first in range(reader.first_index, reader.end_index, _CHUNK_COUNT):
            units = reader.units(first, min(_CHUNK_COUNT, reader.end_index - first))
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
