"""Queues that are built again, cut and sealed, where the damages that have a name do not reach."""

from __future__ import annotations

import dataclasses
import struct

import pytest

from rocketfsck.errors import StoreError
from rocketfsck.formats.consumequeue import PRE_BLANK_UNIT
from rocketfsck.repair.plan.arguments import LogEndArgument, QueuesToBuild, UnitsFrom
from rocketfsck.repair.plan.model import Action
from rocketfsck.repair.repairs.answers import queue_of
from rocketfsck.repair.repairs.queueends import tail_behind
from rocketfsck.verify.finding import Finding, Where

from tests.unit.repair.repairs.conftest import Patients, bad, names

SEG = "consumequeue/Seg0/0"


def unit(offset: int, size: int, tags: int = 0) -> bytes:
    return struct.pack(">qiq", offset, size, tags)


def test_the_queue_of_a_finding_is_told_by_its_place_or_its_file() -> None:
    assert queue_of(Finding("XR001", Where("x", topic="T", queue_id=3))) == ("T", 3)
    assert queue_of(Finding("CQ001", Where("consumequeue/T/3/00000000000000000000"))) == ("T", 3)
    assert queue_of(Finding("CQ001", Where("consumequeue/T/x/00000000000000000000"))) is None
    assert queue_of(Finding("CQ001", Where("consumequeue"))) is None


def test_what_is_built_again_is_what_was_there(patient: Patients) -> None:
    sick = patient("4.9.8-multiseg")
    queues = sick.open().queues
    before = {file.relative: file.path.read_bytes() for queue in queues for file in queue.files}
    sick.put(queues[0].files[0].relative, 40, bytes(100))
    sick.put(queues[1].files[-1].relative, 0, b"\1" * 30)
    plan, after = sick.mend()
    assert names(plan) == ["rebuild-queue"]
    assert not bad(after)
    assert {name: sick.mended(name).read_bytes() for name in before} == before


def test_filter_bit_maps_that_are_dropped_are_counted(patient: Patients) -> None:
    """They are in no other file: brokers read the messages in their place, so the repair is not safe."""
    sick = patient("4.9.8-cqext")
    queue = next(queue for queue in sick.open().queues if (queue.topic, queue.queue_id) == ("Ext0", 1))
    sick.put(queue.files[0].relative, 40, bytes(100))
    (action,) = sick.plan().actions
    assert action.name == "rebuild-queue"
    assert [item.count for item in action.notices if item.kind == "bit-maps-dropped"] == [79]
    assert not action.preen


def test_queues_without_bit_maps_drop_none(patient: Patients) -> None:
    sick = patient("4.9.8-multiseg")
    sick.put(sick.open().queues[0].files[0].relative, 40, bytes(100))
    (action,) = sick.plan().actions
    assert action.preen
    assert "bit-maps-dropped" not in {item.kind for item in action.notices}


def test_units_of_expired_messages_stay(patient: Patients) -> None:
    sick = patient("5.1.3-expired")
    store = sick.open()
    queue = next(item for item in store.queues if len(item.files) > 3)
    expired = queue.files[0]
    whole = expired.path.read_bytes()
    sick.put(queue.files[-2].relative, 20, bytes(20))
    plan, after = sick.mend()
    assert "rebuild-queue" in names(plan)
    assert not bad(after)
    assert sick.mended(expired.relative).read_bytes() == whole


def test_a_file_whose_name_is_in_the_middle_of_a_unit(patient: Patients) -> None:
    sick = patient("4.9.8-multiseg")
    first = sick.open().queues[0].files
    first[-1].path.rename(first[-1].path.with_name(f"{(first[-1].start_offset or 0) + 7:020d}"))
    assert "ST014" in bad(sick.check())
    plan, after = sick.mend()
    assert names(plan) == ["rebuild-queue"]
    assert not bad(after)
    assert any(name.endswith("7") for name in sick.aside())


def test_a_missing_file_of_a_queue_is_built(patient: Patients) -> None:
    sick = patient("4.9.8-multiseg")
    queue = next(item for item in sick.open().queues if len(item.files) > 2)
    whole = queue.files[1].path.read_bytes()
    queue.files[1].path.unlink()
    assert "ST010" in bad(sick.check())
    plan, after = sick.mend()
    assert names(plan) == ["rebuild-queue"]
    assert not bad(after)
    assert sick.mended(queue.files[1].relative).read_bytes() == whole


def test_findings_that_only_count_ask_for_all_queues(patient: Patients) -> None:
    sick = patient("4.9.8-multiseg")
    report = sick.check(detail_limit=1)
    sick.put(sick.open().queues[0].files[0].relative, 0, bytes(20))
    for queue in sick.open().queues:
        for number in (0, 2, 4):
            sick.put(queue.files[1].relative, 20 * number, bytes(20))
    report = sick.check(detail_limit=1)
    from rocketfsck.repair.plan.planning import make_plan

    [action] = make_plan(sick.open(), report).actions
    assert action.arguments == QueuesToBuild(None)
    sick.act(action)
    assert not {queue.topic for queue in sick.reopen().queues} ^ {queue.topic for queue in sick.open().queues}


def test_old_units_behind_a_queue_become_zeros(patient: Patients) -> None:
    sick = patient("5.1.3-expired")
    store = sick.open()
    log_start = store.commitlog.start_offset or 0
    for queue in store.queues:
        file = queue.files[-1]
        data = file.path.read_bytes()
        used = len(data.rstrip(b"\0"))
        used += -used % 20
        if used + 60 <= len(data):
            break
    # a gap, then a unit of a message that expired: nothing of the log says where it belongs
    sick.put(file.relative, used + 20, unit(log_start - 5000, 100))
    assert "CQ004" in bad(sick.check())
    plan, after = sick.mend()
    assert names(plan) == ["zero-stale-units"]
    assert not bad(after)
    assert sick.mended(file.relative).read_bytes() == data


