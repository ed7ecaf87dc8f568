"""The repair of one flipped bit: offered where one bit explains it, carried out, and clean afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.errors import StoreError
from rocketfsck.formats.properties import CRC32, parse_properties
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.plan.arguments import FlippedBits
from rocketfsck.repair.plan.model import Action
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.plan.table import ActScene, PlanScene, hash_bytes
from rocketfsck.repair.repairs import flipbit
from rocketfsck.repair.repairs.flipbit import ONE_BIT
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.views.messages import Message, read_messages
from rocketfsck.store import open_store
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store

from tests.conftest import Directory

NAMES = ["4.4.0-basic", "5.3.3-propcrc", "4.9.8-ipv6"]


class Tree:
    """What an act needs of a working tree, over a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, file: str, start: int, size: int) -> bytes:
        return (self.root / file).read_bytes()[start : start + size]

    def write(self, file: str, pos: int, data: bytes) -> None:
        with (self.root / file).open("r+b") as stream:
            stream.seek(pos)
            stream.write(data)


def check(store: Path) -> Report:
    return check_store(open_store(store), CheckOptions(level="full", jobs=1))


def scene_of(store: Path) -> PlanScene:
    report = check(store)
    return PlanScene(open_store(store), report, tuple(report.findings))


def plan(scene: PlanScene) -> list[Action]:
    return list(ONE_BIT.plan(scene, scene.findings))


def stated(action: Action) -> FlippedBits:
    assert isinstance(action.arguments, FlippedBits)
    return action.arguments


def act(store: Path, action: Action) -> None:
    def reopen() -> Store:
        return open_store(store)

    ONE_BIT.act(ActScene(Tree(store), reopen), action, stated(action))  # type: ignore[arg-type]


def messages(store: Path) -> tuple[Path, list[Message]]:
    path = min((store / "commitlog").iterdir())
    with FileReader(path) as reader:
        return path, list(read_messages(reader, int(path.name), ScanOptions()))


def flip(path: Path, pos: int, mask: int) -> None:
    data = bytearray(path.read_bytes())
    data[pos] ^= mask
    path.write_bytes(data)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", ["first", "last", "field", "top"])
def test_a_flipped_bit_is_turned_back(name: str, where: str, store_copy: Directory) -> None:
    store = store_copy(name)
    path, found = messages(store)
    whole = path.read_bytes()
    message = next(m for m in found[1:] if m.body_size > 20)
    pos, mask = {
        "first": (message.body_pos, 0x01),
        "last": (message.body_pos + message.body_size - 1, 0x80),
        "field": (message.pos + 10, 0x08),
        "top": (message.pos + 8, 0x80),
    }[where]
    flip(path, pos, mask)
    scene = scene_of(store)
    (action,) = plan(scene)
    assert stated(action).bits == (8 * pos + mask.bit_length() - 1,)
    assert not action.preen
    assert action.target == f"commitlog/{path.name}"
    assert action.note.endswith(f": 1 in {round(2**31 / (8 * message.body_size + 32)):,}")
    (extent,) = action.preconditions
    assert (extent.start, extent.end) == (message.pos, message.pos + message.total_size)
    assert extent.sha256 == hash_bytes(str(path), message.pos, message.pos + message.total_size)
    wrong = {finding.fingerprint for finding in scene.findings if finding.rule == "CL004"}
    assert set(action.why) == wrong
    act(store, action)
    assert path.read_bytes() == whole
    assert check(store).counts.get("CL004", 0) == 0


def test_neighbours_in_one_finding_get_an_action_each(store_copy: Directory) -> None:
    store = store_copy("4.4.0-basic")
    path, found = messages(store)
    whole = path.read_bytes()
    first = next(i for i in range(len(found) - 1) if found[i].body_size > 4 and found[i + 1].body_size > 4)
    for message in found[first : first + 2]:
        flip(path, message.body_pos + 1, 0x10)
    scene = scene_of(store)
    actions = plan(scene)
    starts = [action.preconditions[0].start for action in actions]
    assert starts == [m.pos for m in found[first : first + 2]]
    assert len({action.why for action in actions}) == 1
    for action in actions:
        act(store, action)
    assert path.read_bytes() == whole


