"""`python -m tests.hostile.fuzz --seeds 0-9999 --jobs 2`: runs the cases of these numbers and says what
broke."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.hostile.fuzz.summary import Summary
from tests.hostile.fuzz.world import World


def main(arguments: list[str]) -> int:
    """Run the seeds; 1 if a law was broken that is not on the list of what is known."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.fuzz", description=__doc__)
    parser.add_argument("--seeds", default="0-1999", help="A number, or a range A-B that ends with B.")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--no-minimise", action="store_true", help="Say what broke as it was drawn.")
    parser.add_argument("--write", type=Path, help="Write the summary to this file, too, now and then.")
    chosen = parser.parse_args(arguments)
    first, _, last = chosen.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    with World(chosen.jobs) as world:
        summary = Summary()
        for number, outcome in enumerate(world.run(seeds), 1):
            summary.add(outcome)
            if number % 100 == 0:
                print(
                    f"\r{number} of {len(seeds)}, {len(summary.first)} kinds of findings",
                    end="",
                    file=sys.stderr,
                )
                if chosen.write:
                    chosen.write.write_text(summary.text())
        print(file=sys.stderr)
        if not chosen.no_minimise:
            summary.minimise(world)
    text = summary.text()
    print(text)
    if chosen.write:
        chosen.write.write_text(text)
    return 1 if summary.unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
