"""Light queues (LMQ) of which a broker gave numbers away without writing units.

    INNER_MULTI_DISPATCH := name (',' name)*      INNER_MULTI_QUEUE_OFFSET := offset? (',' offset?)*

From 5.0.0 on a broker takes a number for each name that begins with %LMQ% and leaves the places of all
others empty. Java's split drops empty places at the end, so that the lists have different lengths: then the
broker writes no unit for any name, and the numbers that it took are gone. The queue's next unit comes right
behind the last one, before the place of its number, until a start counts anew. Reference 2.13, 3.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rocketfsck.formats.javatext import java_decode, parse_int64, split_java
from rocketfsck.formats.properties import LMQ_PREFIX, MULTI_DISPATCH_SEPARATOR
from rocketfsck.rulenames import RuleName
from rocketfsck.store.model import Store
from rocketfsck.verify.emit import unit_place
from rocketfsck.verify.finding import Facts, Finding

MAX_NAMES = 1 << 14
"""Light queues whose skipped numbers are counted in a commit log file."""

FIRST, LAST, AT, COUNT, OFFSET = range(1, 6)
"""Columns of rows on shifted units, behind the queue: first and last queueOffset, place, number, record."""


def is_light(topic: bytes) -> bool:
    """Whether a queue is a light one by its name."""
    return topic.startswith(LMQ_PREFIX.encode())


def skipped_names(names: bytes, offsets: bytes) -> list[str] | None:
    """The light queues whose numbers a broker gave away for a record with these lists.

    None if no broker writes such lists.
    """
    listed = split_java(java_decode(names), MULTI_DISPATCH_SEPARATOR)
    places = java_decode(offsets).split(MULTI_DISPATCH_SEPARATOR)
    if len(listed) != len(places):
        return None
    light = [name for name in listed if name.startswith(LMQ_PREFIX)]
    for name, place in zip(listed, places, strict=True):
        if name.startswith(LMQ_PREFIX) != (parse_int64(place) is not None) or (place and name not in light):
            return None
    return light


def lists_in(properties: bytes) -> tuple[bytes, bytes]:
    """The lists of queues and of offsets in a record's properties, as they are; empty where there is none."""
    names, offsets = (
        properties.partition(name)[2].split(b"\x02", 1)[0]
        for name in (b"INNER_MULTI_DISPATCH\x01", b"INNER_MULTI_QUEUE_OFFSET\x01")
    )
    return names, offsets


def skipped_by(properties: bytes) -> list[str] | None:
    """`skipped_names` of the lists in a record's properties."""
    return skipped_names(*lists_in(properties))


def judge_shifted(
    store: Store, number: int, rows: Sequence[Sequence[int]], skipped_count: int
) -> Iterator[Finding]:
    """One note on a light queue whose units are before their places because its numbers were given away.

    Where that does not explain it, an error for each run of shifted units (XR006).

    `rows` are those runs in log order, `skipped_count` the records that took a number and have no unit. The
    shift cannot be more than that, unless records before the log's start took numbers, too.
    """
    queue = store.queues[number]
    shifts = [row[FIRST] - row[AT] for row in rows]
    before = min(shifts) if store.commitlog.start_offset else 0
    if skipped_count and min(shifts) > 0 and max(shifts) - before <= skipped_count:
        count = sum(row[COUNT] for row in rows)
        found: Facts = {"unit_count": count, "most": max(shifts), "record_count": skipped_count}
        yield Finding(RuleName.LIGHT_UNITS_SHIFTED, unit_place(queue, rows[0][AT], 1, rows[0][OFFSET]), found)
        return
    for row, shift in zip(rows, shifts, strict=True):
        yield shifted(store, number, row, -shift)


def shifted(store: Store, number: int, row: Sequence[int], shift: int) -> Finding:
    """The finding on units that are `shift` places away from their own."""
    return Finding(
        RuleName.UNIT_SHIFTED,
        unit_place(store.queues[number], row[AT], row[COUNT], row[OFFSET]),
        {"first_queue_offset": row[FIRST], "last_queue_offset": row[LAST], "shift": shift},
        count=row[COUNT],
    )
