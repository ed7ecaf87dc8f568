"""Every named damage, done to real stores: a check finds what was promised, where, and nothing unrelated.

By day `test_repairs.py` asks that of the one store that it repairs, too; all of them here, nightly.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.engine import LocalEngine
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.verify.finding import Finding, Severity, Where
from rocketfsck.verify.rules.catalog import FAULT_CLASSES, RULES
from rocketfsck.writer.damage import DAMAGES, Act, Damage, DamageError, DamageReport, damage_store, truth_path

from tests.conftest import NIGHTLY, RELEASED, STORE_NAMES, Directory

NOW = 1_800_000_000_000
WANTED = 6
"""To how many stores each damage is done."""
FIRST = (
    "5.3.3-multiseg", "4.9.8-cqext", "5.0.0-innerbatch", "4.9.8-delay", "5.3.3-propcrc", "4.9.8-basic",
    "5.3.3-trans", "5.1.3-expired", "4.4.0-multiseg", "4.9.8-multiseg", "5.1.3-basic", "5.3.3-basic",
)  # fmt: skip
STORES = (*FIRST, *(name for name in STORE_NAMES if name not in FIRST))

FEW = {
    # what only few of the stores have; the number is that of the stores that it can be done to
    "property-crc": 1, "delay-level": 1, "inner-batch": 1, "prepared-missing": 2, "wrong-delivery": 1,
    "batch-base": 1, "batch-reserved": 1, "ext-dangling": 1, "ext-malformed": 1, "ext-content": 1,
    "ext-missing": 1, "missing-queue-ext-left": 1, "delay-offset": 1, "segment-appended": 3,
}  # fmt: skip


BY_CLASS = {damage.fault_class or damage.needs: name for name, damage in reversed([*DAMAGES.items()])}
"""One damage of each fault class, and of each kind of store that has damages of no class."""


def check(store: Path, commitlog_paths: tuple[str, ...] = ()) -> Report:
    paths = [store / path for path in commitlog_paths]
    options = CheckOptions(now_timestamp=NOW)
    return check_store(open_store(store, commitlog_paths=paths), options, engine=LocalEngine(1))


def faults_of(report: Report) -> set[tuple[str, Where]]:
    return {(finding.rule, finding.where) for finding in report.findings}


def judge(act: Act, report: Report, before: set[tuple[str, Where]]) -> tuple[list[Any], list[Finding]]:
    """Promises that were not kept, and findings above info that are new and not related."""
    missing = [
        promise
        for promise in act.must_find
        if not any(promise.is_kept_by(finding.rule, finding.where) for finding in report.findings)
    ]
    unrelated = [
        finding
        for finding in report.findings
        if RULES[finding.rule].severity > Severity.INFO
        and finding.rule not in act.related
        and (finding.rule, finding.where) not in before
    ]
    return missing, unrelated


def tree(store: Path) -> dict[str, str]:
    """Every file with a hash of its bytes and its time."""
    return {
        str(
            path.relative_to(store)
        ): f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_mtime_ns}"
        for path in sorted(store.rglob("*"))
        if path.is_file()
    }


@cache
def baseline(store: Path) -> set[tuple[str, Where]]:
    """What a check says of a store, which nobody alters, before the damage."""
    return faults_of(check(store))


def assert_found(damage: Damage, report: DamageReport, found: Report, before: set[tuple[str, Where]]) -> None:
    """What one damage promises of a check, the check finds; nothing else is new."""
    (act,) = report.acts
    assert act.changes
    assert act.must_find or act.unseen, act.note
    promised = {rule for promise in act.must_find for rule in promise.rules}
    assert promised <= {*damage.causes, *damage.may_also, *act.may_also_find}
    missing, unrelated = judge(act, found, before)
    assert not missing, act.note
    assert not unrelated, act.note


@pytest.mark.nightly
@pytest.mark.parametrize("name", DAMAGES)
def test_a_check_finds_what_was_damaged(name: str, any_dir: Directory, tmp_path: Path) -> None:
    done = 0
    damage = DAMAGES[name]
    stores = RELEASED.get(damage.needs, STORES)
    wanted = min(FEW.get(name, WANTED), WANTED, len(stores))
    for seed, store in enumerate(stores):
        if done >= wanted:
            break
        target = tmp_path / store
        try:
            report = damage_store(any_dir(store), target, [name], seed)
        except DamageError:
            assert not target.exists()
            continue
        done += 1
        assert_found(damage, report, check(target, report.commitlog_paths), baseline(any_dir(store)))
        shutil.rmtree(target)
    assert done == wanted


@pytest.mark.parametrize("area", ["commitlog", "consumequeue", "index", "checkpoint", "config"])
@pytest.mark.parametrize("name", ["bit-flip", "zero-sector", "zero-page", "torn-write", "swapped-pages"])
def test_what_a_disk_does_anywhere_is_found(
    name: str, area: str, store_dir: Directory, tmp_path: Path
) -> None:
    for seed in range(WANTED) if NIGHTLY else [len(name + area) % 2]:
        store = FIRST[seed]
        target = tmp_path / f"{seed}"
        try:
            report = damage_store(store_dir(store), target, [f"{name}:area={area}"], seed)
        except DamageError:
            continue
        act = report.acts[0]
        missing, unrelated = judge(act, check(target), baseline(store_dir(store)))
        assert not missing, (store, seed, act.note)
        assert not unrelated, (store, seed, act.note)


@pytest.mark.parametrize("name", ["body-flip", "queue-hole", "chain-cycle", "bit-flip", "missing-queue"])
def test_the_same_seed_gives_the_same_bytes(name: str, store_dir: Directory, tmp_path: Path) -> None:
    source = store_dir("5.3.3-multiseg")
    reports = [damage_store(source, tmp_path / place, [name], 7) for place in ("a", "b")]
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    assert reports[0].acts == reports[1].acts
    other = damage_store(source, tmp_path / "c", [name], 8)
    assert other.acts[0].changes != reports[0].acts[0].changes


def test_the_source_and_what_is_not_damaged_stay_as_they_are(store_dir: Directory, tmp_path: Path) -> None:
    source = store_dir("4.9.8-multiseg")
    before = tree(source)
    report = damage_store(source, tmp_path / "copy", ["body-crc", "unit-ghost", "self-loop"], 3)
    assert tree(source) == before
    after = tree(tmp_path / "copy")
    changed = {change.file for act in report.acts for change in act.changes}
    assert {name for name in before if before[name] != after.get(name)} == changed
    assert before.keys() == after.keys()


def test_changes_say_what_was_there_and_what_is(store_dir: Directory, tmp_path: Path) -> None:
    source = store_dir("4.9.8-multiseg")
    report = damage_store(source, tmp_path / "copy", ["zero-sector:area=commitlog", "index-truncated"], 5)
    for act in report.acts:
        for change in act.changes:
            for extent, root in ((change.before, source), (change.after, tmp_path / "copy")):
                assert extent is not None
                data = (root / change.file).read_bytes()[extent.start : extent.end]
                assert hashlib.sha256(data).hexdigest() == extent.sha256
                assert len(data) == extent.end - extent.start


def test_holes_stay_holes(store_dir: Directory, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(store_dir("5.3.3-basic"), source)
    sparse = source / "commitlog" / "00000000000000131072"
    with sparse.open("wb") as stream:
        stream.truncate(1 << 30)
    os.utime(sparse, (1_000_000_000, 1_000_000_000))
    damage_store(source, tmp_path / "copy", ["checkpoint-tail"])
    copied = (tmp_path / "copy" / "commitlog" / sparse.name).stat()
    assert (copied.st_size, copied.st_blocks, copied.st_mtime) == (1 << 30, 0, 1_000_000_000)


def test_links_do_not_lead_back_to_the_source(store_dir: Directory, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(store_dir("5.3.3-basic"), source)
    (source / "commitlog").rename(tmp_path / "elsewhere")
    (source / "commitlog").symlink_to(tmp_path / "elsewhere")
    checkpoint = tmp_path / "checkpoint"
    (source / "checkpoint").rename(checkpoint)
    (source / "checkpoint").symlink_to(checkpoint)
    before = tree(tmp_path / "elsewhere"), checkpoint.read_bytes()
    damage_store(source, tmp_path / "copy", ["body-flip", "checkpoint-tail"])
    assert (tree(tmp_path / "elsewhere"), checkpoint.read_bytes()) == before
    assert not any(path.is_symlink() for path in (tmp_path / "copy").rglob("*"))


def test_several_faults_keep_off_each_other(store_dir: Directory, tmp_path: Path) -> None:
    faults = [
        "body-flip", "body-crc", "boundary-lost", "queue-hole", "wrong-size", "wrong-tags", "chain-cycle",
        "hash-slot-count", "checkpoint-tail", "garbage-tail", "stray-file",
    ]  # fmt: skip
    for seed in range(4):
        target = tmp_path / f"{seed}"
        report = damage_store(store_dir("4.9.8-multiseg"), target, faults, seed)
        found = check(target)
        related = frozenset[str]().union(*(act.related for act in report.acts))
        for act in report.acts:
            missing, _ = judge(act, found, set())
            assert not missing, (seed, act.fault, act.note)
        assert {f.rule for f in found.findings if RULES[f.rule].severity > Severity.INFO} <= related


def test_the_truth_stands_beside_the_copy(store_dir: Directory, tmp_path: Path) -> None:
    report = damage_store(store_dir("5.3.3-basic"), tmp_path / "copy", ["body-flip"], 1)
    truth = json.loads(truth_path(tmp_path / "copy").read_text("utf-8"))
    assert truth == json.loads(json.dumps(report.to_json()))
    assert truth["acts"][0]["must_find"][0]["rules"] == ["CL004"]
    with pytest.raises(UsageError, match="exists"):
        damage_store(store_dir("5.3.3-basic"), tmp_path / "copy", ["body-flip"], 1)
    shutil.rmtree(tmp_path / "copy")
    with pytest.raises(UsageError, match=r"damage\.json exists"):
        damage_store(store_dir("5.3.3-basic"), tmp_path / "copy", ["body-flip"], 1)


def test_nothing_is_written_into_the_source(store_copy: Directory, tmp_path: Path) -> None:
    source = store_copy("5.3.3-basic")
    link = tmp_path / "link"
    link.symlink_to(source)
    for target in (source / "copy", source, link / "commitlog" / "copy"):
        with pytest.raises(UsageError):
            damage_store(source, target, ["body-flip"])
    with pytest.raises(StoreError):
        damage_store(tmp_path / "absent", tmp_path / "copy", ["body-flip"])
    assert not (tmp_path / "copy").exists()


def test_in_place_only_when_asked(store_copy: Directory, tmp_path: Path) -> None:
    source = store_copy("5.3.3-basic")
    with pytest.raises(UsageError):
        damage_store(source, None, ["body-flip"])
    with pytest.raises(UsageError):
        damage_store(source, tmp_path / "copy", ["body-flip"], in_place=True)
    report: DamageReport = damage_store(source, None, ["body-flip"], in_place=True)
    missing, _ = judge(report.acts[0], check(source), set())
    assert not missing
    assert truth_path(source).exists()


@pytest.mark.parametrize(
    ("faults", "word"),
    [
        (["body-flop"], "did you mean 'body-flip'"),
        ([], "name a fault"),
        (["bit-flip:area=moon"], "one of commitlog"),
        (["bit-flip:planet=moon"], "no option"),
        (["bit-flip:at=x,file=checkpoint"], "needs a number"),
        (["bit-flip:at=99999999,file=checkpoint"], "4,096 bytes"),
        (["bit-flip:file=nothing"], "no data file"),
        (["commitlog-gone", "body-flip"], "name it alone"),
        (["inner-batch"], "inner-batch: the store has no inner batch"),
    ],
)
def test_what_cannot_be_done_is_refused(
    faults: list[str], word: str, store_dir: Directory, tmp_path: Path
) -> None:
    with pytest.raises(DamageError, match=word):
        damage_store(store_dir("5.3.3-basic"), tmp_path / "copy", faults)
    assert list(tmp_path.iterdir()) == []


def test_every_fault_names_rules_and_a_class_that_exist() -> None:
    for damage in DAMAGES.values():
        assert {*damage.causes, *damage.may_also} <= set(RULES), damage.name
        assert damage.causes and damage.summary and damage.needs
        assert damage.fault_class is None or damage.fault_class in FAULT_CLASSES, damage.name
    assert RELEASED.keys() <= {damage.needs for damage in DAMAGES.values()}, "no damage needs these stores"


def test_every_class_that_a_check_can_tell_has_a_fault() -> None:
    missing = set(FAULT_CLASSES) - {damage.fault_class for damage in DAMAGES.values()}
    # no damage: copied stores, parts of several (test_copies.py), keys that collide or hash alike, replicas
    # that differ (test_compare.py)
    assert missing == {"O1", "O2", "O3", "I5", "I11", "H1", "H2"}
