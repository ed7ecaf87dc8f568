"""Delay levels: messages of `SCHEDULE_TOPIC_XXXX` wait in queue `level - 1`. Reference 2.11, 3.2.

The level list is the broker's setting `messageDelayLevel`; it is not in the store. A consume queue unit of
the topic holds the delivery time instead of a tags code.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketfsck.errors import UsageError
from rocketfsck.formats.javatext import int64, parse_int64

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
DEFAULT_DELAY_LEVELS_TEXT = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
DELIVERY = "(delivery)"
"""Stands for the broker among consumer groups, as it delivers delayed messages."""
UNKNOWN_LEVEL_DELAY = 1000
"""Milliseconds that a level missing from the table is delayed."""

_UNITS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_delay_levels(text: str) -> dict[int, int]:
    """The delay in ms of each level, from 1, of a `messageDelayLevel` setting such as `1s 5s 2h`.

    UsageError for a word that is not a number and a unit.
    """
    levels: dict[int, int] = {}
    for level, word in enumerate(text.split(" "), 1):
        amount, unit = parse_int64(word[:-1]), _UNITS.get(word[-1:])
        if amount is None or unit is None:
            raise UsageError(f"delay level {level} is {word!r}: not a number and one of s, m, h, d")
        levels[level] = int64(amount * unit)
    return levels


DEFAULT_DELAY_LEVELS: Mapping[int, int] = parse_delay_levels(DEFAULT_DELAY_LEVELS_TEXT)


def deliver_timestamp(
    level: int, store_timestamp: int, levels: Mapping[int, int] = DEFAULT_DELAY_LEVELS
) -> int:
    """When a record of this delay level is due: the tagsCode of its consume queue unit.

    A level above the highest one counts as the highest; one that is not in the table waits a second.
    """
    clamped = min(level, max(levels, default=0))
    return int64(store_timestamp + levels.get(clamped, UNKNOWN_LEVEL_DELAY))


def delay_queue_id(level: int) -> int:
    """The queue of `SCHEDULE_TOPIC_XXXX` that holds this level."""
    return level - 1


def delay_level_of_queue(queue_id: int) -> int:
    """The level whose messages this queue of `SCHEDULE_TOPIC_XXXX` holds."""
    return queue_id + 1
