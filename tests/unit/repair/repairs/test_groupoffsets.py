"""Committed offsets: moved into their queues, taken from the copy, set by the user, and taken back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from rocketfsck.engine import LocalEngine
from rocketfsck.errors import UsageError
from rocketfsck.formats.config import consumer_offsets, decode_config, encode_config
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.undoing import undo
from rocketfsck.repair.build.config import wished_offsets
from rocketfsck.repair.plan.arguments import GroupOffset, OffsetChange, OffsetChanges
from rocketfsck.repair.plan.document import plan_from_json, plan_to_json
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.store import config

from tests.conftest import Directory
from tests.unit.repair.repairs.conftest import Patient, Patients, bad, names

OFFSETS = "config/consumerOffset.json"
DELAYS = "config/delayOffset.json"
KEY = "Dly@cg-one"
Table = Mapping[str, Mapping[int, int]]


def table_of(path: Path) -> dict[str, dict[int, int]]:
    return consumer_offsets(decode_config(path.read_bytes()))


def put(sick: Patient, table: Table, name: str = OFFSETS) -> None:
    sick.file(name).write_bytes(encode_config({"offsetTable": table}))


@pytest.fixture
def sick(patient: Patients) -> Patient:
    """Group cg-one is far beyond the end of Dly/0, which ends at 8, and inside of Dly/1."""
    found = patient("4.9.8-delay")
    put(found, {KEY: {0: 100_008, 1: 10}})
    found.file(f"{OFFSETS}.bak").unlink(missing_ok=True)
    return found


@pytest.mark.parametrize(("copy", "expected"), [(None, 8), (5, 5), (9, 8), (-1, 8)])
def test_an_offset_beyond_the_end_moves_into_its_queue(
    sick: Patient, copy: int | None, expected: int
) -> None:
    if copy is not None:
        put(sick, {KEY: {0: copy}}, f"{OFFSETS}.bak")
    plan, after = sick.mend()
    assert names(plan) == ["set-offsets"] and not plan.actions[0].preen
    assert plan.actions[0].arguments == OffsetChanges((OffsetChange("cg-one", "Dly", 0, 100_008, expected),))
    assert plan_from_json(plan_to_json(plan)) == plan
    assert table_of(sick.mended(OFFSETS)) == {KEY: {0: expected, 1: 10}}
    assert "CF010" not in bad(after)
    assert OFFSETS in sick.aside()


def test_set_and_taken_back(sick: Patient) -> None:
    before = sick.file(OFFSETS).read_bytes()
    store = sick.open()
    report = check_store(store, CheckOptions(), engine=LocalEngine(1))
    assert "CF010" in bad(report)
    assert report.account is not None
    (worst,) = report.account.groups.worst
    assert (worst.group, worst.again_count, worst.skipped_count) == ("cg-one", 0, 100_000)
    done = apply_plan(make_plan(store, report))
    assert done.published and "CF010" not in done.after
    assert table_of(sick.file(OFFSETS))[KEY][0] == 8
    undo(sick.root)
    assert sick.file(OFFSETS).read_bytes() == before


def test_offsets_that_the_user_asks_for(sick: Patient, tmp_path: Path) -> None:
    asked = tmp_path / "mine.json"
    asked.write_bytes(encode_config({"offsetTable": {"Dly@new": {0: 3, 1: 999, 7: 1}, "Gone@new": {0: 1}}}))
    wished = wished_offsets(sick.open(), str(asked))
    assert wished == (GroupOffset("new", "Dly", 0, 3), GroupOffset("new", "Dly", 1, 10))
    plan, after = sick.mend(wished=wished)
    assert names(plan) == ["set-offsets"]
    assert table_of(sick.mended(OFFSETS)) == {KEY: {0: 8, 1: 10}, "Dly@new": {0: 3, 1: 10}}
    assert "CF010" not in bad(after)


def test_offsets_that_are_gone_are_set_by_the_user(sick: Patient, tmp_path: Path) -> None:
    sick.file(OFFSETS).rename(tmp_path / "kept.json")
    wished = wished_offsets(sick.open(), str(tmp_path / "kept.json"))
    plan, _ = sick.mend(wished=wished)
    assert "set-offsets" in names(plan)
    assert table_of(sick.mended(OFFSETS)) == {KEY: {0: 8, 1: 10}}


def test_words_for_offsets(sick: Patient) -> None:
    assert wished_offsets(sick.open(), "clamp") == (GroupOffset("cg-one", "Dly", 0, 8),)
    with pytest.raises(UsageError, match="bak is missing or damaged"):
        wished_offsets(sick.open(), "bak")
    put(sick, {KEY: {1: 2}}, f"{OFFSETS}.bak")
    assert wished_offsets(sick.open(), "bak") == (GroupOffset("cg-one", "Dly", 1, 2),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "mine.json"),
        (b'{"offsetTable":{"no-group":{0:1}}}', "not TOPIC@GROUP"),
        (b'{"offsetTable":{"Gone@g":{0:1}}}', "none of the offsets"),
    ],
)
def test_offsets_that_cannot_be_used(sick: Patient, tmp_path: Path, text: bytes, message: str) -> None:
    asked = tmp_path / "mine.json"
    asked.write_bytes(text)
    with pytest.raises(UsageError, match=message):
        wished_offsets(sick.open(), str(asked))


def test_offsets_in_rocksdb_are_not_set(real_dir: Directory) -> None:
    with pytest.raises(UsageError, match="kept in RocksDB"):
        wished_offsets(open_store(real_dir("5.5.0-rocksdb-config-v2")), "clamp")


@pytest.mark.parametrize("content", [None, b'{"offsetTable":{}}'])
def test_lost_delay_offsets_resume_at_what_was_not_due(
    patient: Patients, content: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "UNSET_MS", 0)  # the store was stopped soon after its last delivery
    sick = patient("4.9.8-delay")
    sick.file(f"{DELAYS}.bak").unlink(missing_ok=True)
    if content is None:
        sick.file(DELAYS).unlink()
    else:
        sick.file(DELAYS).write_bytes(content)
    before = sick.check()
    gone = {
        finding.found["level"]: finding.expected["offset"]
        for finding in before.findings
        if finding.rule == "CF033"
    }
    assert gone == {1: 8, 2: 9} and before.account is not None
    (effect,) = before.account.groups.worst
    assert (effect.group, effect.again_count) == ("(delivery)", 17)
    plan, after = sick.mend()
    assert names(plan) == ["set-delay-offset"] and not plan.actions[0].preen
    assert decode_config(sick.mended(DELAYS).read_bytes())["offsetTable"] == gone
    assert "CF033" not in bad(after)
