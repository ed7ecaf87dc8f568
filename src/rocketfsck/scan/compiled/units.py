"""Records against the units of their queues, compiled: which queues are just as they should be.

    unit := offset:i64 size:i32 tagsCode:i64      20 bytes, big-endian (reference 3.1)

Units are in rooms, a room a queue, side by side in memory (`verify.queues.unitranges`). Rows are in the order
of the log: no queue's rows have to be brought together. The kernels neither allocate nor raise.
"""

# mypy: disable-error-code="no-any-return, assignment, return-value"
# (machine integers: what is an int here has 64 bits and no Python type)

from __future__ import annotations

from typing import Annotated, NamedTuple

from rocketfsck.formats.consumequeue import MAX_EXT_ADDRESS, PRE_BLANK_SIZE, UNIT_SIZE
from rocketfsck.formats.dtypes import UNIT_DTYPE, Flags, Longs
from rocketfsck.scan.machine.intrinsics import load_i32, load_i64
from rocketfsck.scan.machine.jit import entry
from rocketfsck.scan.units import UNKNOWN_TAGS

_SIZE_AT, _TAGS_AT = (int(UNIT_DTYPE.fields[name][1]) for name in ("size", "tagsCode"))  # type: ignore[index]


class Asked(NamedTuple):
    """Rows of dispatches: the row of the queue, the queue offset, and what its unit should say; `level` is
    the delay level of what is in the schedule topic, else 0."""

    queue: Longs
    index: Longs
    offset: Longs
    size: Longs
    tags: Longs
    level: Longs


class Rooms(NamedTuple):
    """Rooms of `room` units each, from the address `units` on.

    `numbers` has the room of each row of a queue, negative for none; `first` and `held` are the queue offset
    of each room's first unit, and how many are in it.
    """

    numbers: Longs
    units: int
    room: int
    first: Longs
    held: Longs


@entry
def meet_units(start: int, asked: Asked, rooms: Rooms, odd: Flags) -> int:
    """Looks up the unit of each row from `start` on; marks a queue where one is not as it should be, and
    skips its rows from there.

    Gives the row whose unit is in no room, to be called again from there; the number of rows at the end.
    `odd` has a flag for each row of a queue.
    """
    queue, index, offset, size, tags, level = asked
    for row in range(start, len(queue)):
        place = queue[row]
        if odd[place]:
            continue
        number = -1
        if place < len(rooms.numbers):
            number = rooms.numbers[place]
        if number < 0 or number >= len(rooms.first) or index[row] < 0:
            odd[place] = True
            continue
        at = index[row] - rooms.first[number]
        if at < 0 or at >= rooms.held[number]:
            return row
        unit = rooms.units + UNIT_SIZE * (number * rooms.room + at)
        found = load_i64(unit + _TAGS_AT)
        if (
            load_i64(unit) != offset[row]
            or load_i32(unit + _SIZE_AT) != size[row]
            or size[row] <= 0
            or found != tags[row]
            or found <= MAX_EXT_ADDRESS
            or found == UNKNOWN_TAGS
            or level[row] > 0
            or (size[row] == PRE_BLANK_SIZE and found == 0)
        ):
            odd[place] = True
    return len(queue)


@entry
def unit_runs(
    queue: Longs, index: Longs, odd: Flags, first: Longs, end: Longs, out: Annotated[Longs, 2]
) -> int:
    """Writes the places of units that are not odd as ranges (row of the queue, first, after the last); gives
    how many. `first` and `end` are zeros, a row for each row of a queue; `out` has room for all rows.
    """
    count = 0
    for row in range(len(queue)):
        place = queue[row]
        if odd[place]:
            continue
        if end[place] != index[row]:
            if end[place] > first[place]:
                out[count, 0] = place
                out[count, 1] = first[place]
                out[count, 2] = end[place]
                count += 1
            first[place] = index[row]
        end[place] = index[row] + 1
    for place in range(len(odd)):
        if end[place] > first[place]:
            out[count, 0] = place
            out[count, 1] = first[place]
            out[count, 2] = end[place]
            count += 1
    return count
