"""The command line: click, and nothing that the library itself needs.

Importing this package imports nothing; `main` imports click, and a command its own module when it is called.
"""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """The console script: runs `sys.argv` and exits with the status of `rocketfsck.errors`."""
    gc.disable()  # imports make many objects and no garbage
    from rocketfsck.cli.app import run

    gc.enable()
    sys.exit(run(sys.argv[1:]))
