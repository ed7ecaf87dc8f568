"""What planners leave alone, and what they do when files cannot be read as they should."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest

from rocketfsck.common.budget import within
from rocketfsck.errors import StoreError
from rocketfsck.reader.records import LogReader
from rocketfsck.repair.build.files import last_in_queues
from rocketfsck.repair.log import read_log_end
from rocketfsck.repair.plan.model import Action
from rocketfsck.repair.plan.planning import all_repairs, make_plan
from rocketfsck.repair.plan.table import PlanScene
from rocketfsck.repair.repairs import queuemerge
from rocketfsck.repair.repairs.answers import whole_file
from rocketfsck.repair.repairs.checkpoint import can_finish, plan_save_index
from rocketfsck.repair.repairs.index import first_wrong
from rocketfsck.repair.repairs.misnamed import hidden_record, is_zero, pending_renames
from rocketfsck.repair.repairs.queuemerge import Merger, write_sparse
from rocketfsck.repair.repairs.reasons import REASONS
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.writer.damage import damage_store
from rocketfsck.writer.disk.confined import open_root

from tests.unit.repair.repairs.conftest import Patient, Patients, bad, names


def scene_of(sick: Patient, *findings: Finding, level: str = "full") -> PlanScene:
    report = dataclasses.replace(sick.check(), level=level)  # type: ignore[arg-type]
    return PlanScene(sick.open(), report, findings or report.findings)


def test_reasons_are_of_rules_that_are() -> None:
    assert set(REASONS) <= set(RULES)
    for rule, reason in REASONS.items():
        assert reason == reason.strip(" .") and reason.format(repair="x", rule=rule) == reason


def test_nothing_else_is_planned_while_a_file_has_a_wrong_name(patient: Patients) -> None:
    sick = patient("4.9.8-multiseg")
    faults = [
        "boundary-lost", "garbage-tail", "blank-missing", "zero-segment", "queue-hole", "chain-cycle",
        "hash-slot-count", "checkpoint-tail", "units-stale", "dangling-tail", "timer-check", "epoch-damaged",
        "abort-present",
    ]  # fmt: skip
    damage_store(sick.root, None, faults, 5, in_place=True, write_truth=False)
    files = sick.open().commitlog.files
    whole = next(file for file in files[:-1] if not {"CL001", "CL019", "ST017"} & {
        finding.rule for finding in sick.check().findings if finding.where.file == file.relative
    })  # fmt: skip
    whole.path.rename(whole.path.with_name(whole.name + ".old"))
    report = sick.check()
    asked = {RULES[rule].repair for rule in bad(report)}
    assert {"salvage-log", "zero-stale-tail", "rebuild-queue", "write-checkpoint", "finish-recovery"} <= asked
    assert names(make_plan(sick.open(), report)) == ["rename-segment"]


@pytest.mark.parametrize("rule", ["ST019", "ST020"])
def test_nothing_derived_is_touched_while_the_log_is_another_one(rule: str, patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    place = Where("consumequeue/GammaZip/0/00000000000000000000", 0, 20, topic="GammaZip", queue_id=0)
    found = [
        Finding(rule, Where("commitlog")),
        Finding("XR001", place),
        Finding("XR004", place, {"log_end_offset": 10}),
        Finding("XR022", Where("index/20261120140457906")),
        Finding("CP011", Where("checkpoint", 0, 8)),
    ]
    scene = scene_of(sick, *found)
    rows = all_repairs()
    for name in ("rebuild-queue", "cut-queue", "rebuild-index", "write-checkpoint"):
        assert not [*rows[name].plan(scene, found)], name


def test_a_recovery_is_finished_only_where_all_is_known(patient: Patients) -> None:
    sick = patient("5.3.3-killed")
    assert can_finish(scene_of(sick))
    assert not can_finish(scene_of(sick, level="quick"))
    for rule in ("CL020", "CL009", "CL004", "ST020"):
        assert not can_finish(scene_of(sick, Finding(rule, Where("commitlog"))))
    sick.file("checkpoint").unlink()
    scene = scene_of(sick, Finding("CL004", Where("commitlog")))
    assert not [*plan_save_index(scene, [Finding("CP003", Where("index/none"))])]


def test_findings_in_files_that_are_gone_ask_for_nothing(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    gone = Where("commitlog/none", 0, 10)
    rows = all_repairs()
    for name, rule in (
        ("salvage-log", "CL001"), ("cut-log", "CL002"), ("zero-stale-tail", "CL021"),
        ("write-blank", "CL019"), ("rewrite-epochs", "CP020"), ("rewrite-index-header", "IX003"),
        ("flip-bit", "CL004"), ("zero-stale-units", "CQ004"), ("remove-ghost-queue", "CF023"),
    ):  # fmt: skip
        finding = Finding(rule, gone)
        assert not [*rows[name].plan(scene_of(sick, finding), [finding])], name
    assert whole_file(scene_of(sick), "commitlog/none") == ()


def test_a_ghost_queue_is_set_aside(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    damage_store(sick.root, None, ["ghost-queue"], 1, in_place=True, write_truth=False)
    where = Where("consumequeue/GhostTopic/0", topic="GhostTopic", queue_id=0)
    finding = Finding("CF023", where, {"unit_count": 3})
    [action] = all_repairs()["remove-ghost-queue"].plan(scene_of(sick, finding), [finding])
    assert action.losses[0].count == 3 and not action.preen
    sick.act(action)
    assert "consumequeue/GhostTopic/0/00000000000000000000" in sick.aside()


def test_queues_without_files_or_units_tell_no_time(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    store = sick.open()
    end = read_log_end(store)
    empty = [
        dataclasses.replace(queue, mapped_files=dataclasses.replace(queue.mapped_files, files=()))
        for queue in store.queues[:2]
    ]
    assert last_in_queues(dataclasses.replace(store, queues=tuple(empty)), end) is None
    queue = store.queues[0]
    queue.files[0].path.write_bytes(bytes(queue.files[0].size))
    assert last_in_queues(dataclasses.replace(store, queues=(queue,)), end) is None
    queue.files[0].path.write_bytes(b"\xff" * queue.files[0].size)
    assert last_in_queues(dataclasses.replace(store, queues=(queue,)), end) is None


def test_files_whose_names_say_nothing_are_no_log(patient: Patients) -> None:
    store = patient("4.4.0-multiseg").open()
    nameless = dataclasses.replace(store.commitlog.files[-1], start_offset=None)
    log = dataclasses.replace(store.commitlog, files=(*store.commitlog.files[:-1], nameless))
    found = read_log_end(dataclasses.replace(store, commitlog=log))
    assert found is not None and found.end_offset <= (store.commitlog.files[-1].start_offset or 0)


def test_an_index_file_that_cannot_be_read_is_not_gone_on_from(patient: Patients) -> None:
    sick = patient("4.9.8-basic")
    scene = scene_of(sick)
    files = scene.store.indexes
    files[1].path.unlink()
    assert first_wrong(scene, [Finding("IX001", Where(files[2].relative))]) is None


def merger(sick: Patient) -> Merger:
    scene = sick.scene()
    store = scene.reopen()
    return Merger(scene.tree, store, LogReader(store.commitlog))


def test_places_of_lost_messages(patient: Patients, monkeypatch: pytest.MonkeyPatch) -> None:
    sick = patient("4.4.0-multiseg")
    sick.file("commitlog/00000000000000131072").unlink()
    sick.put("commitlog/00000000000000196608", 0, b"\7" * 400)
    made = merger(sick)
    end = read_log_end(made.store)
    assert end is not None
    offsets = np.array([131072, 196608 + 8, 5, end.end_offset + 5, 1 << 40], np.int64)
    sizes = np.full(5, 100, np.int64)
    assert made._are_places(offsets, sizes).tolist() == [True, True, False, False, False]
    monkeypatch.setattr(queuemerge, "LOOK_LIMIT", 0)
    assert made._are_places(offsets, sizes).tolist() == [True, False, False, False, False]
    bare = dataclasses.replace(made.store.commitlog, files=())
    none = Merger(made.tree, made.store, LogReader(bare))
    assert none._are_places(offsets, sizes).tolist() == [True] * 5


def test_files_too_large_or_not_writable_are_errors(
    patient: Patients, monkeypatch: pytest.MonkeyPatch
) -> None:
    sick = patient("5.3.3-basic")
    made = merger(sick)
    monkeypatch.setattr(queuemerge, "MAX_FILE_SIZE", 10)
    with pytest.raises(StoreError, match="the limit for a queue's file is 10"):
        made.merge("consumequeue/GammaZip/0", sick.root / "none")
    with open_root(sick.root), pytest.raises(StoreError, match="cannot be written"):
        write_sparse(sick.root / "none" / "x", b"1")


def test_a_directory_that_is_not_there_is_made_of_what_was_built(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    whole = sick.file("consumequeue/GammaZip/0/00000000000000000000").read_bytes()
    built = sick.root.parent / "built"
    shutil.copytree(sick.file("consumequeue/GammaZip/0"), built)
    shutil.rmtree(sick.file("consumequeue/GammaZip/0"))
    made = merger(sick)
    assert made.merge("consumequeue/GammaZip/0", built)
    assert sick.mended("consumequeue/GammaZip/0/00000000000000000000").read_bytes() == whole
    assert not made.merge("consumequeue/GammaZip/0", built)
    assert not made.merge("consumequeue/Nothing/0", sick.root / "none")


def test_kept_units_lose_their_extension(patient: Patients) -> None:
    sick = patient("4.9.8-cqext")
    sick.file("commitlog/00000000000000000000").unlink()
    file = sick.open().queues[0].files[0]
    sick.put(file.relative, 8, b"\xff\xff\xff\xff")
    plan, after = sick.mend()
    assert "rebuild-queue" in names(plan)
    assert not {rule for rule in bad(after) if rule.startswith("CQ")}


def test_batch_queues_that_are_built_lose_what_expired(patient: Patients) -> None:
    sick = patient("5.0.0-innerbatch")
    store = sick.open()
    queue = next(item for item in store.queues if item.kind == "batch")
    finding = Finding("CQ014", Where(queue.files[0].relative, topic=queue.topic, queue_id=queue.queue_id))
    late = dataclasses.replace(store.commitlog.files[0], start_offset=10_000)
    log = dataclasses.replace(store.commitlog, files=(late,))
    scene = PlanScene(dataclasses.replace(store, commitlog=log), sick.check(), (finding,))
    [action] = all_repairs()["rebuild-queue"].plan(scene, [finding])
    assert [loss.what for loss in action.losses] == ["unit"] and not action.preen


def test_header_fields_and_entry_0_are_written(patient: Patients) -> None:
    sick = patient("4.9.8-basic")
    faults = ["entry-zero", "hash-slot-count"]
    damage_store(sick.root, None, faults, 2, in_place=True, write_truth=False)
    plan, after = sick.mend()
    assert set(names(plan)) == {"rewrite-index-header"}
    assert not bad(after)


def test_an_action_on_a_twin_that_is_gone_does_nothing(patient: Patients) -> None:
    patient("5.3.3-basic").act(Action("move-zero-twin", "commitlog/none", ""))


def test_files_that_cannot_be_read_say_nothing_of_their_names(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    scene = scene_of(sick, Finding("CL006", Where("commitlog/none", 0, 10)))
    assert pending_renames(scene) == ()
    assert not is_zero(scene, "commitlog/none")
    file = scene.store.commitlog.files[0]
    whole = scene_of(sick, Finding("CL006", Where(file.relative, 0, 10)))
    assert pending_renames(whole) == ()
    assert hidden_record(whole, file, file.size - 100) is None
    with file.path.open("ab") as stream:
        stream.write(b"longer")
    assert pending_renames(whole) == ()
    file.path.unlink()
    assert hidden_record(whole, file, 100) is None


def test_large_files_are_carved_by_compiled_code(patient: Patients) -> None:
    sick = patient("4.9.8-basic")
    damage_store(sick.root, None, ["blank-early"], 1, in_place=True, write_truth=False)
    plain = names(sick.plan())
    with within(compiled=True):
        assert names(sick.plan()) == plain and "salvage-log" in plain
