"""What a check of a consume queue leaves for a later one, which continues after it.

Only of a queue with nothing odd: pre-blanks, then units without a gap. Reference 3.1, 3.3.
"""

from __future__ import annotations

from rocketfsck.formats.consumequeue import PRE_BLANK_SIZE
from rocketfsck.reader.unitblocks import Kind
from rocketfsck.reader.units import UnitReader
from rocketfsck.store.model import ConsumeQueue
from rocketfsck.verify.queues.unitruns import Run, RunList, Shape
from rocketfsck.verify.tasks.known import QueueKnown


def known_units(queue: ConsumeQueue, shape: Shape, runs: list[Run]) -> QueueKnown | None:
    """The units of a queue that has no finding but expired units; None where more is to be said of it."""
    units = [run for run in runs if run.kind == Kind.UNIT]
    if queue.kind != "file" or queue.ext is not None or shape.flaws or len(units) != 1:
        return None
    (run,) = units
    if run.start != shape.start + shape.pre_blank_count:
        return None
    return QueueKnown(
        shape.start, shape.pre_blank_count, run.end, run.first_offset, run.last_offset, run.last_end
    )


def known_runs(known: QueueKnown, reader: UnitReader, runs: RunList) -> int:
    """Put what is known of a queue in front of its runs; the index after that, 0 where it does not help.

    Files in front may have expired since: then the first unit on disk is another one.
    """
    start = reader.first_index
    if not known.start <= start < known.end or (start > known.start and known.pre_blank_count):
        return 0
    first, first_offset = known.start + known.pre_blank_count, known.first_offset
    if start > known.start:
        first, first_offset = start, int(reader.units(start, 1)["offset"][0])
    if known.pre_blank_count:
        runs.add(Run(Kind.PRE_BLANK, start, first, 0, 0, PRE_BLANK_SIZE))
    runs.add(Run(Kind.UNIT, first, known.end, first_offset, known.last_offset, known.last_end))
    return known.end
