"""What to run next: the rest of a check that did not go through everything."""

from __future__ import annotations

import shlex
from pathlib import Path

from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.report import Coverage


def continue_command(root: Path, options: CheckOptions, coverage: Coverage) -> str | None:
    """The command line that checks what was left out; None if nothing was."""
    if coverage.complete:
        return None
    words = ["rocketfsck", "check"]
    if options.level != "full":
        words += ["--level", options.level]
    subset = options.subset
    if subset is not None and subset.number < subset.total:
        words += ["--subset", f"{subset.number + 1}/{subset.total}"]
    if options.resume is not None:
        words += ["--resume", str(options.resume)]
    return shlex.join([*words, str(root)])
