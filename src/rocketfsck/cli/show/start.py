"""Verdicts on starts as text: what brokers do with a repaired or rebuilt store, and what they did before.

A predicted start as text: what would happen in the order in which a broker does it, then what is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rocketfsck.cli.show import text as say
from rocketfsck.common.wording import fill_numbers
from rocketfsck.formats.dialect import ALL_VERSIONS, parse_version, run_text, runs_of
from rocketfsck.query.start.model import FileChange, LostRange, QueueStart, Start, TimerStart

if TYPE_CHECKING:
    from rocketfsck.query.start.verdict import StartVerdict
    from rocketfsck.repair.apply.judging import StartComparison


SHOWN = 12
NAME_SHOWN = 60

_STOPS = {
    "end": "the last file ends here",
    "blank": "the last file is full",
    "invalid": "the records that this broker accepts end here",
    "half": "the lengths in the record here do not add up to totalSize",
}

_SKIPPED = {
    "invalid": "no record that this broker accepts",
    "half": "the lengths in the record here do not add up to totalSize",
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
    return f"{broker} starts on this store, but {_joined(facts)}{before and f'; {before}'}"


def _joined(facts: Sequence[str]) -> str:
    """`does a`, `does a and b`, `does a, b, and c`."""
    *first, last = facts
    if not first:
        return last
    return f"{', '.join(first)}{',' if len(first) > 1 else ''} and {last}"


def _harms(start: Start) -> Iterator[str]:
    """What the broker does that takes something, each a verb with its object."""
    losses = start.losses
    if start.ignored:
        yield f"does not see {say.count_of(len(start.ignored), 'file')}"
    if start.queues_destroyed:
        yield "deletes all consume queues"
    if losses.cut_record_count:
        yield f"cuts {say.count_of(losses.cut_record_count, 'message')} off the log"
    if losses.new_by_queue_count:
        yield f"hides {say.count_of(losses.new_by_queue_count, 'message')} from consumers"
    if losses.new_by_key_count:
        yield f"hides {say.count_of(losses.new_by_key_count, 'message')} from queries by key"
    shifted = sum(queue.shifted_count for queue in start.queues)
    if shifted:
        yield f"puts {say.count_of(shifted, 'unit')} at a wrong queue offset"
    phantoms = sum(queue.phantom_count for queue in start.queues)
    if phantoms:
        yield f"reads zeros as a message in {say.count_of(phantoms, 'queue')}"
    reissued = sum(queue.reissued_count for queue in start.queues)
    if reissued:
        yield f"uses {say.count_of(reissued, 'queue offset')} twice"
    if start.index.blocked_until_offset is not None:
        yield "does not index new messages for now"
    if start.timers is not None:
        yield from _timer_harms(start.timers)
    yield from (say.visible(item.what) for item in start.unread_parts)
    if start.dispatch is not None and start.dispatch.skipped:
        yield f"does not dispatch {say.count_of(len(start.dispatch.skipped), 'range')} of the log"


def _timer_harms(timers: TimerStart) -> Iterator[str]:
    if timers.lost_count:
        yield f"never delivers {say.count_of(timers.lost_count, 'timer message')}"
    if timers.repeated_count:
        yield f"delivers {say.count_of(timers.repeated_count, 'timer message')} twice"
    if timers.endless_slot_count:
        slots = say.count_of(timers.endless_slot_count, "timer slot")
        yield f"reads {slots} in a circle until the memory is full"
    if timers.skipped_count:
        yield f"does not schedule the next {say.count_of(timers.skipped_count, 'new timer message')}"


def _lost_before(start: Start) -> Iterator[str]:
    """What consumers cannot read, whether the broker starts or not."""
    losses = start.losses
    if losses.unreadable_count:
        holes = ", ".join(f"{item.start_offset} to {item.end_offset}" for item in losses.unreadable[:SHOWN])
        count = say.count_of(losses.unreadable_count, "message")
        yield f"{count} cannot be read: the commit log has no bytes at {holes}"
    standing = (losses.by_queue_count or 0) - (losses.new_by_queue_count or 0) - losses.deleted_count
    if standing > 0:
        them = "it" if standing == 1 else "them"
        count = say.count_of(standing, "message has", "messages have")
        yield f"{count} no unit: consumers never receive {them}"


def start_lines(start: Start, palette: say.Palette, *, columns: int, everything: bool) -> Iterator[str]:
    """The whole prediction; `everything` leaves no file, queue or range out. Names go through `visible`."""
    title = headline(start)
    paint = palette.error if not start.loads else palette.warning if start.harmful else palette.good
    yield from (paint(line) for line in say.wrapped(title[0].upper() + title[1:] + ".", columns))
    for refusal in start.refusals:
        yield f"  {say.visible(refusal.file)}: {say.sentence(refusal.reason)}"
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
        yield from say.wrapped(f"Note: {say.sentence(note)}.", columns)


def _log(start: Start) -> Iterator[str]:
    yield f"Recovery      {start.recovery}"
    for ignored in start.ignored:
        yield f"Not seen      {say.visible(ignored.file)}: {say.visible(ignored.why)}"
    scan = start.scan
    if scan is None:
        return
    read = f"{say.count_of(scan.file_count, 'file')}, {say.byte_size(scan.read_byte_count)}"
    yield f"Scan          from {scan.start_offset} ({say.visible(scan.first_file)}): {read}"
    yield f"Cut           at {start.cut_offset}: {_STOPS[scan.stop]}"
    yield f"Commit log    {start.min_offset} to {start.max_offset}"


def _files(files: Sequence[FileChange], everything: bool) -> Iterator[str]:
    if not files:
        yield "Files         no file is deleted, created or resized"
        return
    yield "Files"
    rows = [
        (f"  {item.change}", say.visible(item.file), say.byte_size(item.size), item.why) for item in files
    ]
    yield from _table(rows, (2,), everything)


def _dispatch(start: Start, everything: bool) -> Iterator[str]:
    dispatch = start.dispatch
    if dispatch is None:
        return
    if dispatch.recovery_record_count:
        yield f"Dispatch      {say.count_of(dispatch.recovery_record_count, 'record')} by the recovery"
    count = say.count_of(dispatch.record_count, "record")
    yield f"Dispatcher    from {dispatch.start_offset} to {dispatch.end_offset}: {count}"
    rows = []
    for item in dispatch.skipped:
        what = "stops at" if item.stuck else "skips"
        why = _SKIPPED.get(item.why, item.why)
        rows.append(f"  {what} {item.start_offset} to {item.end_offset}: {why}")
    yield from _some(rows, len(rows), everything)


def _queues(queues: Sequence[QueueStart], palette: say.Palette, everything: bool) -> Iterator[str]:
    changed = [queue for queue in queues if _is_changed(queue)]
    chosen = queues if everything else changed
    unchanged = len(queues) - len(changed)
    words = f", {say.count_of(unchanged, 'other')} as before" if changed and unchanged else ""
    yield f"Queues        {say.count_of(len(changed), 'queue')} changed{words}"
    if not chosen:
        return
    head = ("  topic", "queue", "min", "max", "cut", "added", "shifted", "twice", "no unit")
    rows = []
    for queue in chosen:
        bounds = (str(queue.queue_id), str(queue.min_offset), str(queue.max_offset))
        counts = (str(getattr(queue, name) or "-") for name in _COUNTS)
        rows.append((f"  {say.shorten(say.visible(queue.topic), NAME_SHOWN)}", *bounds, *counts))
    title, *lines = _table(rows, range(1, 9), everything, head)
    yield palette.bold(title)
    yield from lines


_COUNTS = ("cut_count", "added_count", "shifted_count", "reissued_count", "unreachable_count")
"""Members of a queue's start, which are columns."""


