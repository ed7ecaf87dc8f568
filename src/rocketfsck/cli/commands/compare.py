"""`rocketfsck compare A B`: where two replicas differ, and a store healed from both."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.base import Command, common_options
from rocketfsck.cli.engines import chosen_engine, engine_options
from rocketfsck.cli.output import Format, open_output, plain_values, refuse_inside, to_json
from rocketfsck.cli.params import StorePath, output_options, path_argument, storage_option
from rocketfsck.cli.progress import progress
from rocketfsck.cli.text import byte_size, count_of, timestamp, visible
from rocketfsck.errors import EXIT_CLEAN, EXIT_PROBLEMS, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketfsck.repair.compare import Comparison, Copy, Lack, Side
    from rocketfsck.store import Store

SCHEMA_VERSION = 1
SHOWN = 10


@click.command(cls=Command)
@path_argument("a")
@path_argument("b")
@click.option("--heal", is_flag=True, help="Write a store that takes each record from where it is valid.")
@click.option(
    "--into",
    type=StorePath("what is written"),
    help="The healed store's directory, which must not exist; with --heal.",
)
@click.option(
    "--prefer",
    type=click.Choice(["A", "B"]),
    help="Whose records count where both are valid and differ; with --heal.",
)
@click.option("--dry-run", is_flag=True, help="With --heal: say what would be done, and write nothing.")
@click.option(
    "--ledger",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where it is written what came from where; default: beside the store, NAME.ledger.jsonl.",
)
@click.option("--broker-version", metavar="VERSION", help="The broker of both, like 4.9.8; else inferred.")
@click.option("-j", "--jobs", type=click.IntRange(1), help="Files at once; default: one a core.")
@engine_options
@storage_option
@output_options("text", "json")
@common_options
def command(
    a: Path,
    b: Path,
    heal: bool,
    into: Path | None,
    prefer: str | None,
    dry_run: bool,
    ledger: Path | None,
    broker_version: str | None,
    jobs: int | None,
    engine: str,
    master: str | None,
    output_format: Format,
    output: Path | None,
) -> int:
    """Compare the commit logs of the stores A and B, two replicas: what both have, and where they part.

    What is the same is skipped at the speed of reading. Exit status 0 says that both hold the same records,
    4 that they differ; with --heal it is that of `salvage`.
    """
    from rocketfsck.cli.storepath import open_named_store

    if not heal and (into is not None or prefer is not None or ledger is not None or dry_run):
        raise UsageError("--into, --prefer, --ledger and --dry-run are for --heal")
    if heal and into is None and not dry_run:
        raise UsageError("give --into DIR with --heal, or --dry-run")
    if heal and engine != "local":
        raise UsageError("--heal works on this machine: leave out --engine")
    store_a = open_named_store("compare", a, version=broker_version)
    store_b = open_named_store("compare", b, version=broker_version)
    if heal:
        return _heal((store_a, store_b), into, prefer, ledger, output_format, output, broker_version)
    from rocketfsck.repair.compare import compare_stores

    with progress("compare") as bar:
        chosen = chosen_engine(engine, master, jobs or 0, [a, b])
        comparison = compare_stores(store_a, store_b, engine=chosen, progress=bar.update)
    with open_output(output, binary=False, forbidden=(a, b)) as stream:
        if output_format == "json":
            stream.write(to_json(comparison_json(comparison), indent=2) + "\n")
        else:
            stream.writelines(line + "\n" for line in comparison_lines(comparison))
    return EXIT_CLEAN if comparison.same else EXIT_PROBLEMS


def _heal(
    stores: tuple[Store, Store],
    into: Path | None,
    prefer: str | None,
    ledger: Path | None,
    output_format: Format,
    output: Path | None,
    broker_version: str | None,
) -> int:
    from rocketfsck.cli.commands.salvage import exit_code, salvage_json, salvage_lines
    from rocketfsck.repair.heal import heal_stores
    from rocketfsck.repair.salvage import SalvageOptions, default_ledger, write_store

    roots = [directory for store in stores for directory in (store.root, *store.commitlog.directories)]
    if into is not None:
        for written in (into, ledger or default_ledger(into)):
            refuse_inside(written, roots)
    with progress("heal") as bar:

        def advance(_what: str, done: int, total: int) -> None:
            bar.update(done, total)

        options = SalvageOptions(version=broker_version)
        salvage = heal_stores(*stores, options, prefer=prefer, progress=advance)
        made = None
        if into is not None:
            made = write_store(salvage, into, ledger_path=ledger, progress=advance)
    with open_output(output, binary=False, forbidden=roots) as stream:
        if output_format == "json":
            stream.write(to_json(salvage_json(salvage, made), indent=2) + "\n")
        else:
            stream.writelines(line + "\n" for line in salvage_lines(salvage, made))
    return exit_code(salvage, made)


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as one object."""
    sides = {
        name: plain_values({**asdict(side), "path": str(side.path)})
        for name, side in (("a", comparison.a), ("b", comparison.b))
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "rocketfsck.compare",
        "same": comparison.same,
        **sides,
        "common": None if comparison.common is None else list(comparison.common),
        "equal_size": comparison.equal_size,
        "unlike_size": comparison.unlike_size,
        "resume_offset": comparison.resume_offset,
        "different_count": comparison.different_count,
        "different": [plain_values(asdict(item)) for item in comparison.different],
        "lacks": [plain_values(asdict(item)) for item in comparison.lacks],
    }


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """The comparison for people."""
    for name, side in (("A", comparison.a), ("B", comparison.b)):
        yield f"{name}: {visible(str(side.path))}"
        yield f"   {_side(side)}"
    if comparison.common is None:
        yield "No physical offset is in both: neither can go on from the other."
    else:
        low, high = comparison.common
        yield (
            f"Common range: {low} to {high}; {comparison.equal_size:,} bytes are the same, "
            f"{comparison.unlike_size:,} differ"
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
    if comparison.resume_offset is not None:
        yield f"Safe resume offset: {comparison.resume_offset} (all that is common before it is the same)"
    yield "Result: " + ("both hold the same records." if comparison.same else "they differ.")


def _side(side: Side) -> str:
    last = "" if side.last_timestamp is None else f", last record stored {timestamp(side.last_timestamp)}"
    size = byte_size(side.end_offset - side.start_offset)
    return f"physical offsets {side.start_offset} to {side.end_offset} ({size}){last}"


def _divergence(comparison: Comparison) -> Iterator[str]:
    first = comparison.first_divergence
    if first is None:
        yield "No record differs in it."
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
    state = "valid" if copy.valid else "its checksum is wrong"
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
