"""Checkpoint, abort, epochs, timer."""

from __future__ import annotations

import pytest

from rocketfsck.formats.checkpoint import decode_checkpoint
from rocketfsck.formats.smallfiles import EpochEntry, decode_epochs, encode_epochs
from rocketfsck.formats.timer import TIMER_CHECK, TIMER_CHECK_SIZE
from rocketfsck.repair.build.files import (
    build_checkpoint,
    index_timestamp,
    last_in_queues,
    read_checkpoint,
)
from rocketfsck.repair.log import read_log_end
from rocketfsck.writer.damage import damage_store

from tests.unit.repair.repairs.conftest import Patients, bad, names

EPOCHS = "epochFileCheckpoint"


@pytest.mark.parametrize(
    "name", ["4.4.0-multiseg", "4.9.8-basic", "5.3.3-basic", "5.1.3-expired", "5.3.3-trans"]
)
def test_what_is_computed_is_what_a_broker_wrote(name: str, patient: Patients) -> None:
    store = patient(name).open()
    made, written = build_checkpoint(store), read_checkpoint(store)
    assert (made.logics_msg_timestamp, made.index_msg_timestamp) == (
        written.logics_msg_timestamp,
        written.index_msg_timestamp,
    )
    if "confirmPhyOffset" in store.dialect.checkpoint_fields:
        assert made.confirm_physical_offset == written.confirm_physical_offset
    end = read_log_end(store)
    assert end is not None and made.physic_msg_timestamp == end.store_timestamp


def test_without_anything_everything_is_zero(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    for path in (sick.root / "commitlog").iterdir():
        path.write_bytes(bytes(65536))
    for path in (sick.root / "index").iterdir():
        path.write_bytes(b"short")
    store = sick.open()
    assert last_in_queues(store, None) is None and index_timestamp(store) == 0
    made = build_checkpoint(store)
    assert (made.physic_msg_timestamp, made.logics_msg_timestamp, made.confirm_physical_offset) == (0, 0, 0)


def test_a_master_flushed_offset_behind_the_log_goes(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    sick.put("checkpoint", 24, (1 << 50).to_bytes(8, "big"))
    assert build_checkpoint(sick.open()).master_flushed_offset == 0
    sick.put("checkpoint", 24, (100).to_bytes(8, "big"))
    assert build_checkpoint(sick.open()).master_flushed_offset == 100


def test_fields_of_newer_versions_in_a_short_file_stay_only_where_they_fit_the_log(patient: Patients) -> None:
    sick = patient("4.9.8-basic")
    checkpoint = sick.file("checkpoint")
    checkpoint.write_bytes(bytes(24) + b"\x18" * 24)
    made = build_checkpoint(sick.open())
    assert made.master_flushed_offset == made.logics_physical_offset == 0
    assert made.confirm_physical_offset < 1 << 20
    plan, after = sick.mend()
    assert names(plan) == ["write-checkpoint"]
    assert not bad(after)


def test_a_field_that_fits_the_log_stays_in_a_short_file(patient: Patients) -> None:
    newer = patient("5.3.3-basic")
    before = newer.file("checkpoint").read_bytes()
    newer.file("checkpoint").write_bytes(before[:48])
    newer.mend()
    assert newer.mended("checkpoint").read_bytes()[24:] == before[24:]


def test_a_huge_checkpoint_is_not_read(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    sick.file("checkpoint").write_bytes(b"\1" * (2 << 20))
    assert read_checkpoint(sick.open()).physic_msg_timestamp == 0
    sick.file("checkpoint").write_bytes(b"\1" * 5000)
    plan, after = sick.mend()
    assert names(plan) == ["write-checkpoint"]
    assert not bad(after)


def test_abort_stays_while_a_body_is_damaged_but_the_index_is_saved(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    sick.file("abort").write_bytes(b"12")
    damage_store(sick.root, None, ["body-crc"], 1, in_place=True, write_truth=False)
    plan, after = sick.mend()
    assert "CL004" in bad(after) and "CP001" in bad(after)
    assert "finish-recovery" not in names(plan)
    assert "CP003" not in bad(after)
    saved = decode_checkpoint(sick.mended("checkpoint").read_bytes())
    assert (
        saved.index_msg_timestamp
        > decode_checkpoint(sick.file("checkpoint").read_bytes()).index_msg_timestamp
    )


def test_a_finished_recovery_leaves_nothing_to_recover(patient: Patients) -> None:
    sick = patient("5.3.3-killed")
    plan, after = sick.mend()
    assert names(plan)[-1] == "finish-recovery"
    assert not bad(after) and not sick.mended("abort").exists()
    assert "abort" in sick.aside()


def test_epochs_come_from_the_backup(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    sick.file(EPOCHS).write_bytes(b"2\n5\n1-0\nrubbish\n")
    sick.file(f"{EPOCHS}.bak").write_bytes(encode_epochs([EpochEntry(1, 0)]))
    plan, after = sick.mend()
    assert names(plan) == ["rewrite-epochs"]
    assert decode_epochs(sick.mended(EPOCHS).read_bytes()).entries == (EpochEntry(1, 0),)
    assert not bad(after)


def test_an_epoch_file_of_which_nothing_fits_is_set_aside(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    sick.file(EPOCHS).write_bytes(encode_epochs([EpochEntry(1, 1 << 40)]))
    sick.file(f"{EPOCHS}.bak").write_bytes(b"nothing")
    plan, after = sick.mend()
    assert names(plan) == ["rewrite-epochs"]
    assert plan.actions[0].losses[0].count == 1
    assert EPOCHS in sick.aside() and not sick.mended(EPOCHS).exists()
    assert not bad(after)


def test_timer_fields_are_bounded(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    values = dict.fromkeys((field.name for field in TIMER_CHECK.fields), 0)
    values["lastReadTimeMs"] = 4_102_444_800_000
    values["lastTimerQueueOffset"] = 99
    sick.file("config/timercheck").write_bytes(TIMER_CHECK.build(values).ljust(TIMER_CHECK_SIZE, b"\0"))
    plan, after = sick.mend()
    assert names(plan) == ["reset-timer"]
    assert not bad(after)
    end = read_log_end(sick.open())
    assert end is not None
    found = TIMER_CHECK.parse(sick.mended("config/timercheck").read_bytes())
    assert (found["lastReadTimeMs"], found["lastTimerQueueOffset"]) == (end.store_timestamp, 0)
