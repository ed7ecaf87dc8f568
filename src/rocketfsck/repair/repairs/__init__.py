"""The repairs: one module a family, `ALL` is the table of actions.

misnamed, segments    names, lengths and strays          queues, queuemerge    consume queues built again
unbuildable           queues that are not built again
commitlog             the log's tail cut or sealed       queueends             their ends cut or sealed
fences                filler over damage, and BLANKs     leftovers             ghost queues and empty files
checkpoint            checkpoint, abort, timer           epochs                epoch files
index                 index files                        config                the files in config/
timers                the timer wheel                    heal      what comes from another copy
groupoffsets          committed offsets of groups        databases             RocksDB built again
"""

from __future__ import annotations

from rocketfsck.repair.plan.table import Row
from rocketfsck.repair.repairs import (
    checkpoint,
    commitlog,
    config,
    databases,
    groupoffsets,
    index,
    misnamed,
    queueends,
    queues,
    segments,
    timers,
)

ALL: tuple[Row, ...] = tuple(
    sorted(
        (
            *misnamed.ROWS,
            *segments.ROWS,
            *segments.APPENDED_ROWS,
            *commitlog.HEAL_ROWS,
            *commitlog.ROWS,
            *queues.LEFTOVER_ROWS,
            *queueends.ROWS,
            *queues.ROWS,
            *databases.ROWS,
            *index.ROWS,
            *checkpoint.EPOCH_ROWS,
            *checkpoint.ROWS,
            *timers.ROWS,
            *config.ROWS,
            *groupoffsets.ROWS,
        ),
        key=lambda repair: repair.order,
    )
)
"""Every repair, in the order in which a plan has its actions."""