def test_units_behind_the_log_in_the_middle_are_no_tail(patient: Patients) -> None:
    sick = patient("4.9.8-multiseg")
    queue = sick.open().queues[0]
    sick.put(queue.files[0].relative, 20, unit(1 << 40, 100))
    assert tail_behind(sick.open().queues[0], 1 << 39) is None
    plan, after = sick.mend()
    assert names(plan) == ["rebuild-queue"]
    assert not bad(after)


def test_a_cut_that_leaves_whole_files_behind_sets_them_aside(patient: Patients) -> None:
    sick = patient("4.9.8-multiseg")
    queue = sick.open().queues[0]
    last = queue.files[-1]
    data = last.path.read_bytes()
    used = len(data.rstrip(b"\0")) + 19
    used -= used % 20
    end = sick.open().commitlog.end_offset or 0
    count = (last.size - used) // 20
    sick.put(last.relative, used, b"".join(unit(end + 200 * number, 200) for number in range(count)))
    further = last.path.with_name(f"{(last.start_offset or 0) + last.size:020d}")
    further.write_bytes(unit(end + 200 * count, 200).ljust(last.size, b"\0"))
    plan, after = sick.mend()
    assert names(plan) == ["cut-queue"]
    assert not bad(after)
    assert any(name.endswith(further.name) for name in sick.aside())
    assert sick.mended(last.relative).read_bytes() == data


def test_acts_refuse_a_queue_that_is_gone_and_a_log_that_grew(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    for name, arguments in (("cut-queue", LogEndArgument(0)), ("zero-stale-units", UnitsFrom(0))):
        with pytest.raises(StoreError, match="no longer a queue"):
            sick.act(Action(name, "consumequeue/None/0", "", arguments))
    with pytest.raises(StoreError, match="continues after"):
        sick.act(Action("cut-queue", "consumequeue/GammaZip/0", "", LogEndArgument(100)))
    end = sick.open().commitlog.end_offset or 0
    sick.act(Action("cut-queue", "consumequeue/GammaZip/0", "", LogEndArgument(end)))


def test_delays_are_those_that_the_other_units_tell(patient: Patients) -> None:
    sick = patient("4.9.8-delay")
    store = sick.open()
    queue = next(item for item in store.queues if item.topic == "SCHEDULE_TOPIC_XXXX")
    data = bytearray(queue.files[0].path.read_bytes())
    rows = [pos for pos in range(0, len(data) - 19, 20) if any(data[pos : pos + 20])]
    for pos in rows:
        code = int.from_bytes(data[pos + 12 : pos + 20], "big") + 90_000
        data[pos + 12 : pos + 20] = code.to_bytes(8, "big")
    queue.files[0].path.write_bytes(data)
    if bad(sick.check()):
        pytest.fail("all units of a level agree")
    sick.put(queue.files[0].relative, rows[0] + 8, (77).to_bytes(4, "big"))
    plan, after = sick.mend()
    [action] = plan.actions
    assert isinstance(action.arguments, QueuesToBuild) and action.arguments.delay_levels
    assert not bad(after)
    assert sick.mended(queue.files[0].relative).read_bytes() == bytes(data)


def test_a_queue_of_which_the_log_has_nothing_keeps_its_units(patient: Patients) -> None:
    sick = patient("5.1.3-expired")
    store = sick.open()
    file = "consumequeue/Old/0/00000000000000000000"
    sick.file(file).parent.mkdir(parents=True)
    size = store.geometry.consumequeue_file_size
    units = PRE_BLANK_UNIT + unit(100, 200) + unit(300, 200)
    sick.file(file).write_bytes((units + unit(5, -1) + unit(900, 90)).ljust(size, b"\0"))
    assert "CQ005" in bad(sick.check())
    plan, after = sick.mend(except_=["remove-ghost-queue"])
    assert "rebuild-queue" in names(plan)
    assert "CQ005" not in bad(after)
    assert sick.mended(file).read_bytes()[: len(units)] == units


def test_the_list_of_queues_is_exact(patient: Patients) -> None:
    sick = patient("4.9.8-multiseg")
    sick.put(SEG + "/00000000000000000000", 20, bytes(20))
    [action] = sick.plan().actions
    assert action.arguments == QueuesToBuild((("Seg0", 0),))
    assert action.preen and not action.losses
    assert dict(action.gains) == {"record": 1}
    assert dataclasses.replace(action, note="") != action


def test_a_queue_that_is_cut_to_nothing_leaves_no_file_of_zeros(patient: Patients) -> None:
    """The first unit of a last file is a message to a broker, whatever it is."""
    sick = patient("5.1.3-basic")
    queue = sick.root / "consumequeue/Ghost/0"
    queue.mkdir(parents=True)
    end = sick.open().commitlog.end_offset or 0
    (queue / f"{0:020d}").write_bytes((unit(end, 200) + unit(end + 200, 200)).ljust(1000, b"\0"))
    plan, after = sick.mend()
    assert names(plan) == ["cut-queue"]
    assert not bad(after)
    assert not sick.mended(f"consumequeue/Ghost/0/{0:020d}").exists()
    assert f"consumequeue/Ghost/0/{0:020d}" in sick.aside()
