"""`rocketfsck compare A B`: where two replicas differ, a plan to heal A, and a store healed from both."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.danger import WritingCommand
from rocketfsck.cli.engines import chosen_engine, engine_options
from rocketfsck.cli.memory import memory_option
from rocketfsck.cli.options import (
    dry_run_option,
    into_option,
    jobs_option,
    ledger_option,
    level_option,
    work_dir_option,
)
from rocketfsck.cli.output import open_output, plain_values, refuse_inside
from rocketfsck.cli.params import (
    Destination,
    broker_version_option,
    output_options,
    path_argument,
    storage_option,
)
from rocketfsck.cli.paramtypes import StorePath
from rocketfsck.cli.settings import common_options
from rocketfsck.cli.show.fit import text_columns
from rocketfsck.cli.show.replication import config_lines, differing_offsets, replication_lines
from rocketfsck.cli.show.text import Palette, byte_size, count_of, timestamp, visible
from rocketfsck.cli.timing import timing_of
from rocketfsck.errors import EXIT_CLEAN, EXIT_PROBLEMS, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocketfsck.repair.compare.compare import Comparison, Copy, Lack, Side
    from rocketfsck.repair.plan.model import Plan
    from rocketfsck.store import Store

SCHEMA_VERSION = 1
SHOWN = 10


@click.command(cls=WritingCommand, advisory=("prefer",))
@path_argument("a", metavar="A")
@path_argument("b", metavar="B")
@click.argument("further", metavar="[STORE…]", nargs=-1, type=StorePath())
@click.option(
    "--heal",
    is_flag=True,
    help="Plan to repair A: each record is taken from where it is valid; -o PLAN is for `rocketfsck apply`.",
)
@into_option()
@click.option(
    "--prefer",
    type=click.Choice(["A", "B"]),
    help="With --heal: the store whose records count where both are valid and differ.",
)
@dry_run_option
@ledger_option
@level_option
@work_dir_option
@broker_version_option()
@jobs_option
@memory_option("compare")
@engine_options
@storage_option
@output_options("text", "json")
@timing_of("compare")
@common_options
def command(
    a: Path,
    b: Path,
    further: tuple[Path, ...],
    heal: bool,
    into: Path | None,
    prefer: str | None,
    dry_run: bool,
    ledger: Path | None,
    level: Any,
    work_dir: Path | None,
    broker_version: str | None,
    engine: str,
    master: str | None,
    answer: Destination,
) -> int:
    """Compare the commit logs of the stores A and B, two replicas: what both have, and where they diverge.

    compare skips equal parts at the speed of reading. Exit status 0 means that all stores hold the same
    records, 4 that they differ. Offsets of consumer groups are compared, too, and do not count for the exit
    status. Each further STORE is compared with every one before it, as the nodes
    of one DLedger group. --heal plans how A gets from B what A lacks or has damaged; compare only reads B.
    With --heal the exit status is that of `plan`, with --into that of `salvage`.
    """
    from rocketfsck.cli.storepath import open_named_store

    direct = into is not None or dry_run
    if not heal and (direct or prefer is not None or ledger is not None or work_dir is not None):
        raise UsageError("--into, --prefer, --ledger, --work-dir and --dry-run are for --heal")
    if heal and ledger is not None and not direct:
        raise UsageError("--ledger is for --heal --into; apply keeps one with what it did")
    if heal and further:
        raise UsageError("--heal needs exactly two stores")
    if heal and engine != "local":
        raise UsageError("--heal works on this machine: leave out --engine")
    store_a = open_named_store("compare", a, version=broker_version)
    store_b = open_named_store("compare", b, version=broker_version)
    if heal and not direct:
        plan, code = _plan((store_a, store_b), prefer, level, work_dir, answer.path)
        stdout = Destination(answer.form, None)
        with stdout.open() as stream:
            if answer.form == "json" or answer.is_dash:
                from rocketfsck.repair.plan.document import plan_text

                stream.write(plan_text(plan))
            else:
                _write_plan(plan, (a, b), answer.path, stream, stdout.palette(stream))
        return code
    if heal:
        return _heal((store_a, store_b), into, prefer, ledger, answer, broker_version)
    from rocketfsck.repair.compare.compare import compare_stores

    stores = [store_a, store_b]
    stores += [open_named_store("compare", path, version=broker_version) for path in further]
    chosen = chosen_engine(engine, master, [a, b, *further])
    comparisons = [
        compare_stores(one, other, engine=chosen)
        for number, other in enumerate(stores)
        for one in stores[:number]
    ]
    answer.say(
        lambda: comparisons_json(comparisons), lambda _: comparisons_lines(comparisons), (a, b, *further)
    )
    return EXIT_CLEAN if all(comparison.same for comparison in comparisons) else EXIT_PROBLEMS


def _plan(
    stores: tuple[Store, Store],
    prefer: str | None,
    level: Any,
    work_dir: Path | None,
    output: Path | None,
) -> tuple[Plan, int]:
    from rocketfsck.repair.heal.plan import HealOptions, plan_heal
    from rocketfsck.repair.plan.document import plan_text

    roots = [directory for store in stores for directory in (store.root, *store.commitlog.directories)]
    for written in (output, work_dir):
        if written is not None:
            refuse_inside(written, roots)
    if work_dir is not None and not work_dir.is_dir():
        raise UsageError(f"{work_dir} is not a directory")
    options = HealOptions(prefer == "B", level, work_dir)
    plan, report = plan_heal(*stores, options)
    if output is not None:
        with open_output(output, binary=False, forbidden=roots) as stream:
            stream.write(plan_text(plan))
    return plan, report.exit_code | (EXIT_PROBLEMS if plan.actions else EXIT_CLEAN)


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


def _heal(
    stores: tuple[Store, Store],
    into: Path | None,
    prefer: str | None,
    ledger: Path | None,
    answer: Destination,
    broker_version: str | None,
) -> int:
    from rocketfsck.cli.commands.salvage import exit_code, salvage_json, salvage_lines
    from rocketfsck.repair.heal.heal import heal_stores
    from rocketfsck.repair.salvage.ledger import SalvageOptions
    from rocketfsck.repair.salvage.salvage import default_ledger, write_store

    roots = [directory for store in stores for directory in (store.root, *store.commitlog.directories)]
    if into is not None:
        for written in (into, ledger or default_ledger(into)):
            refuse_inside(written, roots)
    options = SalvageOptions(version=broker_version)
    salvage = heal_stores(*stores, options, prefer=prefer)
    made = None
    if into is not None:
        made = write_store(salvage, into, ledger_path=ledger)
    answer.say(lambda: salvage_json(salvage, made), lambda _: salvage_lines(salvage, made), roots)
    return exit_code(salvage, made)


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as one object."""
    sides = {
        name: plain_values({**asdict(side), "path": str(side.path)})
        for name, side in (("a", comparison.a), ("b", comparison.b))
    }
    first = comparison.first_divergence
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "rocketfsck.compare",
        "same": comparison.same,
        **sides,
        "common": None if comparison.common is None else list(comparison.common),
        "equal_byte_count": comparison.equal_byte_count,
        "unlike_byte_count": comparison.unlike_byte_count,
        "resume_offset": comparison.resume_offset,
        "different_count": comparison.different_count,
        "first_different_offset": None if first is None else first.physical_offset,
        "different": [plain_values(asdict(item)) for item in comparison.different],
        "lacks": [plain_values(asdict(item)) for item in comparison.lacks],
        "replication": plain_values(asdict(comparison.replication)),
        "configs": plain_values(asdict(comparison.configs)),
        "further": [],
    }


def comparisons_json(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """The first comparison, with all others in it."""
    first, *others = map(comparison_json, comparisons)
    return {**first, "further": others}


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
