"""`rocketfsck salvage PATH…`: records out of anything, into a new conformant store, with a ledger."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.danger import WritingCommand
from rocketfsck.cli.memory import memory_option
from rocketfsck.cli.options import (
    commitlog_file_size_option,
    delay_levels_option,
    dry_run_option,
    into_option,
    jobs_option,
    ledger_option,
)
from rocketfsck.cli.output import plain_values, refuse_inside
from rocketfsck.cli.params import (
    Destination,
    broker_conf_option,
    broker_version_option,
    output_options,
    storage_option,
)
from rocketfsck.cli.paramtypes import StorePath
from rocketfsck.cli.settings import common_options
from rocketfsck.cli.show.start import bad_count, verdict_lines
from rocketfsck.cli.show.text import byte_size, count_of, visible
from rocketfsck.cli.timing import timing_of
from rocketfsck.common.documents import to_document
from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import EXIT_CLEAN, EXIT_CORRECTED, EXIT_PROBLEMS, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketfsck.repair.salvage.ledger import QueueAccount, Salvage
    from rocketfsck.repair.salvage.salvage import SalvagedStore
    from rocketfsck.verify.report import Report

SHOWN_QUEUES = 20
LOSS_RULE = RuleName.QUEUE_OFFSET_GAP
"""What a check says of queue offsets that have no record; a salvage tells of them itself."""


@click.command(cls=WritingCommand, advisory=("layout", "min_confidence"))
@click.argument("paths", nargs=-1, required=True, type=StorePath(stdin=True), metavar="PATH…")
@into_option()
@click.option(
    "--layout",
    type=click.Choice(["auto", "keep", "pack"]),
    default="auto",
    show_default=True,
    help="keep: every record at its physical offset, fences in between. pack: records without gaps, "
    "physicalOffset rewritten. auto: keep where the offsets fit and brokers will deliver all messages.",
)
@click.option(
    "--min-confidence",
    type=click.Choice(["low", "medium", "high"]),
    default="medium",
    show_default=True,
    help="Least confidence of a record; low includes damaged ones.",
)
@dry_run_option
@ledger_option
@commitlog_file_size_option
@broker_version_option()
@broker_conf_option
@delay_levels_option
@jobs_option
@memory_option("salvage")
@storage_option
@output_options("text", "json")
@timing_of("salvage")
@common_options
def command(
    paths: tuple[Path, ...],
    into: Path | None,
    layout: Any,
    min_confidence: str,
    dry_run: bool,
    ledger: Path | None,
    commitlog_file_size: int | None,
    broker_version: str | None,
    broker_conf: Path | None,
    delay_levels: str | None,
    answer: Destination,
) -> int:
    """Carve records out of PATHs (files and directories of any kind) and write them to a new store.

    salvage finds every record with a sound frame, in damaged or misnamed commit log files, truncated files,
    raw disk images and whole stores. salvage only reads the PATHs. Memory: 300 bytes per record found.

    Exit status 1 means that something could not be salvaged (the output names it), 4 that a check of the new
    store found another problem.
    """
    from rocketfsck.repair.carve.confidence import Level
    from rocketfsck.repair.salvage.ledger import SalvageOptions
    from rocketfsck.repair.salvage.salvage import default_ledger, find_records, write_store
    from rocketfsck.store.newer import index_note

    if into is None and not dry_run:
        raise UsageError("give --into DIR, or --dry-run")
    if into is not None:
        for written in (into, ledger or default_ledger(into)):
            refuse_inside(written, paths)
    options = SalvageOptions(
        level=Level[min_confidence.upper()],
        layout=layout,
        file_size=commitlog_file_size,
        version=broker_version,
        broker_conf=broker_conf,
        delay_levels=delay_levels,
    )
    salvage = find_records(paths, options)
    written_store = None
    if not dry_run:
        assert into is not None
        written_store = write_store(salvage, into, ledger_path=ledger)
    newer = None if salvage.origin is None else index_note(salvage.origin)
    if newer is not None:
        print(f"warning: {newer}", file=sys.stderr)
    answer.say(
        lambda: salvage_json(salvage, written_store), lambda _: salvage_lines(salvage, written_store), paths
    )
    return exit_code(salvage, written_store)


def exit_code(salvage: Salvage, written: SalvagedStore | None) -> int:
    """0: all that there was is in the new store. 1: something is missing. 4: the new store has problems."""
    if written is not None and (problems_of(written.report) or bad_count(written.starts)):
        return EXIT_PROBLEMS
    counts = salvage.counts
    head = salvage.head()
    whole = not head["missing_count"] and not any(
        counts.get(name) for name in ("unsure", "overlapped", "too-large", "earlier-life")
    )
    return EXIT_CLEAN if whole else EXIT_CORRECTED


def problems_of(report: Report) -> dict[str, int]:
    """Findings above info of the new store by rule, without those of what is missing."""
    from rocketfsck.verify.finding import Severity
    from rocketfsck.verify.rules.catalog import RULES

    return {
        rule: count
        for rule, count in report.counts.items()
        if count and rule != LOSS_RULE and RULES[rule].severity > Severity.INFO
    }


def salvage_json(salvage: Salvage, written: SalvagedStore | None) -> dict[str, Any]:
    """The whole result as one object."""
    from rocketfsck.repair.salvage.ledger import SCHEMA_VERSION

    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "kind": "rocketfsck.salvage",
        **salvage.head(),
        "queues": [to_document(queue) for queue in salvage.story.queues],
    }
    if written is not None:
        document |= plain_values({"into": str(written.path), "ledger": str(written.ledger_path)})
        document["findings"] = problems_of(written.report)
        document["starts"] = [plain_values(asdict(start)) for start in written.starts]
    return document


def salvage_lines(salvage: Salvage, written: SalvagedStore | None) -> Iterator[str]:
    """The result for people."""
    from rocketfsck.repair.salvage.choose import FATES

    head = salvage.head()
    meanings = dict(FATES.values())
    yield (
        f"Carved {count_of(head['source_count'], 'file')}, {byte_size(head['source_byte_count'])}: "
        f"{count_of(head['record_count'], 'record')} found"
    )
    for name, count in salvage.counts.items():
        yield f"  {name:<13} {count_of(count, 'record')}: {meanings[name]}"
    yield f"  {'nothing':<13} {byte_size(head['nothing_byte_count'])} hold no record"
    yield (
        f"Layout: {head['layout']} ({head['layout_note']}), physical offsets {head['start_offset']} to "
        f"{head['end_offset']}, files of {byte_size(head['commitlog_file_size'])}, "
        f"fences over {byte_size(head['fence_byte_count'])}"
    )
    short = [queue for queue in salvage.story.queues if queue.missing_count]
    yield f"Queues: {len(salvage.story.queues)}, of which {len(short)} miss records"
    for queue in short[:SHOWN_QUEUES]:
        yield "  " + _queue_line(queue)
    if len(short) > SHOWN_QUEUES:
        yield f"  and {len(short) - SHOWN_QUEUES} more (the ledger has them all)"
    if skipped_count := head["skipped_by_brokers_count"]:
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
