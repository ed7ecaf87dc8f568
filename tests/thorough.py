"""Which cases of a test wait for `make thorough`: thorough.tsv has how many of them each `make test` runs.

Every behaviour is tested each time; a test that takes long, or has very many cases, is tried with a few of
them, evenly spread and always the same, so that a change is judged by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

TABLE = Path(__file__).with_suffix(".tsv")


def read_table() -> dict[str, int]:
    """Cases that each run has, by test: the path of its file, `::`, and its name."""
    rows = (line.split("\t") for line in TABLE.read_text("utf-8").splitlines())
    return {test: int(count) for count, test in rows}


def mark(items: Iterable[pytest.Item]) -> None:
    """Mark as thorough what is not among the cases that each run has."""
    cases = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    for test, count in read_table().items():
        tested = cases[test]
        kept = {number * len(tested) // count for number in range(count)}
        for place, item in enumerate(tested):
            if place not in kept:
                item.add_marker("thorough")
