"""`python -m tests.trust PART…`: measures parts anew and writes the page; `page` writes only the page."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from tests.trust.documents import KINDS, write


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trust", description=__doc__)
    parser.add_argument("parts", nargs="+", choices=[*KINDS, "page"], metavar="PART")
    parser.add_argument(
        "--jobs", type=int, default=1, help="Processes at once, where a part can have several."
    )
    parser.add_argument("--count", type=int, help="So many seeds of the fuzzer, or mutants.")
    chosen = parser.parse_args(arguments)
    for part in chosen.parts:
        if part != "page":
            print(write(part, import_module(f"tests.trust.{part}").measure(chosen.jobs, chosen.count)))
    import_module("tests.trust.page").write()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