def test_many_records_of_a_file_are_one_action(
    store_copy: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few findings stand for them: neighbours are one."""
    monkeypatch.setattr(flipbit, "SINGLE_LIMIT", 2)
    store = store_copy("4.4.0-basic")
    path, found = messages(store)
    whole = path.read_bytes()
    wrong = [message for message in found if message.body_size > 4][:3]
    for message in wrong:
        flip(path, message.body_pos + 1, 0x10)
    scene = scene_of(store)
    [action] = plan(scene)
    assert action.gains == {"record": 3} and not action.partly
    assert {*action.why} == {finding.fingerprint for finding in scene.findings if finding.rule == "CL004"}
    act(store, action)
    assert path.read_bytes() == whole


def test_two_flipped_bits_are_not_offered(store_copy: Directory) -> None:
    store = store_copy("4.4.0-basic")
    path, found = messages(store)
    message = next(m for m in found if m.body_size > 20)
    flip(path, message.body_pos, 0x11)
    scene = scene_of(store)
    assert "CL004" in {finding.rule for finding in scene.findings}
    assert plan(scene) == []


def test_a_property_crc_has_the_last_word(store_copy: Directory) -> None:
    """A bit in the properties is wrong as well: then the damage was not one bit."""
    store = store_copy("5.3.3-propcrc")
    path, found = messages(store)
    message = next(m for m in found if m.body_size > 20 and CRC32 in (m.properties or {}))
    assert parse_properties(message.properties_bytes, "scan") is not None
    flip(path, message.body_pos, 0x01)
    flip(path, message.pos + 19, 0x01)  # flag, which no other checksum covers
    assert plan(scene_of(store)) == []


def test_other_findings_and_places_are_not_answered(store_copy: Directory) -> None:
    store = store_copy("4.4.0-basic")
    scene = scene_of(store)
    path, found = messages(store)
    file = f"commitlog/{path.name}"
    given = [
        Finding("CL001", Where(file, 0, 100)),
        Finding("CL004", Where(file)),  # counts others
        Finding("CL004", Where(file, 3, 500)),  # no record there
        Finding("CL004", Where("commitlog/gone", 0, 100)),
        Finding("CL004", Where(file, found[0].pos, found[0].pos + found[0].total_size)),  # sound
    ]
    assert list(ONE_BIT.plan(scene, given)) == []


def test_a_bit_behind_the_end_is_refused(store_copy: Directory) -> None:
    store = store_copy("4.4.0-basic")
    path, found = messages(store)
    flip(path, found[3].body_pos, 0x01)
    (action,) = plan(scene_of(store))
    before = path.read_bytes()
    wrong = replace(action, arguments=FlippedBits((*stated(action).bits, 8 * len(before) + 1)))
    with pytest.raises(StoreError, match="ends before"):
        act(store, wrong)
    assert path.read_bytes() == before


def test_a_body_larger_than_a_header_and_a_chunk(tmp_path: Path) -> None:
    store = tmp_path / "store"
    body = bytes(range(256)) * 9000
    write_store(store, [OutgoingMessage("Large", body, 1_700_000_000_000)], WriteOptions(version="5.3.3"))
    path, (message,) = messages(store)
    with path.open("r+b") as stream:
        stream.seek(message.body_pos + 2_000_000)
        stream.write(bytes([body[2_000_000] ^ 0x20]))
    (action,) = plan(scene_of(store))
    assert stated(action).bits == (8 * (message.body_pos + 2_000_000) + 5,)


def test_many_bits_of_one_file_are_one_plan(store_copy: Directory) -> None:
    store = store_copy("4.4.0-basic")
    path, found = messages(store)
    whole = path.read_bytes()
    for message in [message for message in found if message.body_size > 20][:9:3]:
        flip(path, message.body_pos + 1, 0x10)
    opened = open_store(store)
    made = make_plan(opened, check(store))
    assert [action.name for action in made.actions] == ["flip-bit"] * 3
    applied = apply_plan(made)
    assert applied.exit_code == 1, applied.problem
    assert path.read_bytes() == whole
