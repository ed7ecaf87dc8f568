"""Plans as JSON, and back. Reading is strict: a plan says exactly what it must, or it is refused.

    {"kind": "rocketfsck.plan", "schema_version": 5, "store": {...}, "level": ..., "actions": [...], ...}

Every member of the dataclasses of `repair.plan.model` is there under its name, and nothing else
(`common.documents`). The arguments of an action have the class that the row of its repair names.

Where the last plan for a store is kept when no file is named: `apply STORE` finds it there.

    $XDG_STATE_HOME/rocketfsck/plans/<digest of the store's real path>.json

ROCKETFSCK_STATE_DIR takes the place of `$XDG_STATE_HOME/rocketfsck`. Never inside a store.

What a rebuilding was done by and does not know, as the actions of a plan that would do the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

from rocketfsck.common import documents
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.repair.build.run import Rebuilt
from rocketfsck.repair.plan.arguments import QueuesToBuild
from rocketfsck.repair.plan.law import assumed_by_rebuilding
from rocketfsck.repair.plan.model import SCHEMA_VERSION, Action, Assumption, Plan
from rocketfsck.repair.plan.planning import all_repairs
from rocketfsck.store.model import Store
from rocketfsck.store.reading import named_errors, read_whole
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.writer.disk import fileops


def assumed_of(store: Store, rebuilt: Rebuilt) -> tuple[Assumption, ...]:
    """The values that neither the bytes of the store nor the user gave."""
    table = all_repairs()
    rows = []
    if rebuilt.queues is not None and rebuilt.queues.queues and rebuilt.queues.database is None:
        built = QueuesToBuild(tuple((queue.topic, queue.queue_id) for queue in rebuilt.queues.queues))
        rows.append((table["rebuild-queue"], Action("", "consumequeue", "", built)))
    if rebuilt.index is not None and rebuilt.index.files:
        rows.append((table["rebuild-index"], Action("", "index", "")))
    if rebuilt.checkpoint:
        rows.append((table["write-checkpoint"], Action("", "checkpoint", "")))
    return assumed_by_rebuilding(store, rows)


KIND = "rocketfsck.plan"


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """The plan as JSON values; `plan_from_json` gives an equal plan back."""
    return {"kind": KIND, **documents.to_document(plan)}


def plan_text(plan: Plan) -> str:
    """The plan as a JSON text of printable ASCII, with line breaks, that compares well line by line."""
    return documents.json_text(plan_to_json(plan), indent=2) + "\n"


def plan_digest(plan: Plan) -> str:
    """Hex SHA-256 of what the plan does, whatever the JSON text looked like.

    A plan whose assumptions were confirmed meanwhile is the same plan.
    """
    document = plan_to_json(plan)
    for action in document["actions"]:
        action["assumptions"] = [(item["name"], item.get("value")) for item in action["assumptions"]]
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode("ascii")).hexdigest()


def plan_from_json(document: Any, name: str = "plan") -> Plan:
    """The plan that `plan_to_json` wrote; raises UsageError with the path of the member for anything else.

    `name` is what the error calls the plan.
    """
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise UsageError(f"not a plan: the member kind must be {KIND!r}")
    version = document.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        shown = documents.printable(documents.json_text(version))[:40]
        raise UsageError(f"a plan of schema version {shown}; this program reads {SCHEMA_VERSION}")
    members = {member: value for member, value in document.items() if member != "kind"}
    plan = documents.from_document(Plan, members, name, complete=_with_arguments)
    for number, action in enumerate(plan.actions):
        place = f"{name}: actions[{number}]"
        for member in ("preconditions", "sources"):
            for index, extent in enumerate(getattr(action, member)):
                if extent.start < 0 or (extent.end is not None and extent.end < extent.start):
                    raise UsageError(f"{place}.{member}[{index}]: not a range of bytes")
        for index, extent in enumerate(action.sources):
            if not extent.file.startswith("/") or extent.end is None or extent.sha256 is None:
                raise UsageError(f"{place}.sources[{index}]: not bytes of another file")
        if action.write_byte_count < 0:
            raise UsageError(f"{place}.write_byte_count is negative")
    unknown = sorted(
        {*plan.counts, *plan.answered_counts, *(item.rule for item in plan.unanswered)} - set(RULES)
    )
    if unknown:
        raise UsageError(f"{name}: no rule has the name {documents.printable(unknown[0])!r}")
    return plan


def _with_arguments(plan: Plan, document: Any) -> Plan:
    """The plan whose actions have their arguments; raises ValueError for those that an action cannot have."""
    given = [action.get("arguments") for action in document["actions"]]
    return replace(plan, actions=tuple(map(_with_own_arguments, range(len(given)), plan.actions, given)))


def _with_own_arguments(number: int, action: Action, given: Any) -> Action:
    table = all_repairs()
    if action.name not in table:
        raise ValueError(f"actions[{number}].name: no repair has the name {action.name!r}")
    try:
        return replace(action, arguments=documents.convert(table[action.name].arguments, given))
    except ValueError as error:
        raise ValueError(f"actions[{number}].arguments of {action.name}: {error}") from error


def read_plan(path: Path) -> Plan:
    """The plan in a file. UsageError if it holds none, StoreError if it cannot be read."""
    return parse_plan(read_whole(path, documents.LIMITS["plan"]), str(path))


def parse_plan(data: bytes, name: str = "plan") -> Plan:
    """The plan in a JSON text; raises UsageError."""
    return plan_from_json(documents.parse_text(data, name), documents.printable(name))


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
        name = documents.printable(str(root))
        raise UsageError(f"no plan is kept for {name}; make one with `rocketfsck plan {name}`")
    return read_plan(path)
