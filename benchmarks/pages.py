"""What a report page costs: a check with and without the page, of a store with very many findings.

    store := 10 GiB of made-up messages, a byte wrong in the bodies of 100,000 of them

Time, processor time and memory of whole commands; the page itself must stay small.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from rocketfsck.formats.dtypes import UNIT_DTYPE
from rocketfsck.store import open_store
from rocketfsck.store.model import Store

from benchmarks.commands import MEMORY_GOAL, TOOL, Used, run
from benchmarks.measure import Row

ABOUT = """\
Written by `python -m benchmarks pages`; not edited. Whole commands in processes of their own, imports
included, by turns, the least of {rounds} rounds (3 at most), files in the page cache as far as they fit. The
store is one of `rocketfsck write --synth plain`, with a wrong byte in the bodies of 100,000 messages that are
spread evenly.

- *check --report*: the check of every rule at the level `full`, the verdict, the plan, and the page; the
  yardstick is the same check without a page.
- *page --store*: the page of the saved report with the store at hand.
- The ratio of a peak or of a size is the share of what is allowed.
"""
GIB = 1 << 30
FINDING_COUNT, SMALL_COUNT = 100_000, 1000
TIME_GOAL = 2.0
PAGE_GOAL = 5_000_000
BODY_POS = 88
"""Where the body of a record with IPv4 hosts begins (reference 2.1)."""
EXIT_CODES = (4,)


def page_rows(folder: Path, size: int, rounds: int, *, with_goals: bool) -> Iterator[Row]:
    """The rows of a store of `size` bytes of log, which is made if it is not there."""
    count = FINDING_COUNT if with_goals else SMALL_COUNT
    root = _store(folder, size, count)
    html, report = folder / "page.html", folder / "page-report.json"
    run((*TOOL, "check", str(root), "--format", "json", "-o", str(report)), EXIT_CODES)
    commands = {
        "check": ((*TOOL, "check", str(root)), EXIT_CODES),
        "check --report": ((*TOOL, "check", str(root), "--report", str(html)), EXIT_CODES),
        "page --store": ((*TOOL, "page", str(report), "--store", str(root), "-o", str(html)), (0,)),
    }
    taken: dict[str, list[Used]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, (command, codes) in commands.items():
            taken[name].append(run(command, codes))
    cpu = {name: min(used.cpu for used in all_used) for name, all_used in taken.items()}
    seconds = {name: min(used.seconds for used in all_used) for name, all_used in taken.items()}
    of = f"{size / GIB:g} GiB with {count:,} findings"
    for name in ("check --report", "page --store"):
        yield Row(
            f"{name}, {of}, processor time",
            cpu[name] * 1e3,
            f"check, {cpu['check']:.1f} s",
            cpu[name] / cpu["check"],
            TIME_GOAL if with_goals else None,
            rate=f"{seconds[name]:.1f} s by the clock",
        )
    for name, all_used in taken.items():
        peak = max(used.peak_size for used in all_used)
        yield Row(
            f"{name}, {of}, peak memory",
            seconds[name] * 1e3,
            f"{MEMORY_GOAL >> 20} MiB",
            peak / MEMORY_GOAL,
            1.0 if with_goals else None,
            rate=f"{peak >> 20} MiB",
        )
    written = html.stat().st_size
    share = written / PAGE_GOAL
    yield Row(f"the page, {of}", 0.0, "5 MB", share, 1.0 if with_goals else None, rate=f"{written:,} bytes")
    for file in (html, report):
        file.unlink()


def _store(folder: Path, size: int, count: int) -> Path:
    root = folder / f"pages-{size}-{count}"
    if not root.exists():
        made_up = ("--synth", "plain", "--size", str(size))
        part = folder / f"pages-{size}.part"
        shutil.rmtree(part, ignore_errors=True)
        run((*TOOL, "write", *made_up, "--no-sync", "--manifest", "none", "--into", str(part)))
        _damage(open_store(part), count)
        part.rename(root)
    return root


def _damage(store: Store, count: int) -> None:
    """Turn a byte of the bodies of some messages, found by their units."""
    units = [np.fromfile(file.path, UNIT_DTYPE) for queue in store.queues for file in queue.files]
    offsets = np.sort(np.concatenate([unit["offset"][unit["size"] > 0] for unit in units]).astype(np.int64))
    chosen = offsets[np.linspace(0, len(offsets) - 1, count).astype(np.int64)]
    for file in store.commitlog.files:
        start = file.start_offset or 0
        data = np.memmap(file.path, np.uint8, "r+")
        inside = chosen[(chosen >= start) & (chosen < start + file.size)] - start + BODY_POS
        data[inside] ^= 0x55
        data.flush()
