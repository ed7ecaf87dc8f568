"""How far delayed messages were delivered, against the queues of SCHEDULE_TOPIC_XXXX and the log's last time.

A unit of these queues has the time of delivery as its tagsCode, and a level's times rise with its offsets. A
running broker delivers within seconds of that time, and writes delayOffset.json every ten seconds. So what
was due long before the last record of the log was delivered, and an offset before it delivers it again.
Without an offset a broker begins at the first message of the level. Offsets outside of a queue are corrected
when a broker starts. Reference 1.6.3, 2.11, 3.2; fault class K6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.delay import SCHEDULE_TOPIC, delay_queue_id, parse_delay_levels
from rocketfsck.reader.units import UnitReader
from rocketfsck.store.model import ConsumeQueue, Store
from rocketfsck.verify.finding import Facts, Finding, Where
from rocketfsck.verify.store.configfiles import Configs
from rocketfsck.verify.store.offsets import bounds_of
from rocketfsck.verify.tasks.facts import Known

DELAYS = "delayOffset.json"
LATEST_MS = 60_000
"""How late a running broker delivers at most, with what it has not yet written to delayOffset.json."""
UNSET_MS, UNSET_KILLED_MS = 2_000, 20_000
"""How long a level of a broker that was stopped, or killed, is in use at most before the file has it."""


def check_delay_offsets(
    store: Store, configs: Configs, known: Known, *, has_broker: bool
) -> Iterator[Finding]:
    """Levels of delayOffset.json against the queues. `has_broker`: a broker keeps the file here if it has
    anything to keep."""
    file = configs.files.get(DELAYS, f"config/{DELAYS}")
    levels = parse_delay_levels(store.delay_levels)
    offsets = configs.views.get(DELAYS, {})
    for level, offset in offsets.items():
        where = Where(file, topic=SCHEDULE_TOPIC, queue_id=delay_queue_id(level), queue_offset=offset)
        found: Facts = {"level": level, "offset": offset}
        if level not in levels:
            yield Finding(RuleName.DELAY_LEVEL_UNKNOWN, where, found, {"level_count": len(levels)})
            continue
        bounds = bounds_of(SCHEDULE_TOPIC, delay_queue_id(level), known)
        if bounds is None:
            continue
        if offset > bounds.high or offset < 0:
            yield Finding(RuleName.DELAY_OFFSET_RANGE, where, found, {"max_offset": bounds.high})
        elif offset < bounds.low:
            yield Finding(RuleName.DELAYED_EXPIRED, where, found, {"min_offset": bounds.low})
    if has_broker:
        yield from _check_delivered(store, file, offsets, known, levels)


def _check_delivered(
    store: Store, file: str, offsets: Mapping[int, int], known: Known, levels: Mapping[int, int]
) -> Iterator[Finding]:
    """Levels whose offset, or whose lack of one, delivers again what was delivered."""
    last = known.max_store_timestamp
    unset = UNSET_MS if store.abort is None else UNSET_KILLED_MS
    queues = {queue.queue_id: queue for queue in store.queues if queue.topic == SCHEDULE_TOPIC}
    for level in sorted(levels):
        queue_id = delay_queue_id(level)
        queue, bounds = queues.get(queue_id), bounds_of(SCHEDULE_TOPIC, queue_id, known)
        if queue is None or queue.kind != "file" or bounds is None or last is None:
            continue
        begin = max(offsets.get(level, bounds.low), bounds.low)
        lateness = LATEST_MS if level in offsets else unset
        end = first_due_after(queue, begin, bounds.high, last - lateness)
        if end > begin:
            where = Where(file, topic=SCHEDULE_TOPIC, queue_id=queue_id, queue_offset=begin)
            found: Facts = {"level": level, "offset": begin, "again_count": end - begin}
            rule = RuleName.DELAY_OFFSET_LATE if level in offsets else RuleName.DELAY_OFFSET_GONE
            yield Finding(rule, where, found, {"offset": end})


def first_due_after(queue: ConsumeQueue, low: int, high: int, timestamp: int) -> int:
    """The first queue offset in `low:high` whose message is due after a time (ms), `high` without one.

    Raises StoreError for a queue that cannot be read.
    """
    with UnitReader(queue) as reader:
        while low < high:
            middle = (low + high) // 2
            if 0 < int(reader.units(middle, 1)["tagsCode"][0]) <= timestamp:
                low = middle + 1
            else:
                high = middle
    return low
