"""The text of `rocketfsck report`: a table for each thing that was counted by."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from rocketfsck.cli.show.infostats import NAME_SHOWN, SHOWN, tally_table
from rocketfsck.cli.show.table import aligned
from rocketfsck.cli.show.text import Palette, byte_size, count_of, shorten, timestamp, visible
from rocketfsck.common.documents import members

if TYPE_CHECKING:
    from rocketfsck.pipeline.statistics import ClusterStatistics, KeyStatistics

TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "broker": ("by broker", ("broker",)),
    "topic": ("by topic", ("topic", "broker_count")),
    "queue": ("by queue", ("broker", "topic", "queue_id", "min_offset", "max_offset")),
    "day": ("by day (UTC)", ("day",)),
    "topic-day": ("by topic and day (UTC)", ("topic", "day")),
}


def report_lines(
    statistics: ClusterStatistics, wanted: Collection[str], palette: Palette, *, everything: bool
) -> Iterator[str]:
    """The tables that are `wanted`. `everything` shows all rows of each, else the first of many."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in report_rows(statistics):
        found.setdefault(row["by"], []).append(row)
    total = statistics.total
    if "total" in wanted:
        stores = count_of(len(statistics.brokers), "store")
        if total is None:
            yield palette.bold(f"Messages of {stores}: none")
        else:
            yield palette.bold(
                f"Messages of {stores}: {count_of(total.message_count, 'record')}, "
                f"{byte_size(total.byte_count)}, "
                f"stored {timestamp(total.first_timestamp)} to {timestamp(total.last_timestamp)}"
            )
    for name, (title, columns) in TABLES.items():
        if name in wanted and name in found:
            yield from tally_table(title, columns, found[name], everything)
    for log in (log for _, log in statistics.brokers):
        if log.uncounted_queues:
            yield (
                f"  {count_of(log.uncounted_queues, 'record belongs', 'records belong')} to queues beyond "
                "those counted"
            )
        if log.uncounted_days:
            yield (
                f"  {count_of(log.uncounted_days, 'record belongs', 'records belong')} to topics and days "
                "beyond those counted"
            )
    if "key" in wanted and statistics.keys is not None:
        yield from _key_lines(statistics.keys, everything)


def _key_lines(keys: KeyStatistics, everything: bool) -> Iterator[str]:
    yield "  by key (words of KEYS)"
    shown = keys.top if everything else keys.top[:SHOWN]
    table = [["topic", "key", "messages"]]
    for item in shown:
        names = [shorten(visible(name), NAME_SHOWN) for name in (item.topic, item.key)]
        table.append([*names, f"{item.count:,}"])
    yield from (f"    {line}" for line in aligned(table, right=(2,)))
    if len(shown) < len(keys.top):
        yield f"    … {len(keys.top) - len(shown):,} more (-v shows all)"
    yield (
        f"    {count_of(keys.word_count, 'word')}, about {keys.distinct_words:,} different; about "
        f"{keys.distinct_unique:,} different unique keys"
    )
    if not keys.is_complete:
        yield f"    other words may have up to {count_of(keys.missed, 'message')} each"


def report_rows(statistics: ClusterStatistics) -> Iterator[dict[str, Any]]:
    """All counts, a row each; `by` names the table."""
    if statistics.total is not None:
        yield {"by": "total", **dict(members(statistics.total)), "broker_count": len(statistics.brokers)}
    for broker, log in statistics.brokers:
        if log.total is not None:
            yield {"by": "broker", "broker": broker, **dict(members(log.total))}
    for topic in statistics.topics:
        counts = dict(members(topic.tally))
        yield {"by": "topic", "topic": topic.topic, **counts, "broker_count": topic.broker_count}
    for broker, log in statistics.brokers:
        for queue in log.queues:
            yield {"by": "queue", "broker": broker, **dict(members(queue))}
    for day, tally in statistics.days:
        yield {"by": "day", "day": day or None, **dict(members(tally))}
    for name, day, tally in statistics.topic_days:
        yield {"by": "topic-day", "topic": name, "day": day or None, **dict(members(tally))}
    for key in statistics.keys.top if statistics.keys is not None else ():
        yield {"by": "key", "topic": key.topic, "key": key.key, "message_count": key.count}
