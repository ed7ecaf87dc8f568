"""`python -m benchmarks`: measure, print a table, write a page of benchmarks/results/.

    spark           instead of all others, what Spark takes (some 15 minutes; makes a store of 10 GiB in the
                    folder, and deletes it); has a page of its own
    queues          instead of all others, what 32, 1,000 and 10,000 queues take; has a page of its own
    pages           instead of all others, what a report page takes (makes a store of 10 GiB in the
                    folder); has a page of its own
    fleet           instead of all others, the simulation of a fleet (a minute or two); its page is one of the
                    guide, docs/guide/fleet-simulation.md
    queues-spark    the same on Spark (some 20 minutes); has a page of its own
    spark-slope     instead of all others, what a GiB takes on Spark, with 32 and 10,000 queues (some 20
                    minutes; 11 GB in the folder); has a page of its own
    since           instead of all others, what the second night of `check --since` reads of 10 GiB (makes two
                    stores of that size in the folder, and deletes them); has a page of its own
    findings        instead of all others, what a finding costs (some minutes); has a page of its own
    databases       instead of all others, 5,000,000 messages in RocksDB (some minutes); has a page of its own
    driver          instead of all others, the memory of a driver over 10 and 500 stores on a cluster (some 40
                    minutes); has a page of its own
    --folder DIR    where the files that are read are made and kept (some 4 GB; default: a folder of the
                    system's temporary directory)
    --rounds N      how often each job runs; its least time counts (default 7)
    --only WORD     only groups whose name contains the word: log, index, plain, carve,
                    synth, rebuild, query
    --small         small files: shows that everything runs, measures nothing
    --no-write      leave the pages as they are

The exit status is 1 if a goal is not met. What else runs on the machine is part of the figures: let nothing
else run. (`--folder` also keeps a store of made-up messages, which takes minutes to make once.)
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import (
    commands,
    data,
    databases,
    drivermemory,
    findings,
    fleetpage,
    jobs,
    pages,
    query,
    queues,
    rebuild,
    since,
    spark,
    sparkslope,
    synthesis,
)
from benchmarks.measure import Row

RESULTS = Path(__file__).parent / "results"
"""A page a processor: a ratio to a memory read is another where the memory is quicker, or the core slower."""

GIB = 1 << 30
BODY_GOALS = {128: 6.5, 1024: 2.8, 16384: 1.5}
MIX_GOAL = 6.5
INDEX_GOALS = (5.0, 9.0)


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure rocketfsck's bulk paths."
    )
    names = [
        "spark",
        "queues",
        "queues-spark",
        "spark-slope",
        "pages",
        "since",
        "driver",
        "findings",
        "databases",
        "fleet",
    ]
    parser.add_argument("part", nargs="?", choices=names)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "rocketfsck-benchmarks")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--no-write", action="store_true")
    given = parser.parse_args(arguments)
    if given.part == "fleet":
        return fleetpage.write()
    given.folder.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    rows: list[Row] = []
    chosen = PARTS[given.part]
    for name, group in chosen(given.folder, given.rounds, given.small).items():
        if given.only in name:
            for row in group():
                print(_line(row), flush=True)
                rows.append(row)
    if not (given.small or given.only or given.no_write):
        name = re.sub(r"[^a-z0-9]+", "-", _processor().lower()).strip("-")
        abouts = {
            None: ABOUT,
            "spark": spark.ABOUT,
            "spark-slope": sparkslope.ABOUT,
            "pages": pages.ABOUT,
            "since": since.ABOUT,
            "driver": drivermemory.ABOUT,
            "findings": findings.ABOUT,
            "databases": databases.ABOUT,
        }
        about = abouts.get(given.part, queues.ABOUT)
        page = name if given.part is None else f"{name}-{given.part}"
        (RESULTS / f"{page}.md").write_text(report(rows, given.rounds, load, about), "utf-8")
    missed = [row for row in rows if not row.met]
    return 1 if missed and not given.small else 0


def groups(folder: Path, rounds: int, small: bool) -> dict[str, Callable[[], Iterable[Row]]]:
    """The groups of jobs by name. A small run has no goals."""
    size = GIB // 64 if small else GIB

    def log() -> Iterator[Row]:
        for body_size, goal in BODY_GOALS.items():
            file = data.uniform_log(folder, body_size, size)
            yield from jobs.log_rows(file, rounds, None if small else goal)
        file = data.irregular_log(folder, size // 4)
        yield from jobs.log_rows(file, rounds, None if small else MIX_GOAL)

    def index() -> Iterator[Row]:
        slots, entries = (5000, 20_000) if small else (data.SLOT_COUNT, data.ENTRY_COUNT)
        file = data.full_index(folder, slots, entries)
        yield from jobs.index_rows(file, rounds, None if small else INDEX_GOALS)

    def plain() -> Iterator[Row]:
        yield from jobs.plain_rows(data.uniform_log(folder, 128, size), folder, rounds)
        yield from jobs.plain_rows(data.irregular_log(folder, size // 4), folder, rounds)

    return {
        "log": log,
        "index": index,
        "store": lambda: commands.store_rows(folder, GIB // 512 if small else GIB, rounds),
        "start": lambda: commands.start_rows(folder, rounds, not small),
        "memory": lambda: commands.memory_rows(folder, GIB // 512 if small else GIB, not small),
        "plain": plain,
        "carve": lambda: jobs.carve_rows(size // 4, rounds),
        "synth": lambda: synthesis.synth_rows(folder, size, rounds, with_goals=not small),
        "rebuild": lambda: rebuild.rebuild_rows(folder, size, rounds, with_goals=not small),
        "query": lambda: query.query_rows(folder, size, rounds, with_goals=not small),
    }


def spark_groups(folder: Path, rounds: int, small: bool) -> dict[str, Callable[[], Iterable[Row]]]:
    """What `python -m benchmarks spark` measures. A small run has no goals."""
    size = GIB // 4 if small else 10 * GIB
    return {"spark": lambda: spark.spark_rows(folder, size, min(rounds, 3), with_goals=not small)}


def queue_groups(
    folder: Path, rounds: int, small: bool, *, spark: bool = False
) -> dict[str, Callable[[], Iterable[Row]]]:
    """What `python -m benchmarks queues` and `queues-spark` measure. A small run has no goals."""
    size = GIB // 64 if small else GIB // 4
    return {
        "queues": lambda: queues.queue_rows(folder, size, min(rounds, 3), spark=spark, with_goals=not small)
    }


def slope_groups(folder: Path, rounds: int, small: bool) -> dict[str, Callable[[], Iterable[Row]]]:
    """What `python -m benchmarks spark-slope` measures. A small run has no goals."""
    unit = GIB // 64 if small else GIB
    return {"slope": lambda: sparkslope.slope_rows(folder, unit, min(rounds, 3), with_goals=not small)}


def page_groups(folder: Path, rounds: int, small: bool) -> dict[str, Callable[[], Iterable[Row]]]:
    """What `python -m benchmarks pages` measures. A small run has no goals."""
    size = GIB // 64 if small else 10 * GIB
    return {"pages": lambda: pages.page_rows(folder, size, min(rounds, 3), with_goals=not small)}


def since_groups(folder: Path, rounds: int, small: bool) -> dict[str, Callable[[], Iterable[Row]]]:
    """What `python -m benchmarks since` measures. A small run has no goals."""
    del rounds  # bytes are the same each time
    size = GIB // 16 if small else 10 * GIB
    return {"since": lambda: since.since_rows(folder, size, with_goals=not small)}


def driver_groups(folder: Path, rounds: int, small: bool) -> dict[str, Callable[[], Iterable[Row]]]:
    """What `python -m benchmarks driver` measures. A small run has no goals."""
    del rounds  # once: the memory of a process is no matter of chance
    counts = (2, 10) if small else drivermemory.COUNTS
    return {"driver": lambda: drivermemory.driver_rows(folder, counts, with_goals=not small)}


def finding_groups(folder: Path, rounds: int, small: bool) -> dict[str, Callable[[], Iterable[Row]]]:
    """What `python -m benchmarks findings` measures. A small run has no goals."""
    del rounds  # processor time of some seconds
    count = 2000 if small else 1_250_000
    return {"findings": lambda: findings.finding_rows(folder, count, with_goals=not small)}


def database_groups(folder: Path, rounds: int, small: bool) -> dict[str, Callable[[], Iterable[Row]]]:
    """What `python -m benchmarks databases` measures. A small run has no goals."""
    del rounds  # minutes
    count = 3000 if small else 5_000_000
    return {"databases": lambda: databases.database_rows(folder, count, with_goals=not small)}


Groups = Callable[[Path, int, bool], dict[str, Callable[[], Iterable[Row]]]]
PARTS: Mapping[str | None, Groups] = {
    None: groups,
    "spark": spark_groups,
    "queues": queue_groups,
    "queues-spark": partial(queue_groups, spark=True),
    "spark-slope": slope_groups,
    "pages": page_groups,
    "since": since_groups,
    "driver": driver_groups,
    "findings": finding_groups,
    "databases": database_groups,
}
"""What is measured, by the part that is asked for."""


def _line(row: Row) -> str:
    goal = "" if row.goal is None else f"  goal {'>=' if row.at_least else '<='} {row.goal:g}"
    verdict = "" if row.goal is None else "  met" if row.met else "  MISSED"
    figures = f"{row.milliseconds:9.1f} ms  {row.ratio:7.2f} x {row.yardstick}"
    return f"{row.job:55} {figures}{goal}{verdict}  {row.rate}"


ABOUT = """\
Written by `make bench`; not edited. A ratio is a job's least time over the least time of its yardstick, both
run side by side in {rounds} rounds in one process with the files in the page cache, as reading them from the
disk leaves them there. The yardstick of a file is NumPy's sum of its bytes as int64, mapped, on one thread.
Only ratios can be carried to another machine; all figures are those of the product's own path:

