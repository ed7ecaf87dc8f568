"""`rocketfsck salvage PATH…`: records out of anything, into a new conformant store, with a ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from rocketfsck.cli.adapter import Formats, WritingCommand, command_of
from rocketfsck.cli.lang import say_line
from rocketfsck.cli.output import Destination
from rocketfsck.cli.settings import Jobs, max_memory
from rocketfsck.cli.show.start import verdict_lines
from rocketfsck.cli.show.text import byte_size, count_of, visible
from rocketfsck.commands.salvage import SalvageCommand, problems_of, salvage
from rocketfsck.common.documents import to_document
from rocketfsck.common.options import PutAfter

if TYPE_CHECKING:
    from collections.abc import Iterator

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
def command(line: SalvageLine) -> int:
    """Carve records out of PATHs (files and directories of any kind) and write them to a new store.

    salvage finds every record with a sound frame, in damaged or misnamed commit log files, truncated files,
    raw disk images and whole stores. salvage only reads the PATHs. Memory: 300 bytes per record found.

    Exit status 1 means that something could not be salvaged (the output names it), 4 that a check of the new
    store found another problem.
    """
    came = salvage(line)
    if came.note is not None:
        say_line(f"warning: {came.note}", err=True)
    line.answer.say(
        lambda: to_document(came.document()),
        lambda _: salvage_lines(came.salvage, came.written),
        line.paths,
    )
    return came.exit_code


def salvage_lines(salvage: Salvage, written: SalvagedStore | None) -> Iterator[str]:
    """The result for people."""
    from rocketfsck.repair.salvage.choose import FATES

    head = salvage.head()
    meanings = dict(FATES.values())
    yield (
        f"Carved {count_of(head.source_count, 'file')}, {byte_size(head.source_byte_count)}: "
        f"{count_of(head.record_count, 'record')} found"
    )
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
    for queue in short[:SHOWN_QUEUES]:
        yield "  " + _queue_line(queue)
    if len(short) > SHOWN_QUEUES:
        yield f"  and {len(short) - SHOWN_QUEUES} more (the ledger has them all)"
    if skipped_count := head.skipped_by_brokers_count:
        skipped = count_of(skipped_count, "record")
        yield (
            f"Warning: brokers will not deliver {skipped} that follow holes of their queues in the "
            "file that begins at offset 0; `salvage --layout pack` avoids that"
        )
    if written is None:
        yield "Nothing was written (--dry-run)."
        return
    found = problems_of(written.report)
    yield f"Written: {visible(str(written.path))}"
    yield f"  ledger: {visible(str(written.ledger_path))}"
    yield "  a check of it finds " + (
        ", ".join(f"{count} of {rule}" for rule, count in sorted(found.items()))
        if found
        else "nothing wrong" + (" but what is missing" if short else "")
    )
    yield from (f"  {line}" for line in verdict_lines(written.starts))
    yield f"Next: rocketfsck check {visible(str(written.path))}"


def _queue_line(queue: QueueAccount) -> str:
    ranges = ", ".join(
        str(low) if high == low + 1 else f"{low} to {high - 1}" for low, high in queue.missing[:5]
    )
    more = " …" if len(queue.missing) > 5 else ""
    return (
        f"{visible(queue.topic)}/{queue.queue_id}: {count_of(queue.taken_count, 'record')}, "
        f"missing {queue.missing_count}: {ranges}{more}"
    )