def _is_changed(queue: QueueStart) -> bool:
    counts = (queue.cut_count, queue.added_count, queue.hidden_count, queue.reissued_count)
    return any(counts) or bool(queue.unreachable_count)


def _index(start: Start, everything: bool) -> Iterator[str]:
    index = start.index
    deleted = say.count_of(index.deleted_entry_count, "entry")
    files = say.count_of(len(index.files), "file")
    yield f"Index         {files}; {deleted} deleted, {index.added_entry_count:,} added"
    if index.blocked_until_offset is not None:
        yield f"  new messages are not indexed below offset {index.blocked_until_offset}"
    if everything:
        rows = []
        for item in index.files:
            counts = (say.count_of(item.entry_count, "entry"), f"{item.added_count:,} added")
            rows.append((f"  {item.fate}", say.visible(item.file), *counts))
        yield from say.aligned(rows, right=(2, 3))


def _timers(timers: TimerStart, everything: bool) -> Iterator[str]:
    if timers.in_database:
        yield f"Timers        rows of {timers.wheel}"
    else:
        wheel = say.visible(timers.wheel) or "a new, empty wheel"
        slots = say.count_of(timers.changed_slot_count, "slot")
        changed = f"{slots} changed by the timer log from {timers.scan_pos} on"
        yield f"Timers        slots from {wheel}, {changed}"
        cut = f", {say.count_of(timers.cut_count, 'unit')} after the end cut off" if timers.cut_count else ""
        yield f"  the timer log ends at {timers.end_pos}{cut}"
    again = f": {say.count_of(timers.reread_count, 'message')} again" if timers.reread_count else ""
    yield f"  the timer topic is read from queue offset {timers.queue_offset} on{again}"
    waiting = say.count_of(timers.waiting_count, "message waits", "messages wait")
    yield f"  delivery from {say.timestamp(timers.read_timestamp)} on, {waiting}"
    if timers.latest_start_timestamp is not None:
        yield f"  a start after {say.timestamp(timers.latest_start_timestamp)} skips some of these messages"
    rows = [f"  never delivered: the message at {offset}" for offset in timers.lost]
    yield from _some(rows, timers.lost_count, everything)


