"""Arbitrary-delay timers: the wheel, its log and its progress. Reference 1.8.

    timerwheel := slot[32] * (2 * 604800)        slot number = (t / precision) % 1209600
    timerlog   := (unit* filler)*                the units of a slot are a chain by prevPos, newest first
    timercheck := the progress of the timer threads, 4096 bytes

A slot counts for a time t only if its slotTime is t / precision.

Delay levels: messages of `SCHEDULE_TOPIC_XXXX` wait in queue `level - 1`. Reference 2.11, 3.2.

The level list is the broker's setting `messageDelayLevel`; it is not in the store. A consume queue unit of
the topic holds the delivery time instead of a tags code.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketfsck.errors import UsageError
from rocketfsck.formats.javatext import int64, parse_int64, truncated_quotient
from rocketfsck.formats.layout import I32, I64, Layout, declare, field
from rocketfsck.formats.magic import MAGIC_BLANK

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


TIMER_TOPIC = "rmq_sys_wheel_timer"
"""The topic of all messages that wait for a timer; queue 0."""
SLOTS_TOTAL = 7 * 24 * 3600
DEFAULT_PRECISION_MS = 1000
PRECISIONS_MS = (100, 200, 500, 1000)

TIMER_WHEEL_SLOT: Layout = declare(
    "timer_wheel_slot",
    "Timer wheel slot",
    "1.8.1",
    field("slotTime", I64, "precisions", "delivery time divided by the precision"),
    field("firstPos", I64, "bytes", "timerlog position of the oldest unit, -1 = none"),
    field("lastPos", I64, "bytes", "timerlog position of the newest unit, -1 = none"),
    field("num", I32, "units", "number of units"),
    field("magic", I32, "", "magic of the newest unit"),
)
TIMER_LOG_UNIT: Layout = declare(
    "timer_log_unit",
    "Timer log unit",
    "1.8.2",
    field("size", I32, "bytes", "52"),
    field("prevPos", I64, "bytes", "timerlog position of the previous unit of the slot, -1 = none"),
    field("magic", I32, "", "bits: 1 default, 2 roll, 4 delete"),
    field("currWriteTime", I64, "ms", "when the unit was written"),
    field("delayedTime", I32, "ms", "delivery time minus currWriteTime"),
    field("offsetPy", I64, "bytes", "commitlog offset of the record"),
    field("sizePy", I32, "bytes", "the record's totalSize"),
    field("hashCodeOfRealTopic", I32, "", "Java hash of the real topic, 0 = none"),
    field("reservedValue", I64, "", "0"),
)
TIMER_LOG_FILLER: Layout = declare(
    "timer_log_filler",
    "End of a timer log file",
    "1.8.2",
    field("size", I32, "bytes", "from here to the end of the file"),
    field("prevPos", I64, "", "0"),
    field("magic", I32, "", "0xCBD43194"),
)
TIMER_CHECK: Layout = declare(
    "timer_check",
    "Timer progress (config/timercheck)",
    "1.8.3",
    field("lastReadTimeMs", I64, "ms", "wheel time up to which the broker has read slots"),
    field("lastTimerLogFlushPos", I64, "bytes", "timerlog position up to which the broker has flushed"),
    field(
        "lastTimerQueueOffset",
        I64,
        "messages",
        "queue offset up to which the broker has read rmq_sys_wheel_timer",
    ),
    field("masterTimerQueueOffset", I64, "messages", "the same on the master"),
    field("stateVersion", I64, "", "of the data version"),
    field("timestamp", I64, "ms", "of the data version"),
    field("counter", I64, "", "of the data version"),
)
TIMER_WHEEL_SLOT_SIZE = TIMER_WHEEL_SLOT.size
TIMER_LOG_UNIT_SIZE = TIMER_LOG_UNIT.size
TIMER_WHEEL_SIZE = 2 * SLOTS_TOTAL * TIMER_WHEEL_SLOT_SIZE
TIMER_CHECK_SIZE = 4096

MAGIC_DEFAULT = 1
MAGIC_ROLL = 2
MAGIC_DELETE = 4


def is_valid_timer_magic(magic: int) -> bool:
    """The broker's own test of a timer log unit's magic."""
    return (magic | 0xF) == 0xF


def timer_slot_of(timestamp: int, precision_ms: int = DEFAULT_PRECISION_MS) -> int:
    """The wheel's slot for a delivery time in ms."""
    return truncated_quotient(timestamp, precision_ms) % (2 * SLOTS_TOTAL)


def timer_slot_time(timestamp: int, precision_ms: int = DEFAULT_PRECISION_MS) -> int:
    """The slotTime that a slot must have to count for a delivery time in ms."""
    return truncated_quotient(timestamp, precision_ms)


def timer_log_filler(remaining_size: int) -> bytes:
    """The 16 bytes that end a timer log file of which `remaining_size` bytes are left."""
    return TIMER_LOG_FILLER.build({"size": remaining_size, "prevPos": 0, "magic": MAGIC_BLANK})
