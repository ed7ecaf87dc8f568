"""Lengths, strays, times."""

from __future__ import annotations

import os
import shutil

import pytest

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.formats.magic import MAGIC_BLANK
from rocketfsck.formats.properties import property_crc, property_crc_trailer
from rocketfsck.repair.plan.arguments import NewSize, RecordPositions
from rocketfsck.repair.plan.model import Action
from rocketfsck.repair.repairs.answers import number

from tests.unit.repair.repairs.conftest import Patients, bad, names

SEGMENT = 65536


def test_values_of_another_type_are_none() -> None:
    assert number({"a": True, "b": "1"}, "a") == 0 and number({"a": True}, "b", 7) == 7


def test_zeros_behind_a_file_are_taken_away_and_nothing_else(patient: Patients) -> None:
    sick = patient("4.4.0-multiseg")
    name = "commitlog/00000000000000393216"
    with sick.file(name).open("ab") as stream:
        stream.write(bytes(4096))
    plan, after = sick.mend()
    assert names(plan) == ["resize-segment"]
    assert sick.mended(name).stat().st_size == SEGMENT
    assert not bad(after)


@pytest.mark.parametrize("only", [(), ("zero-stale-tail",)])
def test_what_becomes_zeros_behind_a_file_is_taken_away(only: tuple[str, ...], patient: Patients) -> None:
    sick = patient("4.9.8-multiseg")
    name = "commitlog/" + sorted(path.name for path in sick.file("commitlog").iterdir())[-1]
    size = sick.file(name).stat().st_size
    with sick.file(name).open("ab") as stream:
        stream.write(b"\x55" * 512)
    plan, after = sick.mend(only=only)
    assert names(plan) == ["zero-stale-tail", "trim-segment"]
    assert not plan.unanswered
    assert sick.mended(name).stat().st_size == size
    assert not bad(after)
    assert not names(sick.plan(except_=["zero-stale-tail"]))


def test_only_zeros_are_trimmed(patient: Patients) -> None:
    sick = patient("4.9.8-multiseg")
    name = "commitlog/" + sorted(path.name for path in sick.file("commitlog").iterdir())[-1]
    with sick.file(name).open("ab") as stream:
        stream.write(b"\x55" * 512)
    (trim,) = [action for action in sick.plan().actions if action.name == "trim-segment"]
    with pytest.raises(StoreError, match="not zero after its length"):
        sick.act(trim)


def test_data_behind_a_file_is_left(patient: Patients) -> None:
    """In the middle of the log. Behind the log's end it is zeroed, and so taken away."""
    sick = patient("4.4.0-multiseg")
    with sick.file("commitlog/00000000000000131072").open("ab") as stream:
        stream.write(b"data" * 25)
    plan = sick.plan()
    assert not {"resize-segment", "trim-segment"} & {*names(plan)}
    assert "ST001" in {item.rule for item in plan.unanswered}


def test_bytes_too_short_for_a_record_are_taken_away(patient: Patients) -> None:
    sick = patient("4.4.0-multiseg")
    name = "commitlog/00000000000000131072"
    before = sick.file(name).read_bytes()
    with sick.file(name).open("ab") as stream:
        stream.write(b"\n")
    plan, after = sick.mend()
    assert names(plan)[0] == "resize-segment" and not plan.unanswered
    assert "too few for a record" in plan.actions[0].note
    assert sick.mended(name).read_bytes() == before
    assert not bad(after)


def test_an_empty_file_in_the_middle_is_no_last_one(patient: Patients) -> None:
    sick = patient("4.4.0-multiseg")
    name = "commitlog/00000000000000131072"
    sick.file(name).write_bytes(b"")
    plan, after = sick.mend()
    assert "resize-segment" in names(plan) and "remove-empty-segment" not in names(plan)
    assert not {rule for rule in bad(after) if rule.startswith("ST")}


