"""Where the last plan for a store is kept when no file is named: `apply STORE` finds it there.

    $XDG_STATE_HOME/rocketfsck/plans/<digest of the store's real path>.json

ROCKETFSCK_STATE_DIR takes the place of `$XDG_STATE_HOME/rocketfsck`. Never inside a store.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.repair.plan.document import plan_text, read_plan
from rocketfsck.repair.plan.model import Plan
from rocketfsck.store.reading import named_errors
from rocketfsck.verify.rules.catalog import printable
from rocketfsck.writer.disk import fileops


def kept_path(root: Path | str) -> Path:
    """Where the plan for the store at `root` is kept. Raises StoreError without a home directory."""
    return state_path("plans", root, ".json")


def state_path(kind: str, root: Path | str, ending: str) -> Path:
    """Where something of a kind is kept for the store at `root`; StoreError without a home directory."""
    digest = hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:32]
    return _state_directory() / kind / f"{digest}{ending}"


def _state_directory() -> Path:
    given = os.environ.get("ROCKETFSCK_STATE_DIR")
    if given:
        return Path(given)
    base = os.environ.get("XDG_STATE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".local" / "state") / "rocketfsck"
    except RuntimeError as error:
        raise StoreError("no home directory exists to keep the plan in; name a file with -o") from error


def keep_plan(plan: Plan) -> Path:
    """Keep a plan for its store, in place of an earlier one. Raises StoreError."""
    path = kept_path(plan.store.root)
    with named_errors(path, "cannot be written"):
        part = f"{path.name}.{secrets.token_hex(8)}.part"
        with fileops.open_directory(path.parent, only=frozenset({part, path.name})) as shelf:
            fileops.write_new(shelf / part, plan_text(plan).encode("ascii"), 0o600)
            fileops.rename(shelf / part, shelf / path.name)
    return path


def kept_plan(root: Path | str) -> Plan:
    """The plan kept for the store at `root`. Raises UsageError without one."""
    path = kept_path(root)
    if not path.is_file():
        name = printable(str(root))
        raise UsageError(f"no plan is kept for {name}; make one with `rocketfsck plan {name}`")
    return read_plan(path)
