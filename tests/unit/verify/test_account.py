"""The account of the messages against the records that were there before the damage, by another parser."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from rocketfsck.common.rulenames import RuleName
from rocketfsck.repair.state import lost_messages
from rocketfsck.store import open_store
from rocketfsck.verify.account import KINDS, Gatherer
from rocketfsck.verify.finding import WHYS, Finding, LostRun, MessageAccount, Where
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.run import check_store

from tests.conftest import Directory

STORES = ("4.9.8-multiseg", "5.3.3-multiseg")
MAGIC = -626843481


@pytest.fixture
def copied(store_dir: Directory, tmp_path: Path) -> Directory:
    """A store by its name, to be damaged."""
    return lambda name: Path(shutil.copytree(store_dir(name), tmp_path / name))


@dataclass(frozen=True)
class Record:
    """A record as the walk below finds it."""

    file: str
    pos: int
    size: int
    body_pos: int


def records(root: Path) -> list[Record]:
    """Every record of a sound log of version 1 messages, by the sizes in front of each."""
    return [record for path in sorted((root / "commitlog").iterdir()) for record in _walk(path)]


def _walk(path: Path) -> Iterator[Record]:
    data, pos = path.read_bytes(), 0
    while pos + 8 <= len(data):
        size, magic = struct.unpack_from(">ii", data, pos)
        if magic != MAGIC:
            return
        yield Record(path.name, pos, size, pos + 84 + 4)  # IPv4 hosts: the body's length is at 84
        pos += size


def account_of(root: Path, **options: str) -> MessageAccount:
    account = check_store(open_store(root), CheckOptions(**options)).account  # type: ignore[arg-type]
    assert account is not None
    return account


def used(root: Path) -> list[Path]:
    """The commit log files with records, in order."""
    names = dict.fromkeys(record.file for record in records(root))
    return [root / "commitlog" / name for name in names]


def in_file(root: Path, path: Path) -> int:
    return sum(record.file == path.name for record in records(root))


@pytest.mark.parametrize("name", STORES)
def test_a_sound_store_serves_all(store_dir: Directory, name: str) -> None:
    root = store_dir(name)
    account = account_of(root)
    assert account.count("served") == len(records(root))
    assert account.is_whole and account.is_complete and not account.lost
    assert account_of(root, level="cross").bodies_checked is False
    assert check_store(open_store(root), CheckOptions(level="quick")).account is None


def renamed_middle(root: Path) -> tuple[int, int]:
    path = used(root)[1]
    count = in_file(root, path)
    path.rename(path.with_name("99999999"))
    return 0, count


def renamed_first(root: Path) -> tuple[int, int]:
    path = used(root)[0]
    count = in_file(root, path)
    path.rename(path.with_name("old"))
    return 0, count


def renamed_last(root: Path) -> tuple[int, int]:
    path = used(root)[-1]
    count = in_file(root, path)
    for later in (root / "commitlog").iterdir():
        if later.name > path.name:
            later.unlink()
    path.rename(path.with_name(f"{path.name}.bak"))
    return 0, count


def swapped(root: Path) -> tuple[int, int]:
    one, other = used(root)[:2]
    count = in_file(root, one) + in_file(root, other)
    between = one.with_name("between")
    one.rename(between)
    other.rename(one)
    between.rename(other)
    return 0, count


def copied_behind(root: Path) -> tuple[int, int]:
    last = sorted((root / "commitlog").iterdir())[-1]
    shutil.copy2(used(root)[0], last.with_name(f"{int(last.name) + last.stat().st_size:020}"))
    return 0, 0


def middle_gone(root: Path) -> tuple[int, int]:
    path = used(root)[1]
    count = in_file(root, path)
    path.unlink()
    return count, 0


def last_gone(root: Path) -> tuple[int, int]:
    last = used(root)[-1]
    count = in_file(root, last)
    for path in sorted((root / "commitlog").iterdir()):
        if path.name >= last.name:
            path.unlink()
    return count, 0


def last_two_gone(root: Path) -> tuple[int, int]:
    lost = used(root)[-2:]
    count = sum(in_file(root, path) for path in lost)
    for path in sorted((root / "commitlog").iterdir()):
        if path.name >= lost[0].name:
            path.unlink()
    return count, 0


def bytes_zeroed(root: Path) -> tuple[int, int]:
    path = used(root)[1]
    inside = [record for record in records(root) if record.file == path.name][4:7]
    with path.open("r+b") as stream:
        stream.seek(inside[0].pos)
        stream.write(bytes(sum(record.size for record in inside)))
    return len(inside), 0


def disk_full(root: Path) -> tuple[int, int]:
    """While the disk was full, neither records nor units reached it; later ones have only their records."""
    full, *later = used(root)[1:]
    count, rest = in_file(root, full), sum(in_file(root, path) for path in later)
    full.write_bytes(bytes(full.stat().st_size))
    for path in (root / "consumequeue").glob("*/*/*"):
        data = bytearray(path.read_bytes())
        for at in range(0, len(data), 20):
            if int.from_bytes(data[at : at + 8]) >= int(full.name):
                data[at : at + 20] = bytes(20)
        path.write_bytes(data)
    return count, rest


def log_gone(root: Path) -> tuple[int, int]:
    count = len(records(root))
    for path in (root / "commitlog").iterdir():
        path.unlink()
    return count, 0


def queue_gone(root: Path) -> tuple[int, int]:
    queue = sorted((root / "consumequeue").glob("*/*"))[0]
    count = sum(
        any(data[at : at + 20])
        for path in queue.iterdir()
        for data in [path.read_bytes()]
        for at in range(0, len(data), 20)
    )
    for path in queue.iterdir():
        path.unlink()
    queue.rmdir()
    return 0, count


DAMAGES: tuple[Callable[[Path], tuple[int, int]], ...] = (
    renamed_middle,
    renamed_first,
    renamed_last,
    swapped,
    copied_behind,
    middle_gone,
    last_gone,
    last_two_gone,
    bytes_zeroed,
    disk_full,
    log_gone,
    queue_gone,
)


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_every_message_has_its_fate(
    copied: Directory, name: str, damage: Callable[[Path], tuple[int, int]]
) -> None:
    root = copied(name)
    total = len(records(root))
    lost, unreachable = damage(root)
    account = account_of(root)
    assert (account.lost_count, account.unreachable_count) == (lost, unreachable)
    assert account.count("served") == total - lost - unreachable
    assert sum(run.message_count for run in account.lost) == lost
    assert account.perhaps_lost_count == account.unlisted_count == 0


@pytest.mark.parametrize("name", STORES)
def test_the_index_knows_what_no_unit_knows(copied: Directory, name: str) -> None:
    root = copied(name)
    lost, _ = last_gone(root)
    for path in sorted((root / "consumequeue").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    account = account_of(root)
    assert 0.9 * lost <= account.lost_count <= lost
    [run] = account.lost
    assert (run.why, run.sure, run.topic) == ("index entry", "at least", "")


def test_a_wrong_body_is_damaged_and_served(copied: Directory) -> None:
    root = copied("5.3.3-multiseg")
    path = used(root)[0]
    data = bytearray(path.read_bytes())
    for record in records(root)[:300:3]:
        if record.file == path.name:
            data[record.body_pos] ^= 1
    path.write_bytes(data)
    account = account_of(root)
    changed = sum(record.file == path.name for record in records(root)[:300:3])
    assert account.damaged_count == changed
    assert account.count("served") == 1400 - changed
    assert account.lost_count == 0
    assert not account.is_whole


def test_lost_messages_have_times_and_groups(copied: Directory) -> None:
    root = copied("4.9.8-multiseg")
    (root / "config" / "consumerOffset.json").write_text(
        '{"offsetTable":{"Seg0@behind":{"0":10},"Seg0@read":{"0":10000}}}'
    )
    lost, _ = bytes_zeroed(root)
    store = open_store(root)
    account = check_store(store).account
    assert account is not None
    rows = list(lost_messages(store, account))
    assert sum(row.message_count for row in rows) == lost == account.lost_count
    for row in rows:
        assert row.after_timestamp is not None and row.before_timestamp is not None
        assert row.after_timestamp <= row.before_timestamp
        assert row.groups == (("behind",) if (row.topic, row.queue_id) == ("Seg0", 0) else ())


def test_what_a_unit_hides_is_out_of_reach_and_not_lost() -> None:
    """A unit leads elsewhere, and the record whose place it takes is in the log: nothing is lost."""
    gatherer = Gatherer()
    where = Where(topic="T", queue_id=1, queue_offset=5)
    missed = Finding(RuleName.RECORD_WITHOUT_UNIT, where, {"record_count": 1, "last_queue_offset": 5})
    ghost = Finding(RuleName.UNIT_GHOST, where, {"unit_count": 1, "last_queue_offset": 5})
    assert list(gatherer.seen([missed, ghost])) == [missed, ghost]
    account = gatherer.account(is_complete=True, bodies_checked=True)
    assert (account.unreachable_count, account.lost_count, account.perhaps_lost_count) == (1, 0, 0)


def test_offsets_committed_behind_a_missing_queue_are_no_lost_messages(copied: Directory) -> None:
    """The records of the queue are in the log: what a group committed is of them."""
    root = copied("4.9.8-multiseg")
    topic, queue_id = sorted((root / "consumequeue").glob("*/*"))[0].parts[-2:]
    _, count = queue_gone(root)
    (root / "config" / "consumerOffset.json").write_text(
        f'{{"offsetTable":{{"{topic}@group":{{"{queue_id}":5}}}}}}'
    )
    account = account_of(root)
    assert (account.unreachable_count, account.perhaps_lost_count, account.lost_count) == (count, 0, 0)


def test_entries_beyond_the_log_may_be_of_topics_that_were_deleted() -> None:
    """An entry does not say of which topic it is: where topics were deleted, it is no sure sign of a loss."""
    for removed, sure in ((False, "at least"), (True, "perhaps")):
        gatherer = Gatherer()
        where = Where(topic="Gone", queue_id=0)
        deleted = Finding(RuleName.QUEUE_DELETED, where, {"record_count": 3})
        list(gatherer.seen([deleted] if removed else []))
        gatherer.indexed(7, 1000, 2000)
        [run] = gatherer.account(is_complete=True, bodies_checked=True).lost
        assert (run.message_count, run.sure) == (7, sure)


def test_where_a_queue_is_gone_the_units_of_others_do_not_tell_all_that_is_lost(copied: Directory) -> None:
    root = copied("5.3.3-multiseg")
    queue_gone(root)
    before = len(records(root))
    lost, _ = last_gone(root)
    account = account_of(root)
    assert 0 < account.lost_count <= lost < before
    assert account.count("lost", "at least") > 0 and account.count("lost", "certain") == 0


def test_a_hole_is_lost_where_the_log_has_no_record_of_it() -> None:
    gatherer = Gatherer()
    where = Where(topic="T", queue_id=0, queue_offset=12)
    list(
        gatherer.seen(
            [Finding(RuleName.RECORD_WITHOUT_UNIT, where, {"record_count": 2, "last_queue_offset": 13})]
        )
    )
    gatherer.holes("T", 0, [(10, 20)], [(16, 18)])
    account = gatherer.account(is_complete=True, bodies_checked=True)
    spans = [(run.start_queue_offset, run.end_queue_offset) for run in account.lost]
    assert spans == [(10, 12), (14, 16), (18, 20)]
    assert account.lost_count == 6


@pytest.mark.parametrize(("missed_end", "lost"), [(0, 30), (25, 5), (30, 0), (40, 0)])
def test_a_committed_offset_tells_only_of_what_the_log_does_not_have(missed_end: int, lost: int) -> None:
    gatherer = Gatherer()
    where = Where(topic="T", queue_id=0, queue_offset=0)
    missed = Finding(RuleName.RECORD_WITHOUT_UNIT, where, {"last_queue_offset": missed_end - 1})
    ahead = Finding(RuleName.CONSUMER_OFFSET_OF_LOST_UNITS, where, {"offset": 30}, {"max_offset": 0})
    list(gatherer.seen([missed, ahead] if missed_end else [ahead]))
    account = gatherer.account(is_complete=True, bodies_checked=True)
    assert account.perhaps_lost_count == lost


def test_a_committed_offset_of_a_queue_that_is_missing_says_nothing_of_its_records() -> None:
    gatherer = Gatherer()
    gatherer.gaps("T", 0, np.array([0]), np.array([13]))
    where = Where(topic="T", queue_id=0, queue_offset=14)
    ahead = Finding(RuleName.CONSUMER_OFFSET_OF_LOST_UNITS, where, {"offset": 14}, {"max_offset": 0})
    list(gatherer.seen([ahead]))
    assert gatherer.account(is_complete=True, bodies_checked=True).perhaps_lost_count == 1


@pytest.mark.parametrize("ahead", [True, False])
def test_a_checkpoint_that_is_ahead_says_perhaps(ahead: bool) -> None:
    gatherer = Gatherer()
    rule = RuleName.CHECKPOINT_AHEAD if ahead else RuleName.CHECKPOINT_BEHIND
    list(gatherer.seen([Finding(rule, Where(file="checkpoint"), {"field": "physicMsgTimestamp"})] * 3))
    account = gatherer.account(is_complete=True, bodies_checked=True)
    assert (account.lost_count, account.perhaps_lost_count) == (0, int(ahead))


def test_ranges_are_bounded_and_counts_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketfsck.verify.account.RUN_LIMIT", 3)
    gatherer = Gatherer()
    gatherer.holes("T", 0, [(number, number + 1) for number in range(0, 20, 2)], [])
    account = gatherer.account(is_complete=True, bodies_checked=True)
    assert (len(account.lost), account.unlisted_count, account.lost_count) == (3, 7, 10)


def test_every_reason_has_words() -> None:
    assert {kind.why for kind in KINDS.values()} <= WHYS.keys()
    assert LostRun("T", 0, 1, 2, 1, "missing file", "certain").message_count == 1