def test_extension_files_of_a_queue_without_records(patient: Patients) -> None:
    sick = patient("4.9.8-cqext")
    sick.file("consumequeue_ext/Gone/0").mkdir(parents=True)
    sick.file("consumequeue_ext/Gone/0/00000000000000000000").write_bytes(bytes(4096))
    plan, after = sick.mend()
    assert names(plan) == ["remove-extension"]
    assert not bad(after)


def test_times_are_restored_when_they_are_asked_for(patient: Patients) -> None:
    sick = patient("4.4.0-multiseg")
    for path in (sick.root / "commitlog").iterdir():
        os.utime(path, (1_790_000_000, 1_790_000_000))
    assert "restore-times" not in names(sick.plan())
    plan, after = sick.mend(only=["restore-times"])
    assert names(plan) == ["restore-times"]
    assert not after.counts.get("ST040")
    times = [path.stat().st_mtime_ns for path in sorted(sick.mended("commitlog").iterdir())]
    assert times == sorted(times) and len(set(times)) == len(times)


def test_a_stray_that_is_asked_for_although_harmless(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    sick.file("index/notes.txt").write_text("x")
    plan, after = sick.mend(only=["move-stray"])
    assert names(plan) == ["move-stray"]
    assert not after.counts.get("ST032")
    assert "index/notes.txt" in sick.aside()


def test_twins_with_data_are_left(patient: Patients) -> None:
    from rocketfsck.engine import LocalEngine
    from rocketfsck.repair.plan.planning import make_plan
    from rocketfsck.store import open_store
    from rocketfsck.verify import check_store

    sick = patient("5.3.3-basic")
    twin = sick.root / "commitlog2" / "00000000000000000000"
    twin.parent.mkdir()
    twin.write_bytes((sick.root / "commitlog" / twin.name).read_bytes())
    paths = [sick.root / "commitlog", twin.parent]
    store = open_store(sick.root, commitlog_paths=paths)
    plan = make_plan(store, check_store(store, engine=LocalEngine(1)))
    assert "move-zero-twin" not in names(plan)


def test_there_is_no_act_for_a_log_that_is_elsewhere(patient: Patients) -> None:
    with pytest.raises(StoreError):
        patient("5.3.3-basic").act(Action("resize-segment", "commitlog/none", "", NewSize(1)))


def test_a_stray_that_is_gone_already_is_no_error(patient: Patients) -> None:
    patient("5.3.3-basic").act(Action("move-stray", "commitlog/none", ""))


def test_a_file_with_another_name_whose_place_is_taken_is_set_aside(patient: Patients) -> None:
    sick = patient("4.4.0-multiseg")
    source = sick.file("commitlog/00000000000000131072")
    sick.file("commitlog/00000000000000131072.copy").write_bytes(source.read_bytes())
    plan, after = sick.mend()
    assert names(plan) == ["move-stray"]
    assert not bad(after)


@pytest.mark.parametrize("left", ["resize-segment", "salvage-log", "write-blank"])
def test_damage_of_a_file_that_is_too_long_is_answered_with_its_length(left: str, patient: Patients) -> None:
    sick = patient("4.4.0-multiseg")
    name = "commitlog/00000000000000131072"
    sick.file(name).write_bytes(b"\7" * 1000 + bytes(SEGMENT - 1000 + 4096))
    together = {"resize-segment", "salvage-log", "write-blank"}
    assert not together & {*names(sick.plan(except_=[left]))}
    plan, after = sick.mend()
    assert together < {*names(plan)}
    assert sick.mended(name).stat().st_size == SEGMENT
    assert not bad(after)


@pytest.mark.parametrize("left", ["trim-segment", "zero-stale-tail", "write-blank"])
def test_a_file_that_is_too_long_gets_the_blank_that_it_lacks(left: str, patient: Patients) -> None:
    """What is behind its records becomes zeros, then it gets its length, then the BLANK up to there."""
    sick = patient("4.4.0-multiseg")
    name = "commitlog/00000000000000131072"
    data = sick.file(name).read_bytes()
    blank = data.rindex(MAGIC_BLANK.to_bytes(4, "big", signed=True))
    sick.file(name).write_bytes(data[:blank] + b"\0\0\7\0" + data[blank + 4 :] + b"\7" * 20)
    together = ["zero-stale-tail", "trim-segment", "write-blank"]
    assert "write-blank" not in names(sick.plan(except_=[left]))
    plan, after = sick.mend()
    assert [action for action in names(plan) if action in together] == together
    assert sick.mended(name).stat().st_size == SEGMENT
    assert not bad(after)


def test_a_record_with_a_wrong_offset_gets_the_right_one_with_its_unit(patient: Patients) -> None:
    """What builds its queue makes the unit that says where it stands."""
    sick = patient("5.3.3-basic")
    data = sick.file("commitlog/00000000000000000000").read_bytes()
    size = int.from_bytes(data[:4], "big")
    sick.put("commitlog/00000000000000000000", size + 28, (12345).to_bytes(8, "big"))
    shutil.rmtree(sick.root / "consumequeue")
    plan, after = sick.mend()
    assert names(plan) == ["set-physical-offset", "rebuild-queue"]
    assert not bad(after)


def test_a_record_whose_crc_says_that_it_is_whole_keeps_its_offset(patient: Patients) -> None:
    """The property CRC covers physicalOffset: the record is a copy of one that stood elsewhere."""
    sick = patient("5.3.3-propcrc")
    name = "commitlog/00000000000000000000"
    data = sick.file(name).read_bytes()
    start = int.from_bytes(data[:4], "big")
    size = int.from_bytes(data[start : start + 4], "big")
    moved = data[start : start + 28] + (12345).to_bytes(8, "big") + data[start + 36 : start + size]
    assert data[start : start + size].endswith(property_crc_trailer(property_crc(data[start : start + size])))
    sick.put(name, start, moved)
    assert "set-physical-offset" in names(sick.plan())
    sick.put(name, start, moved[:-20] + property_crc_trailer(property_crc(moved)))
    plan = sick.plan()
    assert "set-physical-offset" not in names(plan) and "CL006" in {item.rule for item in plan.unanswered}
    shutil.rmtree(sick.root / "consumequeue")
    assert "set-physical-offset" not in names(sick.plan())


def test_a_record_with_a_wrong_offset_is_left_if_no_unit_leads_to_it(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    data = sick.file("commitlog/00000000000000000000").read_bytes()
    size = int.from_bytes(data[:4], "big")
    sick.put("commitlog/00000000000000000000", size + 28, (12345).to_bytes(8, "big"))
    for path in (sick.root / "consumequeue").rglob("0*"):
        if path.is_file():
            path.write_bytes(bytes(path.stat().st_size))
    assert "set-physical-offset" not in names(sick.plan(except_=["rebuild-queue"]))
    with pytest.raises(StoreError):
        sick.act(Action("set-physical-offset", "commitlog/none", "", RecordPositions(())))


def test_a_last_file_whose_name_lacks_zeros_is_one_of_the_log(patient: Patients) -> None:
    """A broker reads the name as a number: nothing is out of reach, and only the name is mended."""
    sick = patient("4.9.8-multiseg")
    sound = sick.check()
    last = max(sick.file("commitlog").iterdir())
    short = last.rename(last.with_name(str(int(last.name))))
    report = sick.check()
    assert bad(report) == bad(sound) | {RuleName.FOREIGN_NUMBER}
    assert report.account == sound.account
    plan, after = sick.mend()
    assert names(plan) == ["rename-segment"] and bad(after) == bad(sound)
    assert (
        sick.mended(f"commitlog/{last.name}").exists() and not sick.mended(f"commitlog/{short.name}").exists()
    )


def test_a_short_name_in_the_middle_is_not_where_a_broker_puts_it(patient: Patients) -> None:
    """A broker loads the file as the last one, where its name sorts; its records are in the log."""
    sick = patient("4.9.8-multiseg")
    middle = sorted(sick.file("commitlog").iterdir())[1]
    short = middle.rename(middle.with_name(str(int(middle.name))))
    assert [file.name for file in sick.open().commitlog.files][1] == short.name
    plan, after = sick.mend()
    assert names(plan) == ["rename-segment"] and not bad(after)
