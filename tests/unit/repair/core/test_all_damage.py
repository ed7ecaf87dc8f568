"""Planning, judging and counting go by all damage, however much of it a report lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.engine import LocalEngine
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.plan.document import parse_plan, plan_text
from rocketfsck.repair.plan.model import Plan
from rocketfsck.repair.plan.planning import all_findings, make_plan
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.views.messages import Message, read_messages
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry
from rocketfsck.store.reading import FileReader
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store

COUNT, LIMIT = 30, 4
"""Messages of a store, and the findings of a rule in a file that a check lists."""

Harm = Callable[[bytearray, Message], None]


def flip_one(data: bytearray, message: Message) -> None:
    data[message.body_pos + 3] ^= 0x10


def flip_two(data: bytearray, message: Message) -> None:
    data[message.body_pos + 3] ^= 0x11


def flip_some(data: bytearray, message: Message) -> None:
    data[message.body_pos + 3] ^= 0x10 if message.queue_offset % 3 else 0x11


def move(data: bytearray, message: Message) -> None:
    data[message.pos + 28 : message.pos + 36] = (77_777).to_bytes(8, "big")


def destroy(data: bytearray, message: Message) -> None:
    data[message.pos : message.pos + 40] = bytes(40)


@pytest.fixture
def harmed(tmp_path: Path) -> Callable[[Harm], tuple[Path, Path, int]]:
    """Does harm to every second record of a store: the store, its log file, how many records."""

    def make(harm: Harm) -> tuple[Path, Path, int]:
        root = tmp_path / "store"
        given = [OutgoingMessage("T", b"%030d" % at, 1_700_000_000_000 + at) for at in range(COUNT)]
        options = WriteOptions(version="5.3.3", geometry=Geometry(1 << 16, 2000), sync=False)
        write_store(root, given, options)
        (path,) = sorted((root / "commitlog").iterdir())
        with FileReader(path) as reader:
            chosen = list(read_messages(reader, 0, ScanOptions()))[3:-1:2]
        data = bytearray(path.read_bytes())
        for message in chosen:
            harm(data, message)
        path.write_bytes(data)
        return root, path, len(chosen)

    return make


def check(root: Path) -> Report:
    options = CheckOptions(detail_limit=LIMIT)
    return check_store(open_store(root, version="5.3.3"), options, engine=LocalEngine(1))


def planned(root: Path) -> tuple[Plan, Report]:
    report = check(root)
    return make_plan(open_store(root, version="5.3.3"), report), report


def counted(plan: Plan, report: Report, rule: str) -> None:
    """Every finding of a rule is answered or not, whatever the report lists."""
    left = sum(item.count for item in plan.unanswered if item.rule == rule)
    assert plan.answered_counts.get(rule, 0) + left == report.counts[rule]


def test_one_action_turns_all_bits_of_a_file_back(harmed: Callable[[Harm], tuple[Path, Path, int]]) -> None:
    root, _, count = harmed(flip_one)
    plan, report = planned(root)
    assert report.counts["CL004"] == count > LIMIT
    (action,) = (action for action in plan.actions if action.name == "flip-bit")
    assert action.gains == {"record": count}
    assert (plan.answered_counts["CL004"], plan.unanswered_count) == (count, 0)
    assert parse_plan(plan_text(plan).encode()) == plan
    done = apply_plan(plan)
    assert not done.problem, done.problem
    assert not check(root).counts.get("CL004")


def test_what_no_bit_explains_is_left_and_counted(harmed: Callable[[Harm], tuple[Path, Path, int]]) -> None:
    root, _, count = harmed(flip_some)
    plan, report = planned(root)
    flipped = plan.answered_counts["CL004"]
    assert 0 < flipped < count
    counted(plan, report, "CL004")
    assert {"CL004"} <= {item.rule for item in plan.unanswered}
    done = apply_plan(plan)
    assert not done.problem, done.problem
    assert check(root).counts["CL004"] == count - flipped
    again, _ = planned(root)
    assert "flip-bit" not in {action.name for action in again.actions}


def test_nothing_is_promised_where_no_bit_explains_anything(
    harmed: Callable[[Harm], tuple[Path, Path, int]],
) -> None:
    root, _, count = harmed(flip_two)
    plan, report = planned(root)
    assert "CL004" not in plan.answered_counts
    assert sum(item.count for item in plan.unanswered if item.rule == "CL004") == count
    counted(plan, report, "CL004")


@pytest.mark.parametrize(("harm", "rule"), [(destroy, "CL001"), (move, "CL006")])
def test_places_that_a_report_only_counts_are_repaired(
    harmed: Callable[[Harm], tuple[Path, Path, int]], harm: Harm, rule: str
) -> None:
    root, _, count = harmed(harm)
    plan, report = planned(root)
    assert report.counts[rule] == count > LIMIT
    counted(plan, report, rule)
    assert plan.answered_counts[rule] == count
    done = apply_plan(plan)
    assert not done.problem, done.problem
    assert not check(root).counts.get(rule)


def test_a_report_that_lists_all_is_read_no_second_time(
    harmed: Callable[[Harm], tuple[Path, Path, int]],
) -> None:
    root, _, _ = harmed(destroy)
    store = open_store(root, version="5.3.3")
    report = check_store(store, CheckOptions(), engine=LocalEngine(1))
    assert all_findings(store, report) is report.findings