def _losses(start: Start, everything: bool) -> Iterator[str]:
    losses = start.losses
    if losses.cut_record_count or losses.stale_count:
        stale = f", and {losses.stale_count:,} from before an earlier truncation"
        cut = say.count_of(losses.cut_record_count, "record")
        yield f"After the cut   {cut}{stale if losses.stale_count else ''}"
        yield from _ranges(losses.cut, everything)
    for name, count, new, ranges in (
        ("Without a unit ", losses.by_queue_count, losses.new_by_queue_count, losses.by_queue),
        ("Without an entry", losses.by_key_count, losses.new_by_key_count, losses.by_key),
    ):
        if count:
            yield f"{name} {say.count_of(count, 'record')} of the log, {new:,} of them because of this start"
            if ranges is losses.by_queue and losses.deleted_count:
                deleted = say.count_of(losses.deleted_count, "record")
                yield f"  {deleted} of topics and queues that were deleted"
            yield from _ranges(ranges, everything)
    if losses.unreadable_count:
        units = say.count_of(losses.unreadable_count, "unit leads", "units lead")
        yield f"Not in the log  {units} to bytes missing from the log"
        yield from _ranges(losses.unreadable, everything, "unit")


def _ranges(ranges: Sequence[LostRange], everything: bool, what: str = "record") -> Iterator[str]:
    rows = [
        f"  {item.start_offset} to {item.end_offset}: {say.count_of(item.record_count, what)}"
        for item in ranges
    ]
    yield from _some(rows, len(rows), everything)


def _table(
    rows: Sequence[Sequence[str]], right: Sequence[int], everything: bool, *head: Sequence[str]
) -> Iterator[str]:
    """The first rows below `head`; a row may be several lines."""
    shown = rows if everything or len(rows) <= SHOWN + 1 else rows[:SHOWN]
    yield from say.aligned([*head, *shown], right=right)
    if len(shown) < len(rows):
        yield f"  and {len(rows) - len(shown):,} more (-v shows them)"


def _some(lines: Iterable[str], count: int, everything: bool) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number >= SHOWN and not everything and count > SHOWN + 1:
            yield f"  and {count - SHOWN:,} more (-v shows them)"
            return
        yield line


_FACTS = (
    ("hidden_file_count", "does not see {count:file}"),
    ("astray_count", "loses {count:sound message} in files with wrong names"),
    ("cut_count", "cuts {count:message} off the log"),
    ("lost_count", "hides {count:message} from consumers"),
    ("lost_key_count", "hides {count:message} from queries by key"),
    ("unreadable_count", "cannot read {count:message}"),
    ("shifted_count", "puts {count:unit} at a wrong queue offset"),
    ("reissued_count", "uses {count:queue offset} twice"),
    ("phantom_count", "reads zeros as a message in {count:queue}"),
    ("timer_lost_count", "never delivers {count:timer message}"),
    ("timer_repeated_count", "delivers {count:timer message} twice"),
)
"""What a start takes, as verbs of the broker with their objects."""


