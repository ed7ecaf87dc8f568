"""What `info --stats` adds: the messages of a store counted, and how the index's keys are spread."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rocketfsck.cli.show.table import aligned
from rocketfsck.cli.show.text import Palette, byte_size, count_of, shorten, timestamp, visible
from rocketfsck.errors import StoreError
from rocketfsck.query.counts.counting import Tally
from rocketfsck.query.counts.skew import IndexSkew, measure_skew
from rocketfsck.query.counts.statistics import LogStatistics, count_log
from rocketfsck.store import Store

SHOWN = 20
NAME_SHOWN = 60
TEXT = ("topic", "day", "broker")
"""Columns that are not numbers."""

Facts = Mapping[str, Any]


def statistics_facts(store: Store, *, now_timestamp: int | None = None) -> dict[str, Any]:
    """The counted facts as plain data. `now_timestamp` (ms) is what retention is judged by; default: now."""
    log = count_log(store)
    now = int(time.time() * 1000) if now_timestamp is None else now_timestamp
    return {
        "total": None if log.total is None else tally_facts(log.total),
        "topics": [{"topic": topic, **tally_facts(tally)} for topic, tally in log.topics.items()],
        "queues": [
            {
                "topic": queue.topic,
                "queue_id": queue.queue_id,
                "min_offset": queue.min_offset,
                "max_offset": queue.max_offset,
                **tally_facts(queue.tally),
            }
            for queue in log.queues
        ],
        "days": [{"day": day or None, **tally_facts(tally)} for day, tally in log.days],
        "uncounted_queues": log.uncounted_queues,
        "retention": _retention(log, now),
        "indexes": [_skew(store, number) for number in range(len(store.indexes))],
    }


def tally_facts(tally: Tally) -> dict[str, int]:
    """A tally as plain data."""
    return {
        "message_count": tally.message_count,
        "byte_count": tally.byte_count,
        "first_timestamp": tally.first_timestamp,
        "last_timestamp": tally.last_timestamp,
    }


def _retention(log: LogStatistics, now: int) -> dict[str, Any]:
    expired = log.expired_files(now)
    return {
        "reserved_hours": log.reserved_hours,
        "reserved_source": "given" if log.reserved_known else "default",
        "now_timestamp": now,
        "expired_file_count": len(expired),
        "expired_byte_count": sum(file.size for file in expired),
    }


def _skew(store: Store, number: int) -> dict[str, Any]:

    file = store.indexes[number]
    try:
        return _skew_facts(measure_skew(store, file))
    except StoreError as error:
        return {"file": file.relative, "error": str(error)}


def _skew_facts(skew: IndexSkew) -> dict[str, Any]:
    hot = skew.hot
    return {
        "file": skew.file,
        "slot_count": skew.slot_count,
        "entry_count": skew.entry_count,
        "used_slot_count": skew.used_slot_count,
        "expected_used_slot_count": skew.expected_used,
        "longest_chain": skew.longest,
        "longest_chain_slot": skew.longest_slot,
        "chain_lengths": [
            {"from": low, "to": high, "slot_count": count} for low, high, count in skew.lengths
        ],
        "hot_key": hot
        and {
            "key_hash": hot.key_hash,
            "entry_count": hot.entry_count,
            "topic": hot.topic,
            "key": hot.key,
        },
    }


def statistics_lines(facts: Facts, palette: Palette, *, everything: bool) -> Iterator[str]:
    """The facts as text. `everything` shows all rows of every table, else the first of many."""
    total = facts["total"]
    yield ""
    if total is None:
        yield palette.bold("Messages: none")
    else:
        yield palette.bold(
            f"Messages: {count_of(total['message_count'], 'record')}, {byte_size(total['byte_count'])}, "
            f"stored {timestamp(total['first_timestamp'])} to {timestamp(total['last_timestamp'])}"
        )
        yield from tally_table("by topic", ("topic",), facts["topics"], everything)
        yield from tally_table(
            "by queue", ("topic", "queue_id", "min_offset", "max_offset"), facts["queues"], everything
        )
        yield from tally_table("by day (UTC)", ("day",), facts["days"], everything)
    if facts["uncounted_queues"]:
        yield (
            f"  {count_of(facts['uncounted_queues'], 'record belongs', 'records belong')} to queues "
            "beyond those counted"
        )
    yield from _retention_lines(facts["retention"])
    for index in facts["indexes"]:
        yield from _skew_lines(index, palette)


def tally_table(title: str, names: Sequence[str], rows: Sequence[Facts], everything: bool) -> Iterator[str]:
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


def _retention_lines(retention: Facts) -> Iterator[str]:
    count = retention["expired_file_count"]
    yield (
        f"  retention: {retention['reserved_hours']} hours ({retention['reserved_source']}); "
        f"{count_of(count, 'commit log file')} ({byte_size(retention['expired_byte_count'])}) "
        f"{'is' if count == 1 else 'are'} older"
    )


def _skew_lines(index: Facts, palette: Palette) -> Iterator[str]:
    yield ""
    yield palette.bold(f"Chains of {visible(index['file'])}")
    if "error" in index:
        yield f"  {visible(index['error'], keep_backslash=True)}"
        return
    slots = f"{index['used_slot_count']:,} of {index['slot_count']:,} slots"
    even = f"{index['expected_used_slot_count']:,} if the keys were spread evenly"
    yield f"  {count_of(index['entry_count'], 'entry', 'entries')} in {slots}; {even}"
    rows = [[_range(item), count_of(item["slot_count"], "slot")] for item in index["chain_lengths"]]
    yield from (f"    {line}" for line in aligned(rows, right=(1,)))
    hot = index["hot_key"]
    if hot is not None:
        known = hot["key"] is not None
        name = (
            f"the key {visible(hot['key'])} of {visible(hot['topic'])}"
            if known
            else "no record has a key with this hash"
        )
        yield (
            f"  longest: {count_of(index['longest_chain'], 'entry', 'entries')}, "
            f"slot {index['longest_chain_slot']}; "
            f"{hot['entry_count']:,} of them have the hash {hot['key_hash']} ({name})"
        )


def _range(item: Facts) -> str:
    low, high = item["from"], item["to"]
    return count_of(low, "entry", "entries") if low == high else f"{low:,} to {high:,} entries"
