"""The `fixes` of SARIF results: bytes of files that a repair replaces, and the bytes that take their place.

A fix is an action of the plan. SARIF's fixes replace bytes; actions that make, move or delete files, that
build a file from the log, or that follow from earlier actions have none. `rocketfsck fix` carries out all.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any

from rocketfsck.documents import printable
from rocketfsck.repair.plan.model import Plan
from rocketfsck.repair.plan.rehearsal import Replacement, replacements_of
from rocketfsck.store.model import Store

Artifact = Callable[[str], dict[str, str]]
"""How a file of the store is named."""


def fixes_of(plan: Plan, store: Store, artifact: Artifact) -> Mapping[str, list[dict[str, Any]]]:
    """The fixes of every finding that has any, by its fingerprint."""
    found: dict[str, list[dict[str, Any]]] = {}
    for action, kept in replacements_of(plan, store):
        changes = [
            {"artifactLocation": artifact(file), "replacements": [_replacement(item) for item in items]}
            for file, items in groupby(sorted(kept, key=attrgetter("file")), attrgetter("file"))
        ]
        fix = {"description": {"text": printable(action.note)}, "artifactChanges": changes}
        for fingerprint in action.why:
            found.setdefault(fingerprint, []).append(fix)
    return found


def _replacement(item: Replacement) -> dict[str, Any]:
    said: dict[str, Any] = {"deletedRegion": {"byteOffset": item.pos, "byteLength": item.size}}
    if item.data:
        said["insertedContent"] = {"binary": base64.b64encode(item.data).decode("ascii")}
    return said
