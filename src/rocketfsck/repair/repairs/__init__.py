"""The repairs: one module a family, `ALL` is the table of actions.

misnamed, segments    names, lengths and strays          queues, queuemerge    consume queues
commitlog             fences, cuts and BLANKs            index                 index files
checkpoint            checkpoint, abort, epochs, timer   config                the files in config/
heal                  what comes from another copy
"""

from __future__ import annotations

from rocketfsck.repair.repairs import checkpoint, commitlog, config, heal, index, misnamed, queues, segments
from rocketfsck.repair.table import Repair

ALL: tuple[Repair, ...] = tuple(
    sorted(
        (
            *misnamed.ROWS,
            *segments.ROWS,
            *heal.ROWS,
            *commitlog.ROWS,
            *queues.ROWS,
            *index.ROWS,
            *checkpoint.ROWS,
            *config.ROWS,
        ),
        key=lambda repair: repair.order,
    )
)
"""Every repair, in the order in which a plan has its actions."""
