"""`python -m rocketfsck` is the command `rocketfsck`, and so is this file as `spark-submit`'s application."""

import sys
from pathlib import Path

if __name__ == "__main__":
    if sys.path and sys.path[0] == str(Path(__file__).parent):  # run as a file: its siblings are not modules
        sys.path[0] = str(Path(__file__).parents[1])
    from rocketfsck.cli import main

    main()
