"""The page of the simulated fleet, docs/guide/fleet-simulation.md: `python -m benchmarks fleet`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rocketfsck.pipeline.fleet import stages

from benchmarks.fleet import GIB, PIB, TIB, Described, Machines, Rates, Simulated, made_up, simulate

PAGE = Path(__file__).parent.parent / "docs" / "guide" / "fleet-simulation.md"
LINK_RATE = 25e9 / 8
COUNTS = (10, 100)

TEMPLATE = Path(__file__).with_name("fleet-simulation.txt")


def page() -> str:
    """The page as text; takes a minute or so."""
    rates, stores = Rates(), made_up(1000, 10 * PIB)
    sizes = [store.byte_count for store in stores]
    base = simulate(stores, Machines())
    linked = simulate(stores, Machines(link_rate=LINK_RATE))
    wide = simulate(stores, Machines(cores=4096))
    plain_tasks = sum(len(store.weights()) for store in stores) + 2 * len(stores)
    rows = [
        ("1,024 cores, disks that keep up", base),
        ("1,024 cores, 25 Gbit/s for 16 cores", linked),
        ("4,096 cores, disks that keep up", wide),
    ]
    return TEMPLATE.read_text("utf-8").format(
        rows="".join(_table(rows)),
        memory="".join(_memory(stores, base)),
        pib=sum(sizes) / PIB,
        least=f"{min(sizes) / TIB:.1f} TiB",
        most=f"{max(sizes) / TIB:.0f} TiB",
        byte_seconds=rates.byte_seconds,
        list_us=rates.list_seconds * 1e6,
        unpack_us=rates.unpack_seconds * 1e6,
        listed_size=rates.listed_size,
        result_size=rates.result_size,
        end_us=rates.end_seconds * 1e6,
        send_ms=rates.send_seconds * 1e3,
        start_ms=rates.start_seconds * 1e3,
        passed=f"{base.passed_size / GIB:.0f} GiB",
        held=f"{stages.HELD_SIZE >> 20} MiB",
        group_count=base.group_count,
        core_rate=1024 / rates.byte_seconds,
        machine_rate=16 / rates.byte_seconds,
        link_factor=linked.dollars / base.dollars,
        plain_tasks=plain_tasks,
        plain_driver=_hours(plain_tasks * rates.send_seconds),
        wide_tasks=wide.task_count,
        shared_tasks=base.task_count,
        idle=100 * (1 - base.busy),
        open_time=_hours(sum(store.file_count for store in stores) * rates.list_seconds),
    )


def _table(rows: list[tuple[str, Simulated]]) -> Iterator[str]:
    yield "| cluster | time | cores busy | driver busy | tasks | longest task | a TiB |\n"
    yield "|---|---|---|---|---|---|---|\n"
    for name, found in rows:
        yield (
            f"| {name} | {_hours(found.seconds)} | {100 * found.busy:.0f} % | {_hours(found.driver_seconds)} "
            f"| {found.task_count:,} | {found.longest_seconds:.0f} s | ${found.dollars_a_tib:.3f} |\n"
        )


def _memory(stores: list[Described], whole: Simulated) -> Iterator[str]:
    yield "| stores | bytes | packed lists and results at once | waiting shares | rows | planner |\n"
    yield "|---|---|---|---|---|---|\n"
    for found in [*(simulate(stores[:count], Machines()) for count in COUNTS), whole]:
        yield (
            f"| {found.store_count:,} | {found.byte_count / PIB:.1f} PiB "
            f"| {found.held_size / (1 << 20):.0f} MiB "
            f"| {found.plan_memory / (1 << 20):.0f} MiB | {found.row_size / (1 << 20):.1f} MiB "
            f"| {found.plan_seconds:.1f} s |\n"
        )


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


def write() -> int:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")
    return 0
