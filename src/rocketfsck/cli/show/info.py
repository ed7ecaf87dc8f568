"""What `info` says, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from rocketfsck.cli.show.text import (
    Palette,
    aligned,
    byte_size,
    count_of,
    shorten,
    timestamp,
    visible,
    wrapped,
)
from rocketfsck.common.documents import members
from rocketfsck.query.info.model import (
    FamiliesInfo,
    FileInfo,
    IdentityInfo,
    IndexFileInfo,
    LogFileInfo,
    LogInfo,
    NodeInfo,
    OtherInfo,
    QueueInfo,
    SizeInfo,
    StoreInfo,
    WrittenByInfo,
)

SHOWN = 12
NAME_SHOWN = 60

Item = TypeVar("Item")


def store_lines(facts: StoreInfo, palette: Palette, *, columns: int, everything: bool) -> Iterator[str]:
    """A store. `everything` shows every file and queue, else the first and the last of many."""
    yield palette.bold(f"Store {visible(facts.root)}")
    yield from _written_by(facts.written_by, palette, columns)
    for note in facts.notes:
        yield from wrapped(_sentence(f"{note.what}: {note.why}"), columns, "  ")
    yield from _state(facts, palette, columns)
    yield from _commitlog(facts.commitlog, palette, everything)
    yield from _queues(facts.queues, palette, everything)
    yield from _indexes(facts.indexes, facts.geometry, palette, everything)
    yield from _small(facts, palette)
    yield from _geometry(facts.geometry, palette, columns)


def _sentence(text: str) -> str:
    return visible(text, keep_backslash=True)


def _written_by(written: WrittenByInfo, palette: Palette, columns: int) -> Iterator[str]:
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
        yield from (
            palette.dim(part) for part in wrapped(_sentence(f"- {item.what}: {item.why}"), columns, "    ")
        )


def _state(facts: StoreInfo, palette: Palette, columns: int) -> Iterator[str]:
    live = facts.live
    text = f"broker: {live.state} ({_sentence(live.how)})"
    if live.command:
        text += f": {visible(live.command)}"
    held = live.state == "held"
    yield from (palette.warning(line) if held else line for line in wrapped(text, columns, "  "))
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
        yield palette.error(f"  checkpoint: {_sentence(checkpoint.error)}")
    else:
        rows = [
            (name, str(value), timestamp(value) if value and name.endswith("timestamp") else "")
            for name, value in members(checkpoint)
        ]
        yield "  checkpoint"
        yield from (f"    {line}" for line in aligned(rows, right=(1,)))


def _group(facts: StoreInfo, palette: Palette, columns: int) -> Iterator[str]:
    """Who the broker takes itself for in controller mode, and what its node of DLedger's knows."""
    for name, found, words in (
        ("identity", facts.identity, _identity(facts.identity)),
        ("dledger", facts.dledger, _node(facts.dledger)),
    ):
        if found is not None and found.error is not None:
            text = f"{name}: {_sentence(found.error)}"
            yield from (palette.error(line) for line in wrapped(text, columns, "  "))
        elif found is not None:
            yield from wrapped(f"{name}: {words}", columns, "  ")


def _identity(found: IdentityInfo | None) -> str:
    if found is None or found.broker_name is None or found.cluster is None:
        return ""
    return (
        f"broker {visible(found.broker_name)}, id {found.broker_id}, cluster "
        f"{visible(found.cluster)} ({visible(found.file)})"
    )


def _node(info: NodeInfo | None) -> str:
    if info is None or (found := info.state) is None:
        return ""
    group = "a group that only broker.conf names" if found.group is None else visible(found.group)
    term = "unknown" if found.current_term is None else found.current_term
    vote = "nobody" if found.voted_for is None else visible(found.voted_for)
    agreed = found.committed_index
    until = "no recorded group agreement" if agreed is None else f"group agreement up to entry {agreed}"
    return f"node {visible(found.node)} of {group}; term {term}, voted for {vote}; {until}"


def _some(items: Sequence[Item], everything: bool) -> tuple[Sequence[Item | None], int]:
    """The items to show and how many are left out between the first and the last ones."""
    if everything or len(items) <= SHOWN:
        return items, 0
    return [*items[: SHOWN - 3], None, *items[-2:]], len(items) - SHOWN + 1


def _table(rows: Iterator[list[str]], left_out: int, right: Sequence[int]) -> Iterator[str]:
    for line in aligned(rows, right=right):
        yield f"  {line}" if line else f"  … {left_out:,} more (-v shows all)"


def _error_or(facts: LogFileInfo | QueueInfo, cells: list[str]) -> list[str]:
    return cells if facts.error is None else [*cells, _sentence(facts.error)]


