"""What `info` says, as text.

What `info --stats` adds, as text; the tables are those of `count`, too.

The text of `rocketfsck count`: a table for each thing that was counted by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rocketfsck.cli.show import text as say
from rocketfsck.common.documents import members
from rocketfsck.query.info import model

if TYPE_CHECKING:
    from rocketfsck.pipeline.statistics import ClusterStatistics, KeyStatistics
    from rocketfsck.query.counts import Tally
    from rocketfsck.query.info.statistics import Chains, RetentionInfo, SkewInfo, StatisticsInfo

STATS_SHOWN = 20
NAME_SHOWN = 60
TEXT = ("topic", "day", "broker")
"""Columns that are not numbers."""
Item = TypeVar("Item")


def statistics_lines(facts: StatisticsInfo, palette: say.Palette, *, everything: bool) -> Iterator[str]:
    """The facts as text. `everything` shows all rows of every table, else the first of many."""
    yield from ("", palette.bold(f"Messages: {_total(facts.total)}"))
    if facts.total is not None:
        for title, names, items in (
            ("by topic", ("topic",), facts.topics),
            ("by queue", ("topic", "queue_id", "min_offset", "max_offset"), facts.queues),
            ("by day (UTC)", ("day",), facts.days),
        ):
            yield from tally_table(title, names, [dict(members(item)) for item in items], everything)
    yield from _uncounted(facts.uncounted_queues, "to queues beyond those counted")
    yield from _retention_lines(facts.retention)
    for index in facts.indexes:
        yield from _skew_lines(index, palette)


def _total(total: Tally | None) -> str:
    """All messages, in words."""
    if total is None:
        return "none"
    times = f"{say.timestamp(total.first_timestamp)} to {say.timestamp(total.last_timestamp)}"
    return f"{say.count_of(total.message_count, 'record')}, {say.byte_size(total.byte_count)}, stored {times}"


def _uncounted(count: int, what: str) -> Iterator[str]:
    if count:
        yield f"  {say.count_of(count, 'record belongs', 'records belong')} {what}"


def tally_table(
    title: str, names: Sequence[str], rows: Sequence[Mapping[str, Any]], everything: bool
) -> Iterator[str]:
    """Tallies as a table, the columns `names` in front; the first of many unless `everything` is wanted."""
    shown, more = _first(rows, everything)
    head = [name.replace("_", " ") for name in names]
    table = [[*head, "messages", "bytes", "first stored", "last stored"]]
    for row in shown:
        cells = [say.shorten(say.visible(_text(row[name])), NAME_SHOWN) for name in names]
        times = [say.timestamp(row["first_timestamp"]), say.timestamp(row["last_timestamp"])]
        table.append([*cells, f"{row['message_count']:,}", f"{row['byte_count']:,}", *times])
    yield f"  {title}"
    numbers = [at for at, name in enumerate(names) if name not in TEXT]
    right = (*numbers, len(names), len(names) + 1)
    yield from (f"    {line}" for line in say.aligned(table, right=right))
    yield from more


def _first(rows: Sequence[Item], everything: bool) -> tuple[Sequence[Item], list[str]]:
    """The rows to show, all or the first of many, and what is said of the others."""
    left = 0 if everything else max(len(rows) - STATS_SHOWN, 0)
    return rows[: len(rows) - left], [f"    … {left:,} more (-v shows all)"] if left else []


def _text(value: object) -> str:
    return "without a date" if value is None else str(value)


def _retention_lines(retention: RetentionInfo) -> Iterator[str]:
    count = retention.expired_file_count
    yield (
        f"  retention: {retention.reserved_hours} hours ({retention.reserved_source}); "
        f"{say.count_of(count, 'commit log file')} ({say.byte_size(retention.expired_byte_count)}) "
        f"{'is' if count == 1 else 'are'} older"
    )


def _skew_lines(index: SkewInfo, palette: say.Palette) -> Iterator[str]:
    yield from ("", palette.bold(f"Chains of {say.visible(index.file)}"))
    skew = index.skew
    if skew is None:
        yield f"  {say.sentence(index.error or '')}"
        return
    slots = f"{skew.used_slot_count:,} of {skew.slot_count:,} slots"
    even = f"{skew.expected_used_slot_count:,} if the keys were spread evenly"
    yield f"  {say.count_of(skew.entry_count, 'entry')} in {slots}; {even}"
    rows = [[_range(item), say.count_of(item.slot_count, "slot")] for item in skew.chain_lengths]
    yield from (f"    {line}" for line in say.aligned(rows, right=(1,)))
    hot = skew.hot_key
    if hot is not None:
        name = "no record has a key with this hash"
        if hot.key is not None and hot.topic is not None:
            name = f"the key {say.visible(hot.key)} of {say.visible(hot.topic)}"
        longest = f"{say.count_of(skew.longest_chain, 'entry')}, slot {skew.longest_chain_slot}"
        yield f"  longest: {longest}; {hot.entry_count:,} of them have the hash {hot.key_hash} ({name})"


def _range(item: Chains) -> str:
    low, high = item.from_, item.to
    return say.count_of(low, "entry") if low == high else f"{low:,} to {high:,} entries"


TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "broker": ("by broker", ("broker",)),
    "topic": ("by topic", ("topic", "broker_count")),
    "queue": ("by queue", ("broker", "topic", "queue_id", "min_offset", "max_offset")),
    "day": ("by day (UTC)", ("day",)),
    "topic-day": ("by topic and day (UTC)", ("topic", "day")),
}


def count_lines(
    statistics: ClusterStatistics, wanted: Collection[str], palette: say.Palette, *, everything: bool
) -> Iterator[str]:
    """The tables that are `wanted`. `everything` shows all rows of each, else the first of many."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in count_rows(statistics):
        found.setdefault(row["by"], []).append(row)
    if "total" in wanted:
        stores = say.count_of(len(statistics.brokers), "store")
        yield palette.bold(f"Messages of {stores}: {_total(statistics.total)}")
    for name, (title, columns) in TABLES.items():
        if name in wanted and name in found:
            yield from tally_table(title, columns, found[name], everything)
    for log in (log for _, log in statistics.brokers):
        yield from _uncounted(log.uncounted_queues, "to queues beyond those counted")
        yield from _uncounted(log.uncounted_days, "to topics and days beyond those counted")
    if "key" in wanted and statistics.keys is not None:
        yield from _key_lines(statistics.keys, everything)