- *full scan*: `scan_log_file`, that is frame and fields of every record, CRC of every body, properties, key
  hashes, columns, regions, on all cores, as a check does it where cores are free; the line *on one thread*
  says what one core alone takes, *two files on two threads* what two cores make of two files.
- *index file, structure*: `check_index_file` at the level `cross`;
  *and keys*: that, and every entry met by the keys of the log's records (`KeyJoin`), whose columns are
  made before.
- *whole check*: `check_store` at the level `full`, every rule, over commit log, consume queues and index of
  messages that `rocketfsck write --synth plain` made, on all cores.
- *rebuild*: `rocketfsck rebuild all` of a log of `rocketfsck write --synth plain`, without waiting for the
  disk, start-up included; beside it, what the real store code of 5.3.3 takes to dispatch the same log into
  queues and index, JVM start excluded (a run without a JDK leaves it out). Their files must be the same.
- *query by key*: processor time of opening the store and asking it, imports not counted, as the share of
  what is allowed.
- start-up and peak memory are those of commands in processes of their own, imports included; the ratio is
  the share of what is allowed.
"""


def report(rows: list[Row], rounds: int, load: float, about: str = ABOUT) -> str:
    """A page: a table of all rows, and what it was measured on. `load` is that before the first job."""
    import llvmlite
    import numba

    lines = ["# Benchmark results", "", *about.format(rounds=rounds).splitlines(), ""]
    lines += ["| job | ms | ratio | of | goal | rate |", "|---|---|---|---|---|---|"]
    for row in rows:
        goal = "" if row.goal is None else f"{'≥' if row.at_least else '≤'} {row.goal:g}"
        goal += "" if row.met else " **missed**"
        time = f"{row.milliseconds:.1f}" if row.milliseconds > 0.1 else f"{row.milliseconds:.5f}"
        figures = f"{time} | {row.ratio:.2f} | {row.yardstick}"
        lines.append(f"| {row.job} | {figures} | {goal} | {row.rate} |")
    lines += [
        "",
        f"Machine: {_processor()}, {len(os.sched_getaffinity(0))} cores, load {load:.2f} before the first"
        f" job. Python {platform.python_version()}, NumPy {np.__version__}, Numba {numba.__version__},"
        f" llvmlite {llvmlite.__version__}.",
        "",
    ]
    return "\n".join(lines)


def _processor() -> str:
    names = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text("ascii", "replace").splitlines()
        if line.startswith("model name")
    ]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    sys.exit(main())
