"""Index files: from where they are built again, what stays, headers."""

from __future__ import annotations

import dataclasses
import shutil

import pytest

from rocketfsck.engine import LocalEngine
from rocketfsck.errors import StoreError
from rocketfsck.repair.plan.arguments import HeaderValue, HeaderValues, IndexPartArgument
from rocketfsck.repair.plan.model import Action
from rocketfsck.repair.plan.planning import all_repairs, make_plan
from rocketfsck.repair.plan.table import PlanScene
from rocketfsck.repair.repairs.index import first_wrong
from rocketfsck.verify import check_store
from rocketfsck.verify.finding import Finding, Where

from tests.unit.repair.repairs.conftest import Patients, bad, names


def test_only_the_files_from_the_first_wrong_one_on(patient: Patients) -> None:
    sick = patient("4.4.0-multiseg")
    files = sick.open().indexes
    before = {file.relative: file.path.read_bytes() for file in files}
    sick.put(files[-1].relative, 40 + 4 * sick.open().geometry.slot_count + 20, b"\x11" * 12)
    plan, after = sick.mend()
    [action] = [item for item in plan.actions if item.name == "rebuild-index"]
    assert isinstance(action.arguments, IndexPartArgument)
    assert action.arguments.first_file != files[0].name
    assert not bad(after)
    assert {name: sick.mended(name).read_bytes() for name in before} == before


def test_entries_that_are_missing_behind_the_last_file(patient: Patients) -> None:
    sick = patient("4.9.8-basic")
    store = sick.open()
    scene = PlanScene(store, sick.check(), ())
    place = Where("commitlog/00000000000000000000", physical_offset=1 << 40)
    start = first_wrong(scene, [Finding("XR020", place)])
    assert start is not None and start.number == len(store.indexes)
    start = first_wrong(scene, [Finding("XR020", Where("commitlog/0", physical_offset=0))])
    assert start is None
    assert first_wrong(scene, [Finding("IX001", Where("elsewhere"))]) is None
    assert first_wrong(dataclasses.replace(scene, store=dataclasses.replace(store, indexes=())), []) is None


def test_an_empty_file_among_them_asks_for_all(patient: Patients) -> None:
    sick = patient("4.9.8-basic")
    store = sick.open()
    store.indexes[1].path.write_bytes(bytes(store.indexes[1].size))
    scene = PlanScene(sick.open(), sick.check(), ())
    assert first_wrong(scene, [Finding("IX001", Where(store.indexes[2].relative))]) is None
    plan, after = sick.mend()
    assert "rebuild-index" in names(plan)
    assert not bad(after)


def test_an_index_that_is_not_there_is_built_when_asked_for(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    shutil.rmtree(sick.root / "index")
    checkpoint = sick.file("checkpoint")
    checkpoint.write_bytes(checkpoint.read_bytes()[:16] + bytes(8) + checkpoint.read_bytes()[24:])
    assert not sick.plan().actions  # nothing shows that there ever was one
    plan, after = sick.mend(only=["rebuild-index"])
    assert names(plan) == ["rebuild-index"] and plan.actions[0].gains["record"] > 0
    assert len(sick.reopen().indexes) == 1  # of the default geometry: nothing tells another
    assert not bad(after)


def test_links_are_mended_from_the_files_own_entries(patient: Patients) -> None:
    sick = patient("4.9.8-basic")
    file = sick.open().indexes[1]
    whole = file.path.read_bytes()
    slots = sick.open().geometry.slot_count
    sick.put(file.relative, 40, b"\x7f" * 4 * slots)
    plan, after = sick.mend()
    assert names(plan) == ["relink-index"] and plan.actions[0].preen
    assert sick.mended(file.relative).read_bytes() == whole
    assert sick.mended(file.relative).stat().st_mtime_ns == file.path.stat().st_mtime_ns
    assert not bad(after)


def test_findings_that_only_count_ask_for_a_rebuilding(patient: Patients) -> None:
    sick = patient("4.9.8-basic")
    for file in sick.open().indexes:
        sick.put(file.relative, 40, b"\x7f" * 4 * sick.open().geometry.slot_count)
    report = sick.check(detail_limit=1)
    plan = make_plan(sick.open(), report)
    assert {"rebuild-index", "relink-index"} & set(names(plan))
    for action in plan.actions:
        sick.act(action)
    assert sick.reopen().indexes and not bad(check_store(sick.reopen(), engine=LocalEngine(1)))


def test_acts_refuse_what_is_gone(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    with pytest.raises(StoreError):
        sick.act(Action("relink-index", "index/none", ""))
    sick.file("index/20250101000000000").write_bytes(b"")
    with pytest.raises(StoreError):
        values = HeaderValues((HeaderValue("indexCount", 1),))
        sick.act(Action("rewrite-index-header", "index/20250101000000000", "", values))


def test_header_counts_are_left_to_a_rebuilding_where_one_is_due(patient: Patients) -> None:
    sick = patient("4.9.8-basic")
    files = sick.open().indexes
    sick.put(files[0].relative, 32, (77).to_bytes(4, "big"))
    sick.put(files[-1].relative, 40 + 4 * sick.open().geometry.slot_count + 24, b"\x11" * 8)
    assert "IX003" in bad(sick.check())
    plan, after = sick.mend()
    assert "rewrite-index-header" not in names(plan) and "rebuild-index" in names(plan)
    assert "IX003" in {rule for action in plan.actions for rule in action.rules}
    assert not bad(after)


def test_fields_that_are_no_fields_are_not_written(patient: Patients) -> None:
    sick = patient("4.9.8-basic")
    store = sick.open()
    where = Where(store.indexes[0].relative, 0, 8)
    found = [Finding("IX004", where, {"field": None}, {"value": 1})]
    scene = PlanScene(store, sick.check(), tuple(found))
    assert not [*all_repairs()["rewrite-index-header"].plan(scene, found)]
    good = [Finding("IX004", where, {"field": "endTimestamp", "value": 1}, {"value": 5})]
    scene = PlanScene(store, sick.check(), tuple(good))
    [action] = all_repairs()["rewrite-index-header"].plan(scene, good)
    sick.act(action)
    assert sick.mended(store.indexes[0].relative).read_bytes()[8:16] == (5).to_bytes(8, "big")
