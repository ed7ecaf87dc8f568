"""One piece of what the tool knows is hidden from it at a time: a sound store stays without damage. ADR 0011.

The traits of a dialect are data that every check reads, and are hidden in the store's dialect. Magic codes
and bits of sysFlag are constants of compiled kernels: `test_regular` hides them by changing stores.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.formats.config import decode_config, encode_config
from rocketfsck.formats.dialect import Dialect, dialect_for
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import open_store
from rocketfsck.store.model import Store
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.finding import Severity

from tests.conftest import Directory

NOW = 1_900_000_000_000
STORES = ("5.5.0-long", "5.5.0-timer")
OTHER: dict[str, object] = {"property_parser": "split"}
OPEN: dict[tuple[str, str], str] = {}
"""Traits that are taken for damage if they are not known, with the store and the reason; strict."""


def without(dialect: Dialect, trait: str) -> Dialect | None:
    """The dialect as a tool would have it that does not know the trait; None where it has none to hide."""
    value = getattr(dialect, trait)
    hidden: dict[str, Any] = {}
    if isinstance(value, bool):
        hidden = {trait: False} if value else {}
    elif isinstance(value, tuple):
        hidden = {trait: value[:-1]} if value else {}
    elif trait in OTHER and value != OTHER[trait]:
        hidden = {trait: OTHER[trait]}
    return replace(dialect, **hidden) if hidden else None


TRAITS = tuple(
    field.name for field in fields(Dialect) if without(dialect_for("5.5.0"), field.name) is not None
)
"""Those that brokers of the version of the stores have."""


def _as(store: Store, dialect: Dialect) -> Store:
    return replace(store, dialect_evidence=replace(store.dialect_evidence, dialect=dialect))


def damage_and_actions(store: Store) -> tuple[set[str], set[str]]:
    report = check_store(store, CheckOptions(level="full", jobs=1, now_timestamp=NOW))
    damage = {rule for rule in report.counts if report.severity_of(rule) >= Severity.ERROR}
    actions = make_plan(store, report).actions
    return damage, {f"{action.name} {action.target}" for action in actions if action.preen}


@pytest.mark.parametrize("trait", TRAITS)
@pytest.mark.parametrize("name", STORES)
def test_a_trait_of_the_dialect(
    real_dir: Directory, request: pytest.FixtureRequest, name: str, trait: str
) -> None:
    store = open_store(real_dir(name))
    hidden = without(store.dialect, trait)
    assert hidden is not None
    if (name, trait) in OPEN:
        request.applymarker(pytest.mark.xfail(reason=OPEN[name, trait], strict=True))
    assert damage_and_actions(_as(store, hidden)) == (set(), set())


def _members(root: Path) -> None:
    """A member more in each config that is a JSON object, and in each object of its tables."""
    for path in sorted((root / "config").glob("*.json")):
        table = decode_config(path.read_bytes())
        for value in table.values():
            if isinstance(value, dict) and all(isinstance(item, dict) for item in value.values()):
                for item in value.values():
                    if not all(isinstance(key, int) or key.isdigit() for key in item):
                        item["newer"] = {"than": 1}
        table["newer"] = [1, 2]
        path.write_bytes(encode_config(table))


@pytest.mark.parametrize(
    "name",
    [
        "newer",
        "newerDirectory/00000000000000000000",
        "config/newer",
        "config/newer/file",
        "config/newer.json",
    ],
)
def test_a_file_of_an_unknown_name(store_copy: Directory, name: str) -> None:
    root = store_copy("5.3.3-multiseg")
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"newer" * 100)
    assert damage_and_actions(open_store(root)) == (set(), set())


def test_members_of_configs(store_copy: Directory) -> None:
    root = store_copy("5.3.3-basic")
    _members(root)
    assert damage_and_actions(open_store(root)) == (set(), set())
