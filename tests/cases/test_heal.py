"""A store healed from its replica by a plan: check, plan, apply, check, plan again, undo.

What A lacks comes from B, what is valid in A stays, B is only read; nothing new comes up, a second plan is
empty, and undo gives back the original bytes.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from rocketfsck.cli.app import run
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.apply.results import ApplyReport
from rocketfsck.repair.apply.undoing import undo
from rocketfsck.repair.heal.plan import HealOptions, plan_heal
from rocketfsck.repair.plan.document import parse_plan, plan_text, read_plan
from rocketfsck.repair.plan.law import all_assumptions
from rocketfsck.repair.plan.model import Plan
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.scan.views.messages import Message
from rocketfsck.store import open_store
from rocketfsck.verify import Report
from rocketfsck.writer.disk import fileops

from tests.cases.test_compare import all_messages, copies, diverged, put
from tests.cases.test_repair_kill import KilledError, counted, killed_at
from tests.cases.test_repairs import bad, check, tree
from tests.cases.test_salvage import records_of
from tests.conftest import NIGHTLY, Directory

STORES = ("4.9.8-multiseg", "5.3.3-multiseg", "4.4.0-multiseg")
OPTIONS = HealOptions()


@pytest.fixture(autouse=True)
def without_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is about what a power cut leaves, and syncs are what takes the time."""
    monkeypatch.setattr(fileops, "sync", lambda _path: None)


@dataclass(frozen=True)
class Healed:
    """One round: the plan as it is read from JSON, the reports, and the records of A afterwards."""

    plan: Plan
    before: Report
    applied: ApplyReport
    after: Report
    records: dict[int, bytes]

    @property
    def names(self) -> list[str]:
        return [action.name for action in self.plan.actions]

    @property
    def regained(self) -> int:
        return sum(gain.count for action in self.plan.actions for gain in action.regained)


def heal(a: Path, b: Path, options: HealOptions = OPTIONS, *, in_place: bool = False) -> Healed:
    """Go round; everything that must hold of any two copies is asserted."""
    original, other, had = tree(a), tree(b), records_of(a)
    made, before = plan_heal(open_store(a), open_store(b), options)
    plan = parse_plan(plan_text(made).encode())
    assert plan == made and tree(a) == original
    assumed = [item.name for item in all_assumptions(plan.actions) if item.how == "assumed"]
    applied = apply_plan(plan, in_place=in_place, assume=assumed)
    assert not applied.problem, (applied.unmet, applied.fresh, applied.ledger)
    assert applied.ledger.balanced
    mended = open_store(a)
    again, after = plan_heal(mended, open_store(b), options)
    answered = {name for action in plan.actions for name in action.why}
    assert not answered & {finding.fingerprint for finding in after.findings}
    assert bad(after) <= bad(before), (bad(before), bad(after))
    assert not again.actions, [(action.name, action.target, action.rules) for action in again.actions]
    records = records_of(a)
    if not options.prefer_b:
        assert not [offset for offset, data in had.items() if records.get(offset) != data]
    if plan.actions:
        undo(a)
    assert tree(a) == original and tree(b) == other
    assert {path.name for path in a.parent.iterdir()} == {"a", "b"}
    return Healed(plan, before, applied, after, records)


def cut(store: Path, offset: int) -> None:
    """The log ends here: zeros to the end of the file, no file behind it."""
    for path in sorted((store / "commitlog").iterdir()):
        start = int(path.name)
        if start >= offset:
            path.unlink()
        elif start + path.stat().st_size > offset:
            with path.open("r+b") as stream:
                stream.seek(offset - start)
                stream.write(bytes(start + path.stat().st_size - offset))


def zero(store: Path, first: Message, last: Message) -> None:
    put(store, first, 0, bytes(last.physical_offset + last.total_size - first.physical_offset))


def spoil_body(store: Path, message: Message) -> None:
    start = message.body_pos - message.pos
    put(store, message, start, bytes(255 - byte for byte in (message.body or b"")[:8]))


def files(store: Path) -> list[Path]:
    return sorted((store / "commitlog").iterdir())


def content(root: Path) -> dict[str, str]:
    return {name: data for name, (data, _) in tree(root).items()}


def derived_gone(store: Path) -> None:
    for name in ("consumequeue", "index"):
        shutil.rmtree(store / name)
        (store / name).mkdir()


Harm = Callable[[Path, Path, list[Message]], None]


def different_places(a: Path, b: Path, messages: list[Message]) -> None:
    spoil_body(a, messages[300])
    put(b, messages[700], 4, b"gone")
    zero(b, messages[9], messages[12])


