"""Stores as rows, in plain Arrow: what the columns of a view are, its parts, and the rows of a part.

    messages       one row a message
    damage         one row a damaged range of the commit log, and one a message with a wrong CRC
    consumequeue, index, regions, findings, files
    offsets, topics, subscriptions, lost, starts    answers of commands

Each row says where it is from: broker, file and place in the file. What a part gives does not depend on how
many parts there are.
"""

from rocketfsck.pipeline.views.model import CORRUPT, MODES, Mode, Part, View, WantedRows
from rocketfsck.pipeline.views.table import VIEW_NAMES, plan_parts, read_part, schema_of

__all__ = [
    "CORRUPT", "MODES", "VIEW_NAMES", "Mode", "Part", "View", "WantedRows", "plan_parts", "read_part",
    "schema_of",
]  # fmt: skip
