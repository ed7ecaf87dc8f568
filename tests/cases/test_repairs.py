"""Every named damage, every store: check, plan, apply, check, plan again, undo.

The check finds what the damage promises. What a plan addresses is gone afterwards and nothing new came up; a
second plan is empty; undo gives back the original bytes. The plans of a dozen damages are kept in `plans/`,
as text that compares well.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from rocketfsck.engine import LocalEngine
from rocketfsck.errors import UsageError
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.results import ApplyReport
from rocketfsck.repair.apply.undoing import undo
from rocketfsck.repair.plan.basis import BASES
from rocketfsck.repair.plan.document import plan_text
from rocketfsck.repair.plan.law import all_assumptions
from rocketfsck.repair.plan.model import Plan
from rocketfsck.repair.plan.planning import all_repairs, make_plan, repairs_of, rules_of
from rocketfsck.store import Store, open_store
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.writer.damage import DAMAGES, DamageError, DamageReport, damage_store
from rocketfsck.writer.disk import fileops

from tests.cases.test_damage import assert_found, baseline
from tests.conftest import NIGHTLY, RELEASED, RESTART_NAMES, STORE_NAMES, Directory

NOW = 1_800_000_000_000
PLANS = Path(__file__).parent / "plans"
WRITE = os.environ.get("ROCKETFSCK_PLANS") == "write"

FIRST = (
    "5.3.3-basic", "4.9.8-cqext", "5.0.0-innerbatch", "4.9.8-delay", "5.3.3-propcrc", "4.9.8-basic",
    "5.3.3-trans", "5.1.3-expired", "4.4.0-multiseg", "4.9.8-multiseg", "5.3.3-multiseg", "5.1.3-basic",
)  # fmt: skip
"""Small stores first: what they can be damaged in is repaired in them."""
STORES = (*FIRST, *(name for name in STORE_NAMES if name not in FIRST))
WANTED = len(STORES) if NIGHTLY else 1

NOT_ANSWERED = {
    "body-crc": "nobody can say whether body or CRC is right",
    "property-crc": "nor here",
    "queue-offset-repeated": "the log itself has two messages for one place",
    "commitlog-gone": "what is not there cannot be found",
    "consumer-offset-negative": "where the group was is not known",
    "config-backup-damaged": "information only",
    "entry-duplicate": "information only",
    "first-segment-missing": "as after expiry",
    "sys-flag": "the record's own business", "host-port": "the record's own business",
    "negative-field": "the record's own business", "delay-level": "the record's own business",
    "inner-batch": "the record's own business", "compressed-flag": "the record's own business",
    "prepared-missing": "the record's own business", "time-back": "information only",
    "properties-torn": "the record's body is sound",
    "config-nuls": "only a .bak, or the log for topics.json, has anything left",
    "config-shape": "only a .bak, or the log for topics.json, has anything left",
    "config-cut": "only a .bak, or the log for topics.json, has anything left",
    **dict.fromkeys(
        ("timer-unit-zeros", "timer-unit-size", "timer-unit-link", "timer-unit-record", "timer-unit-topic",
         "timer-log-tail", "timer-log-missing"),
        "the wheel is made from the timer log, which is made from nothing",
    ),
    "timer-wheel-missing": "a start makes one",
    "timer-check-missing": "how far the topic was read is nowhere else",
    **dict.fromkeys(
        (name for name in DAMAGES if name.startswith("compaction-")), "compacted logs are not repaired"
    ),
    **dict.fromkeys(
        (name for name in DAMAGES if name.startswith("tiered-")), "tiered storage is not repaired"
    ),
    **dict.fromkeys(
        (name for name in DAMAGES if name.startswith("dledger-")), "DLedger recovers its log itself"
    ),
    "identity-damaged": "the controller gives out the id",
    "database-log-torn": "a database of POP records or configs is made from nothing",
}  # fmt: skip
"""Damages that a plan may leave as they are, and why. All others must be answered."""


CAUSES = frozenset(
    {"rename-segment", "move-zero-twin", "move-copied-segment", "split-segment", "salvage-log"}
)
"""Repairs of what other findings are a consequence of: they answer these, too."""


@pytest.fixture(autouse=True)
def without_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is about what a power cut leaves, and syncs are what takes the time."""
    monkeypatch.setattr(fileops, "sync", lambda _path: None)


