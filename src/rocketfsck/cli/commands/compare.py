"""`rocketfsck compare A B`: where two replicas differ, a plan to heal A, and a store healed from both."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rocketfsck.cli.adapter import Formats, WritingCommand, command_of
from rocketfsck.cli.output import Destination, open_output
from rocketfsck.cli.settings import Jobs, max_memory
from rocketfsck.cli.show.replication import config_lines, differing_offsets, replication_lines
from rocketfsck.cli.show.text import Palette, byte_size, count_of, text_columns, timestamp, visible
from rocketfsck.commands.compare import CompareCommand, compare, heal, plan_healing
from rocketfsck.common.documents import to_document
from rocketfsck.common.options import PutAfter
from rocketfsck.repair.compare.compare import comparison_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocketfsck.repair.compare.compare import Comparison, Copy, Lack, Side
    from rocketfsck.repair.plan.model import Plan

SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareLine(CompareCommand):
    """A comparison, and where its answer goes."""

    answer: Annotated[Destination, Formats(("text", "json"))]
    jobs: Annotated[Jobs, PutAfter("broker_version")] = None
    max_memory: Annotated[int | None, max_memory("compare")] = None


@command_of(CompareLine, timing="compare", cls=WritingCommand, advisory=("prefer",))
def command(line: CompareLine) -> int:
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
        from rocketfsck.cli.commands.salvage import salvage_lines

        came, roots = heal(line)
        line.answer.say(
            lambda: to_document(came.document()),
            lambda _: salvage_lines(came.salvage, came.written),
            roots,
        )
        return came.exit_code
    answer = compare(line)
    line.answer.say(
        lambda: to_document(comparison_document(*answer.comparisons)),
        lambda _: comparisons_lines(answer.comparisons),
        (line.a, line.b, *line.further),
    )
    return answer.exit_code


def _plan(line: CompareLine) -> int:
    from rocketfsck.repair.plan.document import plan_text

    output = line.answer.path
    healing = plan_healing(line, output)
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

    for line in plan_lines(plan, palette, text_columns()):
        stream.write(line + "\n")
    if plan.actions:
        names = shlex.join(map(str, stores))
        again = f"rocketfsck compare {names} --heal -o plan.json"
        command = again if output is None else f"rocketfsck apply {shlex.quote(str(output))}"
        stream.write(f"Next: {palette.good(visible(command, keep_backslash=True))}\n")


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
        yield (
            f"Common range: {low} to {high}; {comparison.equal_byte_count:,} bytes are the same, "
            f"{comparison.unlike_byte_count:,} differ"
        )
        yield from _divergence(comparison)
    for name in ("A", "B"):
        lacks = [lack for lack in comparison.lacks if lack.side == name]
        if not lacks:
            continue
        count = sum(lack.record_count for lack in lacks)
        yield f"Only {name} has {count_of(count, 'record')} of {count_of(len(lacks), 'queue')}:"
        yield from (f"  {_lack(lack)}" for lack in lacks[:SHOWN])
        if len(lacks) > SHOWN:
            yield f"  and {len(lacks) - SHOWN} more queues (--format json has them all)"
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
    return (
        f"{visible(copy.topic)}/{copy.queue_id}, queue offset {copy.queue_offset}, {copy.size} bytes, "
        f"stored {timestamp(copy.store_timestamp)}: {state}"
    )


def _lack(lack: Lack) -> str:
    if lack.queue_id < 0:
        return f"{count_of(lack.record_count, 'record')} that no queue holds"
    return (
        f"{visible(lack.topic)}/{lack.queue_id}: {count_of(lack.record_count, 'record')}, queue offsets "
        f"{lack.first_queue_offset} to {lack.last_queue_offset}"
    )
