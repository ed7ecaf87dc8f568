"""What an embedded Spark session starts Python workers by: Spark's own daemon, which says less.

A task whose rows nobody wants any more, as after `show()`, ends by a broken pipe. Spark's daemon prints the
stack of it, although nothing is wrong.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any

from pyspark import daemon

_print_exc = traceback.print_exc


def print_unless_hung_up(*arguments: Any, **options: Any) -> None:
    """`traceback.print_exc`, but nothing for a pipe that the other side closed."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
        _print_exc(*arguments, **options)


def main() -> None:
    """Run Spark's daemon until Spark ends it."""
    traceback.print_exc = print_unless_hung_up
    daemon.manager()


if __name__ == "__main__":
    main()