def _key_lines(keys: KeyStatistics, everything: bool) -> Iterator[str]:
    yield "  by key (words of KEYS)"
    shown, more = _first(keys.top, everything)
    table = [["topic", "key", "messages"]]
    for item in shown:
        names = [say.shorten(say.visible(name), NAME_SHOWN) for name in (item.topic, item.key)]
        table.append([*names, f"{item.count:,}"])
    yield from (f"    {line}" for line in say.aligned(table, right=(2,)))
    yield from more
    words = f"{say.count_of(keys.word_count, 'word')}, about {keys.distinct_words:,} different"
    yield f"    {words}; about {keys.distinct_unique:,} different unique keys"
    if not keys.is_complete:
        yield f"    other words may have up to {say.count_of(keys.missed, 'message')} each"


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


SHOWN = 12


def store_lines(
    facts: model.StoreInfo, palette: say.Palette, *, columns: int, everything: bool
) -> Iterator[str]:
    """A store. `everything` shows every file and queue, else the first and the last of many."""
    yield palette.bold(f"Store {say.visible(facts.root)}")
    yield from _written_by(facts.written_by, palette, columns)
    for note in facts.notes:
        yield from say.wrapped(say.sentence(f"{note.what}: {note.why}"), columns, "  ")
    yield from _state(facts, palette, columns)
    yield from _commitlog(facts.commitlog, palette, everything)
    yield from _queues(facts.queues, palette, everything)
    yield from _indexes(facts.indexes, facts.geometry, palette, everything)
    yield from _small(facts, palette)
    yield from _geometry(facts.geometry, palette, columns)


def _written_by(written: model.WrittenByInfo, palette: say.Palette, columns: int) -> Iterator[str]:
    versions = written.versions
    if written.given:
        line = f"written by: RocketMQ {written.dialect} (given by the user)"
    elif len(versions) > 1:
        line = f"written by: RocketMQ {versions[0]} to {versions[-1]}, read as {written.dialect}"
    else:
        line = f"written by: RocketMQ {written.dialect}"
    if written.conflict:
        line += palette.warning(" (no known version fits all signs)")
    yield f"  {line}"
    for item in written.known_from:
        said = say.wrapped(say.sentence(f"- {item.what}: {item.why}"), columns, "    ")
        yield from map(palette.dim, said)


