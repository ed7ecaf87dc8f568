"""The mutation score: a sample of small changes of the source, and how many of them a test notices."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.calls import Calls, make_calls, read_calls
from tests.mutation.functions import Source
from tests.mutation.mutants import draw
from tests.mutation.running import Outcome, collect, run_all
from tests.mutation.summary import VERDICTS
from tests.trust.documents import ROOT, Mutants, Mutation, commit

SEED = 7
COUNT = 200
BUDGET = 10  # seconds of tests for a mutant
PATIENCE = 20.0
PACKAGES = ("formats", "verify")
TESTS = ("tests/unit/formats", "tests/unit/verify")
CALLS = Path("build/trust/calls.json")


def measure(jobs: int = 1, count: int | None = None) -> Mutation:
    """Run the sample: some ten minutes of two cores, half of them to learn which test calls what.

    A file of calls from an earlier run is taken as it is: remove it after a change.
    """
    source = Source((ROOT / "src" / "rocketfsck").resolve(), PACKAGES)
    sys.path.insert(0, str(source.root.parent))
    mutants = draw(source, count or COUNT, SEED)
    calls = read_calls(CALLS) if CALLS.exists() else make_calls(source, TESTS, CALLS, jobs)
    collect({test for mutant in mutants for test in calls.chosen(mutant.name, BUDGET)})
    outcomes: list[Outcome] = []
    for outcome in run_all(source, mutants, calls, budget=BUDGET, patience=PATIENCE, jobs=jobs):
        outcomes.append(outcome)
        print(f"{len(outcomes)} {outcome.verdict}: {outcome.mutant}", file=sys.stderr, flush=True)
    return figures(outcomes, calls)


def figures(outcomes: Sequence[Outcome], calls: Calls) -> Mutation:
    """Verdicts by package."""
    packages = sorted({outcome.mutant.package for outcome in outcomes})
    counts = {
        name: Counter(outcome.verdict for outcome in outcomes if outcome.mutant.package == name)
        for name in packages
    }
    rows = tuple(Mutants(name, {verdict: counts[name][verdict] for verdict in VERDICTS}) for name in packages)
    return Mutation(commit(), SEED, BUDGET, TESTS, len(calls.seconds), rows)
