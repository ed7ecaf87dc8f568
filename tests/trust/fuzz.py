"""Figures of the fuzzer: so many seeds, what was run on them, and which laws were broken."""

from __future__ import annotations

import sys
from collections import Counter

from tests.hostile.fuzz.known import known_reason
from tests.hostile.fuzz.summary import Summary
from tests.hostile.fuzz.world import World
from tests.trust.documents import Fuzz, commit

FIRST = 700_000
COUNT = 1000


def measure(jobs: int = 1, count: int | None = None) -> Fuzz:
    """Run so many seeds; each takes half a second of a processor."""
    count = count or COUNT
    summary = Summary()
    with World(jobs) as world:
        for number, outcome in enumerate(world.run(range(FIRST, FIRST + count)), 1):
            summary.add(outcome)
            if number % 100 == 0:
                print(f"fuzz: {number} of {count}", file=sys.stderr)
    return figures(summary)


def figures(summary: Summary) -> Fuzz:
    """What a run has found, without its cases."""
    broken, known = Counter[str](), Counter[str]()
    for mark, (_, found) in summary.first.items():
        reason = known_reason(found)
        if reason is None:
            broken[found.law] += summary.counts[mark]
        else:
            known[reason] += summary.counts[mark]
    return Fuzz(
        commit(),
        FIRST,
        summary.mutants,
        dict(sorted(summary.commands.items())),
        round(1000 * summary.seconds),
        summary.largest[0] >> 20,
        dict(sorted(broken.items())),
        dict(sorted(known.items())),
    )
