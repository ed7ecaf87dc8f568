"""What `info --stats` adds, as text; the tables are those of `count`, too.

The text of `rocketfsck count`: a table for each thing that was counted by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rocketfsck.cli.show.text import Palette, aligned, byte_size, count_of, shorten, timestamp, visible
from rocketfsck.common.documents import members

if TYPE_CHECKING:
    from rocketfsck.pipeline.statistics import ClusterStatistics, KeyStatistics
    from rocketfsck.query.info.statistics import Chains, RetentionInfo, SkewInfo, StatisticsInfo


SHOWN = 20
NAME_SHOWN = 60
TEXT = ("topic", "day", "broker")
"""Columns that are not numbers."""


def statistics_lines(facts: StatisticsInfo, palette: Palette, *, everything: bool) -> Iterator[str]:
    """The facts as text. `everything` shows all rows of every table, else the first of many."""
    total = facts.total
    yield ""
    if total is None:
        yield palette.bold("Messages: none")
    else:
        yield palette.bold(
            f"Messages: {count_of(total.message_count, 'record')}, {byte_size(total.byte_count)}, "
            f"stored {timestamp(total.first_timestamp)} to {timestamp(total.last_timestamp)}"
        )
        for title, names, items in (
            ("by topic", ("topic",), facts.topics),
            ("by queue", ("topic", "queue_id", "min_offset", "max_offset"), facts.queues),
            ("by day (UTC)", ("day",), facts.days),
        ):
            yield from tally_table(title, names, [dict(members(item)) for item in items], everything)
    if facts.uncounted_queues:
        yield (
            f"  {count_of(facts.uncounted_queues, 'record belongs', 'records belong')} to queues "
            "beyond those counted"
        )
    yield from _retention_lines(facts.retention)
    for index in facts.indexes:
        yield from _skew_lines(index, palette)


def tally_table(
    title: str, names: Sequence[str], rows: Sequence[Mapping[str, Any]], everything: bool
) -> Iterator[str]:
    """Tallies as a table, the columns `names` in front; the first of many unless `everything` is wanted."""
    shown = rows if everything else rows[:SHOWN]
    head = [name.replace("_", " ") for name in names]
    table = [[*head, "messages", "bytes", "first stored", "last stored"]]
    for row in shown:
        cells = [shorten(visible(_text(row[name])), NAME_SHOWN) for name in names]
        times = [timestamp(row["first_timestamp"]), timestamp(row["last_timestamp"])]
        table.append([*cells, f"{row['message_count']:,}", f"{row['byte_count']:,}", *times])
    yield f"  {title}"
    numbers = [at for at, name in enumerate(names) if name not in TEXT]
    right = (*numbers, len(names), len(names) + 1)
    yield from (f"    {line}" for line in aligned(table, right=right))
    if len(shown) < len(rows):
        yield f"    … {len(rows) - len(shown):,} more (-v shows all)"


def _text(value: object) -> str:
    return "without a date" if value is None else str(value)


def _retention_lines(retention: RetentionInfo) -> Iterator[str]:
    count = retention.expired_file_count
    yield (
        f"  retention: {retention.reserved_hours} hours ({retention.reserved_source}); "
        f"{count_of(count, 'commit log file')} ({byte_size(retention.expired_byte_count)}) "
        f"{'is' if count == 1 else 'are'} older"
    )


def _skew_lines(index: SkewInfo, palette: Palette) -> Iterator[str]:
    yield ""
    yield palette.bold(f"Chains of {visible(index.file)}")
    skew = index.skew
    if skew is None:
        yield f"  {visible(index.error or '', keep_backslash=True)}"
        return
    slots = f"{skew.used_slot_count:,} of {skew.slot_count:,} slots"
    even = f"{skew.expected_used_slot_count:,} if the keys were spread evenly"
    yield f"  {count_of(skew.entry_count, 'entry', 'entries')} in {slots}; {even}"
    rows = [[_range(item), count_of(item.slot_count, "slot")] for item in skew.chain_lengths]
    yield from (f"    {line}" for line in aligned(rows, right=(1,)))
    hot = skew.hot_key
    if hot is not None:
        name = "no record has a key with this hash"
        if hot.key is not None and hot.topic is not None:
            name = f"the key {visible(hot.key)} of {visible(hot.topic)}"
        yield (
            f"  longest: {count_of(skew.longest_chain, 'entry', 'entries')}, "
            f"slot {skew.longest_chain_slot}; "
            f"{hot.entry_count:,} of them have the hash {hot.key_hash} ({name})"
        )


def _range(item: Chains) -> str:
    low, high = item.from_, item.to
    return count_of(low, "entry", "entries") if low == high else f"{low:,} to {high:,} entries"


TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "broker": ("by broker", ("broker",)),
    "topic": ("by topic", ("topic", "broker_count")),
    "queue": ("by queue", ("broker", "topic", "queue_id", "min_offset", "max_offset")),
    "day": ("by day (UTC)", ("day",)),
    "topic-day": ("by topic and day (UTC)", ("topic", "day")),
}


def count_lines(
    statistics: ClusterStatistics, wanted: Collection[str], palette: Palette, *, everything: bool
) -> Iterator[str]:
    """The tables that are `wanted`. `everything` shows all rows of each, else the first of many."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in count_rows(statistics):
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


def count_rows(statistics: ClusterStatistics) -> Iterator[dict[str, Any]]:
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
