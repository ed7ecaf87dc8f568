"""The check of many queues of one short file each, in one pass over the units of all of them.

Only what is sound is taken (`reader.shortqueues`): there is nothing to say of such a queue but which of its
units are expired. All others are gone through one by one (`file`). Reference 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from rocketfsck.formats.consumequeue import MAX_EXT_ADDRESS, UNIT_SIZE
from rocketfsck.reader.shortqueues import read_short_queues
from rocketfsck.reader.unitblocks import Kind
from rocketfsck.verify.queues.unitruns import UnitRun
from rocketfsck.verify.tasks.task import Context, QueuesTask

ShortQueue = tuple[UnitRun, int | None] | bytes
"""The units of a sound queue, and the index of its first live one, None for none; else what was read."""


def short_queues(context: Context, wanted: Iterable[int]) -> dict[int, ShortQueue]:
    """The short ones among these elements of `store.queues`, by their numbers there.

    One that is not sound is to be gone through as it was read: bytes that are right when they are read again
    are wrong all the same (`tasks.reread`).
    """
    queues = context.store.queues
    numbers = [number for number in wanted if _may_be_short(context, number)]
    files = [queues[number].files[0] for number in numbers]
    units = read_short_queues([file.location for file in files], [file.size for file in files])
    found: dict[int, ShortQueue] = {numbers[place]: data for place, data in units.odd.items()}
    if not len(units):
        return found
    log_start = context.store.commitlog.start_offset
    live = units.count if log_start is None else units.first_from(log_start)
    without_ext = np.logical_and.reduceat(units.tags > MAX_EXT_ADDRESS, units.bounds[:-1])
    last_end = units.last_offset + units.last_size
    columns = (units.place, units.count, units.first_offset, units.last_offset, last_end, live, without_ext)
    for row in zip(*(column.tolist() for column in columns), strict=True):
        place, count, first_offset, last_offset, end, live_count, plain = row
        if plain:
            first = (files[place].start_offset or 0) // UNIT_SIZE
            run = UnitRun(Kind.UNIT, first, first + count, first_offset, last_offset, end)
            found[numbers[place]] = (run, first + live_count if live_count < count else None)
    return found


def _may_be_short(context: Context, number: int) -> bool:
    queue = context.store.queues[number]
    if queue.kind != "file" or queue.ext is not None or len(queue.files) != 1:
        return False
    start = queue.files[0].start_offset
    return start is not None and start % UNIT_SIZE == 0


def unknown_queues(task: QueuesTask) -> Iterator[int]:
    """The numbers of the queues that no earlier check knows."""
    for place, number in enumerate(range(task.start, task.end)):
        if not task.known or task.known[place] is None:
            yield number


def sound_size(context: Context, short: Mapping[int, ShortQueue]) -> int:
    """The bytes of the files of the sound ones."""
    sound = (number for number, found in short.items() if isinstance(found, tuple))
    return sum(context.store.queues[number].files[0].size for number in sound)
