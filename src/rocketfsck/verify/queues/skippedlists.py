"""Light queues (LMQ) whose units are before their places: a broker gave numbers away without writing units.

See `formats.lightqueues`. Reference 2.13, 3.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rocketfsck.rulenames import RuleName
from rocketfsck.store.model import Store
from rocketfsck.verify.emit import unit_place
from rocketfsck.verify.finding import Facts, Finding

MAX_NAMES = 1 << 14
"""Light queues whose skipped numbers are counted in a commit log file."""

FIRST, LAST, AT, COUNT, OFFSET = range(1, 6)
"""Columns of rows on shifted units, behind the queue: first and last queueOffset, place, number, record."""


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
        found: Facts = {"unit_count": count, "largest_shift": max(shifts), "record_count": skipped_count}
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