def _state(facts: model.StoreInfo, palette: say.Palette, columns: int) -> Iterator[str]:
    live = facts.live
    text = f"broker: {live.state} ({say.sentence(live.how)})"
    if live.command:
        text += f": {say.visible(live.command)}"
    held = live.state == "held"
    yield from (palette.warning(line) if held else line for line in say.wrapped(text, columns, "  "))
    abort = facts.abort
    if abort.present:
        pid = "" if abort.pid is None else f" by process {abort.pid}"
        why = "in use" if held else "the last stop was not clean"
        yield palette.warning(f"  abort: present, left{pid}: {why}")
    else:
        yield "  abort: absent, the last stop was clean"
    yield from _group(facts, palette, columns)
    checkpoint = facts.checkpoint
    if checkpoint is None:
        yield palette.warning("  checkpoint: absent")
    elif checkpoint.error is not None:
        yield palette.error(f"  checkpoint: {say.sentence(checkpoint.error)}")
    else:
        rows = [
            (name, str(value), say.timestamp(value) if value and name.endswith("timestamp") else "")
            for name, value in members(checkpoint)
        ]
        yield "  checkpoint"
        yield from (f"    {line}" for line in say.aligned(rows, right=(1,)))


def _group(facts: model.StoreInfo, palette: say.Palette, columns: int) -> Iterator[str]:
    """Who the broker takes itself for in controller mode, and what its node of DLedger's knows."""
    for name, found, words in (
        ("identity", facts.identity, _identity(facts.identity)),
        ("dledger", facts.dledger, _node(facts.dledger)),
    ):
        if found is not None and found.error is not None:
            text = f"{name}: {say.sentence(found.error)}"
            yield from (palette.error(line) for line in say.wrapped(text, columns, "  "))
        elif found is not None:
            yield from say.wrapped(f"{name}: {words}", columns, "  ")


def _identity(found: model.IdentityInfo | None) -> str:
    if found is None or found.broker_name is None or found.cluster is None:
        return ""
    name, cluster = say.visible(found.broker_name), say.visible(found.cluster)
    return f"broker {name}, id {found.broker_id}, cluster {cluster} ({say.visible(found.file)})"


def _node(info: model.NodeInfo | None) -> str:
    if info is None or (found := info.state) is None:
        return ""
    group = "a group that only broker.conf names" if found.group is None else say.visible(found.group)
    term = "unknown" if found.current_term is None else found.current_term
    vote = "nobody" if found.voted_for is None else say.visible(found.voted_for)
    agreed = found.committed_index
    until = "no recorded group agreement" if agreed is None else f"group agreement up to entry {agreed}"
    return f"node {say.visible(found.node)} of {group}; term {term}, voted for {vote}; {until}"


def _some(items: Sequence[Item], everything: bool) -> tuple[Sequence[Item | None], int]:
    """The items to show and how many are left out between the first and the last ones."""
    if everything or len(items) <= SHOWN:
        return items, 0
    return [*items[: SHOWN - 3], None, *items[-2:]], len(items) - SHOWN + 1


def _table(rows: Iterator[list[str]], left_out: int, right: Sequence[int]) -> Iterator[str]:
    for line in say.aligned(rows, right=right):
        yield f"  {line}" if line else f"  … {left_out:,} more (-v shows all)"


def _error_or(facts: model.LogFileInfo | model.QueueInfo, cells: list[str]) -> list[str]:
    return cells if facts.error is None else [*cells, say.sentence(facts.error)]


def _commitlog(log: model.LogInfo, palette: say.Palette, everything: bool) -> Iterator[str]:
    files = log.files
    size = sum(file.size for file in files)
    yield ""
    title = f"Commit log: {say.count_of(len(files), 'file')}, {say.byte_size(size)}"
    if files:
        title += f", physical offsets {log.start_offset} to {log.end_offset}"
    yield palette.bold(title)
    if log.dispatched_end_offset:
        yield f"  the consume queues cover the log up to physical offset {log.dispatched_end_offset}"
    for directory in log.directories if len(log.directories) > 1 else ():
        yield f"  directory {say.visible(directory)}"
    shown, left_out = _some(files, everything)

    def rows() -> Iterator[list[str]]:
        if files:
            yield ["file", "bytes", "first record stored", "on disk"][: 4 if everything else 3]
        for file in shown:
            if file is None:
                yield []
                continue
            first = file.first_store_timestamp
            when = "no record" if first is None else say.timestamp(first)
            cells = [say.visible(file.file), str(file.size), when]
            cells += [say.byte_size(file.allocated_size)] if everything else []
            yield _error_or(file, cells)

    yield from _table(rows(), left_out, (1, 3))