def shorter_without_queues(a: Path, _b: Path, messages: list[Message]) -> None:
    cut(a, messages[500].physical_offset)
    derived_gone(a)


def damaged_and_shorter(a: Path, _b: Path, messages: list[Message]) -> None:
    spoil_body(a, messages[40])
    cut(a, messages[-90].physical_offset)


def both_shorter(a: Path, b: Path, messages: list[Message]) -> None:
    cut(a, messages[400].physical_offset)
    cut(b, messages[-70].physical_offset)


def change_second(store: Path, change: Callable[[bytes], bytes]) -> None:
    path = files(store)[1]
    path.write_bytes(change(path.read_bytes()))


HEALED: dict[str, Harm] = {
    "one body": lambda a, _b, m: spoil_body(a, m[300]),
    "a range": lambda a, _b, m: zero(a, m[20], m[90]),
    "different places": different_places,
    "a segment gone": lambda a, _b, _m: files(a)[2].unlink(),
    "the first segment gone": lambda a, _b, _m: files(a)[0].unlink(),
    "a segment of zeros": lambda a, _b, _m: change_second(a, lambda data: bytes(len(data))),
    "a segment cut short": lambda a, _b, _m: change_second(a, lambda data: data[:9000]),
    "a shorter log": lambda a, _b, m: cut(a, m[len(m) // 2].physical_offset),
    "a shorter log and no queues": shorter_without_queues,
    "damage and a shorter log": damaged_and_shorter,
    "both shorter, A more": both_shorter,
}
"""What can be healed as a whole: all that B has is in A afterwards."""


SELDOM = {"one body", "a range", "a segment of zeros", "a shorter log", "damage and a shorter log"}
SELDOM |= {"nothing", "B is shorter", "B has files less"}
"""Those of which others have a part: nightly only."""


@pytest.mark.parametrize("harm", [name for name in HEALED if NIGHTLY or name not in SELDOM])
@pytest.mark.parametrize("number", range(3) if NIGHTLY else [None])
def test_what_a_lacks_is_taken_from_b(
    harm: str, number: int | None, store_dir: Directory, tmp_path: Path
) -> None:
    at = list(HEALED).index(harm)
    source = store_dir(STORES[at % 3 if number is None else number])
    a, b = copies(source, tmp_path)
    HEALED[harm](a, b, all_messages(source))
    own, other, whole = records_of(a), records_of(b), records_of(source)
    done = heal(a, b, in_place=at % 2 == 0)
    assert done.names[0] == "heal-log" and "heal-cut" not in done.names
    assert done.plan.conflict_count == 0
    assert done.records == {
        offset: data for offset, data in whole.items() if offset in own or offset in other
    }
    assert bad(done.after) == bad(check(open_store(source))) or "both shorter" in harm
    assert done.regained == sum(
        offset not in own or own[offset] != data for offset, data in done.records.items()
    )
    assert {gain.topic for action in done.plan.actions for gain in action.regained}


def damage_in_b(_a: Path, b: Path, messages: list[Message]) -> None:
    spoil_body(b, messages[300])
    zero(b, messages[3], messages[30])


def fewer_in_b(_a: Path, b: Path, _messages: list[Message]) -> None:
    for path in files(b)[:2]:
        path.unlink()


def both_at_one_place(a: Path, b: Path, messages: list[Message]) -> None:
    zero(a, messages[500], messages[510])
    zero(b, messages[498], messages[512])


NOT_HEALED: dict[str, Harm] = {
    "nothing": lambda _a, _b, _m: None,
    "damage in B": damage_in_b,
    "B is shorter": lambda _a, b, m: cut(b, m[500].physical_offset),
    "B has files less": fewer_in_b,
    "both at one place": both_at_one_place,
}


@pytest.mark.parametrize("harm", [name for name in NOT_HEALED if NIGHTLY or name not in SELDOM])
def test_where_b_has_nothing_a_stays(harm: str, store_dir: Directory, tmp_path: Path) -> None:
    source = store_dir(STORES[list(NOT_HEALED).index(harm) % 3])
    a, b = copies(source, tmp_path)
    NOT_HEALED[harm](a, b, all_messages(source))
    done = heal(a, b)
    assert not done.plan.actions and done.plan.conflict_count == 0
    assert len(done.plan.unanswered) == bad(done.before).total()
    assert bool(done.plan.unanswered) == (harm == "both at one place")
    assert all("run rocketfsck plan" in item.reason for item in done.plan.unanswered)


def test_a_fence_gives_way_to_what_it_stands_for(store_dir: Directory, tmp_path: Path) -> None:
    """A was repaired before the other copy was found."""
    source = store_dir("4.9.8-multiseg")
    a, b = copies(source, tmp_path)
    messages = all_messages(source)
    zero(a, messages[300], messages[310])
    store = open_store(a)
    assert apply_plan(make_plan(store, check(store)), keep=False).published
    for path in tmp_path.iterdir():
        if ".before-" in path.name:
            shutil.rmtree(path)
    done = heal(a, b)
    assert done.regained == 11
    lost = [loss for action in done.plan.actions for loss in action.losses if loss.what == "record"]
    assert lost and all(loss.kept_in == "set aside" for loss in lost)
    assert done.records == records_of(source)


def test_histories_that_part_stay_apart(store_dir: Directory, tmp_path: Path) -> None:
    """In the middle, with the same behind it, only these places stay; at the end, all behind them."""
    source = store_dir("4.9.8-multiseg")
    a, b, lost = diverged(source, tmp_path)
    messages = all_messages(source)
    spoil_body(a, messages[100])
    spoil_body(a, messages[900])
    done = heal(a, b)
    assert done.regained == 2
    assert done.records == records_of(source)
    [conflict] = done.plan.conflicts
    assert conflict.start_offset == lost[0].physical_offset and done.plan.conflict_count >= 2
    cut(b, messages[520].physical_offset)
    zero(b, messages[510], messages[519])
    done = heal(a, b)
    assert done.regained == 1


def test_behind_a_divergence_nothing_is_taken(store_dir: Directory, tmp_path: Path) -> None:
    source = store_dir("4.9.8-multiseg")
    a, b, lost = diverged(source, tmp_path)
    messages = all_messages(source)
    end = lost[-1].physical_offset + lost[-1].total_size
    cut(a, end)
    for message in messages[510:]:
        put(b, message, 12, b"\0\0\0\7")  # another queueId: no checksum knows
    spoil_body(a, messages[100])
    done = heal(a, b)
    assert done.regained == 1
    assert done.plan.conflict_count > len(messages[510:])
    assert any("diverge earlier" in conflict.reason for conflict in done.plan.conflicts)
    assert max(done.records) < end


def test_b_is_preferred(store_dir: Directory, tmp_path: Path) -> None:
    """From where they part B's history counts, and where it ends A's log is cut."""
    source = store_dir("4.9.8-multiseg")
    a, b, lost = diverged(source, tmp_path)
    end = lost[-1].physical_offset + lost[-1].total_size
    cut(b, end)
    kept, wanted = records_of(a), records_of(b)
    done = heal(a, b, replace(OPTIONS, prefer_b=True))
    assert done.names.count("heal-cut") == len([path for path in files(a) if int(path.name) + 131072 > end])
    assert done.records == wanted
    planned = sum(
        loss.count for action in done.plan.actions for loss in action.losses
        if loss.what == "record" and action.name == "heal-log"
    )  # fmt: skip
    assert planned == len(lost)
    assert done.applied.ledger.records is not None
    assert done.applied.ledger.records.lost == len(set(kept) - set(wanted)) + sum(
        kept[offset] != data for offset, data in wanted.items() if offset in kept
    )
    assert not done.plan.actions[0].preen


def test_a_plan_holds_no_bodies(store_dir: Directory, tmp_path: Path) -> None:
    source = store_dir("5.3.3-multiseg")
    a, b = copies(source, tmp_path)
    messages = all_messages(source)
    zero(a, messages[20], messages[60])
    plan, _ = plan_heal(open_store(a), open_store(b), OPTIONS)
    text = plan_text(plan)
    bodies = [message.body for message in messages[20:61] if message.body and len(message.body) > 24]
    assert len(bodies) > 10
    for body in bodies:
        encoded = base64.b64encode(body[:24]).decode("ascii")
        assert body[:24].hex() not in text and encoded not in text
        assert body[:24].decode("latin-1") not in text
    [action] = [action for action in plan.actions if action.name == "heal-log"]
    assert len(text) < 20_000
    assert sum((extent.end or 0) - extent.start for extent in action.sources) == action.write_byte_count
    assert [extent.sha256 for extent in action.preconditions] != [extent.sha256 for extent in action.sources]


def test_a_plan_is_refused_once_either_copy_is_another(store_dir: Directory, tmp_path: Path) -> None:
    source = store_dir("4.9.8-multiseg")
    a, b = copies(source, tmp_path)
    messages = all_messages(source)
    spoil_body(a, messages[300])
    plan, _ = plan_heal(open_store(a), open_store(b), OPTIONS)
    spoil_body(b, messages[300])
    before = tree(tmp_path)
    with pytest.raises(StoreError, match="the other copy changed since the plan was made: bytes"):
        apply_plan(plan)
    b.rename(tmp_path / "moved")
    with pytest.raises(StoreError, match="the other copy changed since the plan was made: bytes"):
        apply_plan(plan)
    (tmp_path / "moved").rename(b)
    assert tree(tmp_path) == before
    spoil_body(b, messages[300])  # as it was
    put(a, messages[300], messages[300].body_pos - messages[300].pos, b"twice")
    with pytest.raises(StoreError, match="the store changed since the plan was made"):
        apply_plan(plan)


@pytest.mark.parametrize("in_place", [False, True], ids=["beside", "in-place"])
def test_a_heal_is_killed(in_place: bool, store_dir: Directory, tmp_path: Path) -> None:
    """Old or new, whenever; then the plan again, or undo."""
    source = store_dir("4.9.8-multiseg")
    a, b = copies(source, tmp_path)
    files(a)[2].unlink()
    spoil_body(a, all_messages(source)[10])
    plan, _ = plan_heal(open_store(a), open_store(b), OPTIONS)
    old, other, first = tree(a), tree(b), content(a)
    with counted() as names:
        assert apply_plan(plan, in_place=in_place, check=False).published
    new = content(a)
    undo(a)
    step = len(names) // (40 if NIGHTLY else 4)
    for number in range(3, len(names), step):
        with killed_at(number), pytest.raises(KilledError):
            apply_plan(plan, in_place=in_place, check=False)
        if not in_place:
            assert content(a) in (new, first)
        assert apply_plan(plan, in_place=in_place, check=False).published
        assert content(a) == new
        undo(a)
        assert tree(a) == old and tree(b) == other


def test_another_log_is_refused(store_dir: Directory, tmp_path: Path) -> None:
    a = Path(shutil.copytree(store_dir("4.9.8-multiseg"), tmp_path / "a"))
    before = tree(a)
    for name in ("5.3.3-multiseg", "4.4.0-multiseg", "5.1.3-basic"):
        with pytest.raises(UsageError, match="copies of different logs"):
            plan_heal(open_store(a), open_store(store_dir(name)), OPTIONS)
    files(a)[1].rename(a / "commitlog" / f"{131072 * 9:020d}")
    with pytest.raises(UsageError, match="repair them first"):
        plan_heal(open_store(a), open_store(store_dir("4.9.8-multiseg")), OPTIONS)
    files(a)[-1].rename(a / "commitlog" / f"{131072:020d}")
    assert tree(a) == before


def test_copies_whose_files_differ_in_size_are_refused(store_dir: Directory, tmp_path: Path) -> None:
    a, b = copies(store_dir("4.9.8-basic"), tmp_path)
    (first, *_) = files(a)
    os.truncate(first, 4096)
    before = tree(a)
    with pytest.raises(UsageError, match=r"of 4,096 bytes, .* copies of one log have files of the same size"):
        plan_heal(open_store(a), open_store(b), OPTIONS)
    assert tree(a) == before


def test_the_commands(store_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = store_dir("4.9.8-multiseg")
    a, b = copies(source, tmp_path)
    spoil_body(a, all_messages(source)[300])
    before = tree(a)
    plan_path = tmp_path / "plan.json"
    assert run(["compare", str(a), str(b), "--heal"]) == 4
    said = capfd.readouterr().out
    assert "What is regained\n  1 record\n    1 record, topic Seg" in said
    assert f"Next: rocketfsck compare {a} {b} --heal -o plan.json" in said
    assert tree(a) == before
    assert run(["compare", str(a), str(b), "--heal", "-o", str(plan_path), "--format", "json"]) == 4
    assert json.loads(capfd.readouterr().out) == json.loads(plan_path.read_text())
    assert read_plan(plan_path).actions[0].name == "heal-log"
    assert run(["apply", str(plan_path)]) == 1
    assert records_of(a) == records_of(source)
    assert run(["compare", str(a), str(b), "--heal", "--level", "quick", "--work-dir", str(tmp_path)]) == 0
    assert "no repair is needed" in capfd.readouterr().out
    assert run(["undo", str(a)]) == 0
    assert tree(a) == before
    for wrong in (["-o", str(a / "plan.json")], ["--work-dir", str(b)], ["--work-dir", str(plan_path / "x")],
                  ["--ledger", str(plan_path)], ["--engine", "spark"]):  # fmt: skip
        assert run(["compare", str(a), str(b), "--heal", *wrong]) in (2, 16), wrong
    assert tree(a) == before
