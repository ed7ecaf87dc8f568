"""What `info --stats` adds, as text; the tables are those of `report`, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rocketfsck.cli.show.table import aligned
from rocketfsck.cli.show.text import Palette, byte_size, count_of, shorten, timestamp, visible
from rocketfsck.common.documents import members

if TYPE_CHECKING:
    from rocketfsck.query.counts.skew import Chains
    from rocketfsck.query.info.statistics import RetentionInfo, SkewInfo, StatisticsInfo

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