def _commitlog(log: LogInfo, palette: Palette, everything: bool) -> Iterator[str]:
    files = log.files
    size = sum(file.size for file in files)
    yield ""
    title = f"Commit log: {count_of(len(files), 'file')}, {byte_size(size)}"
    if files:
        title += f", physical offsets {log.start_offset} to {log.end_offset}"
    yield palette.bold(title)
    if log.dispatched_end_offset:
        yield f"  the consume queues cover the log up to physical offset {log.dispatched_end_offset}"
    for directory in log.directories if len(log.directories) > 1 else ():
        yield f"  directory {visible(directory)}"
    shown, left_out = _some(files, everything)

    def rows() -> Iterator[list[str]]:
        if files:
            yield ["file", "bytes", "first record stored", "on disk"][: 4 if everything else 3]
        for file in shown:
            if file is None:
                yield []
                continue
            first = file.first_store_timestamp
            when = "no record" if first is None else timestamp(first)
            cells = [visible(file.file), str(file.size), when]
            cells += [byte_size(file.allocated_size)] if everything else []
            yield _error_or(file, cells)

    yield from _table(rows(), left_out, (1, 3))


def _queues(queues: Sequence[QueueInfo], palette: Palette, everything: bool) -> Iterator[str]:
    topics = len({queue.topic for queue in queues})
    size = sum(queue.files.byte_count for queue in queues)
    yield ""
    yield palette.bold(
        f"Consume queues: {count_of(len(queues), 'queue')} of {count_of(topics, 'topic')}, {byte_size(size)}"
    )
    shown, left_out = _some(queues, everything)

    def rows() -> Iterator[list[str]]:
        if queues:
            yield ["topic", "queue_id", "kind", "min", "max", "files"]
        for queue in shown:
            if queue is None:
                yield []
                continue
            cells = [
                shorten(visible(queue.topic), NAME_SHOWN),
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
    indexes: Sequence[IndexFileInfo], geometry: Mapping[str, SizeInfo], palette: Palette, everything: bool
) -> Iterator[str]:
    size = sum(index.size for index in indexes)
    yield ""
    slots, entries = geometry["slot_count"].value, geometry["entry_count"].value
    shape = f", each with {slots:,} slots and {entries:,} entries" if indexes else ""
    yield palette.bold(f"Index: {count_of(len(indexes), 'file')}, {byte_size(size)}{shape}")
    shown, left_out = _some(indexes, everything)

    def rows() -> Iterator[list[str]]:
        if indexes:
            yield ["file", "entries", "begin", "end", "physical offsets"]
        for index in shown:
            if index is None:
                yield []
            elif (header := index.header) is None:
                yield [visible(index.file), _sentence(index.error or "")]
            else:
                yield [
                    visible(index.file),
                    str(index.used_entry_count),
                    timestamp(header.begin_timestamp),
                    timestamp(header.end_timestamp),
                    f"{header.begin_physical_offset} to {header.end_physical_offset}",
                ]

    yield from _table(rows(), left_out, (1,))


def _small(facts: StoreInfo, palette: Palette) -> Iterator[str]:
    rows = [["config", visible(file.file), byte_size(file.size)] for file in facts.configs]
    rows += [
        [
            f"extension of {shorten(visible(ext.topic), NAME_SHOWN)}/{ext.queue_id}",
            "without a consume queue" if ext.orphan else "",
            byte_size(ext.files.byte_count),
        ]
        for ext in facts.ext_queues
    ]
    rows += [
        [visible(other.kind), visible(other.file), byte_size(other.files.byte_count)]
        for other in facts.others
    ]
    if rows:
        yield ""
        yield palette.bold("Other files")
        yield from (f"  {line}" for line in aligned(rows, right=(2,)))
    databases = [_families(other, other.rows) for other in facts.others if other.rows is not None]
    if databases:
        yield ""
        yield palette.bold("Rows of the databases")
        yield from (f"  {line}" for line in aligned(databases))
    if facts.strays:
        yield ""
        yield palette.bold(palette.warning("Strays: no broker reads these files in their places"))
        strays = (
            [visible(stray.file), stray.reason, byte_size(stray.size), _sentence(stray.detail)]
            for stray in facts.strays
        )
        yield from (f"  {line}" for line in aligned(strays, right=(2,)))


def _families(database: OtherInfo, rows: FamiliesInfo) -> list[str]:
    """A database: how many rows its families have."""
    if rows.families is None:
        return [visible(database.file), _sentence(database.error or "")]
    about = "about " if rows.estimated else ""
    counts = (f"{visible(name)} {about}{count:,}" for name, count in rows.families.items())
    return [visible(database.file), ", ".join(counts)]


def _geometry(geometry: Mapping[str, SizeInfo], palette: Palette, columns: int) -> Iterator[str]:
    yield ""
    yield palette.bold("Geometry")
    for line in aligned(
        ([name, str(item.value), item.source, _sentence(item.note or "")] for name, item in geometry.items()),
        right=(1,),
    ):
        yield f"  {shorten(line, columns)}"


def file_lines(facts: FileInfo, palette: Palette) -> Iterator[str]:
    """A single file."""
    yield palette.bold(f"File {visible(facts.path)}")
    rows = [
        (name, f"{visible(str(value))}  {timestamp(value) if _is_time(name, value) else ''}")
        for name, value in members(facts)
        if name not in ("path", "allocated_size")
    ]
    yield from (f"  {line}" for line in aligned(rows))


def _is_time(name: str, value: Any) -> bool:
    return isinstance(value, int) and value > 0 and name.endswith("timestamp")
