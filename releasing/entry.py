"""Where the executable starts: as `rocketfsck`, or as the Python that does a part of its work.

    rocketfsck …                            the command line
    rocketfsck -P …/store/rocks/child.py …  reads a database, in a process that may crash
    rocketfsck -m rocketfsck …              the check that `browse` starts

The last two are command lines of Python: in the executable `sys.executable` is the executable.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import PurePath

CHILDREN = {"child.py": "rocketfsck.store.rocks.child", "rowchild.py": "rocketfsck.store.rocks.rowchild"}
"""Modules that run as files of their own. They need nothing else of rocketfsck."""


def main() -> None:
    """Run what the arguments ask for."""
    match sys.argv[1:]:
        case ["-P", path, *arguments] if PurePath(path).name in CHILDREN:
            sys.argv = [path, *arguments]
            runpy.run_module(CHILDREN[PurePath(path).name], run_name="__main__", alter_sys=False)
            return
        case ["-m", "rocketfsck", *arguments]:
            sys.argv = [sys.argv[0], *arguments]
    from rocketfsck.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