def _queues(queues: Sequence[model.QueueInfo], palette: say.Palette, everything: bool) -> Iterator[str]:
    topics = len({queue.topic for queue in queues})
    size = sum(queue.files.byte_count for queue in queues)
    of_topics = f"{say.count_of(len(queues), 'queue')} of {say.count_of(topics, 'topic')}"
    yield from ("", palette.bold(f"Consume queues: {of_topics}, {say.byte_size(size)}"))
    shown, left_out = _some(queues, everything)

    def rows() -> Iterator[list[str]]:
        if queues:
            yield ["topic", "queue_id", "kind", "min", "max", "files"]
        for queue in shown:
            if queue is None:
                yield []
                continue
            cells = [
                say.shorten(say.visible(queue.topic), NAME_SHOWN),
                str(queue.queue_id),
                queue.kind,
                _number(queue.min_offset),
                _number(queue.max_offset),
                str(queue.files.file_count),
            ]
            yield _error_or(queue, cells)

    yield from _table(rows(), left_out, (1, 3, 4, 5))


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)


def _indexes(
    indexes: Sequence[model.IndexFileInfo],
    geometry: Mapping[str, model.SizeInfo],
    palette: say.Palette,
    everything: bool,
) -> Iterator[str]:
    size = sum(index.size for index in indexes)
    yield ""
    slots, entries = geometry["slot_count"].value, geometry["entry_count"].value
    shape = f", each with {slots:,} slots and {entries:,} entries" if indexes else ""
    yield palette.bold(f"Index: {say.count_of(len(indexes), 'file')}, {say.byte_size(size)}{shape}")
    shown, left_out = _some(indexes, everything)

    def rows() -> Iterator[list[str]]:
        if indexes:
            yield ["file", "entries", "begin", "end", "physical offsets"]
        for index in shown:
            if index is None:
                yield []
            elif (header := index.header) is None:
                yield [say.visible(index.file), say.sentence(index.error or "")]
            else:
                yield [
                    say.visible(index.file),
                    str(index.used_entry_count),
                    say.timestamp(header.begin_timestamp),
                    say.timestamp(header.end_timestamp),
                    f"{header.begin_physical_offset} to {header.end_physical_offset}",
                ]

    yield from _table(rows(), left_out, (1,))


def _small(facts: model.StoreInfo, palette: say.Palette) -> Iterator[str]:
    rows = [("config", say.visible(file.file), file.size) for file in facts.configs]
    for ext in facts.ext_queues:
        name = f"extension of {say.shorten(say.visible(ext.topic), NAME_SHOWN)}/{ext.queue_id}"
        rows.append((name, "without a consume queue" if ext.orphan else "", ext.files.byte_count))
    rows += [
        (say.visible(other.kind), say.visible(other.file), other.files.byte_count) for other in facts.others
    ]
    files = [(*names, say.byte_size(size)) for *names, size in rows]
    databases = [_families(other, other.rows) for other in facts.others if other.rows is not None]
    strays = [
        (say.visible(stray.file), stray.reason, say.byte_size(stray.size), say.sentence(stray.detail))
        for stray in facts.strays
    ]
    astray = palette.warning("Strays: no broker reads these files in their places")
    for title, table in (("Other files", files), ("Rows of the databases", databases), (astray, strays)):
        right = () if table is databases else (2,)
        lines = (f"  {line}" for line in say.aligned(table, right=right))
        yield from say.section(palette.bold(title), lines)


def _families(database: model.OtherInfo, rows: model.FamiliesInfo) -> tuple[str, str]:
    """A database: how many rows its families have."""
    if rows.families is None:
        return say.visible(database.file), say.sentence(database.error or "")
    about = "about " if rows.estimated else ""
    counts = (f"{say.visible(name)} {about}{count:,}" for name, count in rows.families.items())
    return say.visible(database.file), ", ".join(counts)


def _geometry(geometry: Mapping[str, model.SizeInfo], palette: say.Palette, columns: int) -> Iterator[str]:
    yield ""
    yield palette.bold("Geometry")
    rows = (
        (name, str(item.value), item.source, say.sentence(item.note or "")) for name, item in geometry.items()
    )
    yield from (f"  {say.shorten(line, columns)}" for line in say.aligned(rows, right=(1,)))


def file_lines(facts: model.FileInfo, palette: say.Palette) -> Iterator[str]:
    """A single file."""
    yield palette.bold(f"File {say.visible(facts.path)}")
    rows = [
        (name, f"{say.visible(str(value))}  {say.timestamp(value) if _is_time(name, value) else ''}")
        for name, value in members(facts)
        if name not in ("path", "allocated_size")
    ]
    yield from (f"  {line}" for line in say.aligned(rows))


def _is_time(name: str, value: Any) -> bool:
    return isinstance(value, int) and value > 0 and name.endswith("timestamp")
