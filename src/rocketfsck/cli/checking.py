"""A check with its progress on the terminal, as `check`, `plan` and `fix` begin with one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rocketfsck.cli.progress import progress

if TYPE_CHECKING:
    from rocketfsck.engine import Engine
    from rocketfsck.store import Store
    from rocketfsck.verify.options import CheckOptions
    from rocketfsck.verify.report import Report


def check_named(store: Store, options: CheckOptions, path: Path, engine: Engine | None = None) -> Report:
    """Check the store that the command line calls `path`; errors as `check_store` raises them."""
    from rocketfsck.verify.run import check_store

    with progress(f"check {os.fspath(path)}") as bar:
        return check_store(store, options, engine=engine, progress=bar.update)
