"""Parts of stores: whatever a rule found in a store, the store has the part that the rule looks at."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketfsck.common.rulenames import RuleName
from rocketfsck.store import open_store
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.parts import part_of, parts_of
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.run import check_store

from tests.conftest import REAL_NAMES, RESTART_NAMES, STORE_NAMES, Directory


def _found_without_a_part(root: Path) -> dict[str, str]:
    store = open_store(root)
    report = check_store(store, CheckOptions(level="full"))
    there = parts_of(store, report)
    found = {rule: part_of(rule) for rule, count in report.counts.items() if count}
    return {rule: part for rule, part in found.items() if part not in there}


@pytest.mark.parametrize("name", [*STORE_NAMES, *REAL_NAMES])
def test_a_store_of_a_broker(any_dir: Directory, name: str) -> None:
    assert _found_without_a_part(any_dir(name)) == {}


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_a_damaged_store(restart_dir: Directory, name: str) -> None:
    assert _found_without_a_part(restart_dir(name)) == {}


def test_every_rule_looks_at_a_part() -> None:
    assert all(part_of(rule) for rule in RULES)
    assert part_of(RuleName.TIMER_UNIT_LINK) == "timers"
    assert part_of(RuleName.CHECKPOINT_MISSING) == "log"
