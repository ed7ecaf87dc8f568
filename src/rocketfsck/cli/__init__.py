"""The command line: click, and nothing that the library itself needs.

Importing this package imports nothing; `main` imports click, and a command its own module when it is called.
"""

from __future__ import annotations

import gc
import sys

COLLECT_FROM = 100_000
"""Objects made more than deleted before garbage is looked for: imports make many, and no garbage."""


def main() -> None:
    """The console script: runs `sys.argv` and exits with the status of `rocketfsck.errors`."""
    gc.set_threshold(COLLECT_FROM, 20, 20)
    from rocketfsck.cli.app import run

    status = run(sys.argv[1:])
    gc.freeze()  # or Python would look through all that was imported, several times, on its way out
    sys.exit(status)