@dataclass(frozen=True)
class Harmed:
    """A damaged copy of a store, and the store."""

    source: Path
    root: Path
    report: DamageReport

    @property
    def paths(self) -> tuple[str, ...]:
        return self.report.commitlog_paths


@dataclass(frozen=True)
class Cycle:
    """What came of one round."""

    plan: Plan
    before: Report
    applied: ApplyReport
    after: Report
    again: Plan


def reopen(root: Path, paths: Sequence[str] = ()) -> Store:
    return open_store(root, commitlog_paths=[root / path for path in paths])


def check(store: Store) -> Report:
    return check_store(store, CheckOptions(now_timestamp=NOW), engine=LocalEngine(1))


def bad(report: Report) -> Counter[str]:
    """Findings above info by rule."""
    return Counter(
        {rule: count for rule, count in report.counts.items() if RULES[rule].severity > Severity.INFO}
    )


def tree(root: Path) -> dict[str, tuple[str, int]]:
    """Every file with its bytes' hash and its time of modification."""
    return {
        str(path.relative_to(root)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def go_round(root: Path, paths: Sequence[str] = (), *, in_place: bool = False) -> Cycle:
    """Check, plan, apply, check, plan, undo; everything that must hold of any damage is asserted."""
    original = tree(root)
    store = reopen(root, paths)
    before = check(store)
    plan = make_plan(store, before)
    assumed = [item.name for item in all_assumptions(plan.actions) if item.how == "assumed"]
    if assumed:
        with pytest.raises(UsageError, match=f"Confirm with .*--assume {assumed[0]}"):
            apply_plan(plan, in_place=in_place)
        assert tree(root) == original
    for action in plan.actions:
        assert not action.preen or all(item.how != "assumed" for item in action.assumptions)
        for rule in action.rules:
            assert action.name in repairs_of(rule) or action.name in CAUSES, (rule, action.name)
    applied = apply_plan(plan, in_place=in_place, assume=assumed)
    assert not applied.fresh, applied.fresh
    assert not applied.unmet, applied.unmet
    assert not applied.problem
    mended = reopen(root, paths)
    after = check(mended)
    answered = {name for action in plan.actions for name in action.why}
    still = [
        finding
        for finding in after.findings
        if finding.fingerprint in answered and RULES[finding.rule].severity > Severity.INFO
    ]
    assert not still
    again = make_plan(mended, after)
    assert not again.actions, [(action.name, action.target, action.rules) for action in again.actions]
    if plan.actions:
        undo(root)
    assert tree(root) == original
    return Cycle(plan, before, applied, after, again)


def damaged(
    name: str, store_dir: Directory, target: Path, stores: Sequence[str], wanted: int = 1
) -> list[Harmed]:
    """Copies of the first stores that a damage can be done to, damaged."""
    made: list[Harmed] = []
    for seed, store in enumerate(stores):
        if len(made) >= wanted:
            break
        copy = target / store
        try:
            report = damage_store(store_dir(store), copy, [name], seed, write_truth=False)
        except DamageError:
            continue
        made.append(Harmed(store_dir(store), copy, report))
    return made


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damage_is_repaired_and_taken_back(name: str, any_dir: Directory, tmp_path: Path) -> None:
    made = damaged(name, any_dir, tmp_path, RELEASED.get(DAMAGES[name].needs, STORES), WANTED)
    assert made
    for harmed in made:
        cycle = go_round(harmed.root, harmed.paths)
        assert_found(DAMAGES[name], harmed.report, cycle.before, baseline(harmed.source))
        if name not in NOT_ANSWERED and bad(cycle.before):
            assert cycle.plan.actions, cycle.plan.unanswered
            assert bad(cycle.after).total() < bad(cycle.before).total()
        shutil.rmtree(harmed.root)


@pytest.mark.parametrize("name", STORE_NAMES)
def test_a_broker_written_store_needs_no_more_than_a_recovery(
    name: str, store_dir: Directory, tmp_path: Path
) -> None:
    root = Path(shutil.copytree(store_dir(name), tmp_path / "store"))
    cycle = go_round(root)
    assert not bad(cycle.after)
    if not bad(cycle.before):
        assert not cycle.plan.actions


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_a_store_that_a_broker_was_to_restart_on(name: str, restart_dir: Directory, tmp_path: Path) -> None:
    root = Path(shutil.copytree(restart_dir(name), tmp_path / "store"))
    cycle = go_round(root, in_place=True)
    assert bad(cycle.before) and cycle.plan.actions
    assert not bad(cycle.after)
    assert not (root / "abort").exists() or "abort" in tree(root)


GOLDEN = {
    "torn-tail": "5.3.3-basic",
    "stale-tail": "5.3.3-basic",
    "boundary-lost": "4.9.8-basic",
    "missing-segment": "4.4.0-multiseg",
    "zero-segment": "5.3.3-multiseg",
    "segment-renamed": "5.1.3-expired",
    "segment-copied": "4.9.8-multiseg",
    "segment-appended": "5.3.3-multiseg",
    "short-segment": "5.3.3-basic",
    "stray-file": "4.9.8-basic",
    "queue-shift": "4.9.8-multiseg",
    "missing-topic": "5.3.3-basic",
    "dangling-tail": "5.3.3-trans",
    "chain-cycle": "4.9.8-basic",
    "index-lost": "5.3.3-multiseg",
    "checkpoint-zeroed": "5.1.3-basic",
    "abort-present": "5.3.3-basic",
    "config-missing": "4.9.8-delay",
}
"""Damages whose plans are kept, each with the store that it is done to."""


@pytest.mark.parametrize("name", GOLDEN)
def test_the_plan_of_a_damage_is_the_one_that_is_kept(
    name: str, store_dir: Directory, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    damage_store(store_dir(GOLDEN[name]), root, [name], 1, write_truth=False)
    store = open_store(root)
    plan = make_plan(store, check(store))
    assert plan.actions
    text = plan_text(plan).replace(json.dumps(str(root))[1:-1], "STORE")
    kept = PLANS / f"{name}.json"
    if WRITE:
        PLANS.mkdir(exist_ok=True)
        kept.write_text(text, "utf-8")
    assert text == kept.read_text("utf-8")


def test_every_repair_of_a_rule_is_a_row_and_every_row_is_needed() -> None:
    rows = all_repairs()
    asked = {rule.repair for rule in RULES.values() if rule.repair is not None}
    assert asked <= set(rows)
    healing = {name for name, row in rows.items() if not rules_of(row)}
    assert healing == {"heal-log", "heal-cut"}
    assert set(rows) - asked - healing == {
        "relink-index",
        "set-physical-offset",
        "trim-segment",
        "rebuild-message-database",
    }
    assert {rule for row in rows.values() for rule in row.answers} <= set(RULES)
    assert {name for row in rows.values() for name in row.writes_by} == set(BASES)
    assert all(rows[name].order < row.order for row in rows.values() for name in row.needs)
    orders = [repair.order for repair in rows.values()]
    assert orders == sorted(orders) and len(set(orders)) == len(orders)
    assert all(repair.summary for repair in rows.values())


@pytest.mark.parametrize("name", ["queue-hole", "torn-tail", "boundary-lost", "garbage-tail"])
def test_what_is_lost_is_what_the_plan_says(name: str, store_dir: Directory, tmp_path: Path) -> None:
    [harmed] = damaged(name, store_dir, tmp_path, ["4.9.8-basic"])
    cycle = go_round(harmed.root)
    assert cycle.applied.ledger.balanced
    lost = {
        (account.topic, account.queue_id): account.lost
        for account in cycle.applied.ledger.queues
        if account.lost
    }
    planned = {
        (loss.topic, loss.queue_id): loss.count
        for action in cycle.plan.actions
        for loss in action.losses
        if loss.what == "unit"
    }
    assert lost == planned


@pytest.mark.parametrize(
    "faults",
    [
        ["boundary-lost", "queue-hole", "chain-cycle", "checkpoint-tail"],
        ["torn-tail", "missing-queue", "abort-present"],
        ["zero-segment", "boundary-lost", "wrong-tags", "index-lost"],
        ["record-malformed", "record-malformed", "boundary-lost", "stray-file", "config-trailing"],
        ["garbage-tail", "blank-missing", "unit-ghost", "hash-slot-count"],
    ],
)
def test_several_damages_at_once(faults: list[str], store_dir: Directory, tmp_path: Path) -> None:
    root = tmp_path / "store"
    damage_store(store_dir("4.9.8-multiseg"), root, faults, 3, write_truth=False)
    cycle = go_round(root)
    assert len(cycle.plan.actions) >= 2
    assert not {rule for rule in bad(cycle.after) if RULES[rule].severity == Severity.ERROR}
