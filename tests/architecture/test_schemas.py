"""Documents that users rely on change knowingly: the list of schemas says what each is now.

`ROCKETFSCK_SCHEMAS=write pytest tests/architecture/test_schemas.py` writes the list again, and
`docs/versioning.md` says when a `schema_version` has to rise.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from rocketfsck.cli.schema.table import DOCUMENTS, document_schema

from tests.architecture.source import MODULES, tree_of

LIST = Path(__file__).parents[2] / "specs" / "schemas.tsv"
TEXTS = ("description", "title", "$comment")


def _without_texts(value: Any) -> Any:
    """A schema without what is for people: their words may change."""
    if isinstance(value, dict):
        return {
            name: _without_texts(inner)
            for name, inner in value.items()
            if not (name in TEXTS and isinstance(inner, str))
        }
    return [_without_texts(inner) for inner in value] if isinstance(value, list) else value


def _hash(name: str) -> str:
    text = json.dumps(_without_texts(document_schema(name)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _stated(module: str) -> int | None:
    """The `SCHEMA_VERSION` that a module states; None if none."""
    for node in tree_of(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SCHEMA_VERSION":
            return int(ast.literal_eval(node.value))
    return None


def _now() -> dict[str, str]:
    versions = {module: stated for module in MODULES if (stated := _stated(module)) is not None}
    return {name: _hash(name) for name in DOCUMENTS} | {name: str(one) for name, one in versions.items()}


def test_documents_change_knowingly() -> None:
    now = _now()
    if os.environ.get("ROCKETFSCK_SCHEMAS") == "write":
        LIST.write_text("".join(f"{name}\t{value}\n" for name, value in sorted(now.items())), "utf-8")
    known = dict(line.split("\t") for line in LIST.read_text("utf-8").splitlines())
    changed = sorted(name for name in {*now, *known} if now.get(name) != known.get(name))
    assert changed == [], "see docs/versioning.md; then write the list again"


def test_versions_of_schemas_are_in_the_list() -> None:
    stated = [module for module in MODULES if _stated(module) is not None]
    assert len(stated) >= 10
    assert all(int(_now()[module]) >= 1 for module in stated)
