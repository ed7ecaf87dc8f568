"""Bytes behind the known fields of a checkpoint: a newer broker's are a note, all others damage. ADR 0011."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.formats.checkpoint import decode_checkpoint
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.plan.law import NOT_UNDERSTOOD
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.verify.finding import Finding, Level
from rocketfsck.verify.watched import unknown_areas

from tests.conftest import Directory
from tests.unit.verify.damage import NOW, Damage

SECOND = "commitlog/00000000000000131072"
START = 131072


@pytest.fixture
def store(store_copy: Directory) -> Damage:
    """A store whose log begins at 131072, with six files."""
    made = Damage(store_copy("5.3.3-multiseg"))
    (made.root / "commitlog/00000000000000000000").unlink()
    return made


def put(root: Path, pos: int, value: int) -> None:
    with (root / "checkpoint").open("r+b") as file:
        file.seek(pos)
        file.write(value.to_bytes(8, "big", signed=True))


def check(root: Path, level: Level = "full") -> Report:
    return check_store(open_store(root), CheckOptions(now_timestamp=NOW, level=level))


def tails(report: Report) -> list[Finding]:
    return [finding for finding in report.findings if finding.rule in ("CP008", "CP026")]


def record(store: Damage, number: int) -> int:
    return START + store.records(SECOND)[number][0]


def end(store: Damage) -> int:
    """Where the log ends."""
    last = store.files("commitlog")[-1]
    pos, value = store.records(last)[-1]
    return int(Path(last).name) + pos + value.total_size


@pytest.mark.parametrize("pos", [40, 48, 96])
def test_an_offset_of_a_record(store: Damage, pos: int) -> None:
    put(store.root, pos, record(store, 3))
    (finding,) = tails(check(store.root))
    assert (finding.rule, finding.found["kind"], finding.found["value"]) == (
        "CP026",
        "offset",
        record(store, 3),
    )
    assert (finding.where.file, finding.where.start, finding.where.end) == ("checkpoint", pos, pos + 8)
    assert set(unknown_areas([finding])) == {"checkpoint"}


@pytest.mark.parametrize("level", ["quick", "full"])
def test_the_end_of_the_log_and_a_time(store: Damage, level: Level) -> None:
    newest = decode_checkpoint((store.root / "checkpoint").read_bytes()).physic_msg_timestamp
    put(store.root, 40, end(store))
    put(store.root, 48, newest)
    assert [finding.found.get("kind") for finding in tails(check(store.root, level))] == ["offset", "time"]


WRONG: dict[str, tuple[int, Callable[[Damage], int]]] = {
    "too far behind the fields": (104, lambda store: record(store, 3)),
    "across two longs": (44, lambda store: record(store, 3)),
    "one flipped bit": (40, lambda _: 1 << 45),
    "random bytes": (40, lambda _: 0x3A5B_91C7_0B5D_4421),
    "negative": (40, lambda store: -record(store, 3)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_field(store: Damage, name: str) -> None:
    pos, value = WRONG[name]
    put(store.root, pos, value(store))
    assert [finding.rule for finding in tails(check(store.root))] == ["CP008"]


NUMBERS: dict[str, Callable[[Damage], int]] = {
    "in a record": lambda store: record(store, 3) + 1,
    "behind the log": lambda store: end(store) + 200_001,
    "microseconds": lambda _: NOW * 1000,
    "a count": lambda _: 7,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_any_number_in_a_sound_checkpoint_is_a_field(store: Damage, name: str) -> None:
    put(store.root, 48, NUMBERS[name](store))
    report = check(store.root)
    (finding,) = tails(report)
    assert finding.rule == "CP026"
    plan = make_plan(open_store(store.root), report)
    assert not [action for action in plan.actions if action.target == "checkpoint"]


def test_no_number_is_a_field_of_a_checkpoint_that_is_damaged_otherwise(store: Damage) -> None:
    put(store.root, 0, -5)
    put(store.root, 48, NOW * 1000)
    assert [finding.rule for finding in tails(check(store.root))] == ["CP008"]


def test_one_number_that_is_no_field_spoils_all(store: Damage) -> None:
    put(store.root, 40, record(store, 3))
    put(store.root, 48, -record(store, 3))
    (finding,) = tails(check(store.root))
    assert (finding.rule, finding.where.start) == ("CP008", 45)


def test_an_older_broker_leaves_the_field_behind(store: Damage) -> None:
    put(store.root, 40, 1000)
    assert [finding.rule for finding in tails(check(store.root))] == ["CP026"]


def test_without_a_log_nothing_says_that_it_is_wrong(store: Damage) -> None:
    for file in store.files("commitlog"):
        (store.root / file).unlink()
    put(store.root, 40, 12345)
    assert [finding.rule for finding in tails(check(store.root))] == ["CP026"]


def test_no_repair_writes_over_it_unless_forced(real_copy: Directory) -> None:
    """Read as 5.4.0, which does not know the field that 5.5.0 writes."""
    root = real_copy("5.5.0-long")
    before = (root / "checkpoint").read_bytes()
    assert before[40:48] == (72765).to_bytes(8, "big")
    put(root, 0, -5)
    store = open_store(root, version="5.4.0")
    report = check_store(store, CheckOptions(now_timestamp=NOW))
    assert "CP009" in report.counts
    assert [finding.rule for finding in tails(report)] == ["CP026"]
    plan = make_plan(store, report)
    assert not [action for action in plan.actions if action.target == "checkpoint"]
    assert any("--only write-checkpoint" in item.reason for item in plan.unanswered if item.rule == "CP009")

    forced = make_plan(store, report, only=["write-checkpoint"])
    (action,) = forced.actions
    assert not action.preen
    assert NOT_UNDERSTOOD in {notice.kind for notice in action.notices}
    apply_plan(forced, assume=[item.name for item in action.assumptions if item.how == "assumed"])
    after = (root / "checkpoint").read_bytes()
    assert after[40:] == before[40:]
    assert decode_checkpoint(after).physic_msg_timestamp > 0


def test_damage_behind_the_fields_is_overwritten(store_copy: Directory) -> None:
    root = store_copy("5.3.3-multiseg")
    put(root, 200, -1)
    plan = make_plan(open_store(root), check(root), only=["write-checkpoint"])
    (action,) = plan.actions
    apply_plan(plan, assume=[item.name for item in action.assumptions if item.how == "assumed"])
    assert not any((root / "checkpoint").read_bytes()[40:])
