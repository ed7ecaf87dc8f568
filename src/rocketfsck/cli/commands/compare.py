"""`rocketfsck compare A B`: where two replicas differ, a plan to heal A, and a store healed from both.

`rocketfsck salvage PATH…`: records out of anything, into a new conformant store, with a ledger.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rocketfsck.cli.adapter import Formats, WritingCommand, command_of
from rocketfsck.cli.lang import say_line
from rocketfsck.cli.output import Destination, open_output
from rocketfsck.cli.paramtypes import Jobs, max_memory
from rocketfsck.cli.show.replication import config_lines, differing_offsets, replication_lines
from rocketfsck.cli.show.start import verdict_lines
from rocketfsck.cli.show.text import (
    Palette,
    byte_size,
    count_of,
    sentence,
    some,
    text_columns,
    timestamp,
    visible,
)
from rocketfsck.commands import compare as commands_compare
from rocketfsck.commands.compare import CompareCommand, SalvageAnswer, SalvageCommand
from rocketfsck.common.documents import to_document
from rocketfsck.common.options import PutAfter
from rocketfsck.repair.compare.compare import Comparison, Copy, Lack, Side, comparison_document
from rocketfsck.repair.salvage.choose import FATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocketfsck.repair.plan.model import Plan
    from rocketfsck.repair.salvage.ledger import QueueAccount, Salvage
    from rocketfsck.repair.salvage.salvage import SalvagedStore

SHOWN_QUEUES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvageLine(SalvageCommand):
    """A salvage, and where its answer goes."""

    answer: Annotated[Destination, Formats(("text", "json"))]
    jobs: Annotated[Jobs, PutAfter("delay_levels")] = None
    max_memory: Annotated[int | None, max_memory("salvage")] = None


@command_of(SalvageLine, timing="salvage", cls=WritingCommand, advisory=("layout", "min_confidence"))
def salvage_command(line: SalvageLine) -> int:
    """Carve records out of PATHs (files and directories of any kind) and write them to a new store.

    salvage finds every record with a sound frame, in damaged or misnamed commit log files, truncated files,
    raw disk images and whole stores. salvage only reads the PATHs. Memory: 300 bytes per record found.

    Exit status 1 means that something could not be salvaged (the output names it), 4 that a check of the new
    store found another problem.
    """
    came = commands_compare.salvage(line)
    if came.note is not None:
        say_line(f"warning: {came.note}", err=True)
    return _say_salvage(line.answer, came, line.paths)


def _say_salvage(answer: Destination, came: SalvageAnswer, read: Sequence[Path]) -> int:
    document, lines = came.document, salvage_lines(came.salvage, came.written)
    answer.say(lambda: to_document(document()), lambda _: lines, read)
    return came.exit_code


def salvage_lines(salvage: Salvage, written: SalvagedStore | None) -> Iterator[str]:
    """The result for people."""
    head = salvage.head()
    meanings = dict(FATES.values())
    carved = f"Carved {count_of(head.source_count, 'file')}, {byte_size(head.source_byte_count)}"
    yield f"{carved}: {count_of(head.record_count, 'record')} found"
    for name, count in salvage.counts.items():
        yield f"  {name:<13} {count_of(count, 'record')}: {meanings[name]}"
    yield f"  {'nothing':<13} {byte_size(head.nothing_byte_count)} hold no record"
    yield (
        f"Layout: {head.layout} ({head.layout_note}), physical offsets {head.start_offset} to "
        f"{head.end_offset}, files of {byte_size(head.commitlog_file_size)}, "
        f"fences over {byte_size(head.fence_byte_count)}"
    )
    short = [queue for queue in salvage.story.queues if queue.missing_count]
    yield f"Queues: {len(salvage.story.queues)}, of which {len(short)} miss records"
    lines = (f"  {_queue_line(queue)}" for queue in short)
    yield from some(lines, len(short), SHOWN_QUEUES, "  and {} more (the ledger has them all)")
    if skipped_count := head.skipped_by_brokers_count:
        skipped = count_of(skipped_count, "record")
        yield (
            f"Warning: brokers will not deliver {skipped} that follow holes of their queues in the "
            "file that begins at offset 0; `salvage --layout pack` avoids that"
        )
    if written is None:
        yield "Nothing was written (--dry-run)."
        return
    found = commands_compare.problems_of(written.report)
    yield f"Written: {visible(str(written.path))}"
    yield f"  ledger: {visible(str(written.ledger_path))}"
    nothing = "nothing wrong but what is missing" if short else "nothing wrong"
    wrong = ", ".join(f"{count} of {rule}" for rule, count in sorted(found.items()))
    yield f"  a check of it finds {wrong or nothing}"
    yield from (f"  {line}" for line in verdict_lines(written.starts))
    yield f"Next: rocketfsck check {visible(str(written.path))}"


def _queue_line(queue: QueueAccount) -> str:
    ranges = [str(low) if high == low + 1 else f"{low} to {high - 1}" for low, high in queue.missing[:5]]
    missing = ", ".join(ranges) + (" …" if len(queue.missing) > 5 else "")
    taken = f"{visible(queue.topic)}/{queue.queue_id}: {count_of(queue.taken_count, 'record')}"
    return f"{taken}, missing {queue.missing_count}: {missing}"


SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareLine(CompareCommand):
    """A comparison, and where its answer goes."""

    answer: Annotated[Destination, Formats(("text", "json"))]
    jobs: Annotated[Jobs, PutAfter("broker_version")] = None
    max_memory: Annotated[int | None, max_memory("compare")] = None


@command_of(CompareLine, timing="compare", cls=WritingCommand, advisory=("prefer",))
def compare_command(line: CompareLine) -> int:
    """Compare the commit logs of the stores A and B, two replicas: what both have, and where they diverge.

    compare skips equal parts at the speed of reading. Exit status 0 means that all stores hold the same
    records, 4 that they differ. Offsets of consumer groups are compared, too, and do not count for the exit
    status. Each further STORE is compared with every one before it, as the nodes
    of one DLedger group. --heal plans how A gets from B what A lacks or has damaged; compare only reads B.
    With --heal the exit status is that of `plan`, with --into that of `salvage`.
    """
    if line.heal and not line.is_direct:
        return _plan(line)
    if line.heal:
        return _say_salvage(line.answer, *commands_compare.heal(line))
    answer = commands_compare.compare(line)
    found, read = answer.comparisons, (line.a, line.b, *line.further)
    line.answer.say(
        lambda: to_document(comparison_document(*found)), lambda _: comparisons_lines(found), read
    )
    return answer.exit_code


def _plan(line: CompareLine) -> int:
    from rocketfsck.repair.plan.document import plan_text

    output = line.answer.path
    healing = commands_compare.plan_healing(line, output)
    if output is not None:
        with open_output(output, binary=False, forbidden=healing.directories) as stream:
            stream.write(plan_text(healing.plan))
    stdout = Destination(line.answer.form, None)
    with stdout.open() as stream:
        if line.answer.form == "json" or line.answer.is_dash:
            stream.write(plan_text(healing.plan))
        else:
            _write_plan(healing.plan, (line.a, line.b), output, stream, stdout.palette(stream))
    return healing.exit_code


def _write_plan(
    plan: Plan, stores: tuple[Path, Path], output: Path | None, stream: Any, palette: Palette
) -> None:
    from rocketfsck.cli.show.repair import plan_lines

    stream.writelines(f"{line}\n" for line in plan_lines(plan, palette, text_columns()))
    if plan.actions:
        names = shlex.join(map(str, stores))
        again = f"rocketfsck compare {names} --heal -o plan.json"
        command = again if output is None else f"rocketfsck apply {shlex.quote(str(output))}"
        stream.write(f"Next: {palette.good(sentence(command))}\n")


def comparisons_lines(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """The comparisons one after the other."""
    for number, comparison in enumerate(comparisons):
        if number:
            yield ""
        yield from comparison_lines(comparison)


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """The comparison for people."""
    for name, side in (("A", comparison.a), ("B", comparison.b)):
        yield f"{name}: {visible(str(side.path))}"
        yield f"   {_side(side)}"
    if comparison.common is None:
        yield "The stores have no physical offset in common: neither can resume from the other."
    else:
        low, high = comparison.common
        same, unlike = comparison.equal_byte_count, comparison.unlike_byte_count
        yield f"Common range: {low} to {high}; {same:,} bytes are the same, {unlike:,} differ"
        yield from _divergence(comparison)
    for name in ("A", "B"):
        lacks = [lack for lack in comparison.lacks if lack.side == name]
        if not lacks:
            continue
        count = sum(lack.record_count for lack in lacks)
        yield f"Only {name} has {count_of(count, 'record')} of {count_of(len(lacks), 'queue')}:"
        lines = (f"  {_lack(lack)}" for lack in lacks)
        yield from some(lines, len(lacks), SHOWN, "  and {} more queues (--format json has them all)")
    yield from replication_lines(comparison.replication)
    yield from config_lines(comparison.configs)
    if comparison.resume_offset is not None:
        yield f"Safe resume offset: {comparison.resume_offset} (all common bytes before it are the same)"
    offsets = differing_offsets(comparison.configs)
    yield "Result: " + (f"both hold the same records{offsets}." if comparison.same else "the stores differ.")


def _side(side: Side) -> str:
    last = "" if side.last_timestamp is None else f", last record stored {timestamp(side.last_timestamp)}"
    size = byte_size(side.end_offset - side.start_offset)
    return f"physical offsets {side.start_offset} to {side.end_offset} ({size}){last}"


def _divergence(comparison: Comparison) -> Iterator[str]:
    first = comparison.first_divergence
    if first is None:
        yield "All records in the common range are the same."
        return
    places = count_of(comparison.different_count, "place")
    yield f"Records differ at {places}, first at {first.physical_offset}:"
    for name, copy in (("A", first.a), ("B", first.b)):
        yield f"  {name}: {_copy(copy)}"
    if first.first_byte is not None and first.end_byte is not None:
        yield f"  bytes that differ: {first.first_byte} to {first.end_byte - 1} from there"


def _copy(copy: Copy | None) -> str:
    if copy is None:
        return "no record begins here"
    state = "valid" if copy.valid else "the checksum is wrong"
    what = f"queue offset {copy.queue_offset}, {copy.size} bytes, stored {timestamp(copy.store_timestamp)}"
    return f"{visible(copy.topic)}/{copy.queue_id}, {what}: {state}"


def _lack(lack: Lack) -> str:
    if lack.queue_id < 0:
        return f"{count_of(lack.record_count, 'record')} that no queue holds"
    count, offsets = count_of(lack.record_count, "record"), (lack.first_queue_offset, lack.last_queue_offset)
    return f"{visible(lack.topic)}/{lack.queue_id}: {count}, queue offsets {offsets[0]} to {offsets[1]}"
