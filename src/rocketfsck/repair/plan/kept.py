"""Where the last plan for a store is kept when no file is named: `apply STORE` finds it there.

    $XDG_STATE_HOME/rocketfsck/plans/<digest of the store's real path>.json

ROCKETFSCK_STATE_DIR takes the place of `$XDG_STATE_HOME/rocketfsck`. Never inside a store.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.repair.plan.document import plan_text, read_plan
from rocketfsck.repair.plan.model import Plan
from rocketfsck.store.reading import named_errors
from rocketfsck.verify.rules.catalog import printable


def kept_path(root: Path | str) -> Path:
    """Where the plan for the store at `root` is kept. Raises StoreError without a home directory."""
    digest = hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:32]
    return _state_directory() / "plans" / f"{digest}.json"


def _state_directory() -> Path:
    given = os.environ.get("ROCKETFSCK_STATE_DIR")
    if given:
        return Path(given)
    base = os.environ.get("XDG_STATE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".local" / "state") / "rocketfsck"
    except RuntimeError as error:
        raise StoreError("there is no home directory to keep a plan in; name a file with -o") from error


def keep_plan(plan: Plan) -> Path:
    """Keep a plan for its store, in the place of an earlier one. Raises StoreError."""
    path = kept_path(plan.store.root)
    with named_errors(path, "cannot be written"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            stream.write(plan_text(plan))
        new.replace(path)
    return path


def kept_plan(root: Path | str) -> Plan:
    """The plan kept for the store at `root`. Raises UsageError without one."""
    path = kept_path(root)
    if not path.is_file():
        name = printable(str(root))
        raise UsageError(f"no plan is kept for {name}; make one with `rocketfsck plan {name}`")
    return read_plan(path)
