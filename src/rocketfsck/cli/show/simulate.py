"""A predicted start as text: what would happen in the order in which a broker does it, then what is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rocketfsck.cli.show.palette import Palette
from rocketfsck.cli.show.table import aligned, wrapped
from rocketfsck.cli.show.text import byte_size, count_of, shorten, timestamp, visible
from rocketfsck.query.start.model import FileChange, LostRange, QueueStart, Start, TimerStart

SHOWN = 12
NAME_SHOWN = 60

_STOPS = {
    "end": "the last file ends there",
    "blank": "the last file is full",
    "invalid": "no record that this broker accepts stands there",
    "half": "a record stands there whose lengths do not make its totalSize",
}


def headline(start: Start) -> str:
    """The prediction in one sentence."""
    broker = f"a {start.version} broker"
    if not start.loads:
        return f"{broker} does not start on this store"
    facts = list(_harms(start))
    before = "; ".join(_lost_before(start))
    if not facts:
        loses = f"and loses nothing more; {before}" if before else "and loses nothing"
        return f"{broker} starts on this store {loses}"
    return f"{broker} starts on this store; {'; '.join(facts)}{before and f'; {before}'}"


def _harms(start: Start) -> Iterator[str]:
    losses = start.losses
    if start.ignored:
        yield f"{count_of(len(start.ignored), 'file is', 'files are')} not seen by it"
    if start.queues_destroyed:
        yield "all consume queues are deleted"
    if losses.cut_record_count:
        yield f"{count_of(losses.cut_record_count, 'message is', 'messages are')} cut off the log"
    if losses.new_by_queue_count:
        yield f"{count_of(losses.new_by_queue_count, 'message is', 'messages are')} lost to consumers"
    if losses.new_by_key_count:
        yield f"{count_of(losses.new_by_key_count, 'message is', 'messages are')} lost to queries by key"
    shifted = sum(queue.shifted_count for queue in start.queues)
    if shifted:
        yield f"{count_of(shifted, 'unit is', 'units are')} put at a wrong queue offset"
    phantoms = sum(queue.phantom_count for queue in start.queues)
    if phantoms:
        yield f"zeros are taken for a message in {count_of(phantoms, 'queue')}"
    reissued = sum(queue.reissued_count for queue in start.queues)
    if reissued:
        yield f"{count_of(reissued, 'queue offset is', 'queue offsets are')} given out a second time"
    if start.index.blocked_until_offset is not None:
        yield "new messages are not indexed for now"
    if start.timers is not None:
        yield from _timer_harms(start.timers)
    if start.dispatch is not None and start.dispatch.skipped:
        count = len(start.dispatch.skipped)
        yield f"the dispatcher passes over {count_of(count, 'range')} of the log"


def _timer_harms(timers: TimerStart) -> Iterator[str]:
    if timers.lost_count:
        yield f"{count_of(timers.lost_count, 'timer message is', 'timer messages are')} never delivered"
    if timers.repeated_count:
        repeated = count_of(timers.repeated_count, "timer message is", "timer messages are")
        yield f"{repeated} delivered a second time"
    if timers.endless_slot_count:
        slots = count_of(timers.endless_slot_count, "timer slot leads", "timer slots lead")
        yield f"{slots} back into itself, which takes all memory"
    if timers.skipped_count:
        skipped = count_of(timers.skipped_count, "new timer message is", "new timer messages are")
        yield f"the next {skipped} not scheduled"


def _lost_before(start: Start) -> Iterator[str]:
    """What consumers cannot read, whether the broker starts or not."""
    losses = start.losses
    if losses.unreadable_count:
        holes = ", ".join(f"{item.start_offset} to {item.end_offset}" for item in losses.unreadable[:SHOWN])
        count = count_of(losses.unreadable_count, "message")
        yield f"{count} cannot be read: the commit log has no bytes at {holes}"
    standing = (losses.by_queue_count or 0) - (losses.new_by_queue_count or 0)
    if standing:
        yield f"{count_of(standing, 'message has', 'messages have')} no unit: consumers are never given them"


def start_lines(start: Start, palette: Palette, *, columns: int, everything: bool) -> Iterator[str]:
    """The whole prediction; `everything` leaves no file, queue or range out. Names go through `visible`."""
    title = headline(start)
    paint = palette.error if not start.loads else palette.warning if start.harmful else palette.good
    yield from (paint(line) for line in wrapped(title[0].upper() + title[1:] + ".", columns))
    for refusal in start.refusals:
        yield f"  {visible(refusal.file)}: {visible(refusal.reason, keep_backslash=True)}"
    yield ""
    yield from _log(start)
    yield from _files(start.files, everything)
    yield from _dispatch(start, everything)
    yield from _queues(start.queues, palette, everything)
    yield from _index(start, everything)
    if start.timers is not None:
        yield from _timers(start.timers, everything)
    yield from _losses(start, everything)
    for note in start.notes:
        yield from wrapped(f"Note: {visible(note, keep_backslash=True)}.", columns)


def _log(start: Start) -> Iterator[str]:
    yield f"Recovery      {start.recovery}"
    for ignored in start.ignored:
        yield f"Not seen      {visible(ignored.file)}: {visible(ignored.why)}"
    scan = start.scan
    if scan is None:
        return
    yield (
        f"Scan          from {scan.start_offset} ({visible(scan.first_file)}): "
        f"{count_of(scan.file_count, 'file')}, {byte_size(scan.read_size)}"
    )
    yield f"Cut           at {start.cut_offset}: {_STOPS[scan.stop]}"
    yield f"Commit log    {start.min_offset} to {start.max_offset}"


def _files(files: Sequence[FileChange], everything: bool) -> Iterator[str]:
    if not files:
        yield "Files         none is deleted, created or resized"
        return
    yield "Files"
    rows = ((f"  {item.change}", visible(item.file), byte_size(item.size), item.why) for item in files)
    yield from _some(aligned(rows, right=(2,)), len(files), everything)


def _dispatch(start: Start, everything: bool) -> Iterator[str]:
    dispatch = start.dispatch
    if dispatch is None:
        return
    if dispatch.recovery_record_count:
        yield f"Dispatch      {count_of(dispatch.recovery_record_count, 'record')} by the recovery"
    yield (
        f"Dispatcher    from {dispatch.start_offset} to {dispatch.end_offset}: "
        f"{count_of(dispatch.record_count, 'record')}"
    )
    rows = [
        f"  {'stands still at' if item.stuck else 'passes over'} {item.start_offset} to {item.end_offset}: "
        f"{item.why}"
        for item in dispatch.skipped
    ]
    yield from _some(rows, len(rows), everything)


def _queues(queues: Sequence[QueueStart], palette: Palette, everything: bool) -> Iterator[str]:
    changed = [queue for queue in queues if _is_changed(queue)]
    chosen = queues if everything else changed
    unchanged = len(queues) - len(changed)
    words = f", {count_of(unchanged, 'other')} as before" if changed and unchanged else ""
    yield f"Queues        {count_of(len(changed), 'queue')} changed{words}"
    if not chosen:
        return
    head = ("  topic", "queue", "min", "max", "cut", "added", "shifted", "twice", "no unit")
    rows = [
        (
            f"  {shorten(visible(queue.topic), NAME_SHOWN)}",
            str(queue.queue_id),
            str(queue.min_offset),
            str(queue.max_offset),
            *(
                str(number) if number else "-"
                for number in (
                    queue.cut_count,
                    queue.added_count,
                    queue.shifted_count,
                    queue.reissued_count,
                    queue.unreachable_count,
                )
            ),
        )
        for queue in chosen
    ]
    lines = list(aligned([head, *rows], right=range(1, 9)))
    yield palette.bold(lines[0])
    yield from _some(lines[1:], len(rows), everything)


def _is_changed(queue: QueueStart) -> bool:
    return bool(
        queue.cut_count
        or queue.added_count
        or queue.hidden_count
        or queue.reissued_count
        or queue.unreachable_count
    )


def _index(start: Start, everything: bool) -> Iterator[str]:
    index = start.index
    yield (
        f"Index         {count_of(len(index.files), 'file')}, {index.deleted_entry_count:,} entries deleted, "
        f"{index.added_entry_count:,} put"
    )
    if index.blocked_until_offset is not None:
        yield f"  new messages are not indexed below offset {index.blocked_until_offset}"
    if everything:
        rows = (
            (
                f"  {item.fate}",
                visible(item.file),
                f"{item.entry_count:,} entries",
                f"{item.added_count:,} put",
            )
            for item in index.files
        )
        yield from aligned(rows, right=(2, 3))


def _timers(timers: TimerStart, everything: bool) -> Iterator[str]:
    wheel = visible(timers.wheel) or "a new, empty wheel"
    slots = count_of(timers.changed_slot_count, "slot")
    yield f"Timers        slots from {wheel}, {slots} changed by the timer log from {timers.scan_pos} on"
    cut = f", {count_of(timers.cut_count, 'unit')} behind it cut off" if timers.cut_count else ""
    yield f"  the timer log ends at {timers.end_pos}{cut}"
    again = f": {count_of(timers.reread_count, 'message')} again" if timers.reread_count else ""
    yield f"  the timer topic is read from queue offset {timers.queue_offset} on{again}"
    yield f"  delivery from {timestamp(timers.read_timestamp)} on, {timers.waiting_count:,} messages wait"
    if timers.latest_start_timestamp is not None:
        yield f"  a start after {timestamp(timers.latest_start_timestamp)} passes over some of them"
    rows = [f"  never delivered: the message at {offset}" for offset in timers.lost]
    yield from _some(rows, timers.lost_count, everything)


def _losses(start: Start, everything: bool) -> Iterator[str]:
    losses = start.losses
    if losses.cut_record_count or losses.stale_count:
        stale = f", and {losses.stale_count:,} of an earlier life of the log" if losses.stale_count else ""
        yield f"Behind the cut  {count_of(losses.cut_record_count, 'record')}{stale}"
        yield from _ranges(losses.cut, everything)
    for name, count, new, ranges in (
        ("Without a unit ", losses.by_queue_count, losses.new_by_queue_count, losses.by_queue),
        ("Without an entry", losses.by_key_count, losses.new_by_key_count, losses.by_key),
    ):
        if count:
            yield f"{name} {count_of(count, 'record')} of the log, {new:,} of them by this start"
            yield from _ranges(ranges, everything)
    if losses.unreadable_count:
        units = count_of(losses.unreadable_count, "unit leads", "units lead")
        yield f"Not in the log  {units} to bytes that the log does not have"
        yield from _ranges(losses.unreadable, everything, "unit")


def _ranges(ranges: Sequence[LostRange], everything: bool, what: str = "record") -> Iterator[str]:
    rows = [
        f"  {item.start_offset} to {item.end_offset}: {count_of(item.record_count, what)}" for item in ranges
    ]
    yield from _some(rows, len(rows), everything)


def _some(lines: Iterable[str], count: int, everything: bool) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number >= SHOWN and not everything and count > SHOWN + 1:
            yield f"  and {count - SHOWN} more (-v shows them)"
            return
        yield line
