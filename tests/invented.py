"""Runs a module as it is when the table of broker versions has one row more.

python -m tests.invented rocketfsck simulate STORE --as-broker 5.99.0
"""

from __future__ import annotations

import runpy
import sys

from rocketfsck.formats.versions import VERSIONS

INVENTED = "5.99.0"
ROW = {"trailing_separator": False, "recovery_file_limit": 20}
"""One trait as an older version had it, and one with a value that no version has."""

if __name__ == "__main__":
    VERSIONS[INVENTED] = ROW
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
