"""Fences, cuts, seals and BLANKs, where the damages that have a name do not reach."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rocketfsck.errors import StoreError
from rocketfsck.reader.records import LogReader, is_fence
from rocketfsck.reader.units import UnitReader, Units
from rocketfsck.repair import log
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.log import (
    Fillers,
    QueueFrames,
    fence_parts,
    filler_records,
    first_record,
    frames_in,
    frames_in_each,
    is_fenceable,
    keep_bytes,
    last_records_before,
    read_log_end,
    times_at,
    write_fence,
)
from rocketfsck.repair.plan.arguments import Arguments, BlankPlace, Fence, Fences, LogCut
from rocketfsck.repair.repairs.answers import merge_ranges
from rocketfsck.store.model import ConsumeQueue, MappedFileQueue
from rocketfsck.writer.damage import damage_store

from tests.unit.repair.repairs.conftest import Patients, bad, names

FILE = "commitlog/00000000000000000000"
SEGMENT = 65536


def test_ranges_are_merged() -> None:
    assert merge_ranges([(5, 7), (1, 3), (3, 4), (6, 9)]) == [(1, 4), (5, 9)]
    assert merge_ranges([]) == []


def test_the_end_of_the_log_and_what_is_before_an_offset(patient: Patients) -> None:
    store = patient("4.4.0-multiseg").open()
    end = read_log_end(store)
    assert end is not None and end.record_offset < end.end_offset
    first = first_record(store)
    assert first is not None and first.record_offset == 0
    none, same, before, last = last_records_before(store, [0, 1, SEGMENT, end.end_offset])
    assert none is None and same == first and last == end
    assert before is not None and before.end_offset <= SEGMENT
    assert times_at(store, [0, SEGMENT]) == [first.store_timestamp, before.store_timestamp]


def test_the_records_before_many_offsets_are_those_of_each_alone(patient: Patients) -> None:
    store = patient("4.4.0-multiseg").open()
    end = read_log_end(store)
    assert end is not None
    offsets = list(range(0, end.end_offset + 1000, 611))
    together = last_records_before(store, offsets)
    assert together == [last_records_before(store, [offset])[0] for offset in offsets]
    assert len({record for record in together if record is not None}) > 50


def test_a_log_without_records_has_no_end(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    sick.file(FILE).write_bytes(bytes(65536))
    store = sick.open()
    assert read_log_end(store) is None and first_record(store) is None
    assert times_at(store, [100, 200]) == [1, 1]


def frames(*ranges: tuple[int, int]) -> list[QueueFrames]:
    queue = ConsumeQueue("T", 0, "file", MappedFileQueue((), 6_000_000, ()))
    starts = np.array([low for low, _ in ranges], np.int64)
    sizes = np.array([high - low for low, high in ranges], np.int64)
    return [QueueFrames(queue, np.arange(len(starts)), starts, sizes)]


def test_a_fence_keeps_the_places_of_records() -> None:
    found = frames((100, 300), (300, 500), (700, 900))
    assert fence_parts(found, 100, 1000, 92) == [(100, 300), (300, 500), (500, 700), (700, 900), (900, 1000)]


def test_places_that_leave_no_room_for_filler_are_not_kept() -> None:
    found = frames((50, 300), (320, 500), (520, 980))
    assert fence_parts(found, 0, 1000, 92) == [(0, 320), (320, 500), (500, 1000)]
    assert fence_parts(frames((0, 50), (60, 2000)), 0, 1000, 92) == [(0, 1000)]
    assert not is_fenceable(91) and is_fenceable(92)


def test_a_fence_leaves_the_zeros_of_large_bodies_as_holes(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    scene = sick.scene()
    end = read_log_end(sick.open())
    assert end is not None
    start, stop = end.end_offset, 60_000
    file = sick.open().commitlog.files[0]
    frames = frames_in(sick.reopen(), start, stop)
    write_fence(scene.tree, frames, file, start, stop, version="5.3.3", timestamp=end.store_timestamp)
    made = read_log_end(sick.reopen())
    assert made is not None and made.end_offset == stop
    with LogReader(sick.reopen().commitlog) as log:
        head = log.head(start)
    assert head is not None and is_fence(head)


def test_bytes_are_kept_unless_they_are_zeros(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    tree = sick.scene().tree
    assert keep_bytes(tree, FILE, (65000, 65500)) == ""
    name = keep_bytes(tree, FILE, (10, 600))
    assert (tree.set_aside_root / name).read_bytes() == sick.file(FILE).read_bytes()[10:600]


def test_units_of_a_range(patient: Patients) -> None:
    store = patient("4.4.0-multiseg").open()
    found = frames_in(store, 0, SEGMENT)
    assert {(item.queue.topic, item.queue.queue_id) for item in found} == {
        (queue.topic, queue.queue_id) for queue in store.queues
    }
    assert all(int((item.offset + item.size).max()) <= SEGMENT for item in found)


@pytest.mark.parametrize("together", [1, 7, 1 << 18])
def test_units_of_several_ranges_are_those_of_each(
    patient: Patients, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    store = patient("4.4.0-multiseg").open()
    spans = [(SEGMENT - 900, SEGMENT), (100, 700), (700, 701), (0, 3 * SEGMENT)]
    each = [frames_in(store, start, end) for start, end in spans]
    monkeypatch.setattr(log, "TOGETHER", together)
    monkeypatch.setattr("rocketfsck.reader.units.SEARCH_COUNT", 1)
    read: list[int] = []
    units = UnitReader.units

    def counted(reader: UnitReader, index: int, count: int) -> Units:
        read.append(count)
        return units(reader, index, count)

    monkeypatch.setattr(UnitReader, "units", counted)
    found = frames_in_each(store, spans)
    assert max(read) <= together
    assert len(found) == 4 and found[1] and found[3]
    for (start, end), frames, alone in zip(spans, found, each, strict=True):
        assert [item.queue for item in frames] == [item.queue for item in alone]
        for item, other in zip(frames, alone, strict=True):
            assert item.index.tolist() == other.index.tolist()
            assert item.offset.tolist() == other.offset.tolist()
            assert start <= int(item.offset.min()) <= int(item.offset.max()) < end
    assert frames_in_each(store, []) == []


def test_a_record_torn_in_the_middle_of_the_log_is_fenced(patient: Patients) -> None:
    sick = patient("4.4.0-multiseg")
    units = frames_in(sick.open(), SEGMENT - 3000, SEGMENT)
    start = min(int(item.offset[0]) for item in units)
    sick.put(FILE, start + 30, bytes(SEGMENT - start - 30))
    assert "CL002" in bad(sick.check())
    plan, after = sick.mend()
    assert names(plan) == ["salvage-log", "write-blank", "rebuild-index"]
    assert bad(after) <= {"CL028"}
    assert after.counts["XR015"]


def test_a_short_file_in_the_middle_is_filled_up(patient: Patients) -> None:
    sick = patient("4.4.0-multiseg")
    with sick.file(FILE).open("r+b") as stream:
        stream.truncate(SEGMENT - 2001)
    plan, after = sick.mend()
    assert names(plan)[0] == "resize-segment"
    assert "salvage-log" in names(plan)
    assert bad(after) <= {"CL028"}


def test_a_file_of_garbage_between_others_is_fenced(patient: Patients) -> None:
    sick = patient("4.4.0-multiseg")
    name = "commitlog/00000000000000131072"
    sick.file(name).write_bytes(b"\7" * SEGMENT)
    assert "CL030" in bad(sick.check())
    plan, after = sick.mend()
    assert "salvage-log" in names(plan)
    assert not bad(after)


def test_a_file_of_garbage_behind_the_log_is_set_aside(patient: Patients) -> None:
    sick = patient("4.4.0-multiseg")
    name = "commitlog/00000000000000458752"
    sick.file(name).write_bytes(b"\7" * SEGMENT)
    plan, after = sick.mend()
    assert names(plan)[0] == "cut-log"
    assert name in sick.aside()
    assert not bad(after)


def test_a_log_of_garbage_alone_is_left(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    sick.file(FILE).write_bytes(b"\7" * 65536)
    assert "CL030" not in {rule for action in sick.plan().actions for rule in action.rules}


def test_damage_too_small_for_filler_is_left(patient: Patients) -> None:
    sick = patient("5.3.3-basic")
    store = sick.open()
    end = read_log_end(store)
    assert end is not None
    data = sick.file(FILE).read_bytes()
    record = data[end.record_offset : end.end_offset]
    moved = end.end_offset + 40
    fixed = record[:28] + moved.to_bytes(8, "big") + record[36:]
    sick.put(FILE, end.end_offset, b"\1" * 40 + fixed)
    plan = sick.plan()
    assert "salvage-log" not in names(plan)
    assert "CL001" in {item.rule for item in plan.unanswered}


def test_a_gap_that_is_no_whole_file_is_left(patient: Patients) -> None:
    sick = patient("4.4.0-multiseg")
    for start in (131072, 196608):
        sick.file(f"commitlog/{start:020d}").unlink()
    sick.file("commitlog/00000000000000262144").rename(sick.file("commitlog/00000000000000262100"))
    assert "fence-gap" not in names(sick.plan())


@pytest.mark.parametrize("name", ["salvage-log", "write-blank", "cut-log", "zero-stale-tail", "fence-gap"])
def test_acts_refuse_what_is_not_as_planned(name: str, patient: Patients) -> None:
    sick = patient("4.4.0-multiseg")
    sick.file("commitlog/00000000000000131072").unlink()
    [gap] = [action for action in sick.plan().actions if action.name == "fence-gap"]
    base = dataclasses.replace(gap, name=name)
    there = dataclasses.replace(base, target=FILE)
    right: dict[str, Arguments] = {
        "salvage-log": Fences((), "4.4.0"),
        "write-blank": BlankPlace(0),
        "cut-log": LogCut(0),
        "zero-stale-tail": LogCut(0),
        "fence-gap": gap.arguments,
    }
    gone = dataclasses.replace(base, target="commitlog/00000000000000131072", arguments=right[name])
    wrong: dict[str, Arguments] = {
        "salvage-log": Fences((Fence(SEGMENT - 10, SEGMENT + 10, 1),), "4.4.0"),
        "write-blank": BlankPlace(SEGMENT - 4),
        "cut-log": LogCut(SEGMENT + 1),
        "zero-stale-tail": LogCut(-1),
        "fence-gap": gap.arguments,
    }
    with pytest.raises(StoreError):
        sick.act(dataclasses.replace(there, arguments=wrong[name]))
    if name != "fence-gap":
        with pytest.raises(StoreError, match="no longer a commit log file"):
            sick.act(gone)


@pytest.mark.parametrize("version", ["4.4.0", "5.3.3"])
def test_filler_of_one_size_is_what_would_be_built_for_each_place(version: str) -> None:
    fillers = Fillers(version, 1_700_000_000_000)
    for offset, size in ((1000, 300), (5000, 300), (9000, 92), (9100, 92), (1 << 40, 300), (0, 5 << 20)):
        made = b"".join(fillers.fill(offset, size))
        built = b"".join(
            filler_records(
                offset,
                size,
                version=version,
                store_timestamp=1_700_000_000_000,
            )
        )
        assert made == built and len(made) == size


@pytest.mark.parametrize("fault", ["unit-ghost", "queue-behind"])
def test_damage_of_queues_beside_an_early_blank_is_left_to_the_next_plan(
    fault: str, patient: Patients
) -> None:
    """The log that is whole again answers what the BLANK made of the queues, and nothing else."""
    sick = patient("4.9.8-multiseg")
    for name in ("blank-early", fault):
        damage_store(sick.root, None, [name], 1, in_place=True, write_truth=False)
    first = sick.plan()
    (fence,) = [action for action in first.actions if action.name == "salvage-log"]
    assert {"CL020", "XR010"} <= {*fence.rules} and "XR001" not in fence.rules
    left = [item for item in first.unanswered if item.rule == "XR001"]
    assert left and all(item.reason.startswith("a BLANK hides records") for item in left)
    report = apply_plan(first)
    assert report.published and not report.unmet and not report.fresh
    second = sick.plan()
    assert "rebuild-queue" in names(second)
    report = apply_plan(second)
    assert report.published and not report.fresh and "XR001" not in report.after
