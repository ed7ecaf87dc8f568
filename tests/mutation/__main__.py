"""`python -m tests.mutation --count 500 --seed 1`: changes functions, one at a time, and runs their tests.

A run of the tests notes which of them call which function; `--calls` keeps what it found for another run.
Remove the file after a change of the source or of the tests.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.mutation.calls import Calls, make_calls, read_calls
from tests.mutation.functions import Source
from tests.mutation.mutants import Mutant, draw
from tests.mutation.running import Outcome, collect, run_all
from tests.mutation.summary import page, text


def main(arguments: list[str]) -> int:
    """Run a sample; 1 if tests of a mutant could not be run, 2 if the kept calls are of another source."""
    chosen = _parser().parse_args(arguments)
    source = Source(chosen.source.resolve(), tuple(chosen.packages))
    sys.path.insert(0, str(source.root.parent))
    mutants = draw(source, chosen.count, chosen.seed)
    if chosen.only:
        mutants = [mutant for mutant in mutants if mutant.module.startswith(tuple(chosen.only))]
    if chosen.calls.exists():
        calls = read_calls(chosen.calls)
    else:
        calls = make_calls(source, chosen.tests, chosen.calls, chosen.jobs)
    if unknown := {mutant.name for mutant in mutants} - calls.functions:
        print(
            f"{chosen.calls} does not know {min(unknown)}: remove the file, and it is made again",
            file=sys.stderr,
        )
        return 2
    print(f"{len(mutants)} mutants, {len(calls.seconds)} tests", file=sys.stderr)
    collect(_tests(mutants, calls, chosen.budget))
    end = time.monotonic() + chosen.seconds if chosen.seconds else float("inf")
    outcomes: list[Outcome] = []
    with suppress(KeyboardInterrupt):  # what is known by then is said
        for outcome in run_all(
            source, mutants, calls, budget=chosen.budget, patience=chosen.patience, jobs=chosen.jobs
        ):
            outcomes.append(outcome)
            print(f"{len(outcomes)} {outcome.verdict}: {outcome.mutant}", file=sys.stderr, flush=True)
            if time.monotonic() > end:
                break
    print(text(outcomes))
    if chosen.write:
        chosen.write.write_text(page(outcomes, _sample(chosen, len(outcomes), calls)), "utf-8")
    return int(any(outcome.verdict == "broken" for outcome in outcomes))


def _tests(mutants: list[Mutant], calls: Calls, budget: float) -> set[str]:
    return {test for mutant in mutants for test in calls.chosen(mutant.name, budget)}


def _sample(chosen: argparse.Namespace, count: int, calls: Calls) -> list[str]:
    """What a page says of the sample."""
    return [
        f"seed {chosen.seed}; {count:,} mutants",
        f"{len(calls.seconds):,} tests, of {', '.join(f'`{path}`' for path in chosen.tests)}",
        f"for each mutant the quickest tests that call its function, up to {chosen.budget:g} s together",
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="How many mutants are drawn.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", nargs="+", default=["tests"], help="Run these tests for the calls.")
    parser.add_argument("--calls", type=Path, default=Path("build/mutation/calls.json"))
    parser.add_argument("--budget", type=float, default=60.0, help="Seconds of tests for a mutant.")
    parser.add_argument("--patience", type=float, default=20.0, help="Seconds that a start may take.")
    parser.add_argument("--seconds", type=float, help="Stop after so many seconds of mutants.")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", nargs="+", help="Of the sample, only modules that begin like this.")
    parser.add_argument("--source", type=Path, default=Path("src/rocketfsck"))
    parser.add_argument("--packages", nargs="+", default=["formats", "verify", "repair"])
    parser.add_argument("--write", type=Path, help="Write a page of Markdown, too.")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