def _deleted(verdict: StartVerdict) -> str:
    """Which files a start deletes; of commit log files, whether a message is in them."""
    text = f"deletes {say.count_of(verdict.deleted_file_count, 'file')}"
    if verdict.deleted_from:
        text += f" in {' and '.join(f'{say.visible(name)}/' for name in verdict.deleted_from)}"
    empty = "commitlog" in verdict.deleted_from and verdict.cut_count == 0 and not verdict.astray_count
    return f"{text}, none with a message that is sound" if empty else text


def verdict_text(verdict: StartVerdict) -> str:
    """What a broker does, without its version: "starts and loses nothing", "does not start: …"."""
    if not verdict.covered:
        return f"cannot be predicted: {say.sentence(verdict.obstacle)}"
    if not verdict.loads:
        return f"does not start: {say.sentence(verdict.obstacle)}"
    facts = ["deletes all consume queues"] if verdict.queues_destroyed else []
    facts += [fill_numbers(text, count=count) for name, text in _FACTS if (count := getattr(verdict, name))]
    if verdict.deleted_file_count:
        facts.append(_deleted(verdict))
    facts += map(say.visible, verdict.unread_parts)
    if not facts:
        return "starts and loses nothing" if verdict.lost_count is not None else "starts"
    return f"starts; {'; '.join(facts)}"


def versions_text(verdicts: Sequence[StartVerdict], among: Iterable[StartVerdict] = ()) -> str:
    """The versions that verdicts are about: "5.3.3", "4.9.3 to 4.9.8", "4.2.0 to 4.8.0, 5.0.0".

    With `among`, the verdicts of all versions in question, ranges leave out what is not in question.
    """
    versions = {parse_version(name) for verdict in verdicts for name in verdict.alike}
    known = sorted({parse_version(name) for verdict in among for name in verdict.alike})
    return ", ".join(map(run_text, runs_of(versions, known or ALL_VERSIONS)))


def comparison_lines(items: Sequence[StartComparison], palette: say.Palette, columns: int) -> Iterator[str]:
    """What brokers of every version in question do with the store as it was, and with the repaired one.

    Versions are grouped as in the verdict: by what they do with the repaired store, the worst first.
    """
    if not items:
        return
    yield from ("", palette.bold("Start of a broker (predicted)"))
    by_start = {id(item.after): item for item in items}
    everything = [item.after for item in items]
    for text, verdicts in grouped_starts(everything):
        group = [by_start[id(verdict)] for verdict in verdicts]
        paint = palette.error if any(item.worse for item in group) else str
        said = [(f"{versions_text(verdicts, everything)}: {text}", "  ")]
        earlier = [item.before for item in group if item.before is not None]
        for then, before in grouped_starts(earlier):
            if then != text:
                said.append((f"before the repair, {versions_text(before, everything)}: {then}", "    "))
        worse = dict.fromkeys(reason for item in group for reason in item.worse)
        said += [(f"worse than before: {say.visible(reason)}", "    ") for reason in worse]
        yield from (paint(line) for words, indent in said for line in say.wrapped(words, columns, indent))


def grouped_starts(starts: Iterable[StartVerdict]) -> list[tuple[str, list[StartVerdict]]]:
    """The starts of versions that do the same, with what they do: refused ones first, harmless ones last."""
    groups: dict[str, list[StartVerdict]] = {}
    for start in starts:
        groups.setdefault(verdict_text(start), []).append(start)
    return sorted(groups.items(), key=lambda item: _rank(item[1][0]))


def _rank(start: StartVerdict) -> int:
    if not start.covered:
        return 2
    return 0 if not start.loads else 1 if start.takes() else 3


def verdict_lines(verdicts: Sequence[StartVerdict]) -> Iterator[str]:
    """What brokers do with what was built; what is the same for many versions is said once."""
    for text, alike in grouped_starts(verdicts):
        yield f"start of a broker (predicted), {versions_text(alike)}: {text}"
